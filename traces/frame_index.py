"""Where the frames of a trace lie, in a few bytes each: a file that is followed for a day has millions of them.

Neighbouring frames of as many steps each are one block. A block is packed as two numbers; only every 64th, and each
that does not touch the one before it, has its place written down. One thread may add while others read what was there.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from traces.frames import HEADER_SIZE

_PLACED_EVERY = 64
_MOST_FRAMES = 0xFFFFFFFF


class Block(NamedTuple):
    """`frames` neighbouring frames of `per_frame` steps each, `size` bytes a frame, header included."""

    first_step: int
    offset: int
    size: int
    per_frame: int
    frames: int
    run: int

    @property
    def end_step(self) -> int:
        """One past the last step."""
        return self.first_step + self.per_frame * self.frames

    @property
    def end(self) -> int:
        """The offset behind the last frame."""
        return self.offset + self.size * self.frames


class Blocks:
    """The STEPS frames of a trace, in the order of their steps: 6 bytes a block, 24 more where its place is kept."""

    def __init__(self) -> None:
        self._per_frame, self._frames = array("H"), array("I")
        self._first_steps, self._offsets = array("q"), array("q")
        self._placed, self._runs = array("I"), array("I")
        self._record_sizes: list[int] = []
        self._last: Block | None = None

    def add(self, block: Block, record_size: int) -> None:
        """A block behind those that are there; record_size: bytes of a step of its run."""
        last = self._last
        if last is not None and (last.end, last.end_step, last.run) == (block.offset, block.first_step, block.run):
            frames = last.frames + block.frames
            if last.per_frame == block.per_frame and frames <= _MOST_FRAMES:
                self._frames[-1] = frames
                self._last = last._replace(frames=frames)
                return
            if len(self._frames) - self._placed[-1] < _PLACED_EVERY:
                self._append(block)
                return
        while len(self._record_sizes) <= block.run:
            self._record_sizes.append(record_size)
        self._offsets.append(block.offset)
        self._runs.append(block.run)
        self._placed.append(len(self._frames))
        self._append(block)
        self._first_steps.append(block.first_step)

    def _append(self, block: Block) -> None:
        self._per_frame.append(block.per_frame)
        self._frames.append(block.frames)
        self._last = block

    def since(self, step: int) -> Iterator[Block]:
        """The blocks from the one that holds `step` on."""
        for place in range(max(0, bisect_right(self._first_steps, step) - 1), len(self._first_steps)):
            for block in self._behind(place):
                if block.end_step > step:
                    yield block

    def _behind(self, place: int) -> Iterator[Block]:
        """The blocks that touch one another from a kept place on."""
        step, offset, run = self._first_steps[place], self._offsets[place], self._runs[place]
        begin = self._placed[place]
        end = self._placed[place + 1] if place + 1 < len(self._first_steps) else len(self._frames)
        for per_frame, frames in zip(self._per_frame[begin:end], self._frames[begin:end], strict=False):
            used = per_frame * self._record_sizes[run]
            block = Block(step, offset, HEADER_SIZE + used + (-used % 8), per_frame, frames, run)
            yield block
            step, offset = block.end_step, block.end


class NoteAt(NamedTuple):
    """A NOTE frame, or a place where bytes were lost (`length` is then their number, negative): `step` is how many
    steps stand before it."""

    step: int
    offset: int
    length: int
    run: int


class Notes:
    """The notes of a trace in file order, 28 bytes each. steps, runs: of each, ascending."""

    def __init__(self) -> None:
        self.steps, self.runs = array("q"), array("i")
        self._offsets, self._lengths = array("q"), array("q")

    def __len__(self) -> int:
        return len(self.runs)

    def add(self, note: NoteAt) -> None:
        """A note behind those that are there."""
        self._offsets.append(note.offset)
        self._lengths.append(note.length)
        self.steps.append(note.step)
        self.runs.append(note.run)

    def between(self, first: int, stop: int) -> Iterator[NoteAt]:
        """Notes number [first, stop)."""
        for i in range(first, min(stop, len(self))):
            yield NoteAt(self.steps[i], self._offsets[i], self._lengths[i], self.runs[i])
