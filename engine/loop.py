"""The token loop: sample a token, feed it through the model, append it, and stop when something says so.

Three loops of one shape stand here, one sequence each: cached, naive and speculative; `engine/batched.py` runs
several sequences together. They run on anything with the model's calls, so they can be read, and tested, without
a model. What a person wants from them, text as it comes and one result at the end, is `run_generation`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Protocol

from engine.drafts import Drafter, ModelDrafter, NgramDrafter
from engine.errors import EngineError
from engine.loop_settings import LoopSettings, n_discarded
from engine.model import Model
from engine.sampling import Pick, Sampler, SamplerSettings, make_sampler
from engine.text_stream import OnText, StopStringWatch, TextStream
from engine.tokenizer import Tokenizer
from engine.weights import Array

TokenBytes = Callable[[int], bytes]


class TokenModel(Protocol):
    """What the loops need of a model. A cache is one sized object a layer: `len()` is its rows."""

    def new_cache(self, capacity: int) -> Sequence[Any]:
        """An empty cache for at most `capacity` tokens."""

    def forward(self, ids: Sequence[int], cache: Any, timer: Any = None) -> Array:
        """Feed `ids`, growing every layer's cache, and return the last position's logits, (vocab_size,)."""


class DraftedModel(TokenModel, Protocol):
    """What the speculative loop needs besides; its layers' caches also have `cut(length)`."""

    def forward_each(self, ids: Sequence[int], cache: Any, timer: Any = None) -> Array:
        """The same with the logits of every position, (len(ids), vocab_size)."""


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
        if any("\ud800" <= c <= "\udfff" for stop in self.stop_strings for c in stop):
            raise EngineError("a stop string is not UTF-8 text; say it in other characters")


@dataclass
class Context:
    """What a sequence's cache holds: the ids in order, and one cache a layer.

    shifted_at: None, or the first row that a shift changed: from there on rows have seen what is forgotten, and
    are those of no other sequence, whatever its ids.
    """

    ids: list[int]
    cache: Sequence[Any]
    shifted_at: int | None = None


@dataclass(frozen=True)
class Step:
    """One step of a loop, over: lengths in tokens, `cache_len` in rows, read from each layer's cache.

    phase: "prefill" (no pick), "decode", or "verify", which also fed `drafts` and kept the first `n_accepted`.
    n_tokens: tokens fed, 0 where the sampled token was not. finish: None, or "eos", "length", "stop", "capacity".
    shift: (n_keep, n_discard) where a full context was shifted before the token was fed. draft_cache_len: rows of
    the draft model's cache, where there is one.
    """

    phase: str
    pick: Pick | None
    n_tokens: int
    seq_before: int
    seq_len: int
    cache_len: tuple[int, ...]
    finish: str | None
    shift: tuple[int, int] | None = None
    drafts: tuple[int, ...] = ()
    n_accepted: int = 0
    draft_cache_len: int | None = None
    seq_id: int = 0


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
    token_bytes: TokenBytes | None = None,
    context: Context | None = None,
    prefill_chunk: int | None = None,
    n_keep: int | None = None,
) -> Iterator[Step]:
    """The cached loop: yields every step when it is over; the last one carries the reason.

    The token that ends the sequence is not fed: its step has n_tokens 0. capacity: the most tokens the cache
    may hold. token_bytes: a token's raw bytes, needed by stop strings only. context: what is already in the
    cache, a prefix of the prompt (`keep_prefix`), and grows with it; by default nothing. prefill_chunk, n_keep:
    as in LoopSettings; only a model with `shift` can keep. Raises EngineError for an empty prompt, one longer
    than the capacity, or stop strings without `token_bytes`.
    """
    check_request(prompt_ids, stops, capacity, token_bytes)
    context = context or Context([], model.new_cache(capacity))
    sequence, cache = context.ids, context.cache
    reason_to_stop = reasons_to_stop(stops, capacity if n_keep is None else None, token_bytes)

    logits = yield from prefill(model, prompt_ids, context, stops, prefill_chunk)
    finish = None if stops.max_new_tokens else "length"

    while not finish:
        pick = sampler(logits, sequence)
        finish = reason_to_stop(pick.token_id, len(sequence))
        shifted = None
        if not finish and n_keep is not None and len(sequence) >= capacity:
            shifted = n_keep, n_discarded(capacity, n_keep)
            _shift(model, context, *shifted)
        seq_before = len(sequence)
        if not finish:
            logits = model.forward([pick.token_id], cache)
            sequence.append(pick.token_id)
        n_fed = len(sequence) - seq_before
        yield Step("decode", pick, n_fed, seq_before, len(sequence), rows_of(cache), finish, shifted)


def generate_naive(
    model: TokenModel,
    prompt_ids: Sequence[int],
    sampler: Sampler,
    stops: StopSettings,
    capacity: int,
    token_bytes: TokenBytes | None = None,
) -> Iterator[Step]:
    """The loop without a cache: every step feeds the whole sequence again and forgets its keys and values.

    It yields the tokens of `generate`, for the price that a cache saves. Raises EngineError as `generate` does.
    """
    check_request(prompt_ids, stops, capacity, token_bytes)
    sequence = list(prompt_ids)
    reason_to_stop = reasons_to_stop(stops, capacity, token_bytes)

    no_rows = rows_of(model.new_cache(capacity))
    logits = model.forward(sequence, model.new_cache(capacity))
    finish = None if stops.max_new_tokens else "length"
    yield Step("prefill", None, len(sequence), 0, len(sequence), no_rows, finish)

    while not finish:
        pick = sampler(logits, sequence)
        finish = reason_to_stop(pick.token_id, len(sequence))
        seq_before = len(sequence)
        if not finish:
            sequence.append(pick.token_id)
            logits = model.forward(sequence, model.new_cache(capacity))
        n_fed = 0 if finish else len(sequence)
        yield Step("decode", pick, n_fed, seq_before, len(sequence), no_rows, finish)


def generate_speculative(
    model: DraftedModel,
    prompt_ids: Sequence[int],
    sampler: Sampler,
    stops: StopSettings,
    capacity: int,
    drafter: Drafter,
    draft_k: int,
    token_bytes: TokenBytes | None = None,
    context: Context | None = None,
    prefill_chunk: int | None = None,
) -> Iterator[Step]:
    """The loop that guesses ahead (Leviathan et al. 2023, https://arxiv.org/abs/2211.17192).

    The pending token and up to `draft_k` drafts are fed together; the drafts that the sampler would have picked
    itself are kept, the rows of the others are taken back in every layer. So the tokens are those of `generate`,
    whatever the sampler. Raises EngineError as `generate` does.
    """
    check_request(prompt_ids, stops, capacity, token_bytes)
    context = context or Context([], model.new_cache(capacity))
    sequence, cache = context.ids, context.cache
    reason_to_stop = reasons_to_stop(stops, capacity, token_bytes)

    logits = yield from prefill(model, prompt_ids, context, stops, prefill_chunk)
    if not stops.max_new_tokens:
        return
    pick = sampler(logits, sequence)
    finish = reason_to_stop(pick.token_id, len(sequence))

    while not finish:
        seq_before = len(sequence)
        drafts = drafter.propose([*sequence, pick.token_id], min(draft_k, capacity - seq_before - 1))
        fed = [pick.token_id, *drafts]
        logits_of = model.forward_each(fed, cache)
        sequence.append(pick.token_id)

        n_accepted, following = 0, sampler(logits_of[0], sequence)
        finish = reason_to_stop(following.token_id, len(sequence))
        while not finish and n_accepted < len(drafts) and following.token_id == drafts[n_accepted]:
            n_accepted += 1
            sequence.append(following.token_id)
            following = sampler(logits_of[n_accepted], sequence)
            finish = reason_to_stop(following.token_id, len(sequence))
        for layer in cache:
            layer.cut(len(sequence))
        draft_rows = drafter.keep(len(sequence))

        phase = "verify" if drafts else "decode"
        yield Step(
            *(phase, pick, len(fed), seq_before, len(sequence), rows_of(cache), None),
            drafts=tuple(drafts),
            n_accepted=n_accepted,
            draft_cache_len=draft_rows,
        )
        pick = following
    yield Step("decode", pick, 0, len(sequence), len(sequence), rows_of(cache), finish)


def prefill(
    model: TokenModel, prompt_ids: Sequence[int], context: Context, stops: StopSettings, chunk: int | None
) -> Generator[Step, None, Array]:
    """Feed what the cache does not hold of a prompt, a step a chunk, and return the prompt's last logits."""
    while len(context.ids) < len(prompt_ids):
        step, logits = feed_prompt(model, prompt_ids, context, stops, chunk)
        yield step
    return logits


def feed_prompt(
    model: TokenModel, prompt_ids: Sequence[int], context: Context, stops: StopSettings, chunk: int | None
) -> tuple[Step, Array]:
    """Feed the next `chunk` tokens of a prompt, or all the rest: the step, and the logits after it."""
    seq_before = len(context.ids)
    fed = prompt_ids[seq_before : None if chunk is None else seq_before + chunk]
    logits = model.forward(fed, context.cache)
    context.ids.extend(fed)
    seq_len = len(context.ids)
    finish = "length" if seq_len == len(prompt_ids) and not stops.max_new_tokens else None
    return Step("prefill", None, len(fed), seq_before, seq_len, rows_of(context.cache), finish), logits


def keep_prefix(context: Context, prompt_ids: Sequence[int]) -> bool:
    """Take back what the prompt does not begin with, and at least its last token, whose logits are needed.

    False where a window layer no longer has the rows for that: a new cache is needed.
    """
    n, most = 0, min(len(context.ids), len(prompt_ids) - 1)
    if context.shifted_at is not None:
        most = min(most, context.shifted_at)
    while n < most and context.ids[n] == prompt_ids[n]:
        n += 1
    if not all(layer.can_cut(n) for layer in context.cache):
        return False
    for layer in context.cache:
        layer.cut(n)
    del context.ids[n:]
    context.shifted_at = None
    return True


def _shift(model: Any, context: Context, n_keep: int, n_discard: int) -> None:
    # said first: a shift that Ctrl-C cuts short has turned some layers
    context.shifted_at = n_keep
    model.shift(context.cache, n_keep, n_discard)
    del context.ids[n_keep : n_keep + n_discard]


def check_request(
    prompt_ids: Sequence[int], stops: StopSettings, capacity: int, token_bytes: TokenBytes | None
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
    loop: LoopSettings | None = None,
) -> Result:
    """Generate with a loaded model and return the whole result; nothing is timed or recorded.

    stops: by default the EOS ids that the model's files name, and 256 tokens. Ctrl-C ends the generation with
    finish "abort". Raises EngineError as `generate` does, and where the loop does not fit the model.
    """
    stops, loop = stops or StopSettings(eos=model.defaults.eos), loop or LoopSettings()
    capacity = loop.capacity_of(model)
    context = Context([], model.new_cache(capacity, loop.kv_dtype))
    pick = make_sampler(sampler or SamplerSettings())
    token_bytes = model.tokenizer.token_bytes if model.tokenizer else None
    steps = start(loop, model, prompt_ids, pick, stops, capacity, token_bytes, context)
    return collect(steps, len(prompt_ids), stops, model.tokenizer, on_text)


def start(
    loop: LoopSettings,
    model: Any,
    prompt_ids: Sequence[int],
    sampler: Sampler,
    stops: StopSettings,
    capacity: int,
    token_bytes: TokenBytes | None,
    context: Context,
) -> Iterator[Step]:
    """The steps of the loop that the settings name, for one sequence. model: with all calls of `Model`."""
    request = model, prompt_ids, sampler, stops, capacity
    if loop.kind == "naive":
        return generate_naive(*request, token_bytes)
    if loop.kind == "speculative":
        draft = loop.draft_model
        drafter = NgramDrafter() if draft is None else ModelDrafter(draft)
        return generate_speculative(*request, drafter, loop.draft_k, token_bytes, context, loop.prefill_chunk)
    return generate(*request, token_bytes, context, loop.prefill_chunk, loop.n_keep)


def collect(
    steps: Iterator[Step],
    prompt_tokens: int,
    stops: StopSettings,
    tokenizer: Tokenizer | None = None,
    on_text: OnText | None = None,
) -> Result:
    """Run a loop to its end. Ctrl-C, wherever it strikes, ends it with finish "abort"."""
    answer = Answer(prompt_tokens, stops, tokenizer, on_text)
    try:
        for step in steps:
            answer.add(step)
    except KeyboardInterrupt:
        answer.finish = "abort"
    return answer.result()


class Answer:
    """One sequence's tokens and text, put together step by step; `finish` is "abort" until a step says otherwise."""

    def __init__(
        self,
        prompt_tokens: int,
        stops: StopSettings,
        tokenizer: Tokenizer | None = None,
        on_text: OnText | None = None,
    ) -> None:
        self.finish = "abort"
        self._prompt_tokens, self._tokenizer = prompt_tokens, tokenizer
        self._tokens: list[int] = []
        self._text = TextStream(stops.stop_strings, on_text)

    def add(self, step: Step) -> None:
        """Take the tokens that a step sampled and kept; an end token is no text."""
        self.finish = step.finish or self.finish
        if step.pick is None:
            return
        for token_id in (step.pick.token_id, *step.drafts[: step.n_accepted]):
            self._tokens.append(token_id)
            if self._tokenizer and step.finish != "eos" and not self._tokenizer.is_special(token_id):
                self._text.feed(self._tokenizer.token_bytes(token_id))

    def result(self) -> Result:
        """No more steps will come."""
        self._text.end(at_stop_string=self.finish == "stop")
        return Result(self._prompt_tokens, tuple(self._tokens), self._text.shown, self.finish)


def rows_of(cache: Sequence[Sized]) -> tuple[int, ...]:
    """What each layer holds, as the layer says."""
    return tuple(map(len, cache))


def reasons_to_stop(
    stops: StopSettings, capacity: int | None, token_bytes: TokenBytes | None
) -> Callable[[int, int], str | None]:
    """(the token just sampled, the sequence's length before it) -> why the token is not fed, or None.

    capacity: None where a full context is no reason.
    """
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
        return "capacity" if capacity is not None and seq_len >= capacity else None

    return reason
