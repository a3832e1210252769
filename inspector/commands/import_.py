"""`stepscope import`: other forms in."""

from __future__ import annotations

import argparse
import io
import os
import shutil
import sys
import tempfile
from typing import TextIO

HELP = "make a step trace from another form"
EPILOG = """\
formats: jsonl  JSON Lines, one object a step; see FORMAT.md
         gdb    what a gdb without Python printed with the commands of `stepscope probe plain`

examples:
  stepscope import jsonl run.jsonl -o run.steps
  my_engine --print-steps | stepscope import jsonl - -o run.steps
  stepscope import gdb run.log --probe mine.ini -o run.steps
"""
FORMATS = ("jsonl", "gdb")


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("format", metavar="FORMAT", choices=FORMATS, help=" or ".join(FORMATS))
    parser.add_argument("log", metavar="FILE", help="the file to read, - for standard input")
    parser.add_argument("-o", "--output", metavar="TRACE", help="the trace to write; without, a new file beside you")
    parser.add_argument("--probe", metavar="P", help="gdb: the hook spec that the commands were made from")


def run(args: argparse.Namespace) -> int:
    """Import it; 0. The trace's path goes to stderr."""
    from inspector.cli import UsageError
    from inspector.names import new_trace

    if (args.format == "gdb") != bool(args.probe):
        raise UsageError("gdb's lines mean something with their probe only: stepscope import gdb FILE --probe P")
    out = args.output or new_trace("import" if args.log == "-" else os.path.splitext(os.path.basename(args.log))[0])
    steps = _import_gdb(args.log, args.probe, out) if args.format == "gdb" else _import_jsonl(args.log, out)
    print(f"stepscope: {steps} steps written to {out}", file=sys.stderr)
    return 0


def _import_jsonl(log: str, out: str) -> int:
    from traces.importers.jsonl import import_jsonl

    if log != "-":
        return import_jsonl(log, out)
    with tempfile.NamedTemporaryFile() as copy:  # it is read twice
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        return import_jsonl(copy.name, out, name="standard input")


def _import_gdb(log: str, probe: str, out: str) -> int:
    from gdb_scripts.backends.plain import convert
    from gdb_scripts.probe import ProbeError, load
    from inspector.cli import UsageError
    from traces.importers.jsonl import whole_or_nothing

    try:
        spec = load(probe)
    except ProbeError as error:
        raise UsageError(str(error)) from None
    with _lines(log) as lines, whole_or_nothing(out) as partial:
        session = convert(lines, spec, partial)
        if session.problems:
            raise UsageError(session.problems[0])
        if not session.steps:
            name = "standard input" if log == "-" else log
            raise UsageError(
                f"{name}: holds no line of a [forward] hook; it has to be what gdb printed with the commands of "
                f"stepscope probe plain {probe}"
            )
    return session.steps


def _lines(log: str) -> TextIO:
    """The program's own output is among them: anything may come."""
    if log == "-":
        return io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
    return open(log, encoding="utf-8", errors="replace")
