"""Steps of a trace as text, CSV and JSON, for the clipboard and for files. No Textual here."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from inspector import film
from inspector.text import visible
from inspector.tui import reel
from inspector.tui.pages import DAMAGED
from traces.exporters.csv import guarded
from traces.frames import json_text
from traces.writer import TraceError

if TYPE_CHECKING:
    from traces.table import Table

BATCH = 1024
MOST_COPIED = 1000
"""Steps: a terminal takes only so much through OSC 52"""

Texts = Mapping[int, str]
"""Texts of the tokens too long for their field, by step"""
GoOn = Callable[[int], bool]
"""Told how many steps are done; False ends the work"""


class GivenUpError(Exception):
    """The user no longer wants what is being written."""


def as_text(table: Table, first: int, stop: int, texts: Texts, width: int = 120) -> str:
    """Steps [first, stop), MOST_COPIED at most, as lines of the film."""
    widths = reel.Widths()
    steps = _batch(table, first, min(stop, first + MOST_COPIED), texts)
    run = table.run_at(first).facts
    full = film.full_layers(run)
    said = [reel.cells(step, full) if step else {} for step in steps]
    for cells in said:
        widths.see(cells)
    several = len({step["seq_id"] for step in steps if step}) > 1
    columns = widths.chosen(width, reel.fields_of(run), several)
    lines = [reel.titles(columns, width)]
    for number, step in enumerate(steps, first):
        shown: Any = step or DAMAGED
        lines.append(reel.line(columns, width, number, shown, said[number - first], (), False))
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def as_json(table: Table, number: int, texts: Texts) -> str:
    """One step with every recorded field, as `show --json` has it; null where it is damaged."""
    return json_text(_batch(table, number, number + 1, texts)[0])


def write_csv(table: Table, first: int, stop: int, texts: Texts, out: TextIO, go_on: GoOn) -> None:
    """Steps [first, stop), a line each; a field of several values has a column a value. Damaged steps are left out."""
    writer = csv.writer(out, lineterminator="\n")
    head = _head(table, first, stop)
    writer.writerow(["step", *(guarded(name if i is None else f"{name}[{i}]") for name, i in head)])
    for step in _steps(table, first, stop, texts, go_on):
        writer.writerow([step["step"], *(_cell(step.get(name), i) for name, i in head)])


def _head(table: Table, first: int, stop: int) -> list[tuple[str, int | None]]:
    """The columns that any run among these steps has: (field, number of the value)."""
    head: dict[tuple[str, int | None], None] = {}
    for run in table.runs:
        if run.first_step < stop and table.run_end(run) > first:
            for column in run.decoder.columns:
                several = bool(column.shape) and not column.is_bytes
                for i in range(column.size) if several else (None,):
                    head[(column.name, i)] = None
    return list(head)


def _cell(value: Any, i: int | None) -> Any:
    if isinstance(value, list) and i is not None:
        value = value[i] if i < len(value) else None
    if isinstance(value, str):
        return guarded(value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
    return "" if value is None else value


def write_json(table: Table, first: int, stop: int, texts: Texts, out: TextIO, go_on: GoOn) -> None:
    """{"run", "steps"} as `show --json` has them, the run of step `first`."""
    out.write('{"run":' + json_text(table.run_at(first).facts) + ',"steps":[')
    separator = ""
    for step in _steps(table, first, stop, texts, go_on):
        out.write(separator + "\n" + json_text(step))
        separator = ","
    out.write("\n]}\n")


def _batch(table: Table, first: int, stop: int, texts: Texts) -> list[dict[str, Any] | None]:
    steps = table.plain(first, stop)
    return [{**step, "text": texts[n]} if step and n in texts else step for n, step in enumerate(steps, first)]


def _steps(table: Table, first: int, stop: int, texts: Texts, go_on: GoOn) -> Iterator[dict[str, Any]]:
    for begin in range(first, stop, BATCH):
        end = min(begin + BATCH, stop)
        yield from (step for step in _batch(table, begin, end, texts) if step is not None)
        if not go_on(end - first):
            raise GivenUpError


def to_file(path: str, write: Callable[[TextIO], None]) -> str:
    """Write a new file; the words that say how it went. What was given up or went wrong is not left behind."""
    try:
        with open(path, "x", encoding="utf-8", newline="") as out:
            try:
                write(out)
                out.flush()
            except BaseException:
                os.unlink(path)
                raise
    except GivenUpError:
        return f"gave up saving {path}"
    except (OSError, TraceError) as error:
        return f"cannot save {path}: {visible(str(getattr(error, 'strerror', None) or error))}"
    return f"saved {path}"


def new_file(trace: str, first: int, stop: int, ending: str) -> str:
    """A name in the current folder that is not taken: TRACE-FIRST-LAST.ending, else with -2 and so on."""
    stem = os.path.splitext(os.path.basename(trace))[0] or "trace"
    stem = f"{stem}-{first}" if stop - first == 1 else f"{stem}-{first}-{stop - 1}"
    path, n = f"{stem}.{ending}", 2
    while os.path.lexists(path):
        path, n = f"{stem}-{n}.{ending}", n + 1
    return path
