"""Guesses at what comes next, for the speculative loop to verify: from the sequence itself, or by a small model.

A drafter may be wrong at no cost but time: only what the model itself would have picked is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.model import Model

_LONGEST_NGRAM = 3


class Drafter(Protocol):
    """What the speculative loop needs."""

    def propose(self, sequence: Sequence[int], k: int) -> list[int]:
        """Up to `k` ids that may follow the sequence; none where there is no guess."""

    def keep(self, length: int) -> int | None:
        """The sequence is now `length` tokens long: forget what was drafted beyond. Returns the rows of the
        drafter's own cache, None where it has none.
        """


class NgramDrafter:
    """What followed the last time that the sequence's last three tokens, else two, else one, stood in it.

    Prompt lookup decoding (Saxena 2023, https://github.com/apoorvumang/prompt-lookup-decoding). Where the earlier
    place is so near that its continuation runs into the end, the text is taken to repeat itself.
    """

    def __init__(self) -> None:
        self._after: dict[tuple[int, ...], int] = {}
        self._indexed = 0

    def propose(self, sequence: Sequence[int], k: int) -> list[int]:
        self._index(sequence)
        for n in range(min(_LONGEST_NGRAM, len(sequence) - 1), 0, -1):
            at = self._after.get(tuple(sequence[-n:]))
            if at is not None:
                period = len(sequence) - at
                return [sequence[at + i % period] for i in range(k)]
        return []

    def keep(self, length: int) -> None:
        return None  # only accepted tokens are indexed

    def _index(self, sequence: Sequence[int]) -> None:
        """Note where each n-gram was last followed by something; the sequence's end is not yet."""
        for end in range(self._indexed + 1, len(sequence)):
            for n in range(1, min(_LONGEST_NGRAM, end) + 1):
                self._after[tuple(sequence[end - n : end])] = end
        self._indexed = len(sequence) - 1


class ModelDrafter:
    """Drafts greedily with a smaller model of the same vocabulary, which has a cache of its own."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._capacity = model.config.context_length
        self._cache = model.new_cache(self._capacity)

    def propose(self, sequence: Sequence[int], k: int) -> list[int]:
        """The last draft is not fed: so the cache is one row short where all of them are accepted."""
        k = min(k, self._capacity - len(sequence) + 1)
        drafts: list[int] = []
        pending = list(sequence[self._cache[0].position :])
        while len(drafts) < k:
            logits = self._model.forward(pending, self._cache)
            pending = [int(logits.argmax())]
            drafts += pending
        return drafts

    def keep(self, length: int) -> int:
        for layer in self._cache:
            layer.cut(length)
        return self._cache[0].position
