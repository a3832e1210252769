"""`stepscope view`: the film, the text, the layers and the rules of a trace, recorded or growing, in the terminal."""

from __future__ import annotations

import argparse
import os
import sys

from inspector.cli import UsageError, words_without

SERVED = "TEXTUAL_DRIVER"
"""Set where textual-serve runs us: a browser is the terminal"""
HELP = "look at a trace in the terminal, step by step, also while it grows"
EPILOG = """\
examples:
  stepscope view a.steps
  stepscope view a.steps --follow     a trace that is being written, or soon will be
  stepscope view board.steps --source-map /build/engine=~/src/engine
  stepscope view a.steps --web        in a browser on this machine; the address is printed

keys: ? shows them; $XDG_CONFIG_HOME/stepscope/keys.toml gives actions other ones, one a line: film.down = "s,down"
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("trace", metavar="TRACE", help="a step trace, or JSON Lines of one")
    parser.add_argument("--follow", action="store_true", help="go on reading while the file grows")
    parser.add_argument("--theme", metavar="NAME", help="other colours, such as textual-light")
    parser.add_argument(
        "--source-map",
        metavar="FROM=TO",
        type=_source_map,
        action="append",
        default=[],
        help="the engine's sources under FROM (where it was built) are under TO on this machine",
    )
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII alone")
    web = parser.add_argument_group("in a browser")
    web.add_argument("--web", action="store_true", help="serve the view to a browser on this machine, until Ctrl-C")
    web.add_argument("--host", metavar="ADDRESS", help="serve others, too: the address of this machine that they use")
    web.add_argument("--port", metavar="N", type=int, help="the port; without, a free one")


def _source_map(text: str) -> tuple[str, str]:
    old, sign, new = text.partition("=")
    if not (old and sign and new):
        raise argparse.ArgumentTypeError(f"{text!r} is not FROM=TO")
    return old, os.path.expanduser(new)


def run(args: argparse.Namespace) -> int:
    """Show it until the user leaves; 0."""
    if args.web:
        return _serve(args)
    if args.host is not None or args.port is not None:
        raise UsageError("--host and --port are for --web")
    if SERVED not in os.environ and not (sys.stdout.isatty() and sys.stdin.isatty()):
        print("stepscope: view needs a terminal; printing the film instead", file=sys.stderr)
        from inspector.commands.show import print_film

        return print_film(args.trace)
    from inspector.tui.app import run_app

    return run_app(args.trace, args.follow, theme=args.theme, source_maps=args.source_map, ascii=args.ascii)


def _serve(args: argparse.Namespace) -> int:
    """Serve the same command without --web."""
    try:
        from inspector.tui import web
    except ImportError:
        raise UsageError("--web needs textual-serve; type: pip install 'stepscope[web]'") from None
    from inspector.tui.app import refuse_early

    refuse_early(args.trace, args.follow, args.theme)
    words = words_without(sys.argv[2:], ["--web"], ["--host", "--port"])
    name = os.path.basename(args.trace)
    return web.serve(words, f"stepscope: {name}", args.host or web.LOOPBACK, args.port or 0)
