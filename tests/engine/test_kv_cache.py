"""A layer's cache: rows in order, memory that grows with use, a capacity that holds."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from engine.errors import EngineError
from engine.kv_cache import LayerCache


def rows(first: int, n: int, n_kv_heads: int = 2, head_dim: int = 4) -> np.ndarray:
    """Rows that differ in every value, as a layer hands them over."""
    values = np.arange(n * n_kv_heads * head_dim, dtype=np.float32) + 1000 * first
    return values.reshape(n, n_kv_heads, head_dim)


def test_a_new_cache_is_empty() -> None:
    cache = LayerCache(2, 4, capacity=10)
    assert len(cache) == 0
    assert cache.keys.shape == cache.values.shape == (2, 0, 4)
    assert cache.write_pos == -1


def test_rows_stay_in_order_across_growth() -> None:
    cache = LayerCache(2, 4, capacity=5000)
    pieces = [rows(i, n) for i, n in enumerate((3, 1, 500, 1, 1500))]
    for piece in pieces:
        cache.append(piece, -piece)
    whole = np.concatenate(pieces).transpose(1, 0, 2)
    np.testing.assert_array_equal(cache.keys, whole)
    np.testing.assert_array_equal(cache.values, -whole)
    assert len(cache) == 2005
    assert cache.write_pos == 505


def test_reading_copies_nothing() -> None:
    cache = LayerCache(2, 4, capacity=10)
    cache.append(rows(0, 3), rows(0, 3))
    before = cache.keys
    cache.append(rows(1, 1), rows(1, 1))
    assert np.shares_memory(before, cache.keys)


def test_capacity_is_exact() -> None:
    cache = LayerCache(2, 4, capacity=3)
    cache.append(rows(0, 3), rows(0, 3))
    with pytest.raises(EngineError, match="holds 3 rows, 4 are needed"):
        cache.append(rows(1, 1), rows(1, 1))
    assert len(cache) == 3


def test_a_long_context_is_not_reserved_up_front() -> None:
    tracemalloc.start()
    caches = [LayerCache(2, 64, capacity=32768) for _ in range(24)]
    for cache in caches:
        cache.append(rows(0, 100, 2, 64), rows(0, 100, 2, 64))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6  # 805 MB at capacity
