"""`stepscope run`: generate with the reference engine, recording every step."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inspector.cli import UsageError, complain, tell, words_without
from inspector.generating import (
    Printer,
    about_model,
    add_cache,
    add_loop,
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
    from engine.loop import Result, StopSettings
    from engine.loop_settings import LoopSettings
    from engine.model import Model

HELP = "generate with the reference engine and record every step"
EPILOG = """\
The generated text goes to standard output, the trace to a file. Without MODEL the embedded model runs: it lists
letters, numbers, days and months.

exit codes: 0 generated, 2 usage or unreadable input, 130 after Ctrl-C (the trace is whole up to there)

examples:
  stepscope run -p "List the first six letters of the alphabet" -o a.steps
  stepscope run ~/models/Qwen2.5-0.5B-Instruct -p "Why is the sky blue?" --max-new-tokens 64 --live
  stepscope run smollm2 -p "What is the capital of France?"
  stepscope run MODEL --prompt-ids 1,2,3 --ignore-eos --max-new-tokens 100
  stepscope run MODEL -p "A poem" --temperature 0.8 --top-p 0.95 --seed 7
  stepscope run MODEL -p "Count to forty" --loop naive            what a KV cache saves
  stepscope run MODEL --prompt-file code.txt --loop speculative --draft-k 8
  stepscope run MODEL -p "Count to ten" -p "Name three months"    both together, batched
"""
_INTERRUPTED = 130
_MOST_BYTES = 16 << 20  # no context is longer, and /dev/zero has no end


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        help="a Hugging Face model folder, a .gguf file, smollm2 (if installed), or the id of a model in the "
        "Hugging Face cache; without, demo, the embedded one",
    )
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument(
        "-p",
        "--prompt",
        metavar="TEXT",
        action="append",
        help="what to ask, put through the model's chat template; several run together, batched",
    )
    prompt.add_argument("--prompts-file", metavar="FILE", help="several, one a line, - for standard input")
    prompt.add_argument("--prompt-file", metavar="FILE", help="the same from a file, - for standard input")
    prompt.add_argument("--prompt-ids", metavar="IDS", help="exact token ids, 1,2,3")
    parser.add_argument("--raw", action="store_true", help="feed the text as it is, without the chat template")
    parser.add_argument("--system", metavar="TEXT", help="a system message before the prompt")
    parser.add_argument("-o", "--output", metavar="TRACE", help="the trace; without, a new file in this folder")
    parser.add_argument("--no-trace", action="store_true", help="generate only")
    add_threads(parser)
    parser.add_argument("--live", action="store_true", help="show the steps while they happen")
    parser.add_argument("--theme", metavar="NAME", help="other colours for --live, such as textual-light")
    add_stops(parser.add_argument_group("when to stop"))
    add_sampling(parser)
    loop = parser.add_argument_group("loop and cache")
    add_loop(loop)
    add_cache(loop)


def run(args: argparse.Namespace) -> int:
    """Generate; 0, or 130 after Ctrl-C."""
    from engine.errors import EngineError

    if args.no_trace and (args.output or args.live):
        raise UsageError("--no-trace leaves nothing for -o or --live")
    if args.theme and not args.live:
        raise UsageError("--theme is for --live")
    if args.prompt_ids is not None and (args.raw or args.system is not None):
        raise UsageError("--prompt-ids are fed as they are: --raw and --system do not go with them")
    if args.raw and args.system is not None:
        raise UsageError("--raw skips the chat template, which is where --system would go")
    try:
        return _live(args) if args.live else _generate(args)
    except EngineError as error:
        raise UsageError(about_model(args, error)) from None


def _generate(args: argparse.Namespace) -> int:
    from engine.loop import StopSettings
    from inspector.names import named, new_run

    prompts = _prompt_texts(args)
    check_sampling(args)
    loop = loop_of(args, _loop_kind(args, prompts))
    model = open_model(args)
    stops = StopSettings(model.defaults.eos, args.max_new_tokens, tuple(args.stop), args.ignore_eos)
    trace = None if args.no_trace else named(args.output) or new_run()
    chosen = [_prompt(args, model, prompt) for prompt in prompts]
    results = (_together if loop.kind == "batched" else _alone)(args, model, chosen, stops, loop, trace)
    if trace is not None:
        n = sum(len(result.tokens) for result in results)
        finish = ", ".join(result.finish for result in results[:8]) + (", …" if len(results) > 8 else "")
        tell(f"{trace}: {n} tokens, finish={finish}")
    return _INTERRUPTED if any(result.finish == "abort" for result in results) else 0


Chosen = list[tuple[str | None, list[int]]]
"""(text, ids) of every prompt."""


def _alone(
    args: argparse.Namespace, model: Model, prompts: Chosen, stops: StopSettings, loop: LoopSettings, trace: str | None
) -> list[Result]:
    """One prompt, its text shown as it comes."""
    from engine.loop import run_generation
    from engine.tracing import record_generation

    [(text, ids)] = prompts
    sampler, show = sampler_of(args, model), Printer()
    if trace is None:
        result = run_generation(model, ids, sampler, stops, on_text=show, loop=loop)
    else:
        result = record_generation(model, ids, sampler, stops, trace, prompt_text=text, on_text=show, loop=loop)
    show.end()
    return [result]


def _together(
    args: argparse.Namespace, model: Model, prompts: Chosen, stops: StopSettings, loop: LoopSettings, trace: str | None
) -> list[Result]:
    """Several prompts; each answer is shown whole, behind its number, when all are over."""
    from engine.batched import run_batch
    from engine.tracing import record_batch

    sampler, show = sampler_of(args, model), Printer()
    texts, ids = [text for text, _ in prompts], [ids for _, ids in prompts]
    if trace is None:
        results = run_batch(model, ids, sampler, stops, loop)
    else:
        results = record_batch(model, ids, sampler, stops, trace, texts, loop=loop)
    for seq_id, result in enumerate(results):
        show(f"[{seq_id}] {result.text}")
        show.end()
    return results


def _loop_kind(args: argparse.Namespace, prompts: list[str | None]) -> str:
    if args.loop in (None, "batched"):
        return args.loop or ("batched" if len(prompts) > 1 else "cached")
    if len(prompts) > 1:
        raise UsageError(f"--loop {args.loop} runs one prompt, here are {len(prompts)}; use --loop batched")
    return str(args.loop)


def _prompt_texts(args: argparse.Namespace) -> list[str | None]:
    """The texts asked for, read before a large model is; a single None where ids were given."""
    if args.prompt_ids is not None:
        return [None]
    prompts: list[str] = args.prompt or []
    if args.prompt_file is not None:
        prompts = [_read(args.prompt_file)]
    elif args.prompts_file is not None:
        prompts = [line for line in _read(args.prompts_file).splitlines() if line.strip()]
    if not all(map(is_text, prompts)):
        raise UsageError("the prompt is not UTF-8 text")
    if not prompts or not all(prompt.strip() for prompt in prompts):
        raise UsageError("the prompt is empty; give at least one word")
    return list(prompts)


def _read(name: str) -> str:
    """The text of a file, - for standard input."""
    try:
        if name == "-":
            text = sys.stdin.read(_MOST_BYTES + 1)
        else:
            with open(name, "rb") as file:
                text = file.read(_MOST_BYTES + 1).decode().replace("\r\n", "\n")
    except OSError as error:
        raise UsageError(f"{name}: cannot read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not UTF-8 text at byte {error.start}; save it as UTF-8") from None
    if len(text) > _MOST_BYTES:
        raise UsageError(f"{name}: longer than {_MOST_BYTES >> 20} MiB, and so than any model's context; shorten it")
    return text


def _prompt(args: argparse.Namespace, model: Model, prompt: str | None) -> tuple[str | None, list[int]]:
    """(text, ids) as the model will read them."""
    if prompt is None:
        return None, _ids(args.prompt_ids)
    if model.tokenizer is None:
        raise UsageError(f"{args.model}: has no tokenizer; give the prompt as --prompt-ids")
    text = prompt if args.raw else model.tokenizer.chat_prompt(prompt, system=args.system)
    return text, model.tokenizer.encode(text, add_special_tokens=args.raw)


def _ids(words: str) -> list[int]:
    try:
        return [int(word) for word in words.replace(",", " ").split()]
    except ValueError:
        raise UsageError(f"--prompt-ids takes numbers like 1,2,3, not {words!r}") from None


def _live(args: argparse.Namespace) -> int:
    """The engine as a process of its own, its file followed by the TUI: a crash of either harms not the other."""
    from inspector.names import named, new_run

    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise UsageError("--live needs a terminal; without one, `run` and then `show` the trace")
    if "-" in (args.prompt_file, args.prompts_file):
        raise UsageError("--live needs standard input for its keys; give the prompt as -p or a file")
    from inspector.tui.app import refuse_settings, run_app

    refuse_settings(args.theme)
    path = named(args.output) or new_run()
    command = [
        sys.executable,
        "-m",
        "inspector.cli",
        "run",
        *words_without(sys.argv[2:], ["--live"], ["--theme"]),
        "-o",
        path,
    ]
    with _set_aside(path), tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        engine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=complained)
        try:
            run_app(path, follow=True, process=engine, theme=args.theme)
        finally:
            if engine.poll() is None:
                engine.terminate()
            code = engine.wait()
        said.seek(0)
        show = Printer()
        show(said.read().decode("utf-8", "replace"))
        show.end()
        complained.seek(0)
        errors = complained.read().decode("utf-8", "replace").strip().splitlines()
    if errors:
        complain(errors[-1].removeprefix("stepscope: "))
    elif not os.path.exists(path):
        complain("the engine process ended without a trace")
    return code if code >= 0 else 128 - code


@contextmanager
def _set_aside(path: str) -> Iterator[None]:
    """An older trace of that name out of the view's way, and back where the engine wrote none."""
    from traces.frames import MAGIC

    aside = f"{path}.{os.getpid()}.old"
    try:
        with open(path, "rb") as file:
            is_trace = file.read(len(MAGIC)) == MAGIC
    except OSError:
        is_trace = False
    if is_trace:
        os.replace(path, aside)
    try:
        yield
    finally:
        if is_trace and os.path.exists(path):
            os.unlink(aside)
        elif is_trace:
            os.replace(aside, path)
