"""The command line: `stepscope VERB`. Exit 0 fine, 1 the answer is no, 2 usage or unreadable input, 3 cannot decide.

Only argparse is imported here and in the verbs' heads, so that `stepscope --help` is instant. Every error a user can
cause ends as one line on stderr; a closed pipe ends quietly.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

FINE, NO, UNUSABLE, UNDECIDED = 0, 1, 2, 3
INTERRUPTED = 130
_LONGEST_LINE = 1000

VERBS = (
    "run",
    "chat",
    "view",
    "show",
    "check",
    "stats",
    "floor",
    "diff",
    "report",
    "record-set",
    "rule",
    "import",
    "export",
    "probe",
    "gdb",
    "completion",
)
_MODULES = {"import": "import_", "record-set": "record_set"}

EPILOG = """\
exit codes: 0 fine, 1 the answer is no (a rule failed, the builds differ), 2 usage or unreadable input, 3 cannot decide

examples:
  stepscope run -p "List the first six letters of the alphabet" -o a.steps
  stepscope show a.steps
  stepscope check a.steps
  stepscope view a.steps
  stepscope diff old.steps --against new.steps
"""


_ASK_AGAIN_S = 5.0


def program() -> NoReturn:
    """`stepscope` as a process: asked to end (SIGTERM, SIGHUP), it ends as after Ctrl-C, its files closed."""
    asked: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        # what is raised while an object is freed or a module in C is loaded can get lost
        signal.setitimer(signal.ITIMER_REAL, _ASK_AGAIN_S)
        raise KeyboardInterrupt

    def unraisable(lost: sys.UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):  # of that, the next one is told
            sys.__unraisablehook__(lost)

    sys.unraisablehook = unraisable
    ends = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]  # not under nohup
    for number in (*ends, signal.SIGALRM):
        signal.signal(number, end)
    try:
        code = main()
    except Exception:
        if not asked:
            raise
        code = INTERRUPTED  # a module in C makes an error of its own of what end() raises inside it
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in (*ends, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)  # what comes while the interpreter ends is quiet, too
    if asked or code == INTERRUPTED:
        # a module in C whose import was cut short can bring down the interpreter's own ending
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(128 + asked[0] if asked else code)
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    try:
        _settle_streams()
        if "_ARGCOMPLETE" in os.environ:
            importlib.import_module("inspector.commands.completion").offer(parser())
        args, unknown = parser().parse_known_args(_joined(sys.argv[1:] if argv is None else list(argv)))
        if unknown:  # argparse itself would blame, and point to, the whole command line
            return complain(f"{unknown[0]}: not known here; see stepscope {args.verb} --help")
        return _run(args)
    except BrokenPipeError:
        # what reads us closed the pipe (`| head`): nothing more to say, also not at interpreter exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except KeyboardInterrupt:
        return INTERRUPTED


def _settle_streams() -> None:
    """Streams that cannot fail on a character (a ␣ in an ASCII terminal, a byte that is no UTF-8) and that are there
    (`>&-`).
    """
    for name, mode, errors in (
        ("stdin", "r", "surrogateescape"),
        ("stdout", "w", "backslashreplace"),
        ("stderr", "w", "backslashreplace"),
    ):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - lives as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def _joined(words: list[str]) -> list[str]:
    """`--steps -10:` as one word: argparse takes what begins with a dash for an option."""
    out: list[str] = []
    for word in words:
        if out and out[-1] == "--steps" and word.startswith("-"):
            out[-1] = f"--steps={word}"
        else:
            out.append(word)
    return out


def _run(args: argparse.Namespace) -> int:
    from traces.fields import FieldError
    from traces.writer import TraceError

    try:
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except (TraceError, FieldError, UsageError) as error:
        return complain(str(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        # of a file that was opened, replacing() names it
        place = error.filename or ("standard output" if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EIO) else "")
        return complain(f"{place}{': ' * bool(place)}{error.strerror or error}")
    except MemoryError:
        return complain("not enough memory for this; try a smaller model or part of the trace")


def words_without(words: Sequence[str], flags: Sequence[str] = (), options: Sequence[str] = ()) -> list[str]:
    """Command-line words without these flags, and without these options and their values."""
    kept: list[str] = []
    value = False
    for word in words:
        if not value and word not in flags and word not in options and word.partition("=")[0] not in options:
            kept.append(word)
        value = not value and word in options
    return kept


class UsageError(Exception):
    """Words on the command line that do not fit together; the message says what would."""


def complain(message: str) -> int:
    """One clear line on stderr; the exit code for what went wrong."""
    with suppress(OSError):  # then nobody can be told
        tell(message)
    return UNUSABLE


def tell(message: str) -> None:
    """One line on stderr, whatever the message holds."""
    from inspector.text import shortened, visible

    print(f"stepscope: {shortened(visible(message), _LONGEST_LINE)}", file=sys.stderr, flush=True)


def version() -> str:
    """The installed version; `unknown` in a source tree that was never installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("stepscope")
    except PackageNotFoundError:
        return "unknown"


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"stepscope {version()}")
        parser.exit()


class _Words(argparse.ArgumentParser):
    """Words that cannot be taken end as one line, like everything else, that says where to read on."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.register("type", int, _whole_number)
        self.register("type", float, _number)

    def error(self, message: str) -> NoReturn:
        self.exit(complain(f"{message.removeprefix('argument ')}; see {self.prog} --help"))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """argparse calls this for `choices`, and has no other way to say them in words."""
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"{value!r} is not one of {', '.join(map(str, action.choices))}")


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def parser() -> argparse.ArgumentParser:
    """The whole command line, as --help tells it."""
    whole = _Words(
        prog="stepscope",
        description="A microscope for the token loop of LLM inference engines: record every step, look at it, "
        "check it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    verbs = whole.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in VERBS:
        module = importlib.import_module(f"inspector.commands.{_MODULES.get(verb, verb)}")
        sub = verbs.add_parser(
            verb,
            help=module.HELP,
            description=module.HELP[0].upper() + module.HELP[1:] + ".",
            epilog=_with_exit_codes(module.EPILOG),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.configure(sub)
        sub.set_defaults(run=module.run, verb=verb)
    return whole


def _with_exit_codes(epilog: str) -> str:
    """A verb that says nothing of its exit codes has the plain ones."""
    if "exit codes" in epilog:
        return epilog
    before, examples, after = epilog.partition("examples:\n")
    return f"{before}exit codes: 0 fine, 2 usage or unreadable input\n\n{examples}{after}"


if __name__ == "__main__":
    # by its own name: the errors that verbs raise are then those that are caught here
    importlib.import_module("inspector.cli").program()
