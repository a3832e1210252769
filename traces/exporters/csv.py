"""A step trace as CSV: one row a step, one column a field; an array's values are columns of their own.

Cells and names that a spreadsheet would take for a formula begin with an apostrophe: token text is anybody's.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any, TextIO

from traces.exporters.timeline import plain_records
from traces.fields import Column
from traces.table import Table

HEAD = "run,step"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def write(table: Table, out: TextIO, first: int = 0, stop: int | None = None) -> int:
    """Write steps [first, stop) to the text file `out` (opened with newline=""); how many."""
    columns: dict[str, Column] = {}
    for run in table.runs:
        for column in run.decoder.columns:
            known = columns.get(column.name)
            columns[column.name] = column if known is None or known.size < column.size else known
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*HEAD.split(","), *(guarded(name) for column in columns.values() for name in _names(column))])
    written = 0
    for number, run in enumerate(table.runs):
        for chunk in table.chunks_of(run, first, stop):
            for step, record in plain_records(chunk):
                writer.writerow([number, step, *_cells(record, columns)])
                written += 1
    return written


def _names(column: Column) -> list[str]:
    if not column.shape or column.is_bytes:
        return [column.name]
    return [f"{column.name}.{i}" for i in range(column.size)]


def _cells(record: dict[str, Any], columns: dict[str, Column]) -> Iterator[Any]:
    for name, column in columns.items():
        value = record.get(name)
        if not column.shape or column.is_bytes:
            yield guarded(value) if isinstance(value, str) else value
        else:
            values = value if isinstance(value, list) else [value]
            yield from values
            yield from [None] * (column.size - len(values))


def guarded(text: str) -> str:
    """Text that no spreadsheet takes for a formula, and that every file can hold."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return "'" + text if text.startswith(_FORMULA) else text
