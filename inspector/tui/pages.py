"""Steps where they are looked at: pages of decoded records, and the generated text around one step.

A page is read when a line of it is drawn and kept while it is likely to be drawn again, so that neither the length of
a trace nor the size of its frames is felt. Damage is found here, exactly where it is looked at.
"""

from __future__ import annotations

import codecs
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from traces.fields import ABSENT_I64
from traces.writer import TraceError

if TYPE_CHECKING:
    from inspector.film import Step
    from traces.table import Table

PAGE = 64
KEPT_PAGES = 32
DAMAGED = "damaged: this step's frame fails its checksum"
Requests = Mapping[int, list[int]]


@dataclass(frozen=True)
class Passage:
    """Generated text around one step; before and after it by the step that each piece belongs to.

    clipped_before, clipped_after: more of it stands there. ids: no text is recorded, these are token ids.
    lost: damaged steps among these, whose text is missing.
    """

    prompt: str = ""
    before: tuple[tuple[int, str], ...] = ()
    selected: str = ""
    after: tuple[tuple[int, str], ...] = ()
    clipped_before: bool = False
    clipped_after: bool = False
    ids: bool = False
    lost: int = 0
    seq_id: int | None = None


class Pages:
    """The steps of a table by number, decoded a page at a time. `texts` replaces what was too long for its field."""

    def __init__(self, table: Table, texts: Mapping[int, str]) -> None:
        self._table, self._texts = table, texts
        self._pages: OrderedDict[int, list[Step | str]] = OrderedDict()
        self._prompts: tuple[int, dict[int, Any]] = (-1, {})

    def step(self, number: int, steps: int) -> Step | str:
        """A step as people read it, or why it cannot be read. `steps`: how many there are now (number < steps)."""
        page, at = divmod(number, PAGE)
        found = self._pages.get(page)
        if found is None or at >= len(found):
            found = self._pages[page] = self._read(page * PAGE, min(page * PAGE + PAGE, steps))
            if len(self._pages) > KEPT_PAGES:
                self._pages.popitem(last=False)
        self._pages.move_to_end(page)
        step = found[at]
        if isinstance(step, dict) and number in self._texts:
            return {**step, "text": self._texts[number]}
        return step

    def _read(self, first: int, stop: int) -> list[Step | str]:
        try:
            return [DAMAGED if step is None else step for step in self._table.plain(first, stop)]
        except TraceError as error:
            return [f"unreadable: {error}"] * (stop - first)

    def passage(self, requests: Requests, number: int, steps: int, tokens: int) -> Passage:
        """What the sequence of a step generated: from about `tokens` steps before it to half as many after.

        A character cut between tokens is whole again; the selected token has it if any byte of it is its own.
        """
        table = self._table
        run = table.run_at(number)
        run_end = min(table.run_end(run), steps)
        first, stop = max(run.first_step, number - tokens), min(run_end, number + 1 + tokens // 2)
        try:
            rows, bad = table.rows(first, stop)
        except TraceError:
            return Passage()
        sound = np.ones(len(rows), np.bool_) if bad is None else ~bad
        near = np.flatnonzero(sound[: number - first + 1])
        if not len(near):
            return Passage(lost=int((~sound).sum()))
        seq_id = int(rows["seq_id"][near[-1]])
        begin, end = _life(requests, seq_id, number)
        low, high = max(first, begin), stop if end is None else min(stop, end)
        own = np.flatnonzero(sound & (rows["seq_id"] == seq_id)) + first
        spelled = _is_spelled(rows[sound])
        pieces = _pieces(rows, first, self._texts, own[(own >= low) & (own < high)], spelled)
        before, selected, after = _whole_characters(
            [(n, p) for n, p in pieces if n < number],
            b"".join(p for n, p in pieces if n == number),
            [(n, p) for n, p in pieces if n > number],
        )
        clipped = low > max(begin, run.first_step)
        return Passage(
            prompt="" if clipped else self._prompt(seq_id, begin),
            before=before,
            selected=selected,
            after=after,
            clipped_before=clipped,
            clipped_after=high < (run_end if end is None else min(run_end, end)),
            ids=not spelled,
            lost=int((~sound[low - first : high - first]).sum()),
            seq_id=seq_id,
        )

    def _prompt(self, seq_id: int, begin: int) -> str:
        """What the request says that begins at that step; empty where it says nothing."""
        if self._prompts[0] != begin:  # thousands of requests may begin there, and their steps take turns
            asked = [n for at, n in self._table.notes(begin, begin + 1) if at == begin and n.get("kind") == "request"]
            prompts = {n.get("seq_id", 0): n.get("prompt") for n in asked if isinstance(n.get("seq_id", 0), int)}
            self._prompts = begin, prompts
        prompt = self._prompts[1].get(seq_id)
        return prompt if isinstance(prompt, str) else ""


def _life(requests: Requests, seq_id: int, number: int) -> tuple[int, int | None]:
    """(first step, one past the last or None) of the request that step `number` of a sequence is of."""
    begins = requests.get(seq_id, [])
    at = bisect_right(begins, number)
    return begins[at - 1] if at else 0, begins[at] if at < len(begins) else None


def _is_spelled(rows: Any) -> bool:
    """Whether these steps have text: the field may be there and its producer never have filled it."""
    if "text" not in (rows.dtype.names or ()):
        return False
    sampled = rows["token_id"] != ABSENT_I64
    return not sampled.any() or bool((rows["text"] != b"").any())


def _pieces(rows: Any, first: int, texts: Mapping[int, str], numbers: Any, spelled: bool) -> list[tuple[int, bytes]]:
    out = []
    for number in numbers.tolist():
        row = rows[number - first]
        if number in texts:
            piece = texts[number].encode("utf-8", "surrogateescape")
        elif spelled:
            piece = bytes(row["text"])
        else:
            token_id = int(row["token_id"])
            piece = b"" if token_id == ABSENT_I64 else b"%d " % token_id
        out.append((number, piece))
    return out


def _whole_characters(before: _Pieces, own: bytes, after: _Pieces) -> tuple[_Texts, str, _Texts]:
    """The three parts as text; bytes of a character that `own` has a part of move into it."""
    if own:
        earlier = b"".join(piece for _, piece in before)
        later = b"".join(piece for _, piece in after)
        moved = _unfinished(earlier)
        own = earlier[len(earlier) - moved :] + own
        taken = min(_wanted(own), len(later) - len(later.lstrip(_CONTINUATION)))
        own += later[:taken]
        before = _without(before[::-1], moved, last=True)[::-1]
        after = _without(after, taken, last=False)
    return _decoded(before), own.decode("utf-8", "replace"), _decoded(after)


_Pieces = list[tuple[int, bytes]]
_Texts = tuple[tuple[int, str], ...]


def _without(pieces: _Pieces, n: int, last: bool) -> _Pieces:
    """Pieces less `n` bytes, taken off the first ones (off their ends, if `last`)."""
    out = []
    for number, piece in pieces:
        off = min(n, len(piece))
        n -= off
        out.append((number, piece[: len(piece) - off] if last else piece[off:]))
    return out


def _decoded(pieces: _Pieces) -> _Texts:
    """Each piece as text; a character cut between two belongs to the one that ends it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    out = [(number, decoder.decode(piece)) for number, piece in pieces]
    rest = decoder.decode(b"", final=True)
    if rest:
        out[-1] = (out[-1][0], out[-1][1] + rest)
    return tuple(out)


_CONTINUATION = bytes(range(0x80, 0xC0))


def _unfinished(data: bytes) -> int:
    """Bytes at the end of `data` that begin a UTF-8 character and do not finish it."""
    for n in range(1, min(4, len(data) + 1)):
        size = _size(data[-n])
        if size:
            return n if size > n else 0
    return 0


def _wanted(data: bytes) -> int:
    """Bytes that the last character of `data` still needs."""
    n = _unfinished(data)
    return _size(data[-n]) - n if n else 0


def _size(byte: int) -> int:
    """Bytes of the UTF-8 character that a byte begins, 0 for one that begins none."""
    if byte < 0x80:
        return 1
    return 2 if 0xC0 <= byte < 0xE0 else 3 if 0xE0 <= byte < 0xF0 else 4 if 0xF0 <= byte < 0xF8 else 0
