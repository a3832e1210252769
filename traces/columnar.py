"""The same rules over whole columns: a trace is judged a chunk at a time, by the very tests that check.Checker runs
step by step, so it may be checked in any mixture of the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from traces.check import FIRST_FAILURES, Checker, Failure, Report, why_unknown
from traces.columns import Columns
from traces.rules import Rule
from traces.table import Chunk, Run, Table


class TableChecker:
    """Verdicts on a trace that may still be growing: `advance()` judges what came since, in chunks of bounded memory.

    limit: how many failures of a rule are kept with their numbers (all are counted); None keeps all.
    """

    def __init__(self, table: Table, rules: Iterable[Rule] | None = None, limit: int | None = FIRST_FAILURES) -> None:
        self._table = table
        self._checker = Checker(rules, limit)
        self._run: Run | None = None
        self._notes = 0
        self.steps = 0

    @property
    def report(self) -> Report:
        """The verdicts so far."""
        return self._checker.report

    def advance(self, max_steps: int | None = None) -> bool:
        """Judge what the table's index has and was not judged yet, at most about `max_steps`. True if more is left."""
        stop = self._table.steps if max_steps is None else min(self._table.steps, self.steps + max_steps)
        for chunk in self._table.chunks(self.steps, stop, self._notes):
            if chunk.run is not self._run:
                self._run = chunk.run
                self._checker.start_run(chunk.run.facts)
            check_chunk(self._checker, chunk)
            self.steps = chunk.first_step + len(chunk.rows)
            self._notes += len(chunk.notes)
        return self.steps < self._table.steps


def check_table(table: Table, rules: Iterable[Rule] | None = None, limit: int | None = FIRST_FAILURES) -> Report:
    """The verdicts on a whole trace."""
    checker = TableChecker(table, rules, limit)
    checker.advance()
    return checker.report


def check_chunk(checker: Checker, chunk: Chunk) -> None:
    """Judge one chunk and leave the checker as if its steps had come one by one.

    Chunks with damaged rows are cut there; what lies across is unknown.
    """
    if chunk.bad is None:
        _check_rows(checker, chunk.rows, chunk.first_step, chunk.notes)
        return
    edges = np.flatnonzero(np.diff(chunk.bad.astype(np.int8))) + 1
    for part in np.split(np.arange(len(chunk.rows)), edges):
        a, b = int(part[0]), int(part[-1]) + 1
        begin, end = chunk.first_step + a, chunk.first_step + b
        last = b == len(chunk.rows)
        inside = [n for n in chunk.notes if (begin <= n[0] or a == 0) and (n[0] < end or last)]
        if chunk.bad[a]:
            _skip(checker, begin, end, inside)
        else:
            _check_rows(checker, chunk.rows[a:b], begin, inside)


def _skip(checker: Checker, begin: int, end: int, notes: list[tuple[int, dict[str, Any]]]) -> None:
    """Damaged steps [begin, end), with the notes that stand among them."""
    checker.index = begin
    for step, note in [*notes, (end, None)]:
        if checker.index < step:
            checker.skip(step - checker.index)
        if note is not None:
            checker.note(note)


def _check_rows(checker: Checker, rows: Any, first_step: int, notes: list[tuple[int, dict[str, Any]]]) -> None:
    checker.index = first_step
    if not len(rows):
        for _, note in notes:
            checker.note(note)
        return
    columns = Columns(checker, rows, first_step, notes)
    for rule in checker.rules:
        if rule.concerns(columns.facts):
            _judge(checker, columns, rule)
    columns.leave()


def _judge(checker: Checker, columns: Columns, rule: Rule) -> None:
    n, can_tell = columns.n, rule.can_tell(columns.facts)
    judged, unknown, failed = (np.zeros(n, np.bool_) for _ in range(3))
    for case in rule.cases:
        applies = columns.column(getattr(columns, case.when))
        if not applies.any():
            continue
        known, ok = (columns.column(part) for part in (case.test(columns) if can_tell else (False, True)))
        judged |= applies
        unknown |= applies & ~known
        failed |= applies & known & ~ok
    result = checker.report.results[rule.code]
    n_unknown, n_failed = int(unknown.sum()), int(failed.sum())
    result.judged += int(judged.sum())
    if n_unknown:
        i = int(np.argmax(unknown))
        result.add_unknown(n_unknown, columns.first_step + i, lambda: why_unknown(rule, columns.at(i), checker.absent))
    if n_failed:
        kept = n_failed if checker.report.limit is None else checker.report.limit - len(result.failures)
        for i in np.flatnonzero(failed)[: max(kept, 0)]:
            view = columns.at(int(i))
            step = view.prev_index if rule.at_previous else columns.first_step + int(i)
            checker.report.keep(Failure(rule.code, step, view.seq_id, rule.explain(view)))
        result.failed += n_failed
