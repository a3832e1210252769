"""`stepscope import`: other forms in."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile

HELP = "make a step trace from another form"
EPILOG = """\
formats: jsonl (JSON Lines, one object a step; see FORMAT.md)

examples:
  stepscope import jsonl run.jsonl -o run.steps
  my_engine --print-steps | stepscope import jsonl - -o run.steps
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("format", metavar="FORMAT", choices=["jsonl"], help="jsonl")
    parser.add_argument("log", metavar="FILE", help="the file to read, - for standard input")
    parser.add_argument("-o", "--output", metavar="TRACE", help="the trace to write; without, a new file beside you")


def run(args: argparse.Namespace) -> int:
    """Import it; 0. The trace's path goes to stderr."""
    from inspector.names import new_trace
    from traces.importers.jsonl import import_jsonl

    out = args.output or new_trace("import" if args.log == "-" else os.path.splitext(os.path.basename(args.log))[0])
    if args.log == "-":
        with tempfile.NamedTemporaryFile() as copy:  # it is read twice
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
            steps = import_jsonl(copy.name, out, name="standard input")
    else:
        steps = import_jsonl(args.log, out)
    print(f"stepscope: {steps} steps written to {out}", file=sys.stderr)
    return 0
