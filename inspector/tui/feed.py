"""Follows a trace in a thread of its own: indexes what was appended, measures it, judges it, and leaves a snapshot.

The screen takes the newest snapshot at its own 10 Hz; no event is posted for a step. Only this thread changes the
table's index, and a snapshot never names a step before its rows are there, so the screen may read rows meanwhile.

What stays of a step when it was taken in is a byte or two (whose it was), of a frame that differs from the one before
six (where it lies), of a request half a kB (where it begins, that it ended). A day of 20 steps a second and 8,640
requests is 8 MB.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from inspector import film
from inspector.tui.model import Pace, Snapshot, Verdicts, verdicts_of
from inspector.tui.sequences import Sequences
from traces.writer import TraceError

if TYPE_CHECKING:
    from inspector.tui.pace import Speed
    from traces.columnar import TableChecker
    from traces.table import Table

PERIOD_S = 0.1
FIRST_BYTES, INDEX_BYTES = 1 << 20, 64 << 20
"""What is indexed before the first picture, and in one round after it"""
BATCH_STEPS = 1 << 14
KEY_S, MOST_WAITS = 0.05, 10
"""After a key the next piece of work waits this long for the picture, again after another, but not for ever"""
KEPT_FAILURES = 1000
"""Failures of one rule whose numbers are kept; those of later ones are found when they are looked at"""
KEPT_ENDED = 200
"""Ended sequences of which the checker keeps what they left behind; of the others, that they ended"""


class OwnCost:
    """The share of one core that this process took over the last seconds."""

    OVER_S = 3.0

    def __init__(self, clock: Callable[[], float], spent: Callable[[], float] = time.process_time) -> None:
        self._clock, self._spent = clock, spent
        self._since = clock(), spent()
        self._share: float | None = None

    def share(self) -> float | None:
        """0 to 1 a core; None in the first seconds."""
        now, spent = self._clock(), self._spent()
        if now - self._since[0] >= self.OVER_S:
            self._share = (spent - self._since[1]) / (now - self._since[0])
            self._since = now, spent
        return self._share


class Feed:
    """One trace, recorded or growing.

    follow: the file may not be there yet, and may grow.
    clock: seconds; only differences count.
    Without start(), turn() does one round at a time.
    """

    def __init__(self, path: str, follow: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self.path, self.follow, self.clock = path, follow, clock
        self.requests: dict[int, list[int]] = {}
        """Where requests begin, by seq_id: the numbers of the steps behind their notes. Only ever grows, so it holds
        no prompts."""
        self.texts: dict[int, str] = {}
        """Texts of the tokens too long for their field, by step. Only ever grows."""
        self.sources: list[tuple[int, dict[str, Any]]] = []
        """Source notes: (number of the step that follows, note). Only ever grows."""
        self.sequences = Sequences()
        self.snapshot = Snapshot(path, follow, grown_at=clock())
        self._error: TraceError | None = None
        self._table: Table | None = None
        self._measured: _Measured | None = None
        self._checker: TableChecker | None = None
        self._verdicts = Verdicts()
        self._indexed = False
        self._problem: str | None = None
        self._opened, self._judging, self._stopping = threading.Event(), threading.Event(), threading.Event()
        self._key = threading.Event()
        self._own = OwnCost(clock)
        self._thread = threading.Thread(target=self._loop, name="feed", daemon=True)

    # -- for the view ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to read: a first piece. The rest and the rules wait for judge(), so that the first picture does not."""
        self._thread.start()

    def opened(self, timeout: float) -> None:
        """Wait until the trace's run description was read, or is known to be missing.

        Raises TraceError where the path is not a trace (or, unless it is followed, not there).
        """
        self._opened.wait(timeout)
        if self._error is not None:
            raise self._error

    def judge(self) -> None:
        """Read on, and let the rules begin."""
        self._judging.set()

    def give_way(self) -> None:
        """A key came: let its picture be drawn before the next piece of work."""
        self._key.set()

    def stop(self) -> None:
        """End the thread and give the file back."""
        self._stopping.set()
        self._judging.set()
        if self._thread.is_alive():
            self._thread.join(1.0)
        if self._table is not None and not self._thread.is_alive():
            self._table.close()

    # -- one round ---------------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._wait_for_keys()
            try:
                busy = self.turn()
            except Exception as error:
                # a fault of ours must not look like a trace at rest
                self._problem = f"reading stopped, a fault of stepscope: {type(error).__name__}: {error}"
                self._publish()
                self._opened.set()
                return
            if not self._judging.is_set():
                self._judging.wait()
            elif not busy:
                if not self.follow:
                    return
                self._stopping.wait(PERIOD_S)

    def _wait_for_keys(self) -> None:
        for _ in range(MOST_WAITS):
            if not self._key.is_set():
                return
            self._key.clear()
            self._stopping.wait(KEY_S)

    def turn(self) -> bool:
        """One round: index, measure, judge a batch. True if there is more to do at once."""
        try:
            more = self._read()
            self._problem = None if self._table is None else self._replaced()
        except TraceError as error:
            self._problem, more = str(error), False
            if self._table is None or not self._table.runs:
                self._error = self._error or error
        except OSError as error:
            self._problem, more = f"{self.path}: {error.strerror or error}", False
        self._publish()
        self._opened.set()
        return more

    def _read(self) -> bool:
        table = self._table or self._open()
        if table is None:
            return False
        self._indexed = not table.refresh(INDEX_BYTES if self._judging.is_set() else FIRST_BYTES)
        if not table.runs:
            if self._indexed and not self.follow:
                table.need_run()
            return not self._indexed
        if self._measured is None:
            self._set_up(table)
            return True  # the first picture needs no figures yet
        if not self._indexed:
            return True  # every step can be jumped to before figures and verdicts come
        return self._work(table)

    def _open(self) -> Table | None:
        from inspector.load import open_trace
        from traces.table import Table

        if self.follow and not os.path.lexists(self.path):
            return None
        self._table = Table(self.path, index=False) if self.follow else open_trace(self.path, index=False)
        return self._table

    def _set_up(self, table: Table) -> None:
        from traces.columnar import TableChecker

        self._measured = _Measured(self)
        self._checker = TableChecker(table, limit=KEPT_FAILURES, keep_ended=KEPT_ENDED)

    def _work(self, table: Table) -> bool:
        assert self._measured is not None and self._checker is not None
        self._measured.advance(table, BATCH_STEPS)
        more = self._measured.steps < table.steps
        if self._judging.is_set():
            more |= self._checker.advance(BATCH_STEPS)
            self._verdicts = verdicts_of(self._checker, self._verdicts)
        return more

    def _replaced(self) -> str | None:
        if not self.follow or self._table is None or not self._table.source.replaced():
            return None
        if os.path.lexists(self.path):
            return "another file has taken its name: r opens that one"
        return "the file was removed"

    # -- what the view sees ------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        table, old = self._table, self.snapshot
        steps = table.steps if table is not None else 0
        grew = steps != old.steps or (table is not None and old.table is None)
        self.snapshot = Snapshot(
            path=self.path,
            follow=self.follow,
            table=table if table is not None and table.runs else None,
            steps=steps,
            notes=table.n_notes if table is not None else 0,
            indexed=self._indexed,
            complete=table is not None and table.complete,
            torn=table.torn if table is not None else None,
            damage=tuple(table.damage) if table is not None else (),
            waiting=self._waiting(),
            problem=self._problem,
            grown_at=self.clock() if grew else old.grown_at,
            several_sequences=len(self.sequences.ids) > 1,
            pace=self._measured.pace if self._measured is not None else Pace(),
            tracing_ms=_tracing_ms(table) if table is not None else None,
            own_share=self._own.share(),
            verdicts=self._verdicts,
        )

    def _waiting(self) -> str | None:
        if self._table is None:
            return None if self._problem else "the file is not there yet"
        if not self._table.runs:
            return "no complete run description in the file yet"
        return None


def _tracing_ms(table: Table) -> float | None:
    """What the recording cost, as END frames say."""
    told = [(run.end_facts or {}).get("tracing_ms") for run in table.runs]
    known = [ms for ms in told if isinstance(ms, (int, float)) and not isinstance(ms, bool)]
    return float(sum(known)) if known else None


class _Measured:
    """What one pass over the steps gathers: sequences, requests, long texts, speed."""

    def __init__(self, feed: Feed) -> None:
        from inspector.tui.pace import Latency, Speed

        self.steps = 0
        self.pace = Pace()
        self._feed = feed
        self._notes = 0
        self._speed: Speed = Speed()
        self._latency: Latency = Latency()
        self._n_requests = 0

    def advance(self, table: Table, max_steps: int) -> None:
        """Take in what was not yet, at most about `max_steps`."""
        stop = min(table.steps, self.steps + max_steps)
        before = self.steps
        for chunk in table.chunks(self.steps, stop, self._notes):
            for step, note in chunk.notes:
                self._note(step, note)
            self._feed.texts.update(film.long_texts(chunk.notes))
            self._notes += len(chunk.notes)
            rows = chunk.rows if chunk.bad is None else chunk.rows[~chunk.bad]
            self._feed.sequences.add(chunk.rows["seq_id"], chunk.bad)
            self._speed.add(rows)
            self._latency.add(rows, chunk.first_step)
            self.steps = chunk.first_step + len(chunk.rows)
        if self.steps != before:
            self._pace(table)

    def _note(self, step: int, note: dict[str, Any]) -> None:
        kind, seq_id = note.get("kind"), note.get("seq_id", 0)
        if kind == "request" and isinstance(seq_id, int):
            self._feed.requests.setdefault(seq_id, []).append(step)
            self._n_requests += 1
            self._latency.request(step, note)
        elif kind == "source":
            self._feed.sources.append((step, note))

    def _pace(self, table: Table) -> None:
        from inspector.tui.pace import NEWEST, speed_now

        run = table.runs[-1]
        rows, bad = (
            table.rows(max(run.first_step, table.steps - 4 * NEWEST), table.steps)
            if (table.steps > run.first_step)
            else (None, None)
        )
        now = None if rows is None else speed_now(rows if bad is None else rows[~bad])
        self.pace = Pace(now, self._speed.tok_s, self._latency.ttft_ms, self._latency.tpot_ms, self._n_requests > 1)
