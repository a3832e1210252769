"""`stepscope chat`: a conversation with the reference engine, recorded; every turn reuses the cache of those before."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from inspector.cli import UsageError, complain, tell
from inspector.generating import (
    Printer,
    about_model,
    add_cache,
    add_sampling,
    add_stops,
    add_threads,
    check_sampling,
    is_text,
    loop_of,
    open_model,
    sampler_of,
)

if TYPE_CHECKING:
    from engine.conversation import Conversation, Turn

HELP = "talk with a model, turn by turn, and record every step"
EPILOG = """\
Each line is a turn; the answers go to standard output, the trace to a file. What a turn's prompt shares with the
turns before it is taken from the cache. /new begins a new conversation, /quit or Ctrl-D ends, Ctrl-C stops an answer.
With --n-keep a conversation that has outgrown the context goes on without its oldest turns.

examples:
  stepscope chat -o talk.steps
  stepscope chat smollm2 --system "Answer briefly."
  printf 'Count to three\\nName two days\\n' | stepscope chat
"""
_LINE_CHARACTERS = 1 << 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("model", metavar="MODEL", nargs="?", help="as for run; without, demo, the embedded one")
    parser.add_argument("--system", metavar="TEXT", help="a system message before the first turn")
    parser.add_argument("-o", "--output", metavar="TRACE", help="the trace; without, a new file in this folder")
    add_threads(parser)
    add_stops(parser.add_argument_group("when to stop an answer"))
    add_sampling(parser)
    add_cache(parser.add_argument_group("cache"))


def run(args: argparse.Namespace) -> int:
    """Talk; 0, or 2 where a turn that was piped in does not fit."""
    from engine.errors import EngineError

    try:
        return _talk(args)
    except EngineError as error:
        raise UsageError(about_model(args, error)) from None


def _talk(args: argparse.Namespace) -> int:
    from engine.conversation import Conversation, tokenizer_of
    from engine.loop import StopSettings
    from engine.tracing import run_facts
    from inspector.names import named, new_run
    from traces.writer import TraceWriter

    check_sampling(args)
    loop = loop_of(args)
    model = open_model(args)
    tokenizer_of(model)
    stops = StopSettings(model.defaults.eos, args.max_new_tokens, tuple(args.stop), args.ignore_eos)
    sampler = sampler_of(args, model).with_seed()
    path = named(args.output) or new_run()
    with TraceWriter(path, run_facts(model, sampler, stops, loop), flush="interval") as writer:
        conversation = Conversation(model, writer, sampler, stops, loop, args.system)
        n_turns = _turns(conversation)
        conversation.end()
    tell(f"{path}: {n_turns} turn{'' if n_turns == 1 else 's'}")
    return 0


def _turns(conversation: Conversation) -> int:
    """Ask what the person says until there is no more; the number of turns answered."""
    from engine.errors import EngineError

    show, n_turns = Printer(), 0
    for line in _lines():
        if line == "/new":
            conversation.forget()
            continue
        try:
            if not is_text(line):
                raise EngineError("this turn is not UTF-8 text; say it in other words")
            turn = conversation.ask(line, show)
        except EngineError as error:
            if not sys.stdin.isatty():
                raise
            complain(f"{error}, or type /new to begin anew")
            continue
        show.end()
        n_turns += 1
        if sys.stderr.isatty():
            print(_remark(turn), file=sys.stderr)
    return n_turns


def _lines() -> Iterator[str]:
    """What the person types, line by line, until /quit, Ctrl-D or the end of what is piped in."""
    if sys.stdin.isatty():
        import readline  # noqa: F401 - gives input() its line editing
    while True:
        try:
            line = input("> ") if sys.stdin.isatty() else sys.stdin.readline(_LINE_CHARACTERS)
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if line.strip() == "/quit" or (not line and not sys.stdin.isatty()):
            return
        if line.strip():
            yield line.strip()


def _remark(turn: Turn) -> str:
    result = turn.result
    fed = result.prompt_tokens - turn.n_reused
    forgotten = f"; {turn.n_forgotten} of the oldest turns forgotten" if turn.n_forgotten else ""
    ended = "" if result.finish == "eos" else f"; finish={result.finish}"
    return f"({turn.n_reused} of {result.prompt_tokens} prompt tokens from the cache, {fed} fed{forgotten}{ended})"
