"""What a recorded generation left in its trace, and a user who presses Ctrl-C meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from traces.check import Checker
from traces.columnar import check_table
from traces.reader import Reader, Source
from traces.table import Table


class Trace(NamedTuple):
    """A trace file as it was read: `end` is None where it was cut off."""

    run: dict[str, Any]
    steps: list[dict[str, Any]]
    notes: list[dict[str, Any]]
    end: dict[str, Any] | None
    verdict: str

    def note(self, kind: str) -> dict[str, Any]:
        found = [note for note in self.notes if note["kind"] == kind]
        assert len(found) == 1, (kind, self.notes)
        return found[0]


def read(path: Path) -> Trace:
    reader, checker = Reader(Source(path)), Checker()
    run: dict[str, Any] = {}
    steps: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    end = None
    for kind, value in reader.events():
        if kind == "run":
            run = value
            checker.start_run(value)
        elif kind == "step":
            assert reader.decoder is not None
            steps.append(reader.decoder.plain(value))
            checker.step(value)
        elif kind == "note":
            notes.append(value)
            checker.note(value)
        elif kind == "end":
            end = value
    # step by step and over columns alike
    assert check_table(Table(path)).as_json() == checker.report.as_json()
    return Trace(run, steps, notes, end, checker.report.verdict)


def interrupt_after(n_pieces: int, error: type[BaseException]) -> Any:
    """An `on_text` that raises at its n-th call."""
    seen: list[str] = []

    def on_text(text: str) -> None:
        seen.append(text)
        if len(seen) == n_pieces:
            raise error("from outside")

    return on_text
