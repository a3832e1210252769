"""A trace judged step by step, as gdb does it live, and over whole columns, as `stepscope check` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traces.check import Checker
from traces.columnar import TableChecker
from traces.reader import Reader, Source
from traces.table import Table


def step_by_step(path: Path) -> dict[str, Any]:
    checker = Checker(limit=None)
    for kind, value in Reader(Source(path)).events():
        if kind == "run":
            checker.start_run(value)
        elif kind == "step":
            checker.step(value)
        elif kind == "note":
            checker.note(value)
        elif kind == "damage":
            checker.skip(value.steps)
    return checker.report.as_json()


def by_columns(path: Path, piece: int) -> dict[str, Any]:
    checker = TableChecker(Table(path), limit=None)
    while checker.advance(max_steps=piece):
        pass
    return checker.report.as_json()
