"""`stepscope gdb`: gdb with the scripts loaded, a probe chosen, and what is known of the binary handed over."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

from inspector.cli import UNUSABLE, UsageError

HELP = "start gdb on an engine with the scripts loaded"
EPILOG = """\
exit codes: with --batch 1 after a stop by --break-on or --follow, where the run ends earlier than the followed one, or
where a signal stops or ends the program; 2 where something was refused (the program is not run then) or the recording
ended before the program, as on a full disk; 3 where the probe saw no step, or nothing that --break-on asks for could be
judged; 4 where a field of the probe had no value at any hit (misspelt, optimized out, garbage); else 0, whatever the
program's own was. Without --batch gdb's own; 2 where gdb cannot be started

examples:
  stepscope gdb --probe native --record run.steps -- ./engine MODEL --ids 1,2,3
  stepscope gdb --probe mine.ini --break-on any --batch -- ./engine MODEL --ids 1,2,3
  stepscope gdb --probe mine.ini --attach 4711
  stepscope gdb --gdb gdb-multiarch --probe mine.ini --remote board:2345 -- ./engine
  echo "source $(stepscope gdb --script-path)" >> ~/.gdbinit
"""
_SECONDS_TO_ANSWER = 60


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.usage = "stepscope gdb [options] [-- PROGRAM ARGS…]"
    parser.add_argument("program", metavar="PROGRAM", nargs="*", help="the engine and its arguments, behind --")
    parser.add_argument("--probe", metavar="P", help="a shipped probe's name, an .ini file or a frozen layout")
    parser.add_argument("--record", metavar="FILE", help="write every step to this trace")
    parser.add_argument("--break-on", metavar="RULES", help="stop at the step that breaks one: KV01,KV03 or any")
    parser.add_argument("--follow", metavar="TRACE", help="stop at the first step that differs from this run")
    parser.add_argument(
        "--backend", choices=("auto", "stop", "tracepoint"), help="how hooks are looked at (stop; docs/gdb.md)"
    )
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--attach", metavar="PID", type=int, help="a process that runs already")
    target.add_argument("--remote", metavar="HOST:PORT", help="a gdbserver or another stub")
    parser.add_argument("--gdb", metavar="GDB", default="gdb", help="which gdb (gdb; for boards gdb-multiarch)")
    parser.add_argument("--batch", action="store_true", help="run to the end without a prompt")
    parser.add_argument("--script-path", action="store_true", help="print the file to source in gdb, and end")


def run(args: argparse.Namespace) -> int:
    """Become gdb."""
    if args.script_path:
        print(script_path())
        return 0
    if not args.probe and (args.record or args.break_on or args.follow):
        raise UsageError("--record, --break-on and --follow need a probe; stepscope probe list shows them")
    if args.batch and not (args.program or args.attach is not None or args.remote):
        raise UsageError("--batch needs a program: stepscope gdb --batch [options] -- PROGRAM ARGS")
    _expect_words(args)
    gdb = _expect_gdb(args.gdb)
    facts = _facts(args)
    if facts:
        os.environ["STEPSCOPE_FACTS"] = json.dumps(facts)
    return os.execv(gdb, [gdb, *arguments(args)])


def script_path() -> str:
    """The file to source in gdb."""
    import gdb_scripts

    return str(Path(gdb_scripts.__file__).with_name("stepscope.py"))


def arguments(args: argparse.Namespace) -> list[str]:
    """gdb's command line."""
    commands = [f"source {script_path()}"]
    if args.remote:
        commands.append(f"target remote {args.remote}")
    if args.backend:
        commands.append(f"stepscope backend {args.backend}")
    if args.probe:
        commands.append(f"stepscope probe {shlex.quote(args.probe)}")
    if args.record:
        commands.append(f"stepscope record {shlex.quote(args.record)}")
    if args.break_on:
        commands.append(f"stepscope break-on {args.break_on.replace(',', ' ')}")
    if args.follow:
        commands.append(f"stepscope follow {shlex.quote(args.follow)}")
    if args.batch:
        how = "run" if args.attach is None and not args.remote else "continue"
        commands += [f"stepscope batch {how}", f"quit {UNUSABLE}"]  # the last where the scripts refused this gdb
    out = ["-q"] + (["-batch"] if args.batch else [])
    if args.attach is not None:
        out += ["-p", str(args.attach)]
    for command in commands:
        out += ["-ex", command]
    return out + (["--args", *args.program] if args.program else [])


def _expect_words(args: argparse.Namespace) -> None:
    """What would only fail inside gdb, where in a batch nobody reads it, fails here."""
    from gdb_scripts import frozen
    from gdb_scripts.probe import ProbeError, load
    from inspector.commands.check import chosen

    if args.probe:
        try:
            if frozen.is_layout(args.probe):
                frozen.load(args.probe)
            else:
                load(args.probe)
        except ProbeError as error:
            raise UsageError(str(error)) from None
    if args.break_on and args.break_on not in ("any", "none"):
        chosen(args.break_on, None)
    if args.follow:
        try:
            open(args.follow, "rb").close()
        except OSError as error:
            raise UsageError(f"{args.follow}: cannot read: {error.strerror}") from None
    if args.program and _found(args.program[0]) is None:
        raise UsageError(f"{args.program[0]}: no such program; give its path, as in ./engine")


def _expect_gdb(name: str) -> str:
    """The gdb to start. Raises UsageError where there is none, or where it has no Python."""
    path = shutil.which(name)
    if path is None:
        if name not in ("gdb", "gdb-multiarch"):
            raise UsageError(f"{name}: no such program; --gdb takes gdb, gdb-multiarch or the path of one")
        raise UsageError(f"{name} is not installed; type: apt-get install {name}")
    try:
        asked = subprocess.run(
            [path, "-nx", "-batch", "-ex", "python print('ready')"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_SECONDS_TO_ANSWER,
        )  # fmt: skip
    except OSError as error:
        raise UsageError(f"{name}: does not start: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"{name}: does not answer in {_SECONDS_TO_ANSWER} s; name another with --gdb") from None
    if "ready" not in asked.stdout:
        raise UsageError(
            f"{name} has no Python; record with the plain back-end, a command file (stepscope probe plain) whose "
            "printed lines are imported (stepscope import gdb), or type: apt-get install gdb"
        )
    return path


def _found(program: str) -> str | None:
    return program if os.path.isfile(program) else shutil.which(program)


def _facts(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Build id, compiler and flags of the program: gdb tells only the first."""
    from gdb_scripts import frozen
    from gdb_scripts.probe import load
    from inspector.binary import BinaryError, open_binary
    from inspector.binary.probing import engine_facts

    path = f"/proc/{args.attach}/exe" if args.attach is not None else _found((args.program or [""])[0])
    if path is None or not args.probe:
        return []
    try:
        with open_binary(path) as binary:
            probe = None if frozen.is_layout(args.probe) else load(args.probe)
            return [engine_facts(binary, probe)]
    except (BinaryError, OSError):
        return []  # a script that loads the engine, or a stripped one: gdb says what it can
