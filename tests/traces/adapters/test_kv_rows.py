"""Rows of padded batches, by arithmetic done by hand."""

from __future__ import annotations

from typing import Any

import pytest

from traces.adapters.kv_rows import layer_facts, own_rows


@pytest.mark.parametrize(
    ("seen_and_held", "n_pad", "n_taken", "rows"),
    [
        ((25, 25), 0, 0, 25),
        ((25, 25), 5, 0, 20),  # five columns are padding
        ((25, 25), 5, 2, 18),  # and two are drafts of the same forward
        ((25, 7), 5, 0, 7),  # a window of 8 keeps 7: the padding left it long ago
        ((9, 7), 5, 0, 4),  # of columns 2 to 8 those from 5 on are the sequence's own
        ((5, 5), 5, 0, 0),
    ],
)
def test_padding_is_not_counted(seen_and_held: tuple[int, int], n_pad: int, n_taken: int, rows: int) -> None:
    assert own_rows([seen_and_held, None], n_pad, n_taken) == [rows, None]


def test_no_cache_has_no_rows() -> None:
    assert own_rows(None, 3) is None
    assert layer_facts(None, 2) == [{"kind": "none"}] * 2


def test_layers_that_the_cache_does_not_have_are_not_called_full() -> None:
    class Cache:
        layers: list[Any] = []

    assert [layer["kind"] for layer in layer_facts(Cache(), 2)] == ["other", "other"]
