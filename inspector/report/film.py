"""The film of a report: the first steps, the last, those where a rule fails, and how many are left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from inspector import film
from traces.check import Report
from traces.table import Table

_FIRST, _LAST, _FAILING = 12, 8, 40


@dataclass(frozen=True)
class Line:
    """One line: cells by column name, and what the rules say of it. skipped: the steps that stand here instead."""

    cells: dict[str, str] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    damaged: bool = False
    skipped: int = 0


@dataclass(frozen=True)
class Film:
    """columns: the names of those that the run fills. failing: (failing steps shown, known), of which the rest is left
    out."""

    columns: list[str]
    lines: list[Line]
    failing: tuple[int, int]


def film_of(table: Table, report: Report) -> Film:
    """The lines to show."""
    messages: dict[int, list[str]] = {}
    for failure in report.failures():
        if failure.step is not None:
            messages.setdefault(failure.step, []).append(f"{failure.code}: {failure.finding.text}")
    shown_failing = sorted(messages)[:_FAILING]
    n = table.steps
    wanted = sorted({*range(min(_FIRST, n)), *range(max(0, n - _LAST), n), *shown_failing})
    lines, steps, before = [], [], 0
    for number, step in _steps(table, wanted):
        if number > before:
            lines.append(Line(skipped=number - before))
        before = number + 1
        failures = tuple(messages.get(number, ()))
        if step is None:
            lines.append(Line({"step": str(number)}, failures, damaged=True))
            continue
        steps.append(step)
        rows = film.cache(step, film.full_layers(table.run_at(number).facts))
        lines.append(Line(film.cells(step, number, rows), failures))
    return Film(_columns(steps), lines, (len(shown_failing), len(messages)))


def _steps(table: Table, wanted: list[int]) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """(number, step) of the steps wanted; neighbours are read together."""
    at = 0
    while at < len(wanted):
        end = at + 1
        while end < len(wanted) and wanted[end] == wanted[end - 1] + 1:
            end += 1
        first, stop = wanted[at], wanted[end - 1] + 1
        texts = film.long_texts(table.notes(first, stop))
        for number, step in enumerate(table.plain(first, stop), first):
            if step is not None and number in texts:
                step["text"] = texts[number]
            yield number, step
        at = end


def _columns(steps: list[dict[str, Any]]) -> list[str]:
    """All, but for those that would tell nothing here."""
    optional = {
        "seq": len({step["seq_id"] for step in steps}) > 1,
        "drafts": any(step["phase"] == "verify" for step in steps),
        "ms": any(step.get("total_ms") is not None for step in steps),
    }
    names = "step seq phase token text seq_before seq_len cache_len drafts ms".split()
    return [name for name in names if optional.get(name, True)]
