"""`stepscope rule`: what the rules say and which real fault each one catches."""

from __future__ import annotations

import argparse
import json
import textwrap

from inspector.cli import UsageError

HELP = "say what a rule demands and which fault it catches"
EPILOG = """\
examples:
  stepscope rule          all of them, one line each
  stepscope rule KV03     one in full
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("codes", metavar="CODE", nargs="*", help="a rule's code; all rules where none is given")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Print them; 0."""
    from traces.rules import RULES

    wanted = [code.upper() for code in args.codes] or list(RULES)
    unknown = [code for code in wanted if code not in RULES]
    if unknown:
        raise UsageError(f"no rule {unknown[0]}; the rules are {' '.join(RULES)}")
    rules = [RULES[code] for code in wanted]
    if args.json:
        keys = ("code", "name", "statement", "needs", "fault")
        print(json.dumps([{key: getattr(rule, key) for key in keys} for rule in rules], indent=1))
    elif not args.codes:
        for rule in rules:
            print(f"{rule.code}  {rule.name}: {rule.statement}")
    else:
        for rule in rules:
            print(f"{rule.code}  {rule.name}")
            for label, words in (("says", rule.statement), ("needs", ", ".join(rule.needs)), ("catches", rule.fault)):
                print(textwrap.fill(words, 100, initial_indent=f"  {label:<8} ", subsequent_indent=" " * 11))
    return 0
