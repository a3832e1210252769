"""`stepscope report`: one HTML page about traces, to read, print or send."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from inspector.cli import UsageError, tell
from traces.replacing import Older, replacing

if TYPE_CHECKING:
    from inspector.report.comparison import Comparison
    from inspector.report.subject import Subject

HELP = "write a page about traces: facts, verdicts, film and plots, in one HTML file"
EPILOG = """\
The page asks no network for anything and runs no script. Its plots need the extra: pip install 'stepscope[report]'

With --against, or a folder that record-set made, the page begins with what `stepscope diff` says, and shows in full
the two runs whose tokens it compared.

examples:
  stepscope report a.steps
  stepscope report *.steps -o runs.html
  stepscope report old-*.steps --against new-*.steps -o builds.html
"""
_OLDER = Older("a report of stepscope's", b"<!doctype html>", b'content="stepscope')


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("traces", metavar="TRACE", nargs="+", help="step traces, or JSON Lines of them")
    parser.add_argument("--against", metavar="NEW", nargs="+", default=[], help="runs of another build to compare with")
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="report.html", help="where to (report.html); - prints"
    )


def run(args: argparse.Namespace) -> int:
    """Write it; 0, whatever it tells."""
    need_plots()
    if args.against or any(map(os.path.isdir, args.traces)):
        _compared(args.traces, args.against, args.output)
    else:
        from inspector.load import open_trace
        from inspector.report.subject import read

        # all are opened first: what cannot be read is told before the work begins
        tables = [(path, open_trace(path)) for path in args.traces]
        write(args.output, None, [read(path, table) for path, table in tables])
    return 0


def need_plots() -> None:
    """Raises UsageError, with what to type, where the plots cannot be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("a page's plots need matplotlib; type: pip install 'stepscope[report]'") from None


def _compared(base_words: list[str], new_words: list[str], output: str) -> None:
    from inspector.diff_words import ABOUT
    from inspector.load import open_trace
    from inspector.record_set import sides_of
    from inspector.report.comparison import comparison
    from inspector.report.subject import read
    from traces.diff import compare

    base, new, _ = sides_of(base_words, new_words)
    sides = [[(path, open_trace(path)) for path in side] for side in (base, new)]
    diff = compare(sides[0], sides[1])
    shown = [
        [(path, table) for path, table in side for _ in table.runs][at]
        for side, at in zip(sides, diff.pair, strict=True)
    ]
    write(output, comparison(diff, list(ABOUT), base, new, None), [read(path, table) for path, table in shown])


def write(path: str, comparison: Comparison | None, subjects: list[Subject]) -> None:
    """The page, to a file or with - to standard output. Raises TraceError where `path` is not a page of ours."""
    from inspector.report.page import page

    html = page(comparison, subjects)
    if path == "-":
        # whatever the encoding of standard output, the page says the same
        sys.stdout.write(html.encode("ascii", "xmlcharrefreplace").decode())
        return
    with replacing(path, _OLDER) as partial, open(partial, "w", encoding="utf-8") as file:
        file.write(html)
    tell(path)
