"""A step trace as Chrome's JSON trace events, which chrome://tracing, Perfetto and Speedscope open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from traces.exporters.timeline import Slice, TimedStep, shown, timed_steps, title
from traces.table import Table


def lines(table: Table, first: int = 0, stop: int | None = None) -> Iterator[str]:
    """The JSON object, one event a line, without line feeds. A run is a process, a sequence a thread; µs.

    Raises TraceError where the steps have no times.
    """
    yield '{"displayTimeUnit":"ms","otherData":{"producer":"stepscope"},"traceEvents":['
    separator = ""
    for event in _events(table, first, stop):
        yield separator + json.dumps(event, separators=(",", ":"), allow_nan=False)
        separator = ","
    yield "]}"


def _events(table: Table, first: int, stop: int | None) -> Iterator[dict[str, Any]]:
    for pid, run in enumerate(table.runs):
        yield _named("process_name", pid, 0, title(run))
        known: set[int] = set()
        for step in timed_steps(table, run, first, stop):
            if step.seq_id not in known:
                known.add(step.seq_id)
                yield _named("thread_name", pid, step.seq_id, f"seq {step.seq_id}")
            yield from _step(step, pid)


def _step(step: TimedStep, pid: int) -> Iterator[dict[str, Any]]:
    place = {"pid": pid, "tid": step.seq_id}
    yield from _slice(step.slice, "step", {**place, "args": shown(step)})
    if step.counters:
        name = f"seq {step.seq_id}"
        yield {"ph": "C", "name": name, "ts": step.slice.end / 1000, **place, "args": step.counters}


def _slice(piece: Slice, category: str, rest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    times = {"ts": piece.start / 1000, "dur": (piece.end - piece.start) / 1000}
    yield {"ph": "X", "name": piece.name, "cat": category, **times, **rest}
    for part in piece.inside:
        yield from _slice(part, "part", {"pid": rest["pid"], "tid": rest["tid"]})


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
