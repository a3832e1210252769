"""A column of a long run, kept in the least room that loses nothing, and unpacked when it is asked for.

Of ten million steps most columns say little: a phase stays, a length grows by one, a counter fits two bytes. A piece is
kept as its values or as the differences between them, whichever fit the smaller integer, and as a single one where all
are alike. Times stay as they are, unless all are alike.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class _Piece(NamedTuple):
    """`n` values: of `kept`, or, where `first` is not None, from `first` on by the differences `kept`; one number
    stands for as many as there are.
    """

    n: int
    first: Any
    kept: Any


class Packed:
    """Values of one type, added in pieces; `whole()` gives all of them back, bit for bit."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype, self._pieces = dtype, list[_Piece]()

    def add(self, values: Any) -> None:
        """Append a one-dimensional array of the column's type; nothing of it is referred to afterwards."""
        if len(values):
            self._pieces.append(_packed(values))

    def whole(self) -> Any:
        """All values, a new array at each call; where they are all alike a read-only one that takes no room."""
        total = sum(piece.n for piece in self._pieces)
        first = self._pieces[0] if self._pieces else None
        if first is not None and all(_same(piece, first) for piece in self._pieces):
            return np.broadcast_to(first.kept, total)
        out = np.empty(total, self._dtype)
        begin = 0
        for piece in self._pieces:
            _unpack(piece, out[begin : begin + piece.n])
            begin += piece.n
        return out


def _same(piece: _Piece, other: _Piece) -> bool:
    """Whether either is one value over and over, and both the same."""
    alone = piece.first is None and other.first is None and len(piece.kept) == len(other.kept) == 1
    return alone and bool(piece.kept.tobytes() == other.kept.tobytes())


def _packed(values: Any) -> _Piece:
    n = len(values)
    if values.dtype.kind == "f":
        bits = values.view(f"i{values.dtype.itemsize}")  # one NaN is like another
        return _Piece(n, None, values[:1].copy() if (bits == bits[0]).all() else values.copy())
    direct = _narrow(values)
    if len(direct) == 1 or direct.itemsize == 1:
        return _Piece(n, None, direct)
    by_steps = _narrow(np.diff(values))  # where a difference overflows, so does the sum that undoes it
    if len(by_steps) == 1 or by_steps.itemsize < direct.itemsize:
        return _Piece(n, values[0], by_steps)
    return _Piece(n, None, direct)


def _narrow(values: Any) -> Any:
    """The same integers in the smallest type that holds them; a single one where all are alike."""
    low, high = values.min(), values.max()
    if low == high:
        return values[:1].copy()
    for size in (1, 2, 4):
        limits = np.iinfo(f"i{size}")
        if size < values.itemsize and limits.min <= low and high <= limits.max:
            return values.astype(f"i{size}")
    return values.copy()


def _unpack(piece: _Piece, out: Any) -> None:
    if piece.first is None:
        out[:] = piece.kept
        return
    out[0], out[1:] = 0, piece.kept
    np.cumsum(out, out=out)
    out += piece.first
