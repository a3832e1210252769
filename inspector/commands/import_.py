"""`stepscope import`: other forms in."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from inspector.cli import FINE, NO, UsageError, tell

if TYPE_CHECKING:
    from traces.importers.log import Imported

HELP = "make a step trace from another form, or from an engine's log"
EPILOG = r"""formats:
  auto       whichever of these the content is
  jsonl      JSON Lines, one object a step; see FORMAT.md
  llama.cpp  logs, server answers, llama-bench -o json|jsonl|csv, eval-callback dumps
  kestrel    timings and answers, and gdb films like DEC token_id=64 seq_before=25 cache0=25
  vllm       engine statistics, SpecDecoding metrics, serving benchmark results
  ollama     the block of `ollama run --verbose`, and the objects of the API
  gdb        what a gdb without Python printed with the commands of `stepscope probe plain`
  pattern    any text log, through --regex

Only what a log says is written: a log of sums gives totals, never steps. A line that was dropped or is doubtful becomes
a message note in the trace. docs/engines.md says what to type for each engine.

exit codes: 0 fine, 1 with --strict where a line was dropped or is doubtful, 2 usage or unreadable input

examples:
  stepscope import auto server.log -o server.steps
  llama-bench -m model.gguf -o jsonl | stepscope import llama.cpp - -o bench.steps
  stepscope import pattern my.log --regex 'tok=(?P<token_id>\d+) len=(?P<seq_len>\d+) (?P<total_ms>[\d.]+) ms'
  stepscope import jsonl run.jsonl -o run.steps
  stepscope import gdb run.log --probe mine.ini -o run.steps
"""
FORMATS = ("auto", "jsonl", "llama.cpp", "kestrel", "vllm", "ollama", "gdb", "pattern")


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("format", metavar="FORMAT", type=_format, choices=FORMATS, help=", ".join(FORMATS))
    parser.add_argument("log", metavar="FILE", help="the file to read, - for standard input")
    parser.add_argument("-o", "--output", metavar="TRACE", help="the trace to write; without, a new file beside you")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a line was dropped or is doubtful")
    parser.add_argument("--probe", metavar="P", help="gdb: the hook spec that the commands were made from")
    parser.add_argument(
        "--regex", metavar="R", action="append", default=[], help="pattern: named groups are fields; may be repeated"
    )
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="pattern: a field the log does not say"
    )


def _format(word: str) -> str:
    """A format by its name, however its capitals and dots are written."""
    bare = re.sub(r"[^a-z]", "", word.lower())
    return next((name for name in FORMATS if re.sub(r"[^a-z]", "", name) == bare), word)


def run(args: argparse.Namespace) -> int:
    """Import it; 0, or 1 where --strict finds a doubt. The trace's path and what is in it go to stderr."""
    from inspector.names import named, new_trace

    if (args.format == "gdb") != bool(args.probe):
        raise UsageError("gdb's lines mean something with their probe only: stepscope import gdb FILE --probe P")
    stem = "import" if args.log == "-" else os.path.splitext(os.path.basename(args.log))[0]
    out = named(args.output) or new_trace(stem)
    done = _import(args, out)
    what = f"{done.steps} step{'' if done.steps == 1 else 's'}"
    if not done.steps and not done.totals and done.notes:
        what = f"no steps, but {done.notes} note{'' if done.notes == 1 else 's'} (`stepscope show` prints them)"
    elif done.totals:
        what += f" and totals of {done.totals} request{'' if done.totals == 1 else 's'}"
    tell(f"{what} written to {out}")
    if done.doubts:
        lines = "1 line was" if done.doubts == 1 else f"{done.doubts} lines were"
        tell(f"{lines} dropped or doubtful; `stepscope show` tells which")
    return NO if args.strict and done.doubts else FINE


def _import(args: argparse.Namespace, out: str) -> Imported:
    from traces.importers.auto import engines, marks_of_others, recognise
    from traces.importers.jsonl import import_jsonl
    from traces.importers.log import Imported, import_log, name_of

    if args.format == "pattern":
        return _import_pattern(args, out)
    if args.format == "gdb":
        return Imported(_import_gdb(args.log, args.probe, out), 0, 0)
    name = name_of(args.log)
    twice = args.format in ("auto", "jsonl")
    with _as_file(args.log) if twice else _as_is(args.log) as path:
        chosen = recognise(path, name) if args.format == "auto" else args.format
        if chosen == "jsonl":
            return Imported(import_jsonl(path, out, name=name), 0, 0)
        return import_log(path, out, engines()[chosen].READER, chosen, name, marks_of_others(chosen))


def _import_pattern(args: argparse.Namespace, out: str) -> Imported:
    from traces.fields import FieldError
    from traces.importers import pattern
    from traces.importers.log import import_log

    constants = dict(word.partition("=")[::2] for word in args.set)
    try:
        patterns = pattern.compiled(args.regex, constants)
        return import_log(args.log, out, lambda trace: pattern.Pattern(trace, patterns, constants), pattern.NAME)
    except (pattern.PatternError, FieldError) as error:
        raise UsageError(str(error)) from None


def _import_gdb(log: str, probe: str, out: str) -> int:
    from gdb_scripts.backends.plain import convert
    from gdb_scripts.probe import ProbeError, load
    from traces.importers.log import name_of, opened
    from traces.replacing import replacing

    try:
        spec = load(probe)
    except ProbeError as error:
        raise UsageError(str(error)) from None
    with opened(log) as source, replacing(out) as partial:
        session = convert(_lines(source, name_of(log)), spec, partial)
        if session.problems:
            raise UsageError(session.problems[0])
        for remark in session.remarks:
            tell(f"{probe}: {remark}")
        if not session.steps:
            raise UsageError(
                f"{name_of(log)}: holds no line of a [forward] hook; it has to be what gdb printed with the commands "
                f"of stepscope probe plain {probe}"
            )
    return session.steps


def _lines(source: TextIO, name: str) -> Iterator[str]:
    """The program's own output is among them: anything may come, also no end of a line."""
    from traces.importers.log import MAX_LINE
    from traces.writer import TraceError

    try:
        while line := source.readline(MAX_LINE):
            yield line
    except OSError as error:
        raise TraceError(f"{name}: cannot read: {error.strerror}") from None


@contextmanager
def _as_file(log: str) -> Iterator[str]:
    """The log as a file that can be read twice."""
    if log != "-":
        yield log
        return
    with tempfile.NamedTemporaryFile() as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield copy.name


@contextmanager
def _as_is(log: str) -> Iterator[str]:
    yield log
