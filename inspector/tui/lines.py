"""Lines of text with roles, and fitting them into terminal cells. The style sheet says what a role looks like."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from rich.cells import cell_len, set_cell_size

Part = tuple[str, str]
"""(text, role)"""
Line = list[Part]

PLAIN, DIM, STRONG, TITLE = "plain", "dim", "strong", "title"
GOOD, FAIL, UNKNOWN = "good", "fail", "unknown"
MARK, GEMM, ATTENTION = "mark", "gemm", "attention"
SIGNS = {GOOD: "good-sign", FAIL: "fail-sign", UNKNOWN: "unknown-sign"}
"""A word set off from its line: the state"""
FLOOR = "floor"
HEAT = ("much-slower", "slower", "faster", "much-faster")
"""How far a time is off another"""
CODE = {word: f"code-{word}" for word in ("keyword", "name", "string", "number", "comment")}
"""Kinds of words in a source file"""
ROLES = (
    *(PLAIN, DIM, STRONG, TITLE, GOOD, FAIL, UNKNOWN, MARK, GEMM, ATTENTION, FLOOR),
    *SIGNS.values(),
    *HEAT,
    *CODE.values(),
)
Tag = TypeVar("Tag")


@dataclass(frozen=True)
class Page:
    """What a panel shows: lines that stay at the top, lines that scroll, lines that stay at the bottom.

    cursor: the scrolling line to keep in sight. steps: for each scrolling line the cells, from the left, that belong
    to a step: (one past the last cell, step or None).
    """

    top: list[Line] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    bottom: list[Line] = field(default_factory=list)
    cursor: int | None = None
    steps: list[list[tuple[int, int | None]]] = field(default_factory=list)


BETWEEN = " │ "
"""Stands between what a head says on one line"""
LEFT_TO_RIGHT = "\u200e"
_RIGHT_TO_LEFT = {"R", "AL", "AN"}


def fit(text: str, width: int, right: bool = False) -> str:
    """`text` in exactly `width` cells: padded, or cut with … where it is longer.

    A mark that would combine with the cell before it stands on a dotted circle, and right-to-left text is closed, so
    that a terminal does not reorder the cells behind it.
    """
    if width <= 0:
        return ""
    if text.isascii():
        if len(text) > width:
            return text[: width - 1] + "…"
        return text.rjust(width) if right else text.ljust(width)
    if cell_len(text[0]) == 0:
        text = "◌" + text
    size = cell_len(text)
    if size > width:
        text, size = set_cell_size(text, width - 1) + "…", width
    if any(unicodedata.bidirectional(c) in _RIGHT_TO_LEFT for c in text):
        text += LEFT_TO_RIGHT
    blank = " " * (width - size)
    return blank + text if right else text + blank


def tail(path: str, width: int) -> str:
    """A path in at most `width` cells: one that is longer gives way from its left."""
    if cell_len(path) <= width:
        return path
    return "…" + path[1 - width :] if path.isascii() else fit(path, width)


def bar(share: float, width: int) -> str:
    """`share` (0 to 1) of `width` cells as a bar of half cells, padded to `width`. Anything above 0 is seen."""
    if not share > 0 or width <= 0:
        return " " * max(width, 0)
    halves = min(max(1, round(share * width * 2)), width * 2)
    return ("━" * (halves // 2) + "╸" * (halves % 2)).ljust(width)


def against(share: float, width: int) -> str:
    """A bar of `width` cells on a scale that has 1 at its middle, which is marked; past twice that it is open."""
    if width < 5:
        return " " * max(width, 0)
    middle = width // 2
    cells = list(bar(share / 2 if share == share else 0.0, width))
    cells[middle] = "╋" if cells[middle] != " " else "│"
    if share > 2:
        cells[-1] = "»"
    return "".join(cells)


def joined(between: str, parts: list[Line]) -> Line:
    """Lines put behind each other on one, with `between` between them."""
    out: Line = []
    for part in parts:
        out += [(between, DIM), *part] if out else part
    return out


def plural(n: int, word: str) -> str:
    """`1 step`, `1,234 steps`."""
    return f"{n:,} {word}" + ("" if n == 1 else "s")


def elapsed(seconds: float) -> str:
    """`7 s`, `2 min 5 s`, `3 h 0 min`, `1 d 1 h`: whole seconds in the two largest units."""
    left = max(0, round(seconds))
    for unit, size, less, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if left >= size:
            return f"{left // size:,} {unit} {left % size // part} {less}"
    return f"{left} s"


def clip(line: Line, width: int) -> Line:
    """A line cut to `width` cells, with … where something is missing."""
    out: Line = []
    left = width
    for text, role in line:
        size = cell_len(text)
        if size > left:
            if left > 0:
                out.append((fit(text, left), role))
            return out
        out.append((text, role))
        left -= size
    return out


def padded(line: Line, width: int, role: str = PLAIN) -> Line:
    """A line in exactly `width` cells: cut, or filled with blanks of `role`."""
    out = clip(line, width)
    missing = width - length(out)
    return [*out, (" " * missing, role)] if missing > 0 else out


def length(line: Line) -> int:
    """Cells that a line takes."""
    return sum(cell_len(text) for text, _ in line)


def wrap(parts: Iterable[tuple[str, Tag]], width: int, words: bool = True) -> list[list[tuple[str, Tag]]]:
    """Parts flowed into lines of at most `width` cells; line feeds end a line. `words`: break at blanks if possible."""
    width = max(width, 2)
    lines: list[list[tuple[str, Tag, int]]] = [[]]
    used = 0
    for text, role in parts:
        for c in _clusters(text):
            if c == "\n":
                lines.append([])
                used = 0
                continue
            size = cell_len(c)
            if used + size > width:
                rest = _tail_word(lines[-1]) if words and c != " " else []
                lines.append(rest)
                used = sum(cell[2] for cell in rest)
                if words and c == " ":
                    continue
                if used + size > width:
                    lines.append([])
                    used = 0
            lines[-1].append((c, role, size))
            used += size
    return [_joined(line) for line in lines]


def _clusters(text: str) -> list[str]:
    """Characters with the marks that combine with them: what one cell, or two, show."""
    if text.isascii():
        return list(text)
    out: list[str] = []
    for c in text:
        if out and out[-1] != "\n" and c != "\n" and cell_len(c) == 0:
            out[-1] += c
        else:
            out.append(c)
    return out


def _tail_word(line: list[tuple[str, Tag, int]]) -> list[tuple[str, Tag, int]]:
    """Take the unfinished word off a line's end, unless it is the whole line."""
    at = next((i for i in range(len(line) - 1, -1, -1) if line[i][0] == " "), -1)
    if at < 0:
        return []
    word = line[at + 1 :]
    del line[at:]
    return word


def _joined(cells: list[tuple[str, Tag, int]]) -> list[tuple[str, Tag]]:
    out: list[tuple[str, Tag]] = []
    for c, role, _ in cells:
        if out and out[-1][1] == role:
            out[-1] = (out[-1][0] + c, role)
        else:
            out.append((c, role))
    return out
