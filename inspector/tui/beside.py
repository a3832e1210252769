"""Lines of the diff view: one output token of two runs, each side in columns of its own. No Textual here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inspector import film
from inspector.film import Step
from inspector.tui import reel
from inspector.tui.aligned import BEHIND, PARTED, Place
from inspector.tui.lines import DIM, FAIL, PLAIN, STRONG, TITLE, UNKNOWN, Line, fit, padded

CURSOR = ">"
BETWEEN = 5
"""Cells between the sides: the sign of the tokens, and ! where the states differ"""
_ORDER = ("step", "phase", "token", "text", "len", "cache", "margin", "gemm", "attn", "total")
_KEEP = ("token", "text", "step", "cache", "len", "total", "margin", "phase", "gemm", "attn")
"""In a narrow window the columns at the end of this are left out first."""
_NEEDS = {"gemm": ("gemm_ms", "lm_head_ms"), "attn": ("attn_ms",), "total": ("total_ms",), "margin": ("margin",)}
_TITLES = {"len": "length", "gemm": "GEMM"}
_LEAST = {"step": 4, "phase": 7, "token": 5, "text": 6, "len": 6, "cache": 5}
_LEFT = ("phase", "text", "cache")
_TEXT_MORE = 24
Columns = Sequence[tuple[str, int]]
"""(key, cells) from the left"""


@dataclass(frozen=True)
class Half:
    """One side of a place. step: as people read it, words where it cannot be read, None where there is none."""

    step: Step | str | None
    token: int | None
    draft: int
    full_layers: list[int] | None


class Widths:
    """How wide the columns must be for what was seen so far, on either side. Only ever grows."""

    def __init__(self) -> None:
        self._seen = {key: _LEAST.get(key, 6) for key in _ORDER}

    def see(self, half: Half) -> bool:
        """Make room for a side's numbers. True if something grew."""
        grew = False
        for key, cell in cells(half).items():
            size = min(len(cell), reel.WIDEST)
            if key in self._seen and key != "text" and size > self._seen[key]:
                self._seen[key], grew = size, True
        return grew

    def chosen(self, width: int, fields: frozenset[str]) -> list[tuple[str, int]]:
        """The columns of one side for a line of `width` cells. fields: what either run records."""
        left = (width - 2 - BETWEEN) // 2
        kept = set()
        for key in _KEEP:
            if _NEEDS.get(key) and not any(name in fields for name in _NEEDS[key]):
                continue
            if self._seen[key] + 1 > left:
                break
            kept.add(key)
            left -= self._seen[key] + 1
        return [(k, self._seen[k] + (min(left, _TEXT_MORE) if k == "text" else 0)) for k in _ORDER if k in kept]


def cells(half: Half) -> dict[str, str]:
    """A side's cells by column; a draft has no more than its id: the step's numbers stand at its own token."""
    if not isinstance(half.step, dict):
        return {}
    said = reel.cells(half.step, half.full_layers)
    if half.draft:
        return {"step": f"+{half.draft}", "token": film.count(half.token), "text": "draft"}
    return {**said, "len": film.count(half.step.get("seq_len"))}


def titles(columns: Columns, width: int) -> Line:
    """The line of column names."""
    names = " ".join(fit(_TITLES.get(key, key), size, key not in _LEFT) for key, size in columns)
    return padded([("  " + names + " " * BETWEEN + names, TITLE)], width, TITLE)


def line(columns: Columns, width: int, place: Place, halves: tuple[Half, Half], selected: bool, differs: bool) -> Line:
    """One place. differs: something that should be alike first differs here."""
    apart = states_differ(place, halves)
    parted = place.sign == PARTED
    edge = (CURSOR if selected else " ") + ("✗" if differs else " ")
    sign = f"  {place.sign}{'!' if apart else ' '} "
    role = FAIL if parted or apart else UNKNOWN if place.sign == "?" else DIM
    out: Line = [(edge, FAIL if differs else STRONG)]
    out += _half(columns, halves[0], place.sign)
    out.append((sign[: BETWEEN - 1], role))
    out.append((" ", PLAIN))
    out += _half(columns, halves[1], place.sign)
    return padded(out, width)


def _half(columns: Columns, half: Half, sign: str) -> Line:
    room = sum(size + 1 for _, size in columns) - 1
    if not isinstance(half.step, dict):
        return [(fit(half.step or "", room), FAIL)]
    said = cells(half)
    out: Line = []
    for i, (key, size) in enumerate(columns):
        gap = " " if i + 1 < len(columns) else ""
        out.append((fit(said.get(key, ""), size, key not in _LEFT) + gap, _role(key, said.get(key, ""), sign)))
    return out


def _role(key: str, cell: str, sign: str) -> str:
    if key == "cache" and cell.endswith("!"):
        return FAIL
    if key in ("token", "text") and sign == PARTED:
        return FAIL
    if sign == BEHIND or key in ("step", "phase") or cell == film.NOTHING:
        return DIM
    return STRONG if key == "text" else PLAIN


_STATE = ("n_tokens", "seq_before", "seq_len", "cache_len", "finish")


def states_differ(place: Place, halves: tuple[Half, Half]) -> bool:
    """Whether two steps that stand beside each other left another length, other rows or another finish."""
    base, new = halves[0].step, halves[1].step
    if not place.beside or not isinstance(base, dict) or not isinstance(new, dict):
        return False
    names: tuple[str, ...] = _STATE
    if place.index is None:  # a prompt may be fed in other pieces
        names = "seq_len", "cache_len"
    if base.get("phase") != new.get("phase") or base.get("n_accepted") != new.get("n_accepted"):
        names = ()
    return any(_differ(name, base.get(name), new.get(name)) for name in names)


def _differ(name: str, a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return any(_differ(name, x, y) for x, y in zip(a, b, strict=False))
    return bool(a != b) and (name == "finish" or None not in (a, b))
