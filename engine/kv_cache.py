"""The keys and values of every token seen so far, one cache a layer.

A cache belongs to its layer: the forward grows it inside the layer, and its own length is what a trace
reports. So a layer that was skipped or fed twice shows as a length, instead of being hidden behind a counter
kept elsewhere. A window layer holds the newest rows only; int8 rows take a quarter of the memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.errors import EngineError
from engine.weights import Array

KV_DTYPES = ("f32", "int8")

INT8_SCALE_BYTES = 4
"""What each int8 row of a head takes besides its values."""

SPARE_ROWS = 64
"""Rows that a window layer keeps behind its window, so that as many can be taken back."""

_FIRST_ROWS = 256
Item = TypeVar("Item", bound=np.generic)


@dataclass
class Rounding:
    """What int8 changed and what there was, both squared and summed up, over all rows written with it."""

    squared_error: float = 0.0
    squared_sum: float = 0.0

    @property
    def relative(self) -> float | None:
        """The root mean square of what it changed, relative to that of the rows; None where there were none."""
        return math.sqrt(self.squared_error / self.squared_sum) if self.squared_sum else None


class RowStore(Protocol):
    """One layer's keys, or its values: rows for all heads, in a buffer that grows."""

    @property
    def reserved(self) -> int:
        """Rows there is memory for."""

    def reserve(self, kept: int, rows: int) -> None:
        """Memory for `rows` rows, the first `kept` as they were."""

    def read(self, start: int, end: int) -> Array:
        """Rows as float32, (n_heads, end - start, head_dim)."""

    def write(self, start: int, rows: Array) -> None:
        """Put rows (n_heads, n, head_dim) at `start`."""

    def move(self, target: int, start: int, end: int) -> None:
        """Move rows start … end - 1 down to `target`."""


class Float32Rows:
    """Rows as they were computed; reading copies nothing."""

    def __init__(self, n_heads: int, head_dim: int) -> None:
        self._rows: Array = np.empty((n_heads, 0, head_dim), np.float32)

    @property
    def reserved(self) -> int:
        return int(self._rows.shape[1])

    def reserve(self, kept: int, rows: int) -> None:
        self._rows = _with_rows(self._rows, kept, rows)

    def read(self, start: int, end: int) -> Array:
        return self._rows[:, start:end]

    def write(self, start: int, rows: Array) -> None:
        self._rows[:, start : start + rows.shape[1]] = rows

    def move(self, target: int, start: int, end: int) -> None:
        self._rows[:, target : target + end - start] = self._rows[:, start:end].copy()


class Int8Rows:
    """Rows in 8 bits a value, with one float32 scale a row and head: the largest value of the row / 127.

    Rounding to the nearest step is off by half a scale at most; `rounding` adds up by how much.
    """

    def __init__(self, n_heads: int, head_dim: int, rounding: Rounding) -> None:
        self._rows: NDArray[np.int8] = np.empty((n_heads, 0, head_dim), np.int8)
        self._scales: Array = np.empty((n_heads, 0, 1), np.float32)
        self._rounding = rounding

    @property
    def reserved(self) -> int:
        return int(self._rows.shape[1])

    def reserve(self, kept: int, rows: int) -> None:
        self._rows = _with_rows(self._rows, kept, rows)
        self._scales = _with_rows(self._scales, kept, rows)

    def read(self, start: int, end: int) -> Array:
        rows: Array = self._rows[:, start:end] * self._scales[:, start:end]
        return rows

    def write(self, start: int, rows: Array) -> None:
        end = start + rows.shape[1]
        scales = np.abs(rows).max(axis=-1, keepdims=True) / np.float32(127)
        scales[scales == 0] = 1  # a row of zeros
        self._scales[:, start:end] = scales
        self._rows[:, start:end] = np.rint(rows / scales)
        self._rounding.squared_error += float(np.square(self.read(start, end) - rows).sum())
        self._rounding.squared_sum += float(np.square(rows).sum())

    def move(self, target: int, start: int, end: int) -> None:
        for array in (self._rows, self._scales):
            array[:, target : target + end - start] = array[:, start:end].copy()


class LayerCache:
    """Keys and values of one layer; `len()` is the number of rows it holds, `position` of tokens it has seen.

    One row holds one token's keys and values for all heads. Memory doubles as rows are needed, up to
    `capacity` tokens; a head's rows are contiguous, so that attention over them is one matrix product a head.

    window: the newest rows that attention may see; None for all. dtype: of `KV_DTYPES`. rounding: adds up what
    int8 changes, in this cache and in others that are given the same.
    """

    def __init__(
        self,
        n_kv_heads: int,
        head_dim: int,
        capacity: int,
        window: int | None = None,
        dtype: str = "f32",
        rounding: Rounding | None = None,
    ) -> None:
        self.capacity, self.window = capacity, window
        self.write_pos = -1
        """The row that the latest append wrote first; -1 before there was one."""
        kept = rounding or Rounding()

        def rows() -> RowStore:
            return Int8Rows(n_kv_heads, head_dim, kept) if dtype == "int8" else Float32Rows(n_kv_heads, head_dim)

        self.stores: tuple[RowStore, RowStore] = rows(), rows()
        """The keys' rows and the values'."""
        self._stored = 0
        self._dropped = 0

    def __len__(self) -> int:
        return self._held(self.position)

    @property
    def position(self) -> int:
        """Tokens seen and not taken back: the next token's place in the sequence."""
        return self._dropped + self._stored

    @property
    def keys(self) -> Array:
        """(n_kv_heads, rows, head_dim); a view, where rows are float32."""
        return self.visible(1)[0]

    @property
    def values(self) -> Array:
        """(n_kv_heads, rows, head_dim); a view, where rows are float32."""
        return self.visible(1)[1]

    def visible(self, n: int) -> tuple[Array, Array]:
        """The keys and values that the newest `n` tokens see together, (n_kv_heads, rows, head_dim) each."""
        first = 0 if self.window is None else max(0, self._stored - (self.window + n - 1))
        keys, values = self.stores
        return keys.read(first, self._stored), values.read(first, self._stored)

    def append(self, keys: Array, values: Array) -> None:
        """Add the rows of n tokens; both arrays are (n, n_kv_heads, head_dim). Raises EngineError beyond
        capacity.
        """
        n = len(keys)
        if self._stored + n > self.stores[0].reserved:
            self._make_room(n)
        self.write_pos = self._stored
        for store, rows in zip(self.stores, (keys, values), strict=True):
            store.write(self._stored, rows.transpose(1, 0, 2))
        self._stored += n

    def can_cut(self, length: int) -> bool:
        """Whether `cut` to this length is possible: a window layer has let go of what left its window."""
        return self._held(length) <= length - self._dropped

    def cut(self, length: int) -> None:
        """Take back every token after the first `length`; nothing where there are none.

        Raises EngineError where the window's rows at that length are no longer there.
        """
        if length >= self.position:
            return
        if not self.can_cut(length):
            raise EngineError(f"a window layer cannot go back from {self.position} tokens to {length}; start afresh")
        self._stored = length - self._dropped

    def discard(self, n_keep: int, n_discard: int, turn: Callable[[Array], Array]) -> None:
        """Forget `n_discard` tokens after the first `n_keep` and close the gap.

        turn: gives the keys behind the gap, (n_kv_heads, rows, head_dim), their new positions.
        """
        start = max(0, n_keep + n_discard - self._dropped)
        target = n_keep if self.window is None else 0
        keys, _ = self.stores
        for store in self.stores:
            store.move(target, start, self._stored)
        self._dropped = max(self._dropped, n_keep + n_discard) - n_discard - target
        self._stored = target + self._stored - start
        keys.write(target, turn(keys.read(target, self._stored)))

    def _held(self, length: int) -> int:
        return length if self.window is None else min(length, self.window)

    def _make_room(self, n: int) -> None:
        needed = self.position + n
        if needed > self.capacity:
            raise EngineError(f"the KV cache holds {self.capacity} rows, {needed} are needed; use a shorter prompt")
        reserved = self.stores[0].reserved
        if self.window is not None and self._stored >= 2 * (self.window + SPARE_ROWS):
            self._drop(self._stored - (self.window + SPARE_ROWS))
        if self._stored + n > reserved:
            rows = min(max(2 * reserved, self._stored + n, _FIRST_ROWS), self.capacity)
            for store in self.stores:
                store.reserve(self._stored, rows)

    def _drop(self, n: int) -> None:
        for store in self.stores:
            store.move(0, n, self._stored)
        self._dropped += n
        self._stored -= n


def _with_rows(kept: NDArray[Item], n_kept: int, rows: int) -> NDArray[Item]:
    n_heads, _, width = kept.shape
    grown = np.empty((n_heads, rows, width), kept.dtype)
    grown[:, :n_kept] = kept[:, :n_kept]
    return grown
