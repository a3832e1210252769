"""What the verbs that generate share: flags for stopping, sampling and the loop, and text shown as it comes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.errors import EngineError
    from engine.loop_settings import LoopSettings
    from engine.model import Model
    from engine.sampling import SamplerSettings

_LOOPS = ("cached", "naive", "speculative", "batched")
_FLAGS_OF = {
    "draft_k": ("speculative",),
    "draft_model": ("speculative",),
    "n_keep": ("cached",),
    "max_batch": ("batched",),
    "prefill_chunk": ("cached", "speculative", "batched"),
    "kv_dtype": ("cached", "speculative", "batched"),
}
"""The loops that a flag says something about."""


def add_stops(group: Any) -> None:
    """Flags that say when to stop."""
    group.add_argument("--max-new-tokens", metavar="N", type=int, default=256, help="at most N tokens (default 256)")
    group.add_argument("--ignore-eos", action="store_true", help="go on after an end token, to --max-new-tokens")
    group.add_argument(
        "--stop", metavar="TEXT", action="append", default=[], help="stop where TEXT appears; repeatable"
    )


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """Flags of the sampler."""
    group = parser.add_argument_group(
        "sampling",
        "greedy unless a temperature above 0 is given; what then stays "
        "open is taken from the model's generation_config.json",
    )
    group.add_argument("--temperature", metavar="T", type=float, default=0.0, help="0 or less is greedy (default)")
    group.add_argument("--top-k", metavar="K", type=int, help="only the K best; 0 is off")
    group.add_argument("--top-p", metavar="P", type=float, help="only the best that together reach P; 1 is off")
    group.add_argument("--min-p", metavar="P", type=float, help="only those at least P times as likely as the best")
    group.add_argument(
        "--repetition-penalty", metavar="R", type=float, help="divide the logits of ids that came before"
    )
    group.add_argument("--seed", metavar="N", type=int, help="repeat the same draw")


def add_loop(group: Any) -> None:
    """The flag that chooses among all loops, and those that only `run` can follow."""
    group.add_argument(
        "--loop",
        choices=_LOOPS,
        help="cached (default) | naive: no cache, everything computed again each step | speculative: drafts verified "
        "together | batched: several prompts together (default for several)",
    )
    group.add_argument("--draft-k", metavar="K", type=int, help="speculative: at most K drafts a forward (default 4)")
    group.add_argument(
        "--draft-model", metavar="MODEL", help="speculative: drafts by a smaller model; without, from the text so far"
    )
    group.add_argument("--max-batch", metavar="N", type=int, help="batched: at most N together (default 8)")


def add_cache(group: Any) -> None:
    """Flags about the KV cache."""
    group.add_argument("--context", metavar="N", type=int, help="at most N tokens in the cache (default: the model's)")
    group.add_argument(
        "--n-keep", metavar="N", type=int, help="when the context is full, keep the first N and forget half the others"
    )
    group.add_argument("--prefill-chunk", metavar="N", type=int, help="feed a prompt N tokens a step")
    group.add_argument("--kv-dtype", choices=("f32", "int8"), help="int8: a quarter of the memory, a little error")


def add_threads(parser: argparse.ArgumentParser) -> None:
    """The flag about BLAS."""
    parser.add_argument(
        "--threads", metavar="N", type=int, help="threads for matrix products (default: all processors)"
    )


def open_model(args: argparse.Namespace) -> Model:
    """The model that was named, the embedded one without, and the threads that suit it. Raises EngineError."""
    from engine.model import DEMO_MODEL, load_model
    from engine.model_names import find_model
    from engine.threads import settle_threads

    path = DEMO_MODEL if args.model is None else find_model(args.model)
    settle_threads(args.threads, path)
    return load_model(path)


def about_model(args: argparse.Namespace, error: EngineError) -> str:
    """What went wrong, in the command line's words: a setting by its flag, and the model it went wrong with, since an
    error met while generating names no file."""
    name, _, rest = str(error).partition(" ")
    if name in vars(args) and rest.startswith("is "):
        return f"--{name.replace('_', '-')} {rest}"
    return str(error) if args.model is None or args.model in str(error) else f"{args.model}: {error}"


def loop_of(args: argparse.Namespace, kind: str = "cached") -> LoopSettings:
    """The loop that the flags describe. Raises UsageError for flags that say nothing about it, and EngineError."""
    from engine.loop_settings import LoopSettings
    from engine.model import load_model
    from engine.model_names import find_model
    from inspector.cli import UsageError

    given = {name: getattr(args, name) for name in _FLAGS_OF if getattr(args, name, None) is not None}
    for name in given:
        if kind not in _FLAGS_OF[name]:
            flag = "--" + name.replace("_", "-")
            raise UsageError(f"{flag} says nothing about the {kind} loop; it goes with {' or '.join(_FLAGS_OF[name])}")
    checked = LoopSettings(kind, args.context, **{name: v for name, v in given.items() if name != "draft_model"})
    if "draft_model" not in given:
        return checked
    return LoopSettings(kind, args.context, **{**given, "draft_model": load_model(find_model(args.draft_model))})


def check_sampling(args: argparse.Namespace) -> None:
    """Refuse the sampler's flags before a large model is read. Raises UsageError and EngineError."""
    from inspector.cli import UsageError

    for name, off in (("top_k", 0), ("top_p", 1), ("min_p", 0)):
        if args.temperature <= 0 and getattr(args, name) not in (None, off):
            flag = "--" + name.replace("_", "-")
            raise UsageError(f"{flag} says nothing about greedy decoding; give a --temperature above 0")
    _sampler(args, None)


def sampler_of(args: argparse.Namespace, model: Model) -> SamplerSettings:
    """The flags' sampler, with the model's advice where they leave it open."""
    return _sampler(args, model.defaults.sampling)


def _sampler(args: argparse.Namespace, advised: Mapping[str, Any] | None) -> SamplerSettings:
    from engine.sampling import resolve_sampling

    return resolve_sampling(
        advised,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        seed=args.seed,
    )


def is_text(prompt: str) -> bool:
    """Whether it came from UTF-8: bytes that are none arrive as halves of surrogate pairs."""
    return not any(0xD800 <= ord(c) <= 0xDFFF for c in prompt)


class Printer:
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
            sys.stdout.flush()
            self._line_open = False
