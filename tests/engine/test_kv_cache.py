"""A layer's cache: rows in order, memory that grows with use, a capacity that holds; windows, int8, rows taken back."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from engine.errors import EngineError
from engine.kv_cache import SPARE_ROWS, LayerCache, Rounding


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


def cache_of(n: int, **settings: Any) -> LayerCache:
    """A cache that was fed `n` rows one by one, row i holding only the value i."""
    cache = LayerCache(2, 4, capacity=10_000, **settings)
    for i in range(n):
        row = np.full((1, 2, 4), i, np.float32)
        cache.append(row, -row)
    return cache


def tokens_in(cache: LayerCache) -> list[int]:
    """Which rows it holds, by the values that `cache_of` put in."""
    np.testing.assert_array_equal(cache.values, -cache.keys)
    return [int(i) for i in cache.keys[0, :, 0]]


def unturned(keys: np.ndarray) -> np.ndarray:
    return keys


class TestCut:
    def test_the_newest_rows_are_taken_back(self) -> None:
        cache = cache_of(9)
        cache.cut(5)
        assert (len(cache), cache.position) == (5, 5)
        assert tokens_in(cache) == [0, 1, 2, 3, 4]

    def test_what_comes_next_is_written_there(self) -> None:
        cache = cache_of(9)
        cache.cut(5)
        cache.append(np.full((1, 2, 4), 77, np.float32), np.full((1, 2, 4), -77, np.float32))
        assert cache.write_pos == 5
        assert tokens_in(cache) == [0, 1, 2, 3, 4, 77]

    def test_a_longer_length_takes_nothing_back(self) -> None:
        cache = cache_of(3)
        cache.cut(8)
        assert tokens_in(cache) == [0, 1, 2]


class TestWindow:
    def test_it_holds_the_newest_rows(self) -> None:
        for n in (3, 8, 9, 500):
            cache = cache_of(n, window=8)
            assert len(cache) == min(n, 8)
            assert cache.position == n
            assert tokens_in(cache) == list(range(max(0, n - 8), n))

    def test_several_tokens_see_the_window_of_the_first(self) -> None:
        cache = cache_of(20, window=8)
        # the last three are 17, 18 and 19; the window of 17 begins at 10
        assert [int(i) for i in cache.visible(3)[0][0, :, 0]] == list(range(10, 20))

    def test_its_memory_does_not_grow_with_the_sequence(self) -> None:
        tracemalloc.start()
        cache_of(5000, window=8)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100_000  # 5,000 rows would be 320,000 bytes

    @pytest.mark.parametrize("n", [30, 300, 1000])
    def test_as_many_as_the_spare_rows_can_be_taken_back(self, n: int) -> None:
        cache = cache_of(n, window=8)
        back = max(0, n - SPARE_ROWS)
        assert cache.can_cut(back)
        cache.cut(back)
        assert tokens_in(cache) == list(range(max(0, back - 8), back))

    def test_what_left_long_ago_cannot_come_back(self) -> None:
        cache = cache_of(1000, window=8)
        assert not cache.can_cut(400)
        with pytest.raises(EngineError, match="cannot go back from 1000 tokens to 400"):
            cache.cut(400)
        assert cache.position == 1000


class TestDiscard:
    def test_the_gap_is_closed(self) -> None:
        cache = cache_of(10)
        cache.discard(2, 5, unturned)
        assert tokens_in(cache) == [0, 1, 7, 8, 9]
        assert cache.position == 5

    def test_only_keys_behind_the_gap_are_turned(self) -> None:
        cache = cache_of(10)
        cache.discard(2, 5, lambda keys: keys + 100)
        assert [int(i) for i in cache.keys[1, :, 3]] == [0, 1, 107, 108, 109]
        assert [int(i) for i in cache.values[1, :, 3]] == [0, -1, -7, -8, -9]

    @pytest.mark.parametrize("n", [40, 300])
    def test_a_window_keeps_its_rows_and_counts_on_from_the_new_length(self, n: int) -> None:
        cache = cache_of(n, window=8)
        cache.discard(2, 20, unturned)
        assert cache.position == n - 20
        assert tokens_in(cache) == list(range(n - 8, n))


class TestInt8:
    def test_the_error_is_half_a_step_at_most(self) -> None:
        generator = np.random.default_rng(0)
        keys = generator.standard_normal((50, 2, 16), dtype=np.float32)
        keys[7, 1] *= 1000  # one loud row has its own scale
        cache = LayerCache(2, 16, capacity=50, dtype="int8")
        cache.append(keys, keys)
        steps = np.abs(keys).max(axis=-1, keepdims=True) / 127
        error = np.abs(cache.keys.transpose(1, 0, 2) - keys)
        assert (error <= steps / 2 * 1.00001).all()
        assert error.max() > 0

    def test_by_hand(self) -> None:
        row = np.array([[[127, 63.4, -1.6, 0]]], np.float32)  # one step is 1
        rounding = Rounding()
        cache = LayerCache(1, 4, capacity=5, dtype="int8", rounding=rounding)
        cache.append(row, row / 2)
        np.testing.assert_allclose(cache.keys[0, 0], [127, 63, -2, 0], rtol=1e-6)
        np.testing.assert_allclose(cache.values[0, 0], [63.5, 31.5, -1, 0], rtol=1e-6)
        # keys are off by 0.4 and 0.4, values by half of that: the ratio is that of the keys
        assert rounding.relative == pytest.approx((0.32 / (127**2 + 63.4**2 + 1.6**2)) ** 0.5, rel=1e-4)

    def test_a_row_of_zeros(self) -> None:
        cache = LayerCache(1, 4, capacity=5, dtype="int8")
        cache.append(np.zeros((1, 1, 4), np.float32), np.ones((1, 1, 4), np.float32))
        assert (cache.keys == 0).all() and (cache.values == 1).all()

    def test_it_takes_little_more_than_a_quarter(self) -> None:
        peaks = {}
        for dtype in ("f32", "int8"):
            cache = LayerCache(2, 64, capacity=4096, dtype=dtype)
            tracemalloc.start()
            for _ in range(64):
                cache.append(rows(0, 64, 2, 64), rows(0, 64, 2, 64))
            peaks[dtype] = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
        # 64 bytes and a scale of 4 instead of 256
        assert peaks["int8"] / peaks["f32"] == pytest.approx(68 / 256, rel=0.05)

    def test_float32_rows_have_no_error_to_report(self) -> None:
        rounding = Rounding()
        LayerCache(2, 16, capacity=5, rounding=rounding).append(rows(0, 3, 2, 16), rows(0, 3, 2, 16))
        assert rounding.relative is None
