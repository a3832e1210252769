"""`stepscope stats`: a run's figures, or those of many traces in a table of medians."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from inspector.figures import lines
from inspector.film import milliseconds

if TYPE_CHECKING:
    from traces.table import Table

HELP = "print rates, latencies and where the time went"
EPILOG = """\
TTFT   request start to the first sampled token
TPOT   (end-to-end - TTFT) / (n - 1), n > 1 tokens sent out, an end token not counted: a mean
ITL    the gap between successive steps that sent tokens out; percentiles interpolate linearly
GEMM   matrix products of the layers and the lm_head
scores products of a query and a key in one head of one layer: the naive loop computes all of them again

Of several traces: the medians over them, a line for each model, build and loop.

exit codes: 0 fine, 2 a trace cannot be read

examples:
  stepscope stats a.steps
  stepscope stats nightly/
  stepscope stats a.steps --json | jq .itl_ms.p99
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("traces", metavar="TRACE", nargs="+", help="step traces, JSON Lines of them, or folders")
    parser.add_argument("--json", action="store_true", help="one JSON object a trace, one a line")


def run(args: argparse.Namespace) -> int:
    """Print them; 0, or 2 where one of many cannot be read."""
    from inspector.fleet import traces_in
    from inspector.load import open_trace, state_of
    from traces.metrics import stats

    paths = traces_in(args.traces)
    if len(paths) > 1:
        return _many(paths, args.json)
    table = open_trace(paths[0])
    if args.json:
        print(as_json(paths[0], table))
        return 0
    for line in lines(stats(table)):
        print(line)
    for line in state_of(table):
        print(line)
    return 0


def as_json(path: str, table: Table) -> str:
    """The documented object of `stats --json`."""
    from traces.frames import json_text
    from traces.metrics import stats

    return json_text({"trace": path, **stats(table)})


# -- many --------------------------------------------------------------------------------------------------------------

Build = tuple[str, str]
"""Model and engine, in words"""
_HEADS: dict[str, Callable[[dict[str, Any]], float | None]] = {
    "prefill tok/s": lambda s: s["prefill"]["tok_s"],
    "decode tok/s": lambda s: s["decode"]["tok_s"],
    "TTFT ms": lambda s: s["ttft_ms"],
    "TPOT ms": lambda s: s["tpot_ms"],
    "ITL p50": lambda s: s["itl_ms"]["p50"],
    "ITL p99": lambda s: s["itl_ms"]["p99"],
    "tokens": lambda s: s["whole"]["tokens"],
}


def _many(paths: list[str], as_objects: bool) -> int:
    from inspector.fleet import of_each

    figures: dict[Build, list[list[float | None]]] = {}
    unreadable = 0
    for _, seen in of_each(partial(measured, as_object=as_objects), paths):
        if seen is None:
            unreadable += 1
        elif as_objects:
            print(seen)
        else:
            build, values = seen
            figures.setdefault(build, []).append(values)
    if not as_objects:
        for line in medians(figures):
            print(line)
        left_out = f", {unreadable:,} cannot be read" if unreadable else ""
        print(f"{len(paths):,} traces{left_out}")
    return 2 if unreadable else 0


def measured(path: str, as_object: bool) -> Any:
    """One of many traces, in a process that may be another: its object as text, or (build, the values of _HEADS).
    Raises TraceError where it cannot be read.
    """
    from inspector.facts import build_words, model_words
    from inspector.load import open_trace
    from traces.metrics import stats

    table = open_trace(path)
    try:
        if as_object:
            return as_json(path, table)
        facts, seen = table.runs[0].facts, stats(table)
        return (model_words(facts), build_words(facts)), [value(seen) for value in _HEADS.values()]
    finally:
        table.close()


def medians(figures: dict[Build, list[list[float | None]]]) -> Iterator[str]:
    """A table: the medians over each build's traces, those that lack a figure left out of it."""
    yield f"{'traces':>7}" + "".join(f" {head:>14}" for head in _HEADS) + "  (medians over the traces)"
    for (model, engine), rows in sorted(figures.items()):
        cells = ([v for v in column if v is not None] for column in zip(*rows, strict=True))
        numbers = "".join(f" {milliseconds(median(values) if values else None):>14}" for values in cells)
        yield f"{len(rows):>7,}{numbers}  {model} | {engine}"
