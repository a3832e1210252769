"""Which loop runs and how it uses its cache: what a person chooses, checked against the model before it runs."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import EngineError
from engine.kv_cache import KV_DTYPES, SPARE_ROWS
from engine.model import Model

LOOPS = ("cached", "naive", "speculative", "batched")


@dataclass(frozen=True)
class LoopSettings:
    """Which loop runs, and how it uses its cache.

    kind: of `LOOPS`. capacity: the most tokens of a sequence; None is the model's context. prefill_chunk: prompt
    tokens a step; None feeds the prompt in one. kv_dtype: of `kv_cache.KV_DTYPES`. n_keep: a full context keeps
    this many first tokens and forgets the older half of the others; None ends the sequence instead. draft_k: the
    most drafts that one forward verifies. draft_model: None drafts from the sequence itself. max_batch: the most
    sequences that run together.
    Raises EngineError for values out of range.
    """

    kind: str = "cached"
    capacity: int | None = None
    prefill_chunk: int | None = None
    kv_dtype: str = "f32"
    n_keep: int | None = None
    draft_k: int = 4
    draft_model: Model | None = None
    max_batch: int = 8

    def __post_init__(self) -> None:
        for name, good, says in (
            ("kind", self.kind in LOOPS, f"one of {', '.join(LOOPS)}"),
            ("capacity", self.capacity is None or self.capacity >= 1, "1 or more"),
            ("prefill_chunk", self.prefill_chunk is None or self.prefill_chunk >= 1, "1 or more"),
            ("kv_dtype", self.kv_dtype in KV_DTYPES, f"one of {', '.join(KV_DTYPES)}"),
            ("n_keep", self.n_keep is None or self.n_keep >= 0, "0 or more"),
            ("draft_k", 1 <= self.draft_k <= SPARE_ROWS, f"from 1 to {SPARE_ROWS}"),
            ("max_batch", self.max_batch >= 1, "1 or more"),
        ):
            if not good:
                called = "context" if name == "capacity" else name
                raise EngineError(f"{called} is {getattr(self, name)!r}; it is {says}")

    def capacity_of(self, model: Model) -> int:
        """The most tokens of a sequence with this model. Raises EngineError where these settings do not fit it."""
        longest = model.config.context_length
        capacity = longest if self.capacity is None else self.capacity
        if capacity > longest:
            raise EngineError(f"a context of {capacity} is asked for, the model's is {longest}; use at most {longest}")
        if self.n_keep is not None:
            self._check_shift(model, self.n_keep, capacity)
        if self.kind == "speculative":
            self._check_drafts(model, capacity)
        return capacity

    def _check_shift(self, model: Model, n_keep: int, capacity: int) -> None:
        n_left = capacity - n_keep - n_discarded(capacity, n_keep)
        if n_keep > capacity - 2:
            raise EngineError(f"n_keep is {n_keep}, the context holds {capacity}; keep at most {capacity - 2}")
        window = max((w for w in model.config.layer_windows if w is not None), default=0)
        if n_left < window:
            raise EngineError(
                f"a shift would leave {n_left} recent tokens, the model's window layers see {window}; "
                "use a larger context or a smaller n_keep"
            )

    def _check_drafts(self, model: Model, capacity: int) -> None:
        if self.draft_k >= capacity:
            raise EngineError(f"draft_k is {self.draft_k}, the context holds {capacity}; draft at most {capacity - 1}")
        if self.draft_model is None:
            return
        ours, theirs = model.config.vocab_size, self.draft_model.config.vocab_size
        if ours != theirs:
            raise EngineError(
                f"the draft model has a vocabulary of {theirs}, the model one of {ours}; "
                "use a draft model of the same family"
            )


def n_discarded(capacity: int, n_keep: int) -> int:
    """How many tokens a shift forgets: half of those that it may."""
    return (capacity - n_keep) // 2
