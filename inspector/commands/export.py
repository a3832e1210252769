"""`stepscope export`: a trace for other tools."""

from __future__ import annotations

import argparse
import os
import sys

HELP = "write a trace in a form that other tools read"
EPILOG = """\
targets: jsonl (JSON Lines, one object a step; `import jsonl` reads it back without loss)

examples:
  stepscope export a.steps --to jsonl -o a.jsonl
  stepscope export a.steps --to jsonl | jq -c 'select(.phase == "decode") | [.token_id, .total_ms]'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("trace", metavar="TRACE", help="a step trace")
    parser.add_argument("--to", metavar="TARGET", choices=["jsonl"], required=True, help="jsonl")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to; standard output where not given")


def run(args: argparse.Namespace) -> int:
    """Export it; 0."""
    from inspector.cli import complain
    from inspector.load import open_trace, state_of
    from traces.exporters.jsonl import lines

    table = open_trace(args.trace)
    if args.output in (None, "-"):
        sys.stdout.writelines(line + "\n" for line in lines(table))
    else:
        _refuse_what_is_no_export(args.output)
        with open(args.output, "w", encoding="utf-8", newline="\n") as out:
            out.writelines(line + "\n" for line in lines(table))
    for problem in state_of(table):
        complain(f"{args.trace}: {problem}")
    return 0


def _refuse_what_is_no_export(path: str) -> None:
    """An older export may be replaced; a trace, or anything else, is somebody's work."""
    from inspector.cli import UsageError

    if os.path.isfile(path) and os.path.getsize(path):
        with open(path, "rb") as old:
            if old.read(1) != b"{":
                raise UsageError(f"{path}: exists and is not JSON Lines; choose another name or remove it")
