"""The token loop: sample a token, feed it through the model, append it, and stop when something says so.

It runs on anything with the model's two calls, so it can be read, and tested, without a model. What a person
wants from it, text as it comes and one result at the end, is `run_generation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Protocol

from engine.errors import EngineError
from engine.model import Model
from engine.sampling import Pick, Sampler, SamplerSettings, make_sampler
from engine.text_stream import OnText, StopStringWatch, TextStream
from engine.tokenizer import Tokenizer
from engine.weights import Array


class TokenModel(Protocol):
    """What the loop needs of a model. A cache is one sized object a layer: `len()` is its rows."""

    def new_cache(self, capacity: int) -> Sequence[Sized]:
        """An empty cache for at most `capacity` tokens."""

    def forward(self, ids: Sequence[int], cache: Any, timer: Any = None) -> Array:
        """Feed `ids`, growing every layer's cache, and return the last position's logits, (vocab_size,)."""


@dataclass(frozen=True)
class StopSettings:
    """When a sequence ends: at an id of `eos`, after `max_new_tokens` sampled tokens, or at a stop string.

    Raises EngineError for values out of range.
    """

    eos: tuple[int, ...] = ()
    max_new_tokens: int = 256
    stop_strings: tuple[str, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        if self.max_new_tokens < 0:
            raise EngineError(f"max_new_tokens is {self.max_new_tokens}; it is 0 (only the prompt is fed) or more")
        if "" in self.stop_strings:
            raise EngineError("a stop string is empty; give at least one character")


@dataclass(frozen=True)
class Step:
    """One step of the loop, over: lengths in tokens, `cache_len` in rows, read from each layer's cache.

    phase: "prefill" (no pick) or "decode". n_tokens: tokens fed, 0 where the sampled token was not.
    finish: None, or "eos", "length", "stop", "capacity".
    """

    phase: str
    pick: Pick | None
    n_tokens: int
    seq_before: int
    seq_len: int
    cache_len: tuple[int, ...]
    finish: str | None


@dataclass(frozen=True)
class Result:
    """A finished generation: all sampled ids, an EOS included, and their text, up to a stop string.

    finish: "eos", "length", "stop" (string), "capacity" (the context is full) or "abort" (Ctrl-C).
    """

    prompt_tokens: int
    tokens: tuple[int, ...]
    text: str
    finish: str


def generate(
    model: TokenModel,
    prompt_ids: Sequence[int],
    sampler: Sampler,
    stops: StopSettings,
    capacity: int,
    token_bytes: Callable[[int], bytes] | None = None,
) -> Iterator[Step]:
    """Generate after a prompt, yielding every step when it is over; the last one carries the reason.

    The token that ends the sequence is not fed: its step has n_tokens 0. capacity: the most tokens the cache
    may hold. token_bytes: a token's raw bytes, needed by stop strings only. Raises EngineError for an empty
    prompt, one longer than the capacity, or stop strings without `token_bytes`.
    """
    check_request(prompt_ids, stops, capacity, token_bytes)
    cache = model.new_cache(capacity)
    sequence = list(prompt_ids)
    reason_to_stop = _reasons_to_stop(stops, capacity, token_bytes)

    logits = model.forward(sequence, cache)
    finish = None if stops.max_new_tokens else "length"
    yield Step("prefill", None, len(sequence), 0, len(sequence), _rows(cache), finish)

    while not finish:
        pick = sampler(logits, sequence)
        finish = reason_to_stop(pick.token_id, len(sequence))
        seq_before = len(sequence)
        if not finish:
            logits = model.forward([pick.token_id], cache)
            sequence.append(pick.token_id)
        n_fed = len(sequence) - seq_before
        yield Step("decode", pick, n_fed, seq_before, len(sequence), _rows(cache), finish)


def check_request(
    prompt_ids: Sequence[int], stops: StopSettings, capacity: int, token_bytes: Callable[[int], bytes] | None
) -> None:
    """Raise EngineError for a request that `generate` would refuse, before anything is done for it."""
    if not prompt_ids:
        raise EngineError("the prompt is empty; give at least one token")
    if len(prompt_ids) > capacity:
        raise EngineError(f"the prompt has {len(prompt_ids)} tokens, the context holds {capacity}; shorten the prompt")
    if stops.stop_strings and token_bytes is None:
        raise EngineError("stop strings need the model's tokenizer.json, which is missing; use token ids to stop at")


def run_generation(
    model: Model,
    prompt_ids: Sequence[int],
    sampler: SamplerSettings | None = None,
    stops: StopSettings | None = None,
    on_text: OnText | None = None,
) -> Result:
    """Generate with a loaded model and return the whole result; nothing is timed or recorded.

    stops: by default the EOS ids that the model's files name, and 256 tokens. Ctrl-C ends the generation with
    finish "abort". Raises EngineError as `generate` does.
    """
    stops = stops or StopSettings(eos=model.defaults.eos)
    steps = generate(
        model,
        prompt_ids,
        make_sampler(sampler or SamplerSettings()),
        stops,
        model.config.context_length,
        model.tokenizer.token_bytes if model.tokenizer else None,
    )
    return collect(steps, len(prompt_ids), stops, model.tokenizer, on_text)


def collect(
    steps: Iterator[Step],
    prompt_tokens: int,
    stops: StopSettings,
    tokenizer: Tokenizer | None = None,
    on_text: OnText | None = None,
) -> Result:
    """Run a loop to its end. Ctrl-C, wherever it strikes, ends it with finish "abort"."""
    tokens: list[int] = []
    text = TextStream(stops.stop_strings, on_text)
    finish = "abort"
    try:
        for step in steps:
            finish = step.finish or finish
            if step.pick is not None:
                tokens.append(step.pick.token_id)
                if tokenizer and step.finish != "eos" and not tokenizer.is_special(step.pick.token_id):
                    text.feed(tokenizer.token_bytes(step.pick.token_id))
    except KeyboardInterrupt:
        finish = "abort"
    text.end(at_stop_string=finish == "stop")
    return Result(prompt_tokens, tuple(tokens), text.shown, finish)


def _rows(cache: Sequence[Sized]) -> tuple[int, ...]:
    return tuple(map(len, cache))


def _reasons_to_stop(
    stops: StopSettings, capacity: int, token_bytes: Callable[[int], bytes] | None
) -> Callable[[int, int], str | None]:
    """(the token just sampled, the sequence's length before it) -> why the token is not fed, or None."""
    n_sampled = 0
    text = StopStringWatch(stops.stop_strings)

    def reason(token_id: int, seq_len: int) -> str | None:
        nonlocal n_sampled
        n_sampled += 1
        if token_id in stops.eos and not stops.ignore_eos:
            return "eos"
        if token_bytes and text.completed_by(token_bytes(token_id)):
            return "stop"
        if n_sampled >= stops.max_new_tokens:
            return "length"
        return "capacity" if seq_len >= capacity else None

    return reason
