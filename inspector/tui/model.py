"""What the view shows at one moment, as plain frozen data: a snapshot of the trace, of the verdicts and of the speed.

The feed builds snapshots in its thread, the screen reads the newest one at each tick; nothing here changes once built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from inspector.tui.lines import elapsed
from traces.writer import TraceError

if TYPE_CHECKING:
    from traces.check import Failure
    from traces.columnar import Broken, TableChecker
    from traces.reader import Damage
    from traces.table import Table

STALLED_S = 3.0
"""A followed file that did not grow for this long is said to have no new steps."""


@dataclass(frozen=True)
class Pace:
    """Tokens a second over the newest steps and over all, the first request's TTFT and TPOT; None: unknown."""

    now: float | None = None
    mean: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    several_requests: bool = False


@dataclass(frozen=True)
class RuleState:
    """One rule's verdict so far: `verdict` is fail, unknown, pass or n/a."""

    code: str
    name: str
    verdict: str
    passed: int
    failed: int
    unknown: int
    why_unknown: str | None
    fault: str
    statement: str = ""


@dataclass(frozen=True)
class Verdicts:
    """The rules on the steps judged so far.

    kept: the first failures of each rule with their numbers, by step. broken: which rules each step breaks, all of
    them. explain: judges a failing step anew, for its numbers.
    """

    rules: tuple[RuleState, ...] = ()
    kept: Mapping[int, tuple[Failure, ...]] = field(default_factory=dict)
    broken: Broken | None = None
    explain: Callable[[int], Sequence[Failure]] = lambda step: ()
    judged: int = 0
    overall: str = "unknown"
    failed: int = 0
    n_kept: int = 0

    def codes_at(self, step: int) -> tuple[str, ...]:
        """The rules that a step breaks."""
        return self.broken.at(step) if self.broken is not None else ()

    def at(self, step: int) -> tuple[Failure, ...]:
        """What the rules say against a step, in numbers."""
        codes = self.codes_at(step)
        found = self.kept.get(step, ())
        if {failure.code for failure in found} >= set(codes):
            return found
        try:
            more = (failure for failure in self.explain(step) if failure not in found)
            return tuple(sorted((*found, *more), key=lambda failure: failure.place()))
        except TraceError:
            return found  # the file went away: its codes stay known

    def steps(self) -> Any:
        """Every failing step, ascending."""
        return self.broken.steps() if self.broken is not None else ()

    def after(self, step: int, code: str | None = None) -> int | None:
        """The next step that fails (that breaks this rule), or None."""
        return self.broken.after(step, code) if self.broken is not None else None

    def before(self, step: int, code: str | None = None) -> int | None:
        """The failing step before, or None."""
        return self.broken.before(step, code) if self.broken is not None else None


def verdicts_of(checker: TableChecker, last: Verdicts) -> Verdicts:
    """The verdicts so far as frozen data. `last` is the previous result: its failures stay where none came since."""
    report = checker.report
    rules = tuple(
        RuleState(
            code,
            report.rules[code].name,
            result.verdict if result.applies else "n/a",
            result.passed,
            result.failed,
            result.unknown,
            result.why_unknown,
            report.rules[code].fault,
            report.rules[code].statement,
        )
        for code, result in report.results.items()
    )
    failed = sum(rule.failed for rule in rules)
    n_kept = sum(len(result.failures) for result in report.results.values())
    kept = last.kept
    if n_kept != last.n_kept:
        by_step: dict[int, tuple[Failure, ...]] = {}
        for failure in report.failures():
            if failure.step is not None:
                by_step[failure.step] = (*by_step.get(failure.step, ()), failure)
        kept = by_step
    return Verdicts(
        rules, kept, checker.broken, checker.failures_at, checker.steps, report.verdict, failed, n_kept
    )  # fmt: skip


@dataclass(frozen=True)
class Snapshot:
    """The trace at one moment.

    waiting: why there is nothing to show yet (the file is not there, it has no run description).
    problem: what went wrong with the file while it was read; what was read before stays shown.
    grown_at: when the steps last became more, on the feed's clock.
    several_sequences: steps of more than one request, so lines need to say whose they are.
    tracing_ms: what the recording cost, where the trace says. own_share: of one core, that this process takes.
    """

    path: str
    follow: bool
    table: Table | None = None
    steps: int = 0
    notes: int = 0
    indexed: bool = False
    complete: bool = False
    torn: tuple[int, int] | None = None
    damage: tuple[Damage, ...] = ()
    waiting: str | None = None
    problem: str | None = None
    grown_at: float = 0.0
    several_sequences: bool = False
    pace: Pace = Pace()
    tracing_ms: float | None = None
    own_share: float | None = None
    verdicts: Verdicts = Verdicts()

    def run_facts(self, step: int) -> dict[str, Any]:
        """The RUN object that a step belongs to; empty where none was read."""
        if self.table is None or not self.table.runs:
            return {}
        return self.table.run_at(max(step, 0)).facts if self.steps else self.table.runs[-1].facts


@dataclass(frozen=True)
class State:
    """What is going on, as one word that is always shown, its weight, and a few words more."""

    word: str
    weight: str
    detail: str = ""


def state_of(snapshot: Snapshot, now: float, paused: bool, engine: str | None, playing: float | None = None) -> State:
    """The state in a word: WAITING, LIVE, PAUSED, STALLED, ENDED, PLAYING, READING, REPLAY or CUT OFF.

    now: the feed's clock. engine: how the engine process is, where the view was started with one. playing: how many
    times as fast as recorded the steps are played.
    """
    parts = [engine] if engine else []
    if snapshot.problem:
        parts.insert(0, snapshot.problem)
    if snapshot.waiting:
        return State("WAITING", "unknown", "; ".join([snapshot.waiting, *parts]))
    if paused:
        return State("PAUSED", "unknown", "; ".join(parts))
    if playing is not None:
        return State("PLAYING", "good", "; ".join([*parts, f"{playing:g}× as recorded: space pauses"]))
    if snapshot.complete:
        return State("ENDED" if snapshot.follow else "REPLAY", "fail" if snapshot.problem else "good", "; ".join(parts))
    if not snapshot.follow:
        if not snapshot.indexed and not snapshot.problem:
            return State("READING", "unknown", "; ".join(parts))
        return State("CUT OFF", "fail", "; ".join([*parts, _cut_off(snapshot)]))
    idle = now - snapshot.grown_at
    if idle >= STALLED_S or snapshot.problem:
        return State("STALLED", "unknown", "; ".join([*parts, f"no new steps for {elapsed(idle)}"]))
    return State("LIVE", "good", "; ".join(parts))


def _cut_off(snapshot: Snapshot) -> str:
    half = f", {snapshot.torn[1] - snapshot.torn[0]} bytes of half a frame" if snapshot.torn else ""
    return f"no END frame{half}"
