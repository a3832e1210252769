"""A trace as numpy columns: an index over the file, rows read where they are needed, nothing mapped.

The index trusts frame headers (a run of frames of one size is found by comparing them at memory speed, also where
every frame holds one step); a payload's CRC is checked when its rows are read. So a trace of any size opens at once
and damage is still found exactly where it is looked at.
"""

from __future__ import annotations

import os
import zlib
from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from traces import frames
from traces.frame_index import Block, Blocks, NoteAt, Notes
from traces.frames import HEADER_SIZE
from traces.reader import Damage, Decoder, Source, next_frame, not_a_trace, probe, unreadable_run
from traces.writer import TraceError

Rows = npt.NDArray[Any]
CHUNK_BYTES = 16 << 20
_NUMPY = {"U8": "u1", "U16": "<u2", "I32": "<i4", "I64": "<i8", "U64": "<u8", "F32": "<f4", "F64": "<f8"}
_HEADER_WORDS = np.dtype("<u4")
_COVERED = frames.HEADER.size - 4


class Run:
    """One RUN frame and what it says: `facts` is the JSON object, `dtype` the record, `number` its place among the
    file's runs, from 0.
    """

    def __init__(self, facts: dict[str, Any], path: str, first_step: int, number: int = 0) -> None:
        self.facts = facts
        self.decoder = Decoder(facts, path)
        self.first_step, self.number = first_step, number
        self.end_facts: dict[str, Any] | None = None
        self.dtype = np.dtype(
            [(c.name, f"S{c.size}") if c.is_bytes else (c.name, _NUMPY[c.dtype], c.shape) for c in self.decoder.columns]
        )
        self.names = frozenset(self.dtype.names or ())

    @property
    def layers(self) -> list[dict[str, Any]]:
        """What the run says of each layer, empty of one that it says nothing of; an empty list without any."""
        said = self.facts.get("layers")
        return [layer if isinstance(layer, dict) else {} for layer in said] if isinstance(said, list) else []

    @property
    def n_layers(self) -> int:
        """Layers the run declares; else as many as its cache_len has."""
        if self.layers:
            return len(self.layers)
        model = self.facts.get("model")
        declared = model.get("n_layers") if isinstance(model, dict) else None
        if isinstance(declared, int) and declared > 0:
            return declared
        return next((c.size for c in self.decoder.columns if c.name == "cache_len" and c.shape), 0)


class Chunk(NamedTuple):
    """Consecutive steps of one run. `bad` marks rows whose frame is damaged, None where none is."""

    run: Run
    first_step: int
    rows: Rows
    bad: npt.NDArray[np.bool_] | None
    notes: list[tuple[int, dict[str, Any]]]
    """(index in the whole trace of the step that follows the note, note)"""


class Table:
    """A trace by step number.

    `steps` counts what the index has seen; damaged frames whose header is sound keep their steps' numbers.
    `complete` tells whether the last frame is an END; `torn` is the byte range behind the last sound frame.
    Raises TraceError where the path is not a readable step trace.
    """

    def __init__(self, path: str | os.PathLike[str], data: bytes | None = None, index: bool = True) -> None:
        self.source = Source(path, data)
        self.path = self.source.path
        self.runs: list[Run] = []
        self.blocks = Blocks()
        self.damage: list[Damage] = []
        self.steps = 0
        self.complete = False
        self._run_starts = array("q")
        self._notes = Notes()
        self._position = 0
        self._bad_frames: set[int] = set()
        if index:
            self.refresh()
            self.need_run()

    def need_run(self) -> None:
        """Raises TraceError where what was indexed has no run description."""
        if not self.runs:
            raise TraceError(
                f"{self.path}: no complete run description in it yet (cut off at the start?)"
                if self.source.size
                else f"{self.path}: the file is empty"
            )

    def refresh(self, max_bytes: int | None = None) -> bool:
        """Index what was appended since; at most about `max_bytes` of it. True if the file holds more to index."""
        size = self.source.size
        if size < self._position:
            raise TraceError(f"{self.path}: became shorter while it was being read ({self._position} to {size} bytes)")
        if size and not self._position:
            not_a_trace(self.source)
        stop = size if max_bytes is None else min(size, self._position + max_bytes)
        window = _Window(self.source)
        while self._position < stop:
            before = self._position
            self._advance(window, size, stop)
            if self._position == before:
                return False
        return self._position < size

    @property
    def torn(self) -> tuple[int, int] | None:
        """Bytes behind the last sound frame that are no frame (yet)."""
        size = self.source.size
        return (self._position, size) if self._position < size else None

    def _advance(self, window: _Window, size: int, stop: int) -> None:
        at = self._position
        frame = probe(window.read, at, size, verify=False)
        if frame is None:
            after = next_frame(window.read, at + 1, size)
            if after is not None:
                self._lose(at, after)
                self._position = after
            return
        kind = frame.header.kind
        self._position = frame.end
        if kind == frames.STEPS:
            self._steps(window, size, stop, at, frame.header)
            return
        if kind == frames.NOTE:
            self._notes.add(NoteAt(self.steps, at, frame.header.length, len(self.runs) - 1))
            self.complete = False
            return
        data = self.source.read(at + HEADER_SIZE, frame.header.length)
        if kind not in (frames.RUN, frames.END):
            if not frames.intact(frame.header, data):
                self._lose(at, frame.end)
            return  # of a later version
        value = frames.parse_json(data) if frames.intact(frame.header, data) else None
        if value is None:
            if kind == frames.RUN and not self.runs:
                raise unreadable_run(self.path, frame)
            self._lose(at, frame.end)
        elif kind == frames.RUN:
            self.runs.append(Run(value, self.path, self.steps, len(self.runs)))
            self._run_starts.append(self.steps)
            self.complete = False
        elif kind == frames.END:
            self.complete = True
            if self.runs:
                self.runs[-1].end_facts = value

    def _steps(self, window: _Window, size: int, stop: int, at: int, header: frames.Header) -> None:
        if not self.runs:
            raise TraceError(f"{self.path}: steps before any run description; not a step trace")
        self.complete = False
        if not self.runs[-1].decoder.holds(header):
            self._lose(at, self._position)
            return
        if not header.n_records:
            return
        frame_size = HEADER_SIZE + header.length
        alike = self._alike(window, at, frame_size, size, -(-(stop - at) // frame_size))
        self._position = at + alike * frame_size
        block = Block(self.steps, at, frame_size, header.n_records, alike, len(self.runs) - 1)
        self.blocks.add(block, self.runs[-1].decoder.record_size)
        self.steps += alike * header.n_records

    def _lose(self, start: int, end: int) -> None:
        """Bytes that hold no frame: how many steps were in them is unknown, so a gap stands in their place."""
        self._add_damage(Damage(start, end, 0))
        self._notes.add(NoteAt(self.steps, start, start - end, len(self.runs) - 1))

    def _alike(self, window: _Window, at: int, frame_size: int, size: int, most: int) -> int:
        """How many frames from `at`, `most` at the most, have the same header but for the CRC and are certainly in
        place (1 or more)."""
        found, want = 0, 8
        while True:
            want = min(want, (size - at) // frame_size - found, most - found, max(1, _Window.LARGE // frame_size))
            if want <= 0:
                break
            # one header at a distance of frame_size; the last header may be all of its frame that is needed
            data = window.read(at + found * frame_size, (want - 1) * frame_size + HEADER_SIZE)
            there = 1 + (len(data) - HEADER_SIZE) // frame_size if len(data) >= HEADER_SIZE else 0
            if not there:
                break
            words = np.ndarray((there, 3), _HEADER_WORDS, data, 0, (frame_size, 4))
            if not found:
                first = words[0].copy()
            same = (words == first).all(axis=1)
            run = there if same.all() else int(np.argmin(same))
            found += run
            if run < want:
                break
            want *= 8
        end = at + found * frame_size
        at_end = end == size or size - end < HEADER_SIZE
        in_place = at_end or frames.header_at(window.read(end, HEADER_SIZE)) is not None
        return max(1, found if in_place else found - 1)

    def _json(self, offset: int, length: int) -> dict[str, Any] | None:
        data = self.source.read(offset, HEADER_SIZE + length)
        header = frames.header_at(data)
        if header is None or not frames.intact(header, data[HEADER_SIZE:]):
            return None
        return frames.parse_json(data[HEADER_SIZE:])

    def run_at(self, step: int) -> Run:
        """The run a step belongs to."""
        return self.runs[bisect_right(self._run_starts, step) - 1]

    def run_end(self, run: Run) -> int:
        """One past the last step of a run."""
        after = run.number + 1
        return self._run_starts[after] if after < len(self._run_starts) else self.steps

    @property
    def n_notes(self) -> int:
        """How many notes there are, a lost place counted as one."""
        return len(self._notes)

    def notes(
        self, first: int = 0, stop: int | None = None, run: Run | None = None
    ) -> list[tuple[int, dict[str, Any]]]:
        """(index of the step that follows, note) of the notes before or among steps [first, stop); a note behind the
        last step belongs to the end. A gap note stands where bytes were lost. run: only the notes of this one, whose
        last step then is the last."""
        places, low, high, end = self._notes, 0, len(self._notes), self.steps
        if run is not None:
            low, high = bisect_left(places.runs, run.number), bisect_right(places.runs, run.number)
            end = self.run_end(run)
        to_end = stop is None or stop >= end
        a = bisect_left(places.steps, first, low, high)
        b = high if to_end or stop is None else bisect_left(places.steps, stop, low, high)
        return self._parsed(a, b)

    def _parsed(self, first: int, stop: int) -> list[tuple[int, dict[str, Any]]]:
        return [(place.step, self._note(place)) for place in self._notes.between(first, stop)]

    def _note(self, place: NoteAt) -> dict[str, Any]:
        """The note; a gap note where it, or what stood there, is damaged."""
        end = place.offset + (HEADER_SIZE + place.length if place.length >= 0 else -place.length)
        if place.length >= 0:
            value = self._json(place.offset, place.length)
            if value is not None:
                return value
            self._add_damage(Damage(place.offset, end, 0))
        return {"kind": "gap", "why": f"damaged: bytes {place.offset} to {end}"}

    def _add_damage(self, damage: Damage) -> None:
        if damage.start not in self._bad_frames:
            self._bad_frames.add(damage.start)
            insort(self.damage, damage)

    def rows(self, first: int, stop: int) -> tuple[Rows, npt.NDArray[np.bool_] | None]:
        """The records of steps [first, stop) of one run, and which of them lie in damaged frames (None: none).

        Raises TraceError where the file became shorter since it was indexed.
        """
        pieces: list[Rows] = []
        bad: list[tuple[int, int]] = []
        for block in self.blocks.since(first):
            if first >= stop:
                break
            last = min(stop, block.end_step)
            i, skip = divmod(first - block.first_step, block.per_frame)
            j = -(-(last - block.first_step) // block.per_frame)
            data = self.source.read(block.offset + i * block.size, (j - i) * block.size)
            if len(data) < (j - i) * block.size:
                raise TraceError(f"{self.path}: became shorter while it was being read")
            for k in self._damaged(block, i, data):
                start = max(k * block.per_frame + block.first_step, first)
                bad.append((start, min(start + block.per_frame, last)))
            records = _records(data, self.runs[block.run].dtype, block, j - i)
            pieces.append(records[skip : skip + last - first])
            first = last
        rows = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        if not bad:
            return rows, None
        begin = stop - len(rows)
        mask = np.zeros(len(rows), np.bool_)
        for a, b in bad:
            mask[a - begin : b - begin] = True
        return rows, mask

    def _damaged(self, block: Block, first_frame: int, data: bytes) -> list[int]:
        """Numbers, within the block, of the frames in `data` whose CRC does not hold."""
        size, crc32 = block.size, zlib.crc32
        view = memoryview(data)
        start = crc32(view[4:_COVERED])  # kind, count and length are alike in all of them
        n = len(data) // size
        stored = np.ndarray((n,), _HEADER_WORDS, data, _COVERED, (size,))
        computed = [crc32(view[at : at + size - HEADER_SIZE], start) for at in range(HEADER_SIZE, n * size, size)]
        wrong = np.nonzero(stored != np.array(computed, _HEADER_WORDS))[0]
        for k in wrong:
            offset = block.offset + (first_frame + int(k)) * size
            self._add_damage(Damage(offset, offset + size, block.per_frame))
        return [first_frame + int(k) for k in wrong]

    def chunks(self, first: int = 0, stop: int | None = None, first_note: int = 0) -> Iterator[Chunk]:
        """Steps [first, stop) in pieces of about CHUNK_BYTES, never across a run, with the notes among them; those
        behind a run's last step come with its last piece. Notes before number `first_note` are left out."""
        stop = self.steps if stop is None else min(stop, self.steps)
        begin = bisect_right(self._run_starts, first) - 1
        if first_note < len(self._notes):
            begin = min(begin, self._notes.runs[first_note])  # it may stand behind the last step of its run
        for run in self.runs[max(begin, 0) :]:
            yield from self._run_chunks(run, max(first, run.first_step), min(stop, self.run_end(run)), first_note)

    def chunks_of(self, run: Run, first: int = 0, stop: int | None = None) -> Iterator[Chunk]:
        """The steps of one run that lie in [first, stop), with the run's notes, as `chunks` gives them."""
        end = self.run_end(run) if stop is None else min(stop, self.run_end(run))
        return self._run_chunks(run, max(first, run.first_step), end, 0)

    def _run_chunks(self, run: Run, a: int, end: int, first_note: int) -> Iterator[Chunk]:
        notes = self._notes
        done = max(first_note, bisect_left(notes.runs, run.number))
        of_run = bisect_right(notes.runs, run.number)
        behind = end == self.run_end(run)  # the notes behind the run's last step are its own
        last_note = of_run if behind else bisect_right(notes.steps, end - 1, hi=of_run)
        per_chunk = max(1, CHUNK_BYTES // run.dtype.itemsize)
        while a < end or done < last_note:
            b = max(a, min(a + per_chunk, end))
            upto = last_note if b >= end else bisect_right(notes.steps, b - 1, done, last_note)
            rows, bad = self.rows(a, b) if a < b else (np.zeros(0, run.dtype), None)
            yield Chunk(run, a, rows, bad, self._parsed(done, upto))
            a, done = b, upto

    def records(self, first: int, stop: int) -> Iterator[dict[str, Any] | None]:
        """Raw records (as Reader gives them) of steps [first, stop); None for a damaged one."""
        while first < stop:
            run = self.run_at(first)
            last = min(stop, self.run_end(run))
            rows, bad = self.rows(first, last)
            raw = run.decoder.raw(np.ascontiguousarray(rows).tobytes(), len(rows))
            for i, record in enumerate(raw):
                yield None if bad is not None and bad[i] else record
            first = last

    def plain(self, first: int, stop: int) -> list[dict[str, Any] | None]:
        """Steps [first, stop) as people and JSON read them, each with its `step` number; None for a damaged one."""
        out: list[dict[str, Any] | None] = []
        for i, record in enumerate(self.records(first, stop), first):
            out.append(None if record is None else {"step": i, **self.run_at(i).decoder.plain(record)})
        return out

    def close(self) -> None:
        """Give the file back."""
        self.source.close()


def _records(data: bytes, dtype: np.dtype[Any], block: Block, n_frames: int) -> Rows:
    """The records of neighbouring frames, without their headers; copied only where a frame holds several."""
    if block.per_frame == 1 or n_frames == 1:
        stride = block.size if block.per_frame == 1 else dtype.itemsize
        return np.ndarray((n_frames * block.per_frame,), dtype, data, HEADER_SIZE, (stride,))
    width = block.per_frame * dtype.itemsize
    # as bytes: numpy copies structured records field by field
    payloads: Rows = np.ndarray((n_frames, width), np.uint8, data, HEADER_SIZE, (block.size, 1))
    return np.ascontiguousarray(payloads).reshape(-1).view(dtype)


class _Window:
    """Small reads from one large one: an index walks through the file header by header."""

    SMALL, LARGE = 1 << 16, 2 << 20

    def __init__(self, source: Source) -> None:
        self._source = source
        self._offset = 0
        self._data = b""

    def read(self, offset: int, length: int) -> bytes:
        """As Source.read."""
        at = offset - self._offset
        if at < 0 or at + length > len(self._data):
            self._data = self._source.read(offset, max(length, self.SMALL))
            self._offset, at = offset, 0
        return self._data[at : at + length] if at or length != len(self._data) else self._data
