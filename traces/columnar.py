"""The same rules over whole columns: a trace is judged a chunk at a time, by the very tests that check.Checker runs
step by step, so it may be checked in any mixture of the two.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from traces.check import FIRST_FAILURES, Checker, Failure, Report, why_unknown
from traces.columns import Columns
from traces.context import PoolState, SequenceView
from traces.rules import Rule
from traces.table import Chunk, Run, Table

_STATES_APART = 1 << 14


class Broken:
    """Which rules each step breaks, as one bit a rule; whole blocks of sound steps take no room.

    May be read while another thread marks.
    """

    BLOCK = 1 << 14

    def __init__(self, codes: Iterable[str]) -> None:
        self._codes = list(codes)
        self._blocks: dict[int, Any] = {}

    def mark(self, code: str, steps: Any) -> None:
        """A rule fails at these steps."""
        numbers = np.asarray(steps, np.int64)
        bit = np.uint32(1 << self._codes.index(code))
        for block in np.unique(numbers // self.BLOCK).tolist():
            own = numbers[numbers // self.BLOCK == block] - block * self.BLOCK
            if block not in self._blocks:
                self._blocks[block] = np.zeros(self.BLOCK, np.uint32)
            self._blocks[block][own] |= bit

    def at(self, step: int) -> tuple[str, ...]:
        """The codes of the rules a step breaks."""
        block = self._blocks.get(step // self.BLOCK)
        bits = 0 if block is None or step < 0 else int(block[step % self.BLOCK])
        return tuple(code for i, code in enumerate(self._codes) if bits >> i & 1) if bits else ()

    def after(self, step: int, code: str | None = None) -> int | None:
        """The next step that breaks a rule (this one, if a code is given), or None."""
        for number in sorted(n for n in list(self._blocks) if n >= (step + 1) // self.BLOCK):
            skip = max(0, step + 1 - number * self.BLOCK)
            found = np.flatnonzero(self._wanted(number, code)[skip:])
            if len(found):
                return number * self.BLOCK + skip + int(found[0])
        return None

    def before(self, step: int, code: str | None = None) -> int | None:
        """The last step before that breaks a rule (this one, if a code is given), or None."""
        for number in sorted((n for n in list(self._blocks) if n * self.BLOCK < step), reverse=True):
            found = np.flatnonzero(self._wanted(number, code)[: step - number * self.BLOCK])
            if len(found):
                return number * self.BLOCK + int(found[-1])
        return None

    def steps(self) -> Any:
        """Every step that breaks a rule, ascending, as an array."""
        blocks = sorted(self._blocks)
        found = [np.flatnonzero(self._blocks[number]) + number * self.BLOCK for number in blocks]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def _wanted(self, number: int, code: str | None) -> Any:
        block = self._blocks[number]
        return block if code is None else block & np.uint32(1 << self._codes.index(code))


_Memory = tuple[dict[int, SequenceView], PoolState, dict[str, str], set[int]]
"""What a checker carries from one step to the next"""


def _copied(memory: _Memory) -> _Memory:
    """The same, shared with nobody: a view holds plain values, and the one pool."""
    sequences, pool, absent, forgotten = memory
    pool = copy.copy(pool)
    pool.active = set(pool.active)
    views = {seq_id: copy.copy(view) for seq_id, view in sequences.items()}
    for view in views.values():
        view.pool = pool
    return views, pool, dict(absent), set(forgotten)


class _State(NamedTuple):
    """Before which step of which run, behind how many notes, the checker knew what."""

    step: int
    run: Run
    notes: int
    known: _Memory


class TableChecker:
    """Verdicts on a trace that may still be growing: `advance()` judges what came since, in chunks of bounded memory.

    limit: how many failures of a rule are kept with their numbers (all are counted); None keeps all.
    keep_ended: of how many ended sequences it is kept what they left behind (Checker.forget_ended); None: of all.
    `broken` knows every failing step, and failures_at() judges one of them anew.
    """

    def __init__(
        self, table: Table, rules: Iterable[Rule] | None = None, limit: int | None = FIRST_FAILURES,
        keep_ended: int | None = None,
    ) -> None:  # fmt: skip
        self._table, self._keep_ended = table, keep_ended
        self._checker = Checker(rules, limit)
        self._run: Run | None = None
        self._notes = 0
        self.steps = 0
        self.broken = Broken(self.report.rules)
        self._failed = 0
        self.report.failed_at = self._mark
        self._states: list[_State] = []
        self._newest: _State | None = None

    @property
    def report(self) -> Report:
        """The verdicts so far."""
        return self._checker.report

    def _mark(self, code: str, steps: Any) -> None:
        self._failed += len(steps)
        self.broken.mark(code, steps)

    def advance(self, max_steps: int | None = None) -> bool:
        """Judge what the table's index has and was not judged yet, at most about `max_steps`. True if more is left."""
        stop = self._table.steps if max_steps is None else min(self._table.steps, self.steps + max_steps)
        for chunk in self._table.chunks(self.steps, stop, self._notes):
            if chunk.run is not self._run:
                self._run = chunk.run
                self._checker.start_run(chunk.run.facts)
            newest = self._newest
            if newest is None or newest.run is not chunk.run or chunk.first_step - newest.step >= _STATES_APART:
                newest = self._newest = self._state(chunk)
            failed = self._failed
            check_chunk(self._checker, chunk)
            if self._failed != failed and (not self._states or self._states[-1] is not newest):
                self._states.append(newest)
            self.steps = chunk.first_step + len(chunk.rows)
            self._notes += len(chunk.notes)
            if self._keep_ended is not None:
                self._checker.forget_ended(self._keep_ended)
        return self.steps < self._table.steps

    def _state(self, chunk: Chunk) -> _State:
        """What the checker knows before a chunk, so that a step soon behind its beginning can be judged anew: of
        sequences that have ended only those that the chunk has steps of.
        """
        checker = self._checker
        here = set(np.unique(chunk.rows["seq_id"]).tolist())
        open_ones = {i: state for i, state in checker.sequences.items() if not state.finished or i in here}
        known = _copied((open_ones, checker.pool, checker.absent, checker.forgotten & here))
        return _State(chunk.first_step, chunk.run, self._notes, known)

    def failures_at(self, step: int) -> list[Failure]:
        """What is wrong with a step that `broken` names, with its numbers.

        A fault that only a later step revealed is not among them, nor is one that a note revealed.
        """
        at = bisect_right(self._states, step, key=lambda state: state.step) - 1
        if at < 0:
            return []
        before = self._states[at]
        checker = Checker(self._checker.rules, limit=0)
        checker.start_run(before.run.facts)
        checker.sequences, checker.pool, checker.absent, checker.forgotten = _copied(before.known)
        for chunk in self._table.chunks(before.step, step + 1, before.notes):
            if chunk.first_step + len(chunk.rows) <= step:
                check_chunk(checker, chunk)
                continue
            own = len(chunk.rows) - 1
            if own:
                bad = None if chunk.bad is None else chunk.bad[:own]
                notes_in = [note for note in chunk.notes if note[0] < step]
                check_chunk(checker, chunk._replace(rows=chunk.rows[:own], bad=bad, notes=notes_in))
            for at, note in chunk.notes:
                if at == step:
                    checker.note(note)
            record = next(self._table.records(step, step + 1))
            checker.index = step
            return [] if record is None else [f for f in checker.step(record) if f.step == step]
        return []


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
    with np.errstate(invalid="ignore", over="ignore"):  # a trace may hold infinite times
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
        where = columns.prev_index[failed] if rule.at_previous else columns.first_step + np.flatnonzero(failed)
        checker.report.failed_at(rule.code, where[where >= 0])
