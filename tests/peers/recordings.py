"""The traces that a peer's adapter left in a folder, by the way in which it generated."""

from __future__ import annotations

from pathlib import Path

from traces.columnar import check_table
from traces.table import Table


class Recordings:
    """`folder`/WAY.steps, one a way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def table(self, way: str) -> Table:
        """The trace of a way."""
        return Table(self.folder / f"{way}.steps")

    def passed(self, way: str) -> set[str]:
        """The rules that pass on it. None may fail."""
        report = check_table(self.table(way))
        assert report.verdict == "pass", [failure.message for failure in report.failures()]
        return {code for code, result in report.results.items() if result.passed}
