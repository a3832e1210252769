"""Continuous batching: several sequences, one forward for the next token of each.

The weights are read once for all sequences, which is what makes serving many people cheap. Sequences join as
soon as there is a place and leave when they end (Yu et al. 2022, "Orca"); each has a cache of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from engine.loop import (
    Answer,
    Context,
    Result,
    Step,
    StopSettings,
    TokenBytes,
    TokenModel,
    check_request,
    feed_prompt,
    reasons_to_stop,
    rows_of,
)
from engine.loop_settings import LoopSettings
from engine.model import Model
from engine.sampling import Sampler, SamplerSettings, make_sampler
from engine.weights import Array

Round = list[Step]
"""The steps of the sequences that one forward fed, and of those that ended instead of being fed by it."""


class BatchModel(TokenModel, Protocol):
    """What the batched loop needs besides."""

    def forward_batch(self, ids: Sequence[int], caches: Any, timer: Any = None) -> Array:
        """Feed each sequence's next token and return each one's logits, (len(ids), vocab_size)."""


@dataclass(frozen=True)
class Request:
    """A sequence to generate. It has a sampler of its own: its random numbers do not depend on the others'."""

    seq_id: int
    prompt_ids: Sequence[int]
    sampler: Sampler


@dataclass
class _Sequence:
    """A request that has a place in the batch; `logits` are there once its whole prompt is fed."""

    request: Request
    context: Context
    reason_to_stop: Callable[[int, int], str | None]
    logits: Array | None = None
    finish: str | None = None


def generate_batched(
    model: BatchModel,
    requests: Sequence[Request],
    stops: StopSettings,
    capacity: int,
    token_bytes: TokenBytes | None = None,
    max_batch: int = 8,
    prefill_chunk: int | None = None,
    new_cache: Callable[[int], Sequence[Any]] | None = None,
) -> Iterator[Round]:
    """Generate for all requests, yielding every round when it is over.

    A round is one forward: a part of one prompt, or the next token of every sequence whose prompt is fed. At most
    `max_batch` sequences run together, the others wait for a place; each may hold `capacity` tokens. With
    `prefill_chunk` a long prompt that joins holds up the others for no longer than a chunk takes. new_cache: gives a
    sequence its cache, instead of the model's call of that name. Raises EngineError as `engine.loop.generate` does,
    before anything is fed.
    """
    new_cache = new_cache or model.new_cache
    for request in requests:
        check_request(request.prompt_ids, stops, capacity, token_bytes)
    waiting, active = deque(requests), list[_Sequence]()
    while waiting or active:
        while waiting and len(active) < max_batch:
            context = Context([], new_cache(capacity))
            active.append(_Sequence(waiting.popleft(), context, reasons_to_stop(stops, capacity, token_bytes)))
        for joining in active:
            if joining.logits is None:
                yield [_feed_prompt(model, joining, stops, prefill_chunk)]
        decoding = [sequence for sequence in active if sequence.logits is not None and not sequence.finish]
        if decoding:
            yield _decode(model, decoding)
        active = [sequence for sequence in active if not sequence.finish]


def run_batch(
    model: Model,
    prompts: Sequence[Sequence[int]],
    sampler: SamplerSettings | None = None,
    stops: StopSettings | None = None,
    loop: LoopSettings | None = None,
) -> list[Result]:
    """Generate for several prompts together and return their results, in order; nothing is timed or recorded.

    Every sequence samples with the same settings and seed. Raises EngineError as `generate_batched` does.
    """
    stops, loop = stops or StopSettings(eos=model.defaults.eos), loop or LoopSettings("batched")
    requests = make_requests(prompts, sampler or SamplerSettings())
    rounds = generate_batched(
        model,
        requests,
        stops,
        loop.capacity_of(model),
        model.tokenizer.token_bytes if model.tokenizer else None,
        loop.max_batch,
        loop.prefill_chunk,
        partial(model.new_cache, dtype=loop.kv_dtype),
    )
    return collect_batch(rounds, requests, stops, model)


def make_requests(prompts: Sequence[Sequence[int]], sampler: SamplerSettings) -> list[Request]:
    """A request for each prompt, numbered from 0."""
    return [Request(seq_id, prompt, make_sampler(sampler)) for seq_id, prompt in enumerate(prompts)]


def collect_batch(
    rounds: Iterator[Round], requests: Sequence[Request], stops: StopSettings, model: Model
) -> list[Result]:
    """Run a batch to its end. Ctrl-C, wherever it strikes, ends what still runs with finish "abort"."""
    answers = {r.seq_id: Answer(len(r.prompt_ids), stops, model.tokenizer) for r in requests}
    try:
        for steps in rounds:
            for step in steps:
                answers[step.seq_id].add(step)
    except KeyboardInterrupt:
        pass
    return [answer.result() for answer in answers.values()]


def _feed_prompt(model: TokenModel, joining: _Sequence, stops: StopSettings, chunk: int | None) -> Step:
    request, context = joining.request, joining.context
    step, logits = feed_prompt(model, request.prompt_ids, context, stops, chunk)
    if len(context.ids) == len(request.prompt_ids):
        joining.logits = logits
    joining.finish = step.finish
    return replace(step, seq_id=request.seq_id)


def _decode(model: BatchModel, sequences: Sequence[_Sequence]) -> Round:
    """Sample for every sequence, and feed those that go on with one forward."""
    picks, lengths = [], [len(sequence.context.ids) for sequence in sequences]
    for sequence, length in zip(sequences, lengths, strict=True):
        assert sequence.logits is not None
        picks.append(sequence.request.sampler(sequence.logits, sequence.context.ids))
        sequence.finish = sequence.reason_to_stop(picks[-1].token_id, length)
    fed = [(sequence, pick) for sequence, pick in zip(sequences, picks, strict=True) if not sequence.finish]
    if fed:
        caches = [sequence.context.cache for sequence, _ in fed]
        logits = model.forward_batch([pick.token_id for _, pick in fed], caches)
        for (sequence, pick), its_own in zip(fed, logits, strict=True):
            sequence.logits = its_own
            sequence.context.ids.append(pick.token_id)
    return [
        Step(
            "decode",
            pick,
            0 if sequence.finish else 1,
            seq_before,
            len(sequence.context.ids),
            rows_of(sequence.context.cache),
            sequence.finish,
            seq_id=sequence.request.seq_id,
        )
        for sequence, pick, seq_before in zip(sequences, picks, lengths, strict=True)
    ]
