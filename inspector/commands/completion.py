"""`stepscope completion`: verbs, flags, rule codes, probes and traces, completed by the shell at Tab.

argcomplete asks the parser that also prints --help: the shell starts stepscope with the line so far in its
environment, and `offer` answers before anything is parsed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

HELP = "print a script that completes the command line in bash, zsh or fish"
EPILOG = """\
examples:
  eval "$(stepscope completion bash)"    in ~/.bashrc
  eval "$(stepscope completion zsh)"     in ~/.zshrc, after compinit
  stepscope completion fish > ~/.config/fish/completions/stepscope.fish
"""
SHELLS = ("bash", "zsh", "fish")
_TRACES = ("TRACE", "BASE", "NEW")


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")


def run(args: argparse.Namespace) -> int:
    """Print it; 0."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["stepscope"], shell=args.shell))
    return 0


def offer(parser: argparse.ArgumentParser) -> None:
    """Tell the shell what may stand at the cursor, and end the process; return where no shell asks."""
    import argcomplete
    from argcomplete.completers import FilesCompleter

    for action in _arguments(parser):
        if action.choices is None and action.metavar in _TRACES:
            # traces and folders first; where there are none, the shell completes other files itself
            action.completer = FilesCompleter(["steps"])  # type: ignore[attr-defined]  # where argcomplete looks
        elif known := _known(action.metavar):
            action.completer = argcomplete.ChoicesCompleter(dict.fromkeys(known, ""))  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options=False)


def _arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Those of the verbs, and of their verbs."""
    for action in parser._actions:  # noqa: SLF001 - argparse tells what it parses nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for verb in action.choices.values():
                yield from _arguments(verb)
        else:
            yield action


def _known(metavar: str | tuple[str, ...] | None) -> Iterable[str]:
    """The words that an argument of this name takes, where they are few. Empty for files."""
    if metavar in ("CODE", "CODES", "RULES"):
        from traces.rules import RULES

        return RULES
    if metavar in ("P", "PROBE"):
        from gdb_scripts.probe import shipped

        return shipped()
    return ()
