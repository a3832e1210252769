"""`stepscope view`: the film, the text, the layers and the rules of a trace, recorded or growing, in the terminal."""

from __future__ import annotations

import argparse
import os
import sys

from inspector.cli import UsageError, tell, words_without

SERVED = "TEXTUAL_DRIVER"
"""Set where textual-serve runs us: a browser is the terminal"""

HELP = "look at a trace in the terminal, step by step, also while it grows"
EPILOG = """\
examples:
  stepscope view a.steps
  stepscope view a.steps --follow     a trace that is being written, or soon will be
  stepscope view old.steps --against new.steps    two traces side by side, where they first differ
  stepscope view board.steps --source-map /build/engine=~/src/engine
  stepscope view a.steps --web        in a browser on this machine; the address is printed

keys: ? shows them; $XDG_CONFIG_HOME/stepscope/keys.toml gives actions other ones, one a line: film.down = "s,down"
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("trace", metavar="TRACE", help="a step trace, or JSON Lines of one; a folder of record-set")
    parser.add_argument("--against", metavar="NEW", nargs="+", default=[], help="compare with these, as diff does")
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
    sides = _sides(args)
    if args.web:
        return _serve(args, sides)
    if args.host is not None or args.port is not None:
        raise UsageError("--host and --port are for --web")
    if SERVED not in os.environ and not (sys.stdout.isatty() and sys.stdin.isatty()):
        if sides is not None:
            return _print_comparison(*sides)
        from inspector.commands.show import print_film

        print_film(args.trace)
        tell("view needs a terminal; the film was printed instead")
        return 0
    if sides is not None:
        from inspector.tui.diff_viewer import run_diff

        return run_diff(*sides, theme=args.theme, source_maps=args.source_map, ascii=args.ascii)
    from inspector.tui.app import run_app

    return run_app(args.trace, args.follow, theme=args.theme, source_maps=args.source_map, ascii=args.ascii)


Sides = tuple[list[str], list[str]]


def _sides(args: argparse.Namespace) -> Sides | None:
    """The traces of two builds, where two are meant."""
    if not args.against and not os.path.isdir(args.trace):
        return None
    from inspector.record_set import sides_of

    if args.follow:
        raise UsageError("--follow is for one trace")
    base, new, _ = sides_of([args.trace], args.against)
    return base, new


def _print_comparison(base: list[str], new: list[str]) -> int:
    from inspector.commands.diff import print_comparison

    print_comparison(base, new)
    tell("view needs a terminal; what diff says was printed instead")
    return 0


def _serve(args: argparse.Namespace, sides: Sides | None) -> int:
    """Serve the same command without --web."""
    try:
        from inspector.tui import web
    except ImportError:
        raise UsageError("--web needs textual-serve; type: pip install 'stepscope[web]'") from None
    if sides is not None:
        from inspector.tui import diff_viewer

        diff_viewer.refuse_early(*sides, args.theme)
    else:
        from inspector.tui import app

        app.refuse_early(args.trace, args.follow, args.theme)
    words = words_without(sys.argv[2:], ["--web"], ["--host", "--port"])
    name = os.path.basename(args.trace)
    return web.serve(words, f"stepscope: {name}", args.host or web.LOOPBACK, args.port or 0)
