"""The rules: their verdicts so far, the failing ones first, and one of them in full."""

from __future__ import annotations

from inspector.text import visible
from inspector.tui.lines import (
    DIM,
    FAIL,
    GOOD,
    PLAIN,
    STRONG,
    TITLE,
    UNKNOWN,
    Line,
    Page,
    Part,
    clip,
    fit,
    plural,
    wrap,
)
from inspector.tui.model import RuleState, Snapshot, Verdicts
from traces.check import Failure

_MARKS = {"fail": "✗", "unknown": "?", "pass": "✓", "n/a": "-"}
_ROLES = {"fail": FAIL, "unknown": UNKNOWN, "pass": GOOD, "n/a": DIM}
_ORDER = {"fail": 0, "unknown": 1, "pass": 2}
WIDE_ENOUGH_FOR_NAMES = 56


def in_order(verdicts: Verdicts) -> list[RuleState]:
    """The rules that judged something, the failing ones first."""
    return sorted((r for r in verdicts.rules if r.verdict != "n/a"), key=lambda r: _ORDER[r.verdict])


def rules(snapshot: Snapshot, broken: tuple[Failure, ...], chosen: str | None, width: int, height: int) -> Page:
    """Every rule with its counts; below, the chosen one in full.

    broken: what is wrong with the selected step. chosen: a rule's code; without, the first that `broken` names.
    """
    verdicts = snapshot.verdicts
    listed = in_order(verdicts)
    code = chosen or (broken[0].code if broken else None)
    cursor = next((i for i, rule in enumerate(listed) if rule.code == code), None)
    longest = max((len(rule.name) for rule in listed), default=0)
    lines = [_rule_line(rule, width, longest, i == cursor) for i, rule in enumerate(listed)]
    silent = [rule.code for rule in verdicts.rules if rule.verdict == "n/a"]
    if silent and verdicts.judged:
        lines += wrap([(f"  nothing to judge: {' '.join(silent)}", DIM)], width)
    bottom = [] if cursor is None else _in_full(listed[cursor], broken, verdicts, width)
    top = wrap([_progress(snapshot)], width)
    room = max(0, height - len(top) - min(len(lines), max(2, height // 3)))
    return Page(top=top, lines=lines, bottom=bottom[:room], cursor=cursor)


def _progress(snapshot: Snapshot) -> Part:
    verdicts = snapshot.verdicts
    if not snapshot.steps:
        over = snapshot.complete or not snapshot.follow
        return "no step was recorded" if over else "no step to judge yet", DIM
    if verdicts.judged < snapshot.steps:
        far = verdicts.judged / snapshot.steps
        return f"judged {verdicts.judged:,} of {snapshot.steps:,} steps ({far:.0%})", UNKNOWN
    return f"{plural(verdicts.judged, 'step')} judged", DIM


def _rule_line(rule: RuleState, width: int, longest: int, chosen: bool) -> Line:
    counted = (rule.failed, "fail"), (rule.unknown, "unknown"), (rule.passed, "pass")
    counts = ", ".join(f"{n:,} {word}" for n, word in counted if n)
    said: Line = [
        (">" if chosen else " ", STRONG),
        (f"{_MARKS[rule.verdict]} {rule.code} ", _ROLES[rule.verdict]),
    ]
    if width < WIDE_ENOUGH_FOR_NAMES:
        return clip([*said, (counts, PLAIN)], width)
    return clip([*said, (fit(rule.name, longest + 2), DIM), (counts, PLAIN)], width)


def _in_full(rule: RuleState, broken: tuple[Failure, ...], verdicts: Verdicts, width: int) -> list[Line]:
    """The numbers, what must hold, and the fault that such numbers usually mean."""
    lines: list[Line] = [[("─" * width, DIM)]]
    own = [failure for failure in broken if failure.code == rule.code]
    for failure in own:
        lines += wrap([("✗ " + visible(failure.message), FAIL)], width)
    if rule.failed and not own:
        first = next((f for found in verdicts.kept.values() for f in found if f.code == rule.code), None)
        if first is not None:
            lines += wrap([("first: " + visible(first.message), FAIL)], width)
    if rule.why_unknown:
        lines += wrap([(f"{plural(rule.unknown, 'step')} unknown: {visible(rule.why_unknown)}", UNKNOWN)], width)
    lines += wrap([(f"{rule.code} {rule.name}: ", TITLE), (rule.statement, PLAIN)], width)
    words = "usually means: " if rule.failed else "has caught: "
    lines += wrap([(words, STRONG), (rule.fault, DIM)], width)
    return lines
