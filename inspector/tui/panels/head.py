"""The head: the state, the file, how far the steps and the rules are, the speed, what it costs, and what ran."""

from __future__ import annotations

from inspector import facts, film
from inspector.text import visible
from inspector.tui.lines import (
    BETWEEN,
    DIM,
    FAIL,
    GOOD,
    PLAIN,
    SIGNS,
    STRONG,
    UNKNOWN,
    Line,
    Part,
    clip,
    joined,
    length,
    plural,
    tail,
)
from inspector.tui.model import Snapshot, State

ONE_LINE_OF_FIGURES = 150
"""Screens as wide as this have what is counted and what is timed on one line."""


def height_for(width: int, height: int) -> int:
    """Lines the head takes on a screen of this size."""
    return 1 if height < 10 else 2 if height < 18 else 3 if width >= ONE_LINE_OF_FIGURES else 4


def head(snapshot: Snapshot, state: State, said: str, width: int, height: int, step: int) -> list[Line]:
    """The head's lines. said: what waits below, or the answer to the last key. step: the one whose run is told."""
    first = _state_line(snapshot.path, state, width)
    if height == 1:
        counted = joined(" ", [[(f" {snapshot.steps:,} steps", STRONG)], *_said_and_verdict(snapshot, said)])
        return [clip([first[0], *counted], width)]
    figures = [_counts(snapshot, said), _times(snapshot)]
    if width >= ONE_LINE_OF_FIGURES:
        figures = [[*figures[0], *figures[1]]]
    return [first, *(_fitting(parts, width) for parts in (*figures, _run(snapshot, step)))][:height]


def _state_line(path: str, state: State, width: int) -> Line:
    """The state, the file and what there is to say about them; a long path gives way from its left."""
    word: Part = (f" {state.word} ", SIGNS[state.weight])
    detail: Line = [(BETWEEN + visible(state.detail), state.weight)] if state.detail else []
    room = max(12, width - length([word, *detail]) - 1)
    return [word, (" " + tail(visible(path), room), STRONG), *detail]


def _fitting(parts: list[Line], width: int) -> Line:
    """As many of the parts as have room, in their order; the first is cut if it must be."""
    while len(parts) > 1 and length(joined(BETWEEN, parts)) + 1 > width:
        parts = parts[:-1]
    return clip([(" ", DIM), *joined(BETWEEN, parts)], width)


def _counts(snapshot: Snapshot, said: str) -> list[Line]:
    """Steps and verdict; what waits to be judged; what was lost, which must stay 0."""
    parts: list[Line] = [[(f"{snapshot.steps:,} steps", STRONG)], *_said_and_verdict(snapshot, said)]
    if snapshot.damage:
        parts.append([(f"✗ {plural(len(snapshot.damage), 'damaged place')}", FAIL)])
    waiting = snapshot.steps - snapshot.verdicts.judged
    if snapshot.steps and not snapshot.waiting:
        lost = sum(damage.steps for damage in snapshot.damage)
        dropped: Part = (f"✗ {lost:,} dropped", FAIL) if lost else ("0 dropped", DIM)
        parts.append([(f"{waiting:,} queued, ", DIM), dropped])
    return parts


def _said_and_verdict(snapshot: Snapshot, said: str) -> list[Line]:
    parts: list[Line] = [[(said, UNKNOWN)]] if said else []
    verdicts = snapshot.verdicts
    if verdicts.failed:
        parts.append([(f"✗ {plural(verdicts.failed, 'failure')}", FAIL)])
    elif verdicts.judged or any(rule.verdict != "n/a" for rule in verdicts.rules):  # totals are judged without a step
        word, role = ("✓ no failure", GOOD) if verdicts.overall == "pass" else ("? nothing could be judged", UNKNOWN)
        parts.append([(word + ("" if verdicts.judged >= snapshot.steps else " so far"), role)])
    return parts


def _times(snapshot: Snapshot) -> list[Line]:
    """tok/s, TTFT and TPOT; what recording and what the view cost."""
    pace = snapshot.pace
    parts: list[Line] = []
    now = "" if pace.now is None else f"{_rate(pace.now)} now, "
    if pace.mean is not None:
        parts.append([(f"{now}{_rate(pace.mean)} mean tok/s", PLAIN)])
    first = "first " if pace.several_requests else ""
    for word, ms in (("TTFT", pace.ttft_ms), ("TPOT", pace.tpot_ms)):
        if ms is not None:
            parts.append([(f"{first}{word} {film.milliseconds(ms)} ms", PLAIN)])
    if snapshot.tracing_ms is not None:
        parts.append([(f"recording cost {film.milliseconds(snapshot.tracing_ms)} ms", DIM)])
    if snapshot.follow and snapshot.own_share is not None:
        parts.append([(f"view {snapshot.own_share:.0%} of a core", DIM)])
    return parts


def _run(snapshot: Snapshot, step: int) -> list[Line]:
    """What ran, as far as it is known, and which of several runs that is."""
    run, table = snapshot.run_facts(step), snapshot.table
    if not run:
        return []
    words = [facts.model_words(run), facts.engine_words(run), facts.sampler_words(run), facts.host_words(run)]
    if run.get("clock") == "debugger":
        words.insert(1, "times seen under a debugger")
    if table is not None and len(table.runs) > 1 and snapshot.steps:
        words.insert(0, f"run {table.run_at(max(step, 0)).number + 1} of {len(table.runs)}")
    return [[(word, DIM)] for word in words if word]


def _rate(tok_s: float) -> str:
    return f"{tok_s:,.0f}" if tok_s >= 1000 else f"{tok_s:.1f}" if tok_s >= 10 else f"{tok_s:.2f}"
