"""What the tests of importers share: a log's text in, the trace's notes, steps and figures out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from traces.columnar import check_table
from traces.importers.auto import engines, recognise
from traces.importers.log import Imported, import_log
from traces.metrics import stats
from traces.table import Table


class Outcome(NamedTuple):
    """A log's trace."""

    done: Imported
    table: Table

    @property
    def facts(self) -> dict[str, Any]:
        return self.table.runs[0].facts

    def notes(self, kind: str) -> list[dict[str, Any]]:
        return [note for _, note in self.table.notes() if note["kind"] == kind]

    @property
    def totals(self) -> list[dict[str, Any]]:
        return self.notes("totals")

    @property
    def doubts(self) -> list[str]:
        return [note["text"] for note in self.notes("message") if "line" in note]

    @property
    def steps(self) -> list[dict[str, Any]]:
        return [step for step in self.table.plain(0, self.table.steps) if step is not None]

    @property
    def figures(self) -> dict[str, Any]:
        return stats(self.table)

    def verdicts(self, *codes: str) -> list[str]:
        report = check_table(self.table)
        return [report.results[code].verdict for code in codes]


def imported(folder: Path, log: str | bytes, engine: str) -> Outcome:
    """The trace of a log; the log's own lines must tell which engine wrote it."""
    path, out = folder / "a.log", folder / "a.steps"
    path.write_bytes(log if isinstance(log, bytes) else log.encode())
    assert recognise(path, "a.log") == engine
    done = import_log(path, out, engines()[engine].READER, engine)
    return Outcome(done, Table(out))


def some(values: dict[str, Any], **expected: Any) -> bool:
    """Whether `values` has these; None where it must not have one."""
    return {name: values.get(name) for name in expected} == expected
