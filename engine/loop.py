"""The token loop: sample a token, feed it through the model, append it, and stop when something says so.

It runs on anything with the model's two calls, so it can be read, and tested, without a model. What a person
wants from it, text as it comes and one result at the end, is `run_generation`.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from engine.errors import EngineError
from engine.model import Model
from engine.sampling import Pick, Sampler, SamplerSettings, make_sampler
from engine.tokenizer import Tokenizer
from engine.weights import Array

OnText = Callable[[str], None]
"""Called with each piece of text as soon as it is certain."""


class TokenModel(Protocol):
    """What the loop needs of a model. A cache is one sized object a layer: `len()` is its rows."""

    def new_cache(self, capacity: int) -> Sequence[Sized]:
        """An empty cache for at most `capacity` tokens."""

    def forward(self, ids: Sequence[int], cache: Any, timer: Any = None) -> Array:
        """Feed `ids`, growing every layer's cache, and return the last position's logits, (vocab_size,)."""


@dataclass(frozen=True)
class StopSettings:
    """When a sequence ends: at an id of `eos`, after `max_new_tokens` sampled tokens, or where a stop string
    appears.

    Raises EngineError for values out of range.
    """

    eos: tuple[int, ...] = ()
    max_new_tokens: int = 256
    stop_strings: tuple[str, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        if self.max_new_tokens < 0:
            raise EngineError(
                f"max_new_tokens is {self.max_new_tokens}; it is 0 (only the prompt is fed) or more"
            )
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
    """A finished generation. `tokens` are all sampled ids, an EOS included; `text` is what they say, up to a
    stop string.

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
    _check(prompt_ids, stops, capacity, token_bytes)
    cache = model.new_cache(capacity)
    sequence = list(prompt_ids)
    text_tail = _TextTail(stops.stop_strings, token_bytes)

    logits = model.forward(sequence, cache)
    finish = None if stops.max_new_tokens else "length"
    yield Step("prefill", None, len(sequence), 0, len(sequence), _rows(cache), finish)

    for n_sampled in count(1):
        if finish:
            return
        pick = sampler(logits, sequence)
        finish = _reason_to_stop(pick.token_id, n_sampled, len(sequence), stops, capacity, text_tail)
        seq_before = len(sequence)
        if not finish:
            logits = model.forward([pick.token_id], cache)
            sequence.append(pick.token_id)
        n_fed = len(sequence) - seq_before
        yield Step("decode", pick, n_fed, seq_before, len(sequence), _rows(cache), finish)


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
    text = _TextStream(stops.stop_strings, on_text)
    finish = "abort"
    try:
        for step in steps:
            finish = step.finish or "abort"
            if step.pick is not None:
                tokens.append(step.pick.token_id)
                if tokenizer and step.finish != "eos" and not tokenizer.is_special(step.pick.token_id):
                    text.feed(tokenizer.token_bytes(step.pick.token_id))
    except KeyboardInterrupt:
        finish = "abort"
    text.end(cut=finish == "stop")
    return Result(prompt_tokens, tuple(tokens), text.shown, finish)


def _check(
    prompt_ids: Sequence[int], stops: StopSettings, capacity: int, token_bytes: Callable[[int], bytes] | None
) -> None:
    if not prompt_ids:
        raise EngineError("the prompt is empty; give at least one token")
    if len(prompt_ids) > capacity:
        raise EngineError(
            f"the prompt has {len(prompt_ids)} tokens, the context holds {capacity}; shorten the prompt"
        )
    if stops.stop_strings and token_bytes is None:
        raise EngineError(
            "stop strings need the model's tokenizer.json, which is missing; use token ids to stop at"
        )


def _rows(cache: Sequence[Sized]) -> tuple[int, ...]:
    return tuple(map(len, cache))


def _reason_to_stop(
    token_id: int, n_sampled: int, seq_len: int, stops: StopSettings, capacity: int, text_tail: _TextTail
) -> str | None:
    if token_id in stops.eos and not stops.ignore_eos:
        return "eos"
    if text_tail.completes_a_stop_string(token_id):
        return "stop"
    if n_sampled >= stops.max_new_tokens:
        return "length"
    if seq_len >= capacity:
        return "capacity"
    return None


class _TextTail:
    """The latest bytes of the generated text, as many as a stop string could begin in."""

    def __init__(self, stop_strings: Sequence[str], token_bytes: Callable[[int], bytes] | None) -> None:
        self._stops = [stop.encode() for stop in stop_strings]
        self._token_bytes = token_bytes
        self._kept = max(map(len, self._stops), default=1) - 1
        self._tail = b""

    def completes_a_stop_string(self, token_id: int) -> bool:
        """Add a token; whether a stop string now stands in the text."""
        if not self._stops or self._token_bytes is None:
            return False
        text = self._tail + self._token_bytes(token_id)
        self._tail = text[-self._kept :] if self._kept else b""
        return any(stop in text for stop in self._stops)


class _TextStream:
    """Bytes in, text out as soon as it is certain: whole characters, and nothing that may begin a stop
    string.
    """

    def __init__(self, stop_strings: Sequence[str], on_text: OnText | None) -> None:
        self._shown: list[str] = []
        self._stops = stop_strings
        self._on_text = on_text
        self._held = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def shown(self) -> str:
        """All text so far."""
        return "".join(self._shown)

    def feed(self, data: bytes) -> None:
        """Add a token's bytes."""
        self._held += self._decoder.decode(data)
        self._show(len(self._held) - self._may_begin_a_stop())

    def end(self, cut: bool) -> None:
        """No more bytes will come; show what is left, or where `cut` what stands before the stop string."""
        self._held += self._decoder.decode(b"", final=True)
        found = [at for at in map(self._held.find, self._stops) if cut and at >= 0]
        self._show(min(found, default=len(self._held)))

    def _may_begin_a_stop(self) -> int:
        """How many characters to hold back, from the first that a stop string may begin with."""
        held = self._held
        for start in range(len(held)):
            if any(stop.startswith(held[start:]) or held.startswith(stop, start) for stop in self._stops):
                return len(held) - start
        return 0

    def _show(self, n: int) -> None:
        text, self._held = self._held[:n], self._held[n:]
        if text:
            self._shown.append(text)
            if self._on_text:
                self._on_text(text)
