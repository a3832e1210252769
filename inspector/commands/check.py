"""`stepscope check`: the rules on one or more traces."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traces.check import Report
    from traces.rules import Rule
    from traces.table import Table

HELP = "judge traces by the rules"
EPILOG = """\
exit codes: 0 every trace passes, 1 a rule fails, 2 a trace cannot be read, 3 nothing could be judged

examples:
  stepscope check a.steps
  stepscope check *.steps --ignore TM
  stepscope check a.steps --select KV01,KV02 --json
  stepscope check growing.steps --follow
"""
FINE, NO, UNUSABLE, UNDECIDED = 0, 1, 2, 3
_SHOWN = 5
_POLL_S = 0.1


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("traces", metavar="TRACE", nargs="+", help="step traces, or JSON Lines of them")
    parser.add_argument("--select", metavar="CODES", help="only these rules; KV means all that begin with it")
    parser.add_argument("--ignore", metavar="CODES", help="all but these rules")
    parser.add_argument("--all", action="store_true", help="every failure, not the first ones of each rule")
    parser.add_argument("--follow", action="store_true", help="go on while the trace grows, until its END")
    parser.add_argument("--json", action="store_true", help="one JSON object a trace, one a line")


def run(args: argparse.Namespace) -> int:
    """Check them all; the worst exit code: unreadable, then failed, then undecided."""
    from inspector.cli import UsageError, complain
    from traces.writer import TraceError

    rules = chosen(args.select, args.ignore)
    if args.follow and len(args.traces) > 1:
        raise UsageError("--follow takes one trace")
    codes = set()
    for path in args.traces:
        try:
            codes.add(_follow(path, rules, args) if args.follow else _check(path, rules, args))
        except TraceError as error:
            codes.add(complain(str(error)))
    return next((code for code in (UNUSABLE, NO, UNDECIDED) if code in codes), FINE)


def chosen(select: str | None, ignore: str | None) -> list[Rule]:
    """The rules that --select and --ignore leave. Raises UsageError for a code that is none, or if none is left."""
    from inspector.cli import UsageError
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
        raise UsageError("no rule is left to check")
    return [rule for code, rule in RULES.items() if code in wanted]


def _check(path: str, rules: list[Rule], args: argparse.Namespace) -> int:
    from inspector.load import open_trace
    from traces.check import FIRST_FAILURES
    from traces.columnar import check_table

    table = open_trace(path)
    report = check_table(table, rules, None if args.all else FIRST_FAILURES)
    return _tell(path, table, report, args)


def _tell(path: str, table: Table, report: Report, args: argparse.Namespace) -> int:
    from traces.frames import json_text

    if args.json:
        print(json_text(as_json(path, table, report)))
    else:
        print_report(path, table, report, every=args.all)
    return {"fail": NO, "unknown": UNDECIDED}.get(report.verdict, FINE)


def as_json(path: str, table: Table, report: Report) -> dict[str, Any]:
    """The documented object of `check --json`."""
    from inspector.load import state_of

    head = {"trace": path, "steps": table.steps, "complete": table.complete, "problems": state_of(table)}
    return {**head, **report.as_json()}


def print_report(path: str, table: Table, report: Report, every: bool = False) -> None:
    """Verdict first, then what failed in full, then one line a rule."""
    from inspector.load import state_of
    from inspector.text import visible

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
    from inspector.text import visible

    return f" ({visible(result.why_unknown)})" if result.unknown and result.why_unknown else ""


def _follow(path: str, rules: list[Rule], args: argparse.Namespace) -> int:
    """Judge what comes until END; failures are printed as they come (not with --json)."""
    from inspector.text import visible
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
