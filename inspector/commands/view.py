"""`stepscope view`: the film, the text, the layers and the rules of a trace, recorded or growing, in the terminal."""

from __future__ import annotations

import argparse
import sys

HELP = "look at a trace in the terminal, step by step, also while it grows"
EPILOG = """\
examples:
  stepscope view a.steps
  stepscope view a.steps --follow     a trace that is being written, or soon will be

keys: ? shows them; $XDG_CONFIG_HOME/stepscope/keys.toml gives actions other ones, one a line: film.down = "s,down"
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("trace", metavar="TRACE", help="a step trace, or JSON Lines of one")
    parser.add_argument("--follow", action="store_true", help="go on reading while the file grows")
    parser.add_argument("--theme", metavar="NAME", help="other colours, such as textual-light")


def run(args: argparse.Namespace) -> int:
    """Show it until the user leaves; 0."""
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        print("stepscope: view needs a terminal; printing the film instead", file=sys.stderr)
        from inspector.commands.show import print_film

        return print_film(args.trace)
    from inspector.tui.app import run_app

    return run_app(args.trace, args.follow, theme=args.theme)
