"""Which steps are whose: the sequence of every step, kept so that a film of one sequence needs no reading.

Four bytes a step where sequences take turns, nothing where one runs alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

NOBODY = -1
Steps = npt.NDArray[np.int64]


class Sequences:
    """The sequences of the steps given so far, in order. Only ever grows; may be read while another thread adds."""

    def __init__(self) -> None:
        self._chunks: list[tuple[int, int, Any]] = []
        self._known: set[int] = set()
        self.ids: list[int] = []
        """In the order of their first steps"""

    def add(self, first_step: int, seq_ids: Any, bad: Any) -> None:
        """Steps that follow those given before; `bad` marks damaged ones, which are nobody's."""
        ids = seq_ids.astype(np.int32)
        if bad is not None:
            ids[bad] = NOBODY
        own, places = np.unique(ids, return_index=True)
        for seq_id in own[np.argsort(places)].tolist():
            if seq_id != NOBODY and seq_id not in self._known:
                self._known.add(seq_id)
                self.ids.append(seq_id)
        self._add_chunk(first_step, len(ids), int(own[0]) if len(own) == 1 else ids)

    def _add_chunk(self, first_step: int, n: int, ids: Any) -> None:
        """A chunk of one sequence's steps lengthens the one before it: a day of small chunks is one entry."""
        if self._chunks and isinstance(ids, int):
            first, before, whose = self._chunks[-1]
            if isinstance(whose, int) and (whose, first + before) == (ids, first_step):
                self._chunks[-1] = (first, before + n, ids)
                return
        self._chunks.append((first_step, n, ids))

    def steps_of(self, seq_id: int, steps: int) -> Steps:
        """The steps of one sequence among the first `steps`, ascending."""
        found = [np.zeros(0, np.int64)]
        for first, n, ids in list(self._chunks):
            if isinstance(ids, int):
                found.append(np.arange(first, first + n) if ids == seq_id else found[0])
            else:
                found.append(np.flatnonzero(ids == seq_id) + first)
        own = np.concatenate(found)
        return own[own < steps]
