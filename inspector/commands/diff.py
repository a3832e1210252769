"""`stepscope diff`: two builds compared, verdict first."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from inspector.cli import FINE, NO, UNDECIDED, UNUSABLE, UsageError, complain
from inspector.diff_words import ABOUT, lines

if TYPE_CHECKING:
    from traces.table import Table

HELP = "compare two builds: the first difference, the layer, and whether the time is noise"
EPILOG = """\
BASE and NEW are traces, several a side where there are several runs, or a folder of them. A folder that record-set
made holds both sides and needs no --against.

exit codes, over what --fail-on names: 0 same, 1 differs, 2 usage or unreadable input, 3 cannot decide
docs/diff.md explains the statistics: the unit is the run, so one run a side never decides about time

examples:
  stepscope diff old.steps --against new.steps
  stepscope diff old-*.steps --against new-*.steps --fail-on tokens,state,slower
  stepscope record-set -n 10 -o set --base 'build/a …' --new 'build/b …' && stepscope diff set
"""
FAIL_ON = ("tokens", "state", "layers", "time", "slower")
_CODES = {"same": FINE, "differs": NO, "cannot-decide": UNDECIDED}


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("base", metavar="BASE", nargs="+", help="runs of the build to compare with, or their folder")
    parser.add_argument("--against", metavar="NEW", nargs="+", default=[], help="runs of the other build, or a folder")
    parser.add_argument(
        "--fail-on",
        metavar="WHAT",
        default=",".join(ABOUT),
        help=f"what the verdict and the exit code are about: {', '.join(FAIL_ON)} (default {','.join(ABOUT)})",
    )
    parser.add_argument(
        "--min-effect", metavar="PERCENT", type=float, default=3.0, help="the smallest change of a time that counts (3)"
    )
    parser.add_argument("--base-binary", metavar="FILE", help="the base's program or library, to compare the builds")
    parser.add_argument("--new-binary", metavar="FILE", help="the new build's")
    parser.add_argument("--probe", metavar="P", help="the hook spec whose functions and offsets count in the binaries")
    parser.add_argument("--all", action="store_true", help="every line of the times, not the telling ones")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    parser.add_argument("--html", metavar="FILE", help="also as a page (needs the extra: stepscope[report])")


def run(args: argparse.Namespace) -> int:
    """Compare; the exit code is the verdict."""
    from inspector.record_set import sides_of
    from traces.diff import as_json, compare
    from traces.frames import json_text

    fail_on = _fail_on(args.fail_on)
    effect = _effect(args.min_effect)
    if args.html is not None:
        from inspector.commands.report import need_plots

        need_plots()
    base, new, binaries = sides_of(args.base, args.against)
    sides = _opened(base), _opened(new)
    diff = compare(*sides, effect)
    binary = _binary(args, binaries)
    if args.html is not None:
        from inspector.commands.report import write
        from inspector.report.comparison import comparison

        write(args.html, comparison(diff, fail_on, base, new, binary), [])
    if args.json:
        print(json_text({**as_json(diff, fail_on), "binary": binary}))
    else:
        for line in lines(diff, fail_on, base, new, args.all, binary):
            print(line)
    return _CODES[diff.verdict(fail_on)] if list(map(len, sides)) == [len(base), len(new)] else UNUSABLE


def print_comparison(base: list[str], new: list[str]) -> None:
    """The screen of text of two sides, by tokens and state."""
    from traces.diff import compare

    for line in lines(compare(_opened(base), _opened(new)), list(ABOUT), base, new, False, None):
        print(line)


def _fail_on(words: str) -> list[str]:
    chosen = words.replace(",", " ").split()
    wrong = [word for word in chosen if word not in FAIL_ON]
    if wrong or not chosen:
        raise UsageError(f"--fail-on takes {', '.join(FAIL_ON)}, not {repr(wrong[0]) if wrong else 'nothing'}")
    return chosen


def _effect(percent: float) -> float:
    if not 0 < percent <= 100:
        raise UsageError("--min-effect takes a percentage above 0 and at most 100")
    return percent / 100


def _opened(paths: list[str]) -> list[tuple[str, Table]]:
    """The runs of a side. One of several that cannot be read is told and left out; TraceError where none is left."""
    from inspector.load import open_trace
    from traces.writer import TraceError

    _allow_open_files(2 * len(paths))
    found = []
    for number, path in enumerate(paths, 1):
        try:
            found.append((path, open_trace(path)))
        except TraceError as error:
            if number == len(paths) and not found:
                raise
            complain(f"{error}; left out")
    return found


def _allow_open_files(number: int) -> None:
    """Room for so many beside those that are open; the usual limit of 1,024 is not meant for 1,000 runs a side."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def _binary(args: argparse.Namespace, found: tuple[str | None, str | None]) -> dict[str, Any] | None:
    from inspector.binary import BinaryError
    from inspector.binary.compare import compare_binaries

    paths = args.base_binary or found[0], args.new_binary or found[1]
    if bool(args.base_binary) != bool(args.new_binary) and None in paths:
        raise UsageError("--base-binary and --new-binary go together")
    if paths[0] is None or paths[1] is None:
        if args.probe:
            raise UsageError("--probe is about the programs: name them with --base-binary and --new-binary")
        return None
    from gdb_scripts.probe import ProbeError

    try:
        return compare_binaries(paths[0], paths[1], args.probe)
    except (BinaryError, ProbeError) as error:
        if args.base_binary or args.probe:
            raise UsageError(str(error)) from None
        return None  # nobody asked: the set's programs only happened to be there
