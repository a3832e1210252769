"""`stepscope export`: a trace for other tools."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

from inspector.cli import UsageError, complain
from inspector.commands.show import step_range
from traces.replacing import Older, replacing

if TYPE_CHECKING:
    from traces.table import Table

HELP = "write a trace in a form that other tools read"
EPILOG = """\
targets:
  jsonl     JSON Lines, one object a step; `import jsonl` reads it back without loss
  perfetto  for ui.perfetto.dev: slices a step, its layers inside, counters (needs the extra: stepscope[perfetto])
  chrome    JSON trace events, for chrome://tracing and what else reads them
  parquet   a folder for DuckDB, Polars or Spark, partitioned by model and build; export a fleet's traces into
            one folder (needs the extra: stepscope[parquet])
  csv       one row a step; arrays as columns; nothing in it is a formula

examples:
  stepscope export a.steps --to perfetto -o a.pftrace --steps 0:2000
  stepscope export a.steps --to parquet -o fleet
  stepscope export a.steps --to jsonl | jq -c 'select(.phase == "decode") | [.token_id, .total_ms]'
"""
TARGETS = ("jsonl", "perfetto", "chrome", "parquet", "csv")


_OLDER = {
    "jsonl": Older("JSON Lines", b"{"),
    "chrome": Older("JSON", b"{"),
    "csv": Older("CSV of a trace", b"run,step"),
    "perfetto": Older("a Perfetto trace of stepscope's", b"\n", b"stepscope"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("trace", metavar="TRACE", help="a step trace")
    parser.add_argument("--to", metavar="TARGET", choices=TARGETS, required=True, help=", ".join(TARGETS))
    parser.add_argument("-o", "--output", metavar="FILE", help="where to; standard output where not given")
    parser.add_argument(
        "--steps",
        metavar="A:B",
        type=step_range,
        default=(None, None),
        help="only steps A up to, not including, B (not for jsonl)",
    )


def run(args: argparse.Namespace) -> int:
    """Export it; 0. What is wrong with the trace goes to stderr."""
    from inspector.load import open_trace, state_of

    if args.to == "jsonl" and args.steps != (None, None):
        raise UsageError("--steps is not for jsonl, which keeps a trace whole")
    table = open_trace(args.trace)
    first, stop, _ = slice(*args.steps).indices(table.steps)
    if args.to == "parquet":
        _to_folder(table, args.output, first, stop)
    elif args.to == "perfetto":
        _to_perfetto(table, args.output, first, stop)
    else:
        with _text(args.output, args.to) as out:
            _to_text(table, args.to, out, first, stop)
    for problem in state_of(table):
        complain(f"{args.trace}: {problem}")
    return 0


def _to_text(table: Table, target: str, out: TextIO, first: int, stop: int) -> None:
    from traces.exporters import chrome, csv, jsonl

    if target == "csv":
        csv.write(table, out, first, stop)
        return
    lines = jsonl.lines(table) if target == "jsonl" else chrome.lines(table, first, stop)
    out.writelines(line + "\n" for line in lines)


def _to_perfetto(table: Table, path: str | None, first: int, stop: int) -> None:
    from traces.exporters import perfetto

    _need("perfetto", "perfetto")
    if path in (None, "-"):
        if sys.stdout.isatty():
            raise UsageError("a Perfetto trace is binary: name a file with -o")
        perfetto.write(table, sys.stdout.buffer, first, stop)
        return
    with replacing(path or "", _OLDER["perfetto"]) as partial, open(partial, "wb") as out:
        perfetto.write(table, out, first, stop)


def _to_folder(table: Table, folder: str | None, first: int, stop: int) -> None:
    from traces.exporters import parquet

    _need("pyarrow", "parquet")
    if not folder or folder == "-":
        raise UsageError("parquet is a folder of files: name it with -o")
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{folder}: exists and is no folder; choose another name")
    if parquet.write(table, folder, first, stop) == 0:
        raise UsageError(f"{table.path}: has no steps there to export")


def _need(module: str, extra: str) -> None:
    try:
        import_module(module)
    except ImportError:
        raise UsageError(f"--to {extra} needs {module}; type: pip install 'stepscope[{extra}]'") from None


@contextmanager
def _text(path: str | None, target: str) -> Iterator[TextIO]:
    if path is None or path == "-":
        yield sys.stdout
        return
    with replacing(path, _OLDER[target]) as partial, open(partial, "w", encoding="utf-8", newline="") as out:
        yield out
