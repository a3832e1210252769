"""`stepscope record-set`: repeated runs of one command, or of two builds in turn, in one folder for `diff`."""

from __future__ import annotations

import argparse
import shlex
import sys
import time

from inspector.cli import UsageError, tell

HELP = "record repeated runs of two builds in turn, for diff"
EPILOG = """\
A command says {trace} where it takes the path of the trace to write; the path is also in $STEPSCOPE_TRACE, and
`stepscope run` is given -o by itself. Each command runs once before the rest, to warm up; that run is not kept.
No shell is involved: quote a command as one word after --base and --new.

examples:
  stepscope record-set -n 10 -o set --base 'build/a/engine M --ids 1,2 --trace {trace}' \\
                                    --new  'build/b/engine M --ids 1,2 --trace {trace}'
  stepscope diff set
  stepscope record-set -n 6 -o today -- stepscope run -p "List the first six letters of the alphabet"
  stepscope diff yesterday --against today
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("-n", "--runs", metavar="N", type=int, default=10, help="runs a side (10)")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="a new folder (set-DATE-TIME here)")
    parser.add_argument("--base", metavar="'CMD …'", help="the command of the build to compare with")
    parser.add_argument("--new", metavar="'CMD …'", help="the command of the other build")
    parser.add_argument("--no-warm-up", action="store_true", help="keep the first run of each command too")
    parser.add_argument("command", metavar="CMD", nargs="*", help="one command alone, after --: one side")


def run(args: argparse.Namespace) -> int:
    """Record them all; 0."""
    from inspector.record_set import record

    commands = _commands(args)
    if not 1 <= args.runs <= 1000:
        raise UsageError("-n takes the number of runs a side, 1 to 1000")
    folder = args.output or time.strftime("set-%Y%m%d-%H%M%S")
    try:
        paths = record(folder, commands, args.runs, not args.no_warm_up, _tell)
    except KeyboardInterrupt:
        tell(f"{folder}: stopped; the runs that ended stay, and diff takes them")
        raise
    following = f"stepscope diff {shlex.quote(folder)}" + ("" if len(commands) > 1 else " --against OTHER")
    tell(f"{folder}: {len(paths)} runs; next: {following}")
    return 0


def _commands(args: argparse.Namespace) -> dict[str, list[str]]:
    """side -> words. Raises UsageError where it is not clear what to run."""
    if args.command and (args.base or args.new):
        raise UsageError("give either one command after --, or --base and --new")
    if args.command:
        return {"base": args.command}
    if not args.base or not args.new:
        raise UsageError("name what to run: --base 'CMD …' and --new 'CMD …', or one command after --")
    commands = {}
    for side in ("base", "new"):
        try:
            commands[side] = shlex.split(getattr(args, side))
        except ValueError as error:
            raise UsageError(f"--{side}: {error} in {getattr(args, side)!r}") from None
        if not commands[side]:
            raise UsageError(f"--{side}: is empty")
    return commands


def _tell(what: str) -> None:
    """Where it stands, for who waits at a terminal."""
    if sys.stderr.isatty():
        tell(what)
