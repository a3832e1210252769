"""`stepscope completion`: what a shell has to know to complete our verbs, flags, rule codes, probes and traces.

The script is written from the parser that also prints --help, so it knows what that knows.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import NamedTuple

HELP = "print a script that completes the command line in bash, zsh or fish"
EPILOG = """\
examples:
  eval "$(stepscope completion bash)"    in ~/.bashrc
  eval "$(stepscope completion zsh)"     in ~/.zshrc
  stepscope completion fish > ~/.config/fish/completions/stepscope.fish
"""
SHELLS = ("bash", "zsh", "fish")


class Verb(NamedTuple):
    """What may follow a verb. words: in place of a file's name, where there are such; of the first argument
    alone, or of every one. values: of a flag, likewise.
    """

    name: str
    help: str
    flags: dict[str, str]
    words: list[str]
    every_one: bool
    values: dict[str, list[str]]


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")


def run(args: argparse.Namespace) -> int:
    """Print it; 0."""
    from inspector.cli import parser

    verbs = list(_verbs(parser()))
    script = _fish(verbs) if args.shell == "fish" else _bash(verbs)
    if args.shell == "zsh":
        script = "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n" + script
    print(script)
    return 0


def _verbs(parser: argparse.ArgumentParser) -> Iterator[Verb]:
    for action in parser._actions:  # noqa: SLF001 - argparse tells what it parses nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001
            for name, verb in action.choices.items():
                yield _verb(name, helps[name], verb)


def _verb(name: str, summary: str, parser: argparse.ArgumentParser) -> Verb:
    flags: dict[str, str] = {}
    values: dict[str, list[str]] = {}
    words: list[str] = []
    every_one = False
    for action in parser._actions:  # noqa: SLF001
        known = _known(action)
        if not action.option_strings and not words:
            words, every_one = known, action.nargs == "*"
        for flag in action.option_strings:
            flags[flag] = action.help or ""
            if known:
                values[flag] = known
    return Verb(name, summary, flags, words, every_one, values)


def _known(action: argparse.Action) -> list[str]:
    """The words that an argument takes, where they are few: its choices, rule codes, probes. Empty for files."""
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    if action.metavar in ("CODE", "CODES", "RULES"):
        from traces.rules import RULES

        return list(RULES)
    if action.metavar in ("P", "PROBE"):
        from gdb_scripts.probe import shipped

        return list(shipped())
    return []


def _bash(verbs: list[Verb]) -> str:
    """For bash, and for zsh's bashcompinit."""
    lines = ["_stepscope() {", "  local verb=${COMP_WORDS[1]} cur=${COMP_WORDS[COMP_CWORD]} last words flags"]
    lines += ["  last=${COMP_WORDS[COMP_CWORD-1]}", "  COMPREPLY=()"]
    names = shlex.quote(" ".join(verb.name for verb in verbs))
    lines += [f'  if [ "$COMP_CWORD" = 1 ]; then COMPREPLY=($(compgen -W {names} -- "$cur")); return; fi']
    lines += ['  case "$verb" in']
    for verb in verbs:
        words = f"words={shlex.quote(' '.join(verb.words))}" if verb.words else ""
        if words and not verb.every_one:
            words = f'[ "$COMP_CWORD" = 2 ] && {words}'
        lines.append(f"    {verb.name}) flags={shlex.quote(' '.join(verb.flags))}; {words or ':'} ;;")
    lines += ["  esac", '  case "$verb $last" in']
    for verb in verbs:
        for flag, values in verb.values.items():
            lines.append(f'    "{verb.name} {flag}") words={shlex.quote(" ".join(values))} ;;')
    lines += [
        "  esac",
        '  case "$cur" in -*) words=$flags ;; esac',
        '  [ -n "$words" ] && COMPREPLY=($(compgen -W "$words" -- "$cur"))',
        "  [ ${#COMPREPLY[@]} -gt 0 ] && return",
        "  local IFS=$'\\n'",
        # traces and folders first; what is no trace is completed where nothing else fits
        '  COMPREPLY=($(compgen -f -X \'!*.steps\' -- "$cur") $(compgen -d -- "$cur"))',
        "}",
        "complete -o filenames -o default -F _stepscope stepscope",
    ]
    return "\n".join(lines)


def _fish(verbs: list[Verb]) -> str:
    lines = []
    for verb in verbs:
        lines.append(f"complete -c stepscope -f -n __fish_use_subcommand -a {verb.name} -d {_told(verb.help)}")
        within = f"complete -c stepscope -n '__fish_seen_subcommand_from {verb.name}'"
        if verb.words:
            lines.append(f"{within} -a '{' '.join(verb.words)}'")
        for flag, summary in verb.flags.items():
            kind = "-l" if flag.startswith("--") else "-s"
            values = f" -x -a '{' '.join(verb.values[flag])}'" if flag in verb.values else ""
            lines.append(f"{within} {kind} {flag.lstrip('-')}{values} -d {_told(summary)}")
    return "\n".join(lines)


def _told(words: str) -> str:
    """Help as one word for fish, which knows no escapes in single quotes but these two."""
    escaped = words.replace("%%", "%").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
