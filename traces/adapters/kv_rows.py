"""What a transformers KV cache holds, layer by layer: which kind of layer it is and how many rows are in it.

A cache of a padded batch has the same columns for every sequence, padding included; a trace counts a sequence's own
rows, so the padding is taken off here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Held = tuple[int, int]
"""Columns that a layer has seen, and how many of the last of them it holds."""


def layer_facts(cache: Any, n_layers: int) -> list[dict[str, Any]]:
    """`layers` of a run, one object a layer (see FORMAT.md). No cache: kind "none".

    A window of W keeps W - 1 or W rows in transformers, since the new token brings its own: window W - 1, slack 1.
    """
    if cache is None:
        return [{"kind": "none"}] * n_layers
    facts = [_one_layer(layer) for layer in cache.layers[:n_layers]]
    return facts + [{"kind": "other", "name": "not in the cache"}] * (n_layers - len(facts))


def _one_layer(layer: Any) -> dict[str, Any]:
    name = type(layer).__name__
    if name.startswith("LinearAttention"):
        return {"kind": "recurrent"} if not hasattr(layer, "get_seq_length") else {"kind": "other", "name": name}
    if not hasattr(layer, "get_seq_length"):
        return {"kind": "other", "name": name}
    if getattr(layer, "is_sliding", False):
        window = getattr(layer, "sliding_window", None) or layer.max_cache_len
        return {"kind": "window", "window": int(window) - 1, "slack": 1}
    return {"kind": "full"}


def capacity(cache: Any) -> int | None:
    """Columns that a layer with a full cache of fixed size can hold; None where it grows."""
    for layer in getattr(cache, "layers", ()):
        if not getattr(layer, "is_sliding", False) and hasattr(layer, "max_cache_len"):
            return int(layer.max_cache_len)
    return None


def columns_seen(cache: Any) -> int:
    """Columns that the cache has taken in."""
    return 0 if cache is None else int(cache.get_seq_length())


def held(cache: Any, n_layers: int) -> list[Held | None] | None:
    """What each layer holds now; None for a layer that counts no rows, None in all where there is no cache."""
    if cache is None:
        return None
    found = [_held(cache, i) for i in range(min(n_layers, len(cache.layers)))]
    return found + [None] * (n_layers - len(found))


def _held(cache: Any, index: int) -> Held | None:
    layer = cache.layers[index]
    if not hasattr(layer, "get_seq_length"):
        return None
    seen = int(cache.get_seq_length(index))
    if not getattr(layer, "is_sliding", False):
        return seen, seen
    fixed = getattr(layer, "max_cache_len", None)
    return seen, min(seen, fixed) if fixed is not None else int(layer.keys.shape[-2]) if seen else 0


def own_rows(layers: Sequence[Held | None] | None, n_pad: int, n_taken: int = 0) -> list[int | None] | None:
    """`cache_len` of a sequence with `n_pad` columns of padding before it; without the last `n_taken` columns."""
    if layers is None:
        return None
    return [None if layer is None else min(layer[1], layer[0] - n_pad) - n_taken for layer in layers]
