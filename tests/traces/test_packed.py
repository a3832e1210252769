"""A packed column gives back every bit that was put into it, and takes little room where it says little."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.packed import Packed

INTEGERS = [np.dtype(name) for name in ("u1", "u2", "i4", "i8")]


def packed(pieces: list[Any], dtype: np.dtype[Any]) -> Packed:
    column = Packed(dtype)
    for piece in pieces:
        column.add(piece)
    return column


@st.composite
def integer_pieces(draw: st.DrawFn) -> tuple[np.dtype[Any], list[Any]]:
    """Any integers, equal ones, and ones that grow by the same, to both ends of their type."""
    dtype = draw(st.sampled_from(INTEGERS))
    limits = np.iinfo(dtype)
    near = st.integers(max(limits.min, -200), min(limits.max, 40_000))
    value = st.one_of(near, st.sampled_from([limits.min, limits.max]), st.integers(limits.min, limits.max))
    some = st.lists(value, max_size=8)
    alike = st.builds(lambda one, n: [one] * n, value, st.integers(0, 8))
    pieces = draw(st.lists(st.one_of(some, alike), max_size=4))
    return dtype, [np.array(piece, dtype) for piece in pieces]


@given(integer_pieces())
def test_integers_come_back(case: tuple[np.dtype[Any], list[Any]]) -> None:
    dtype, pieces = case
    whole = packed(pieces, dtype).whole()
    assert whole.dtype == dtype
    assert whole.tolist() == [value for piece in pieces for value in piece.tolist()]


@given(st.lists(st.lists(st.floats(width=32), max_size=6), max_size=4))
def test_floats_come_back_to_the_bit(pieces: list[list[float]]) -> None:
    arrays = [np.array(piece, np.float32) for piece in pieces]
    whole = packed(arrays, np.dtype(np.float32)).whole()
    assert whole.tobytes() == b"".join(array.tobytes() for array in arrays)


@pytest.mark.parametrize(
    ("values", "bytes_a_value"),
    [
        (np.full(100_000, 7, np.int64), 0),  # a field that never changes
        (np.arange(100_000, dtype=np.int64), 0),  # a length that grows by one
        (np.arange(100_000, dtype=np.int64) * 1_000_000 + np.arange(100_000) % 7, 4),  # a clock
        (np.arange(100_000, dtype=np.int32) % 300, 2),
        (np.full(100_000, np.nan, np.float32), 0),
    ],
)
def test_what_says_little_takes_little(values: Any, bytes_a_value: int) -> None:
    tracemalloc.start()
    column = packed(np.split(values, 10), values.dtype)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < bytes_a_value * len(values) + 10_000
    assert np.array_equal(column.whole(), values, equal_nan=values.dtype.kind == "f")
