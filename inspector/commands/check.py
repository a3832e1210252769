"""`stepscope check`: the rules on one trace in full, or on many with a line for each that does not pass."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from inspector.cli import FINE, NO, UNDECIDED, UNUSABLE, UsageError
from inspector.text import visible

if TYPE_CHECKING:
    from traces.check import Report
    from traces.rules import Rule
    from traces.table import Table

HELP = "judge traces by the rules"
EPILOG = """\
Of several traces those that do not pass are told in a line each, and what became of all in one; --all tells each in
full.

exit codes: 0 every trace passes, 1 a rule fails, 2 a trace cannot be read, 3 nothing could be judged

examples:
  stepscope check a.steps
  stepscope check *.steps --ignore TM
  stepscope check nightly/
  stepscope check a.steps --select KV01,KV02 --json
  stepscope check growing.steps --follow
"""
_CODES = {"pass": FINE, "fail": NO, "unknown": UNDECIDED}
_SHOWN = 5
_POLL_S = 0.1


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("traces", metavar="TRACE", nargs="+", help="step traces, JSON Lines of them, or folders")
    parser.add_argument("--select", metavar="CODES", help="only these rules; KV means all that begin with it")
    parser.add_argument("--ignore", metavar="CODES", help="all but these rules")
    parser.add_argument("--all", action="store_true", help="every failure, not the first ones of each rule")
    parser.add_argument("--follow", action="store_true", help="go on while the trace grows, until its END")
    parser.add_argument("--json", action="store_true", help="one JSON object a trace, one a line")


def run(args: argparse.Namespace) -> int:
    """Check them all; the worst exit code: unreadable, then failed, then undecided."""
    from inspector.fleet import traces_in

    rules = chosen(args.select, args.ignore)
    paths = traces_in(args.traces)
    if args.follow and len(paths) > 1:
        raise UsageError("--follow takes one trace")
    if args.follow:
        return _follow(paths[0], rules, args)
    if len(paths) > 1:
        return _check_many(paths, args)
    return _check(paths[0], rules, args)


def chosen(select: str | None, ignore: str | None) -> list[Rule]:
    """The rules that --select and --ignore leave. Raises UsageError for a code that is none, or if none is left."""
    from traces.rules import RULES

    def matching(codes: str) -> set[str]:
        found: set[str] = set()
        for code in codes.replace(",", " ").split():
            hits = {c for c in RULES if c.startswith(code.upper())}
            if not hits:
                raise UsageError(f"no rule {code}; the rules are {' '.join(RULES)}")
            found |= hits
        return found

    wanted = matching(select) if select is not None else set(RULES)
    wanted -= matching(ignore) if ignore is not None else set()
    if not wanted:
        raise UsageError("--select and --ignore leave no rule to check; ignore fewer")
    return [rule for code, rule in RULES.items() if code in wanted]


def _check(path: str, rules: list[Rule], args: argparse.Namespace) -> int:
    table, report = _judge(path, rules, args.all)
    return _tell(path, table, report, args)


def _judge(path: str, rules: list[Rule], every: bool) -> tuple[Table, Report]:
    from inspector.load import open_trace
    from traces.check import FIRST_FAILURES
    from traces.columnar import check_table

    table = open_trace(path)
    return table, check_table(table, rules, None if every else FIRST_FAILURES)


def _tell(path: str, table: Table, report: Report, args: argparse.Namespace) -> int:
    from traces.frames import json_text

    if args.json:
        print(json_text(as_json(path, table, report)))
    else:
        print_report(path, table, report, every=args.all)
    return _CODES[report.verdict]


# -- many --------------------------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """What is said of one of many traces. text: its line, or its whole report; empty where it passes and no more is
    asked. broken: the rules that fail.
    """

    verdict: str
    broken: tuple[str, ...]
    is_sound: bool
    text: str


def _check_many(paths: list[str], args: argparse.Namespace) -> int:
    from inspector.fleet import of_each

    verdicts: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    unsound = 0
    task = partial(judged, select=args.select, ignore=args.ignore, every=args.all, as_object=args.json)
    for _, seen in of_each(task, paths):
        verdicts[seen.verdict if seen is not None else "unreadable"] += 1
        if seen is None:
            continue
        broken.update(seen.broken)
        unsound += not seen.is_sound
        if seen.text:
            print(seen.text)
    if not args.json:
        print(summary(verdicts, broken, unsound))
    worst = [
        code for verdict, code in (("unreadable", UNUSABLE), ("fail", NO), ("unknown", UNDECIDED)) if verdicts[verdict]
    ]
    return worst[0] if worst else FINE


def judged(path: str, select: str | None, ignore: str | None, every: bool, as_object: bool) -> Judged:
    """One of many traces, in a process that may be another. Raises TraceError where it cannot be read."""
    from contextlib import redirect_stdout
    from io import StringIO

    from inspector.load import state_of
    from traces.frames import json_text

    table, report = _judge(path, chosen(select, ignore), every)
    is_sound = not state_of(table)
    broken = tuple(code for code, result in report.results.items() if result.failed)
    if as_object:
        text = json_text(as_json(path, table, report))
    elif every:
        with redirect_stdout(StringIO()) as out:
            print_report(path, table, report, every=True)
        text = out.getvalue().rstrip("\n")
    else:
        text = _line(path, report, broken)
    table.close()
    return Judged(report.verdict, broken, is_sound, text)


def _line(path: str, report: Report, broken: tuple[str, ...]) -> str:
    if report.verdict == "pass":
        return ""
    if not broken:
        return visible(f"{path}: UNKNOWN  nothing could be judged")
    counts = ", ".join(f"{code} at {report.results[code].failed}" for code in broken)
    return visible(f"{path}: FAIL  {counts}; first: {report.failures()[0].message}")


def summary(verdicts: Counter[str], broken: Counter[str], unsound: int) -> str:
    """`1,000 traces: 996 pass, 3 fail (KV01 in 2, TK04 in 1), 1 cannot be read; 2 are cut off or damaged`."""
    words = {"pass": "pass", "fail": "fail", "unknown": "unknown", "unreadable": "cannot be read"}
    said = [f"{verdicts[verdict]:,} {word}" for verdict, word in words.items() if verdicts[verdict]]
    if broken:
        rules = ", ".join(f"{code} in {n:,}" for code, n in broken.most_common())
        said = [f"{part} ({rules})" if part.endswith(" fail") else part for part in said]
    files = f"; {unsound:,} cut off or damaged" if unsound else ""
    return f"{verdicts.total():,} traces: {', '.join(said)}{files}"


# -- one ---------------------------------------------------------------------------------------------------------------


def as_json(path: str, table: Table, report: Report) -> dict[str, Any]:
    """The documented object of `check --json`."""
    from inspector.load import state_of

    head = {"trace": path, "steps": table.steps, "complete": table.complete, "problems": state_of(table)}
    return {**head, **report.as_json()}


def print_report(path: str, table: Table, report: Report, every: bool = False) -> None:
    """Verdict first, then what failed in full, then one line a rule."""
    from inspector.load import state_of

    print(f"{visible(path)}: {report.verdict.upper()}  ({_steps(table.steps)})")
    for line in state_of(table):
        print(f"  {line}")
    for code, result in report.results.items():
        if not result.failed:
            continue
        shown = result.failures if every else result.failures[:_SHOWN]
        for failure in shown:
            print(f"  {visible(failure.message)}")
        if result.failed > len(shown):
            print(f"  {code} fails at {result.failed - len(shown)} more (--all shows every one)")
        print(f"    the rule: {report.rules[code].statement}")
        print(f"    a fault like it: {report.rules[code].fault}")
    for code, result in report.results.items():
        print(f"  {code} {_words(result):<28} {report.rules[code].name}{_why(result)}")


def _steps(n: int) -> str:
    return f"{n} step{'' if n == 1 else 's'}"


def _words(result: Any) -> str:
    if not result.applies:
        return "n/a"
    counts = [(result.failed, "failed"), (result.passed, "passed"), (result.unknown, "unknown")]
    said = ", ".join(f"{n} {word}" for n, word in counts if n)
    if result.verdict == "pass":
        return "pass     " + (f"{result.passed}" if not result.unknown else said)
    return f"{result.verdict:<8} {said if result.failed else result.unknown}"


def _why(result: Any) -> str:
    return f" ({visible(result.why_unknown)})" if result.unknown and result.why_unknown else ""


def _follow(path: str, rules: list[Rule], args: argparse.Namespace) -> int:
    """Judge what comes until END; failures are printed as they come (not with --json)."""
    from traces.check import FIRST_FAILURES
    from traces.columnar import TableChecker
    from traces.table import Table
    from traces.writer import TraceError

    table = Table(path, index=False)
    checker = TableChecker(table, rules, None if args.all else FIRST_FAILURES)
    told: set[tuple[str, int | None, str]] = set()
    try:
        while True:
            table.refresh()
            checker.advance()
            for failure in checker.report.failures():
                key = (failure.code, failure.step, failure.message)
                if key not in told and not args.json:
                    print(visible(failure.message), flush=True)
                told.add(key)
            if table.complete:
                break
            if table.source.replaced():
                raise TraceError(f"{path}: another file, or none, has this name now; follow it anew")
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        pass  # the user has seen enough: say where it stands
    return _tell(path, table, checker.report, args)
