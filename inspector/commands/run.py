"""`stepscope run`: generate with the reference engine, recording every step."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.model import Model
    from engine.sampling import SamplerSettings

HELP = "generate with the reference engine and record every step"
EPILOG = """\
The generated text goes to standard output, the trace to a file. Without MODEL the embedded model runs: it lists
letters, numbers, days and months.

examples:
  stepscope run -p "List the first six letters of the alphabet" -o a.steps
  stepscope run ~/models/Qwen2.5-0.5B-Instruct -p "Why is the sky blue?" --max-new-tokens 64 --live
  stepscope run smollm2 -p "What is the capital of France?"
  stepscope run MODEL --prompt-ids 1,2,3 --ignore-eos --max-new-tokens 100
  stepscope run MODEL -p "A poem" --temperature 0.8 --top-p 0.95 --seed 7
"""
_INTERRUPTED = 130
_PROMPT_CHARACTERS = 16 << 20  # no context is longer, and /dev/zero has an end


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
    prompt.add_argument("-p", "--prompt", metavar="TEXT", help="what to ask, put through the model's chat template")
    prompt.add_argument("--prompt-file", metavar="FILE", help="the same from a file, - for standard input")
    prompt.add_argument("--prompt-ids", metavar="IDS", help="exact token ids, 1,2,3")
    parser.add_argument("--raw", action="store_true", help="feed the text as it is, without the chat template")
    parser.add_argument("--system", metavar="TEXT", help="a system message before the prompt")
    parser.add_argument("-o", "--output", metavar="TRACE", help="the trace; without, a new file in this folder")
    parser.add_argument("--no-trace", action="store_true", help="generate only")
    parser.add_argument("--live", action="store_true", help="show the steps while they happen")
    parser.add_argument("--theme", metavar="NAME", help="other colours for --live, such as textual-light")
    _stops(parser.add_argument_group("when to stop"))
    _sampling(
        parser.add_argument_group(
            "sampling",
            "greedy unless a temperature above 0 is given; what then stays "
            "open is taken from the model's generation_config.json",
        )
    )


def _stops(group: Any) -> None:
    group.add_argument("--max-new-tokens", metavar="N", type=int, default=256, help="at most N tokens (default 256)")
    group.add_argument("--ignore-eos", action="store_true", help="go on after an end token, to --max-new-tokens")
    group.add_argument(
        "--stop", metavar="TEXT", action="append", default=[], help="stop where TEXT appears; repeatable"
    )


def _sampling(group: Any) -> None:
    group.add_argument("--temperature", metavar="T", type=float, default=0.0, help="0 or less is greedy (default)")
    group.add_argument("--top-k", metavar="K", type=int, help="only the K best; 0 is off")
    group.add_argument("--top-p", metavar="P", type=float, help="only the best that together reach P; 1 is off")
    group.add_argument("--min-p", metavar="P", type=float, help="only those at least P times as likely as the best")
    group.add_argument(
        "--repetition-penalty", metavar="R", type=float, help="divide the logits of ids that came before"
    )
    group.add_argument("--seed", metavar="N", type=int, help="repeat the same draw")


def run(args: argparse.Namespace) -> int:
    """Generate; 0, or 130 after Ctrl-C."""
    from engine.errors import EngineError
    from inspector.cli import UsageError

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
        raise UsageError(str(error)) from None


def _generate(args: argparse.Namespace) -> int:
    if args.model is None:
        # products of the embedded model's size are over before a second thread wakes; numpy reads this when it loads
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from engine.loop import StopSettings, run_generation
    from engine.model import DEMO_MODEL, load_model
    from engine.model_names import find_model
    from engine.tracing import record_generation
    from inspector.names import new_run

    prompt = _prompt_text(args)
    model = load_model(DEMO_MODEL if args.model is None else find_model(args.model))
    text, ids = _prompt(args, model, prompt)
    stops = StopSettings(model.defaults.eos, args.max_new_tokens, tuple(args.stop), args.ignore_eos)
    sampler = _sampler(args, model)
    show = _Printer()
    if args.no_trace:
        result = run_generation(model, ids, sampler, stops, on_text=show)
    else:
        path = args.output or new_run()
        result = record_generation(model, ids, sampler, stops, path, prompt_text=text, on_text=show)
    show.end()
    if not args.no_trace:
        print(f"stepscope: {path}: {len(result.tokens)} tokens, finish={result.finish}", file=sys.stderr)
    return _INTERRUPTED if result.finish == "abort" else 0


def _prompt_text(args: argparse.Namespace) -> str | None:
    """The text asked for, read before a large model is. None where ids were given."""
    from inspector.cli import UsageError

    if args.prompt_file is None:
        prompt: str | None = args.prompt
    elif args.prompt_file == "-":
        prompt = sys.stdin.read(_PROMPT_CHARACTERS)
    else:
        try:
            with open(args.prompt_file, encoding="utf-8") as file:
                prompt = file.read(_PROMPT_CHARACTERS)
        except UnicodeDecodeError as error:
            raise UsageError(f"{args.prompt_file}: not UTF-8 text (byte {error.start})") from None
    if prompt is not None and any(0xD800 <= ord(c) <= 0xDFFF for c in prompt):
        raise UsageError("the prompt is not UTF-8 text")
    if prompt is not None and not prompt.strip():
        raise UsageError("the prompt is empty; give at least one word")
    return prompt


def _prompt(args: argparse.Namespace, model: Model, prompt: str | None) -> tuple[str | None, list[int]]:
    """(text, ids) as the model will read them."""
    from inspector.cli import UsageError

    if prompt is None:
        return None, _ids(args.prompt_ids)
    if model.tokenizer is None:
        raise UsageError(f"{args.model}: has no tokenizer; give the prompt as --prompt-ids")
    text = prompt if args.raw else model.tokenizer.chat_prompt(prompt, system=args.system)
    return text, model.tokenizer.encode(text, add_special_tokens=args.raw)


def _ids(words: str) -> list[int]:
    from inspector.cli import UsageError

    try:
        return [int(word) for word in words.replace(",", " ").split()]
    except ValueError:
        raise UsageError(f"--prompt-ids takes numbers like 1,2,3, not {words!r}") from None


def _sampler(args: argparse.Namespace, model: Model) -> SamplerSettings:
    from engine.sampling import resolve_sampling

    return resolve_sampling(
        model.defaults.sampling,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        seed=args.seed,
    )


class _Printer:
    """Text to standard output as it comes; at a terminal nothing that the terminal would obey."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._line_open = False

    def __call__(self, text: str) -> None:
        from inspector.text import visible

        sys.stdout.write(visible(text, keep_newlines=True) if self._terminal else text)
        sys.stdout.flush()
        self._line_open = not text.endswith("\n")

    def end(self) -> None:
        """What comes next, a prompt or another program's line, begins on a line of its own."""
        if self._line_open:
            sys.stdout.write("\n")


def _live(args: argparse.Namespace) -> int:
    """The engine as a process of its own, its file followed by the TUI: a crash of either harms not the other."""
    from inspector.cli import UsageError, complain, words_without
    from inspector.names import new_run

    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise UsageError("--live needs a terminal; without one, `run` and then `show` the trace")
    if args.prompt_file == "-":
        raise UsageError("--live needs standard input for its keys; give the prompt as -p or a file")
    from inspector.tui.app import run_app

    path = args.output or new_run()
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
        show = _Printer()
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
