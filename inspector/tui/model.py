"""What the view shows at one moment, as plain frozen data: a snapshot of the trace, of the verdicts and of the speed.

The feed builds snapshots in its thread, the screen reads the newest one at each tick; nothing here changes once built.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traces.check import Failure, Report
    from traces.reader import Damage
    from traces.table import Table

STALLED_S = 3.0
"""A followed file that did not grow for this long is said to have no new steps."""


@dataclass(frozen=True)
class Pace:
    """Tokens a second over the newest steps and over the whole trace, and the first request's TTFT; None: unknown."""

    now: float | None = None
    mean: float | None = None
    ttft_ms: float | None = None
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


@dataclass(frozen=True)
class Verdicts:
    """The rules on the steps judged so far. `steps` are the failing steps that can be jumped to, ascending."""

    rules: tuple[RuleState, ...] = ()
    failures: Mapping[int, tuple[Failure, ...]] = field(default_factory=dict)
    steps: tuple[int, ...] = ()
    judged: int = 0
    overall: str = "unknown"
    failed: int = 0
    kept: int = 0

    def at(self, step: int) -> tuple[Failure, ...]:
        """What the rules say against a step."""
        return self.failures.get(step, ())

    def after(self, step: int) -> int | None:
        """The next failing step, or None."""
        i = bisect_right(self.steps, step)
        return self.steps[i] if i < len(self.steps) else None

    def before(self, step: int) -> int | None:
        """The failing step before, or None."""
        i = bisect_left(self.steps, step)
        return self.steps[i - 1] if i else None


def verdicts_of(report: Report, judged: int, last: Verdicts) -> Verdicts:
    """The report as frozen data. `last` is the previous result: its failures are kept where none came since."""
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
        )
        for code, result in report.results.items()
    )
    failed = sum(rule.failed for rule in rules)
    kept = sum(len(result.failures) for result in report.results.values())
    failures, steps = last.failures, last.steps
    if kept != last.kept:
        by_step: dict[int, tuple[Failure, ...]] = {}
        for failure in report.failures():
            if failure.step is not None:
                by_step[failure.step] = (*by_step.get(failure.step, ()), failure)
        failures, steps = by_step, tuple(sorted(by_step))
    return Verdicts(rules, failures, steps, judged, report.verdict, failed, kept)


@dataclass(frozen=True)
class Snapshot:
    """The trace at one moment.

    waiting: why there is nothing to show yet (the file is not there, it has no run description).
    problem: what went wrong with the file while it was read; what was read before stays shown.
    grown_at: when the steps last became more, on the feed's clock.
    several_sequences: steps of more than one request, so lines need to say whose they are.
    """

    path: str
    follow: bool
    table: Table | None = None
    steps: int = 0
    indexed: bool = False
    complete: bool = False
    torn: tuple[int, int] | None = None
    damage: tuple[Damage, ...] = ()
    waiting: str | None = None
    problem: str | None = None
    grown_at: float = 0.0
    several_sequences: bool = False
    pace: Pace = Pace()
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
        return State("STALLED", "unknown", "; ".join([*parts, f"no new steps for {idle:.0f} s"]))
    return State("LIVE", "good", "; ".join(parts))


def _cut_off(snapshot: Snapshot) -> str:
    half = f", {snapshot.torn[1] - snapshot.torn[0]} bytes of half a frame" if snapshot.torn else ""
    return f"no END frame{half}"
