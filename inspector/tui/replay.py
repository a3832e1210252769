"""Playing a recorded trace: which step is reached at which moment. No Textual here.

A step lasts until the next one began (`t_ns`); where that is not recorded, or runs backwards, its `total_ms`; else
DEFAULT_S. At speed 1 the steps come as they were recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from traces.fields import ABSENT_U64

if TYPE_CHECKING:
    from traces.table import Table

DEFAULT_S = 0.1
SPEEDS = (0.1, 1.0, 10.0, 100.0)
_AHEAD = 4096


class Playhead:
    """Where a replay stands: at a step, moving on as a clock does.

    at: the step it begins at. now: seconds on the clock that move() is told. speed: times as fast as recorded.
    """

    def __init__(self, at: int, now: float, speed: float = 1.0) -> None:
        self.at, self.speed = at, speed
        self._now = now
        self._spent = 0.0
        self._first = 0
        self._ends: Any = np.zeros(0)

    def move(self, table: Table, steps: int, now: float) -> int:
        """The step reached at `now`, of `steps`; the last one at most. Raises TraceError as Table.rows."""
        self._spent += max(0.0, now - self._now) * self.speed
        self._now = now
        while self.at < steps - 1:
            here = self._lasting(table, steps)
            left = here - here[0] + self._length  # when each step from `at` on is over
            passed = int(np.searchsorted(left, self._spent, side="right"))
            if not passed:
                break
            self._spent -= float(left[passed - 1])
            self.at += passed
            if passed < len(left):
                break
        self.at = min(self.at, steps - 1)
        return self.at

    @property
    def _length(self) -> float:
        i = self.at - self._first
        return float(self._ends[i] - (self._ends[i - 1] if i else 0.0))

    def _lasting(self, table: Table, steps: int) -> Any:
        """Running sums of the lengths of the steps from `at` on, as far as they were read."""
        if not self._first <= self.at < self._first + len(self._ends):
            run = table.run_at(self.at)
            stop = min(self.at + _AHEAD, steps - 1, table.run_end(run))
            self._first, self._ends = self.at, np.cumsum(lengths(table, self.at, stop))
        return self._ends[self.at - self._first :]


def lengths(table: Table, first: int, stop: int) -> Any:
    """Seconds that each of the steps [first, stop) of one run lasts."""
    run_end = table.run_end(table.run_at(first))
    rows, _ = table.rows(first, min(stop + 1, run_end))
    names = rows.dtype.names or ()
    out = np.full(len(rows), np.nan)
    if "t_ns" in names:
        began = np.where(rows["t_ns"] == ABSENT_U64, np.nan, rows["t_ns"].astype(np.float64))
        out[:-1] = np.diff(began) / 1e9
    if "total_ms" in names:
        out = np.where(out >= 0, out, rows["total_ms"].astype(np.float64) / 1e3)
    return np.where(out >= 0, out, DEFAULT_S)[: stop - first]
