"""Curves, sparklines and bars in terminal cells: two by four dots a cell in braille, or one character in ASCII.

A plotting library would bring its own axes, colours and glyphs; the time panel needs two curves and a line that stay
apart without colour and in plain ASCII, which is this much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# the dots of a braille cell by (row, column), as Unicode numbers them
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLOCKS = "▁▂▃▄▅▆▇█"
_STEPS = "_.-~=+*#"


@dataclass
class Canvas:
    """`width` by `height` cells. Curves are drawn in order; a cell has the role of the last one that touched it."""

    width: int
    height: int
    ascii: bool = False
    _dots: dict[tuple[int, int], int] = field(default_factory=dict)
    _roles: dict[tuple[int, int], str] = field(default_factory=dict)
    _signs: dict[tuple[int, int], str] = field(default_factory=dict)

    @property
    def columns(self) -> int:
        """Places along the x axis: one a cell in ASCII, two in braille."""
        return self.width if self.ascii else 2 * self.width

    def curve(self, heights: Sequence[float], role: str, sign: str, every: int = 1) -> None:
        """A curve with one height, 0 (bottom) to 1 (top), a column; NaN leaves a hole.

        sign: its character in ASCII. every: draw only each so-many-th column, so that curves differ without colour.
        """
        rows = self.height if self.ascii else 4 * self.height
        last: int | None = None
        for x, share in enumerate(heights):
            if not 0 <= share <= 1:
                last = None
                continue
            y = rows - 1 - min(int(share * rows), rows - 1)
            low, high = (y, y) if last is None or every > 1 else (min(y, _beside(last, y)), max(y, _beside(last, y)))
            if x % every == 0:
                for row in range(low, high + 1):
                    self._mark(x, row, role, sign)
            last = y

    def _mark(self, x: int, row: int, role: str, sign: str) -> None:
        cell = (row, x) if self.ascii else (row // 4, x // 2)
        self._roles[cell] = role
        self._signs[cell] = sign
        self._dots[cell] = self._dots.get(cell, 0) | (0 if self.ascii else _DOTS[row % 4][x % 2])

    def row(self, y: int) -> list[tuple[str, str]]:
        """One row of cells as (text, role); blanks have the role of the cell before."""
        out: list[tuple[str, str]] = []
        for x in range(self.width):
            cell = (y, x)
            text = " "
            if cell in self._dots:
                text = self._signs[cell] if self.ascii else chr(0x2800 + self._dots[cell])
            role = self._roles.get(cell, out[-1][1] if out else "plain")
            if out and out[-1][1] == role:
                out[-1] = (out[-1][0] + text, role)
            else:
                out.append((text, role))
        return out


def _beside(last: int, now: int) -> int:
    """Where the line from the last column's height arrives: next to it, so that steep curves have no holes."""
    return last + (1 if now > last else -1 if now < last else 0)


STEADY = 8
"""Values that a median should be taken of, so that one slow step makes no peak"""


def medians_along(x: npt.NDArray[np.int64], y: Floats, low: int, high: int, columns: int) -> Floats:
    """The height of a curve in each of `columns` places of x from low to high: medians of y over equal bins, of about
    STEADY values each, joined by straight lines. NaN outside of them."""
    finite = np.isfinite(y)
    at, values = x[finite], y[finite]
    bins = max(min(len(values) // STEADY, columns), min(len(values), columns, STEADY))
    if not bins:
        return np.full(columns, np.nan)
    order = np.argsort(at, kind="stable")
    parts = np.array_split(order, bins)
    middles = np.array([np.median(at[part]) for part in parts])
    heights = np.array([np.median(values[part]) for part in parts])
    places = np.linspace(low, high, columns)
    return np.asarray(np.interp(places, middles, heights))


def sparkline(values: Floats, width: int, ascii: bool) -> str:
    """The last `width` values as blocks from 0 to the largest."""
    shown = values[-width:]
    most = float(shown.max()) if len(shown) else 0.0
    steps = _STEPS if ascii else _BLOCKS
    if most <= 0:
        return steps[0] * len(shown)
    return "".join(steps[min(int(v / most * len(steps)), len(steps) - 1)] for v in shown.tolist())


def nice_above(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten at or above a positive value: an axis's end."""
    power = 10.0 ** np.floor(np.log10(value))
    for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10):
        if step * power >= value * (1 - 1e-9):
            return float(step * power)
    return float(10 * power)
