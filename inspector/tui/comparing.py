"""Compares two builds' traces in a thread of its own, and leaves what it knows as frozen data for the screen.

The traces are opened first, so that a path that is none is refused before the first picture; the comparison, which
takes seconds for millions of steps, follows once the picture stands.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from inspector.film import long_texts
from inspector.tui.feed import FIRST_BYTES
from inspector.tui.pages import Pages
from traces.writer import TraceError

if TYPE_CHECKING:
    from inspector.tui.aligned import Aligned, Differences
    from traces.diff import Diff
    from traces.table import Run, Table


@dataclass(frozen=True)
class Side:
    """The run that stands for a side: its trace's path, its table, and its steps a page at a time."""

    path: str
    table: Table
    run: Run
    pages: Pages
    runs: int
    """How many runs the side has"""


@dataclass(frozen=True, eq=False)
class Compared:
    """The comparison, its places, and the two runs that they are of."""

    diff: Diff
    places: Aligned
    differences: Differences
    sides: tuple[Side, Side]


@dataclass(frozen=True, eq=False)
class Progress:
    """What is known at one moment. steps: of each side's first trace, None until it is read. problem: why there will
    be no comparison."""

    base: tuple[str, ...]
    new: tuple[str, ...]
    began: float = 0.0
    steps: tuple[int, int] | None = None
    facts: tuple[dict[str, Any], dict[str, Any]] | None = None
    compared: Compared | None = None
    problem: str | None = None


class Comparison:
    """Two sides, one or several traces each. Without start(), open() and compare() do the work at once.

    clock: seconds; only differences count.
    """

    def __init__(self, base: Sequence[str], new: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.progress = Progress(tuple(base), tuple(new), clock())
        self._tables: list[list[tuple[str, Table]]] = []
        self._error: TraceError | OSError | None = None
        self._opened, self._wanted = threading.Event(), threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="comparison", daemon=True)

    def start(self) -> None:
        """Begin to open the traces; the comparison waits for go_on()."""
        self._thread.start()

    def opened(self, timeout: float) -> None:
        """Wait until the traces are open. Raises TraceError, or OSError, where one of them is none or not there."""
        self._opened.wait(timeout)
        if self._error is not None:
            raise self._error

    def go_on(self) -> None:
        """Compare: the first picture stands."""
        self._wanted.set()

    def stop(self) -> None:
        """Begin nothing more. What runs is left to end with the process."""
        self._stopping = True
        self._wanted.set()

    def _work(self) -> None:
        try:
            self.open()
            self._opened.set()
            self._wanted.wait()
            if not self._stopping:
                self.compare()
        except (TraceError, OSError) as error:
            self._error = error
            self._fail(_words(error))
        except MemoryError:
            self._fail("not enough memory to compare these traces")
        except Exception as error:
            # a fault of ours must not look like a comparison that goes on
            self._fail(f"comparing stopped, a fault of stepscope: {type(error).__name__}: {error}")
        finally:
            self._opened.set()

    def _fail(self, words: str) -> None:
        self.progress = replace(self.progress, problem=words)

    def open(self) -> None:
        """Open every trace, as far as it takes to know what ran."""
        progress = self.progress
        self._tables = [[(path, _begun(path)) for path in side] for side in (progress.base, progress.new)]
        first = [side[0][1] for side in self._tables]
        self.progress = replace(progress, facts=(first[0].runs[0].facts, first[1].runs[0].facts))

    def compare(self) -> None:
        """Compare them, and set their places side by side."""
        from inspector.tui.aligned import Aligned, differences
        from traces.diff import compare

        sides = self._tables
        for _, table in (*sides[0], *sides[1]):
            table.refresh()
        self.progress = replace(self.progress, steps=(sides[0][0][1].steps, sides[1][0][1].steps))
        diff = compare(sides[0], sides[1])
        base, new = (_chosen(side, number) for side, number in zip(sides, diff.pair, strict=True))
        lengths_count = not any("lengths" in contrast.forbids for contrast in diff.comparable)
        places = Aligned(diff.alignments, (base.run.first_step, new.run.first_step), lengths_count)
        self.progress = replace(
            self.progress, compared=Compared(diff, places, differences(diff, places), (base, new))
        )  # fmt: skip


def _words(error: TraceError | OSError) -> str:
    if isinstance(error, TraceError):
        return str(error)
    return f"{error.filename or 'a trace'}: {error.strerror or error}"


def _begun(path: str) -> Table:
    """A trace that is read up to its first run description, if it has one."""
    from inspector.load import open_trace

    table = open_trace(path, index=False)
    while not table.runs and table.refresh(FIRST_BYTES):
        pass
    table.need_run()
    return table


def _chosen(side: list[tuple[str, Table]], number: int) -> Side:
    """The run of that number, over all traces of the side."""
    runs = [(path, table, run) for path, table in side for run in table.runs]
    path, table, run = runs[number]
    return Side(path, table, run, Pages(table, long_texts(table.notes())), len(runs))
