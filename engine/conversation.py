"""A conversation: turns over one cache, each feeding only what the cache does not hold yet.

Every prompt repeats all turns before it. What it shares with the tokens in the cache, its longest common prefix, is
reused: a turn costs what is new in it, not what was said before.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import EngineError
from engine.kv_cache import Rounding
from engine.loop import Context, Result, StopSettings, check_request, keep_prefix
from engine.loop_settings import LoopSettings
from engine.model import Model
from engine.sampling import SamplerSettings, make_sampler
from engine.text_stream import OnText
from engine.tokenizer import Tokenizer
from engine.tracing import note_rounding, record_request
from traces.writer import TraceWriter


@dataclass(frozen=True)
class Turn:
    """One answer, how many of its prompt's tokens were in the cache already, and how many of the oldest questions,
    with their answers, were left out of it for want of room.
    """

    result: Result
    n_reused: int
    n_forgotten: int


class Conversation:
    """Turns with one model, recorded: every turn is a request of its own in the trace.

    writer: open, with a run of `run_facts`; `end` leaves it open. loop: of kind "cached"; with `n_keep` a
    conversation that has outgrown the context goes on without its oldest turns.
    Raises EngineError where the model has no tokenizer or the loop does not fit it.
    """

    def __init__(
        self,
        model: Model,
        writer: TraceWriter,
        sampler: SamplerSettings,
        stops: StopSettings,
        loop: LoopSettings,
        system: str | None = None,
    ) -> None:
        self._tokenizer = tokenizer_of(model)
        self._model, self._writer, self._stops, self._loop, self._system = model, writer, stops, loop, system
        self._capacity = loop.capacity_of(model)
        self._sampler = make_sampler(sampler)
        self._turns: list[dict[str, str]] = []
        self._rounding = Rounding()
        self._context = self._new_context()
        self._seq_id = -1

    def ask(self, text: str, on_text: OnText | None = None) -> Turn:
        """The answer to what the user says next. Ctrl-C ends it with finish "abort"; what was said so far counts.

        Raises EngineError, the conversation being as it was, where all of it no longer fits the context.
        """
        turns, n_forgotten = [*self._turns, {"role": "user", "content": text}], 0
        prompt, ids = self._prompt(turns)
        while len(ids) > self._capacity and len(turns) > 1 and self._loop.n_keep is not None:
            turns, n_forgotten = turns[2:], n_forgotten + 1
            prompt, ids = self._prompt(turns)
        check_request(ids, self._stops, self._capacity, self._tokenizer.token_bytes)
        if not keep_prefix(self._context, ids):
            self._context = self._new_context()
        n_reused = len(self._context.ids)
        self._seq_id += 1
        request = self._seq_id, self._context, self._model, ids, self._sampler, self._stops, self._loop
        result = record_request(self._writer, *request, prompt, on_text)
        self._turns = [*turns, {"role": "assistant", "content": result.text}]
        return Turn(result, n_reused, n_forgotten)

    def forget(self) -> None:
        """Begin anew; what the next prompt shares with the last one, such as a system message, is still reused."""
        self._turns = []

    def end(self) -> None:
        """Note in the trace that the cache is given back."""
        if self._seq_id >= 0:
            self._writer.note("release", seq_id=self._seq_id)
        note_rounding(self._writer, self._rounding)

    def _prompt(self, turns: list[dict[str, str]]) -> tuple[str, list[int]]:
        prompt = self._tokenizer.chat_prompt(turns, system=self._system)
        return prompt, self._tokenizer.encode(prompt)

    def _new_context(self) -> Context:
        return Context([], self._model.new_cache(self._capacity, self._loop.kv_dtype, self._rounding))


def tokenizer_of(model: Model) -> Tokenizer:
    """The model's tokenizer. Raises EngineError where there is none to talk through."""
    if model.tokenizer is None:
        raise EngineError("has no tokenizer to talk through; use stepscope run with --prompt-ids")
    return model.tokenizer
