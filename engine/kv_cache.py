"""The keys and values of every token seen so far, one cache a layer.

A cache belongs to its layer: the forward grows it inside the layer, and its own length is what a trace
reports. So a layer that was skipped or fed twice shows as a length, instead of being hidden behind a counter
kept elsewhere.
"""

from __future__ import annotations

import numpy as np

from engine.errors import EngineError
from engine.weights import Array

_FIRST_ROWS = 256


class LayerCache:
    """Keys and values of one layer, (n_kv_heads, rows, head_dim) float32 each; `len()` is the number of rows.

    One row holds one token's keys and values for all heads. Memory doubles as rows are needed, up to
    `capacity` rows; a head's rows are contiguous, so that attention over them is one matrix product a head.
    """

    def __init__(self, n_kv_heads: int, head_dim: int, capacity: int) -> None:
        self.capacity = capacity
        self.write_pos = -1
        """The row that the latest append wrote first; -1 before there was one."""
        self._rows = 0
        self._keys: Array = np.empty((n_kv_heads, 0, head_dim), np.float32)
        self._values: Array = np.empty_like(self._keys)

    def __len__(self) -> int:
        return self._rows

    @property
    def keys(self) -> Array:
        """A view, (n_kv_heads, rows, head_dim)."""
        return self._keys[:, : self._rows]

    @property
    def values(self) -> Array:
        """A view, (n_kv_heads, rows, head_dim)."""
        return self._values[:, : self._rows]

    def append(self, keys: Array, values: Array) -> None:
        """Add the rows of n tokens; both arrays are (n, n_kv_heads, head_dim). Raises EngineError beyond
        capacity.
        """
        start, end = self._rows, self._rows + len(keys)
        if end > self._keys.shape[1]:
            self._grow(end)
        self._keys[:, start:end] = keys.transpose(1, 0, 2)
        self._values[:, start:end] = values.transpose(1, 0, 2)
        self.write_pos, self._rows = start, end

    def _grow(self, needed: int) -> None:
        if needed > self.capacity:
            raise EngineError(f"the KV cache holds {self.capacity} rows, {needed} are needed; use a shorter prompt")
        rows = min(max(2 * self._keys.shape[1], needed, _FIRST_ROWS), self.capacity)
        self._keys = _with_rows(self.keys, rows)
        self._values = _with_rows(self.values, rows)


def _with_rows(kept: Array, rows: int) -> Array:
    n_heads, n_kept, head_dim = kept.shape
    grown = np.empty((n_heads, rows, head_dim), np.float32)
    grown[:, :n_kept] = kept
    return grown
