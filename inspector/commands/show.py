"""`stepscope show`: the film as text."""

from __future__ import annotations

import argparse
import json
import re
import sys
import unicodedata
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from inspector import film
from inspector.facts import describe
from inspector.text import visible

if TYPE_CHECKING:
    from traces.table import Run, Table

HELP = "print the film: a run's steps as lines"
EPILOG = """\
examples:
  stepscope show a.steps
  stepscope show a.steps --steps 0:40     the first forty steps
  stepscope show a.steps --steps -10:     the last ten
  stepscope show a.steps --json | jq '.steps[0]'
"""
_BATCH = 4096
_NOTES = set(film.NOTES) - {"release"}  # every request ends with one: nothing that a reader looks for


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("trace", metavar="TRACE", help="a step trace, or JSON Lines of one")
    parser.add_argument(
        "--steps",
        metavar="A:B",
        type=step_range,
        default=(None, None),
        help="only steps A up to, not including, B; negative counts from the end",
    )
    parser.add_argument("--json", action="store_true", help="every recorded field, as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print it; 0."""
    if args.json:
        return _print_json(args.trace, args.steps)
    return print_film(args.trace, args.steps)


def step_range(text: str) -> tuple[int | None, int | None]:
    """`A:B`, `A:`, `:B` or one step number, as (first, stop) for a slice. For argparse."""
    match = re.fullmatch(r"(-?\d+)?(:)?(-?\d+)?", text.strip())
    if not match or not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not A:B, A:, :B or one step number")
    a, colon, b = match.groups()
    first = int(a) if a else None
    if colon:
        return first, int(b) if b else None
    return first, None if first == -1 else (first or 0) + 1


def _range(table: Table, steps: tuple[int | None, int | None]) -> tuple[int, int]:
    first, stop, _ = slice(*steps).indices(table.steps)
    return first, max(first, stop)


def print_film(path: str, steps: tuple[int | None, int | None] = (None, None)) -> int:
    """Print the film of the trace at `path`; 0. Raises TraceError where it cannot be read."""
    from inspector.load import open_trace, state_of

    table = open_trace(path)
    first, stop = _range(table, steps)
    for run in _runs(table, first, stop):
        a, b = max(first, run.first_step), min(stop, table.run_end(run))
        for line in chain(describe(run.facts), _film(table, run, a, max(a, b))):
            print(line)
    for line in state_of(table):
        print(line)
    return 0


def _runs(table: Table, first: int, stop: int) -> list[Run]:
    """The runs that have steps among [first, stop), or the last one. Of a whole trace all: those without steps, too."""
    if first == 0 and stop == table.steps:
        return table.runs
    found = [run for run in table.runs if max(first, run.first_step) < min(stop, table.run_end(run))]
    return found or table.runs[-1:]


def _film(table: Table, run: Any, first: int, stop: int) -> Iterator[str]:
    columns = _Columns(table, run, first, stop)
    yield columns.header()
    all_notes = table.notes(first, stop, run)
    notes = [n for n in all_notes if n[1].get("kind") in _NOTES]
    texts = film.long_texts(all_notes)
    at = 0
    for begin in range(first, stop, _BATCH):
        end = min(begin + _BATCH, stop)
        for number, step in enumerate(table.plain(begin, end), begin):
            while at < len(notes) and notes[at][0] <= number:
                yield _note_line(notes[at][1])
                at += 1
            if step is not None and number in texts:
                step["text"] = texts[number]
            yield columns.line(number, step)
    for _, note in notes[at:]:
        yield _note_line(note)


def _note_line(note: dict[str, Any]) -> str:
    facts = " ".join(f"{k}={_short(v)}" for k, v in note.items() if k != "kind" and v is not None)
    return visible(f"  -- {note.get('kind')} {facts}")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


class _Columns:
    """Which columns this run's film has, and how wide they are: chosen once, so that lines can be streamed."""

    def __init__(self, table: Table, run: Any, first: int, stop: int) -> None:
        facts = run.facts
        model = facts.get("model") if isinstance(facts.get("model"), dict) else {}
        self._full = film.full_layers(facts)
        self._n_layers = run.n_layers
        self._first_cache = True
        rows = table.rows(first, min(stop, first + _BATCH))[0] if first < stop else None
        several = rows is not None and len(set(rows["seq_id"].tolist())) > 1
        verify = rows is not None and bool((rows["phase"] == 3).any())
        vocab = model.get("vocab_size") if isinstance(model, dict) else None
        token = max(6, len(str(vocab)) if isinstance(vocab, int) else 0)
        self._widths: list[tuple[str, int]] = [("step", max(4, len(str(max(stop - 1, 0)))))]
        if several:
            self._widths.append(("seq", 5))
        self._widths += [("phase", 7), ("token", token), ("text", 12), ("seq_before", 10), ("seq_len", 7),
                         ("cache_len", 12)]  # fmt: skip
        if verify:
            self._widths.append(("drafts", 6))
        if "total_ms" in run.names and rows is not None and bool((rows["total_ms"] == rows["total_ms"]).any()):
            self._widths.append(("ms", 8))

    def header(self) -> str:
        """The column names."""
        return "  ".join(pad(name, width) for name, width in self._widths).rstrip()

    def line(self, number: int, step: dict[str, Any] | None) -> str:
        """One step; a damaged one says so."""
        if step is None:
            return f"{pad(str(number), self._widths[0][1])}  (damaged: this step's frame fails its checksum)"
        cells = film.cells(step, number, self._cache(step))
        line = "  ".join(pad(cells[name], width) for name, width in self._widths)
        remark = cells["remark"]
        return f"{line}  {remark}" if remark else line.rstrip()

    def _cache(self, step: dict[str, Any]) -> str:
        text = film.cache(step, self._full)
        if self._first_cache and text.isdigit() and isinstance(step.get("cache_len"), list) and self._n_layers > 1:
            self._first_cache = False
            layers = len(self._full) if self._full is not None else self._n_layers
            all_of_them = layers == self._n_layers
            return f"{text} (all {layers})" if all_of_them else f"{text} ({layers} full)"
        return text


def pad(text: str, width: int) -> str:
    """`text` to `width` terminal cells: wide characters count two, combining ones none."""
    cells = sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
    return text + " " * max(0, width - cells)


def _print_json(path: str, steps: tuple[int | None, int | None]) -> int:
    """{"run", "steps", "notes", "complete"}, written step by step: a trace may be larger than memory."""
    from inspector.load import open_trace, state_of
    from traces.frames import json_text

    table = open_trace(path)
    first, stop = _range(table, steps)
    out = sys.stdout
    out.write('{"run":' + json_text(table.runs[0].facts) + ',"steps":[')
    separator = ""
    for begin in range(first, stop, _BATCH):
        for step in table.plain(begin, min(begin + _BATCH, stop)):
            if step is not None:
                out.write(separator + json_text(step))
                separator = ","
    rest: dict[str, Any] = {"notes": [], "complete": table.complete, "problems": state_of(table)}
    several = len(table.runs) > 1
    for run in _runs(table, first, stop):
        whose = {"run": run.number} if several else {}
        rest["notes"] += [{"before_step": at, **whose, **note} for at, note in table.notes(first, stop, run)]
    if several:
        rest["runs"] = [{"first_step": r.first_step, **r.facts} for r in table.runs]
    out.write("]," + json_text(rest)[1:] + "\n")
    return 0
