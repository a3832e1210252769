"""Which steps are whose: the sequence of every step, kept so that a film of one sequence needs no reading.

A byte or two a step where sequences take turns, nothing where one runs alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

NOBODY = -1
BLOCK = 1 << 14
MOST_LISTED = 1000
"""More sequences than these are reached by selecting a step of theirs"""
Steps = npt.NDArray[np.int64]


class _Packed(NamedTuple):
    """BLOCK steps. ids: whose they are, ascending. which: of every step, the place in `ids`; None if all are one's."""

    ids: npt.NDArray[np.int32]
    which: npt.NDArray[np.unsignedinteger[Any]] | None


class Sequences:
    """The sequences of the steps given so far, in order. Only ever grows; may be read while another thread adds."""

    def __init__(self) -> None:
        self._full: list[_Packed] = []
        self._filling = 0, np.zeros(BLOCK, np.int32)
        """(how many steps there are, the block that is being filled): replaced together, for who reads meanwhile"""
        self._listed: set[int] = set()
        self.ids: list[int] = []
        """The first MOST_LISTED of them, in the order of their first steps"""

    def add(self, seq_ids: Any, bad: Any) -> None:
        """Steps that follow those given before; `bad` marks damaged ones, which are nobody's."""
        ids = seq_ids.astype(np.int32)
        if bad is not None:
            ids[bad] = NOBODY
        self._list(ids)
        steps, block = self._filling
        while len(ids):
            at = steps % BLOCK
            part, ids = ids[: BLOCK - at], ids[BLOCK - at :]
            block[at : at + len(part)] = part
            steps += len(part)
            if not steps % BLOCK:
                self._full.append(_packed(block))
                block = np.zeros(BLOCK, np.int32)
            self._filling = steps, block

    def _list(self, ids: npt.NDArray[np.int32]) -> None:
        if len(self.ids) >= MOST_LISTED:
            return
        own, places = np.unique(ids, return_index=True)
        for seq_id in own[np.argsort(places)].tolist():
            if seq_id != NOBODY and seq_id not in self._listed and len(self.ids) < MOST_LISTED:
                self._listed.add(seq_id)
                self.ids.append(seq_id)

    def steps_of(self, seq_id: int, steps: int) -> Steps:
        """The steps of one sequence among the first `steps`, ascending."""
        there, last = self._filling
        n = min(steps, there)
        full, rest = divmod(there, BLOCK)
        blocks = self._full[: min(full, -(-n // BLOCK))]
        found = [_places(block, seq_id) + number * BLOCK for number, block in enumerate(blocks)]
        if n > full * BLOCK:
            found.append(np.flatnonzero(last[:rest] == seq_id) + full * BLOCK)
        own = np.concatenate([np.zeros(0, np.int64), *found])
        return own[own < n]


def _packed(ids: npt.NDArray[np.int32]) -> _Packed:
    own, which = np.unique(ids, return_inverse=True)
    return _Packed(own, which.astype(np.min_scalar_type(len(own) - 1)) if len(own) > 1 else None)


def _places(block: _Packed, seq_id: int) -> Steps:
    at = int(np.searchsorted(block.ids, seq_id))
    if at == len(block.ids) or block.ids[at] != seq_id:
        return np.zeros(0, np.int64)
    return np.arange(BLOCK) if block.which is None else np.flatnonzero(block.which == at)
