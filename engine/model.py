"""The forward of a decoder, in numpy: embed, per layer attention and MLP, then the last position's logits.

The same code serves a prompt and a single token: numpy turns a product with one row into a matrix-vector
product. A timer may watch the parts; without one the forward reads no clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.config import GenerationDefaults, ModelConfig, RopeSettings, read_config, read_generation_defaults
from engine.errors import EngineError
from engine.gguf_file import read_gguf
from engine.gguf_model import gguf_checkpoint, gguf_config, gguf_defaults
from engine.gguf_tokenizer import gguf_tokenizer
from engine.kv_cache import LayerCache, Rounding
from engine.tokenizer import Tokenizer, load_tokenizer
from engine.weights import (
    Array,
    LayerWeights,
    Progress,
    Weights,
    load_weights,
    open_checkpoint,
    weights_sha256,
)

DEMO_MODEL = Path(__file__).parent / "demo"
"""The folder of the embedded model."""

PREFILL_CHUNK = 512
"""Tokens of a prompt that go through the layers together: bounds the memory of activations."""

QUERY_BLOCK = 128
"""Tokens of a prompt that attend together: bounds the memory of scores, and spares most of those in the future."""

CACHED_ROWS = 32
"""Rows of activations that stay in the processor's cache while several passes go over them."""


class Timer(Protocol):
    """What `forward` tells about itself while it runs."""

    def now(self) -> int:
        """A clock reading, in the timer's own unit."""

    def add(self, part: str, layer: int, since: int) -> None:
        """The time from `since` until now went to a part of a layer.

        part: qkv, attn, o, gate_up, down, or lm_head, whose layer is -1.
        """

    def layer_done(self, layer: int, residual: Array, write_pos: int, place: int = 0) -> None:
        """A layer is complete, once for each part of a long prompt, and for each sequence of a batch.

        residual: the residual stream of the last token, (hidden_size,); write_pos: the cache row that the
        first token was written to; place: the sequence's place in the batch.
        """


class Model:
    """A decoder's weights and shape, with the two calls that the token loop needs: `new_cache` and `forward`.

    tokenizer: None where the model directory has none; prompts are then token ids.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        tokenizer: Tokenizer | None = None,
        name: str = "",
        defaults: GenerationDefaults | None = None,
        sha256: str | None = None,
    ) -> None:
        self.config, self.weights, self.tokenizer = config, weights, tokenizer
        self.name, self.sha256 = name, sha256
        self.defaults = defaults or GenerationDefaults()
        self._inverse_frequencies = inverse_frequencies(config.rope, config.head_dim)

    def new_cache(self, capacity: int, dtype: str = "f32", rounding: Rounding | None = None) -> list[LayerCache]:
        """An empty cache for each layer, for at most `capacity` tokens; dtype, rounding: as LayerCache's."""
        config = self.config
        return [
            LayerCache(config.n_kv_heads, config.head_dim, capacity, window, dtype, rounding)
            for window in config.layer_windows
        ]

    def forward(self, ids: Sequence[int], cache: Sequence[LayerCache], timer: Timer | None = None) -> Array:
        """Feed tokens after those that `cache` holds and return the last position's logits, (vocab_size,).

        Each layer grows its own cache by len(ids) rows. Raises EngineError for no ids, an id outside the
        vocabulary or a full cache.
        """
        self.check_ids(ids)
        for start in range(0, len(ids), PREFILL_CHUNK):
            hidden = self._layers(ids[start : start + PREFILL_CHUNK], [cache], timer)
        logits: Array = self._logits(hidden[-1:], timer)[0]
        return logits

    def forward_each(self, ids: Sequence[int], cache: Sequence[LayerCache], timer: Timer | None = None) -> Array:
        """The same for a few tokens, but with the logits of every position, (len(ids), vocab_size)."""
        self.check_ids(ids)
        return self._logits(self._layers(ids, [cache], timer), timer)

    def forward_batch(
        self, ids: Sequence[int], caches: Sequence[Sequence[LayerCache]], timer: Timer | None = None
    ) -> Array:
        """Feed one token to each of several sequences and return their logits, (len(ids), vocab_size).

        caches: one a sequence, of any lengths. The weights are read once for all; attention is each
        sequence's own. Raises EngineError as `forward` does.
        """
        self.check_ids(ids)
        return self._logits(self._layers(ids, caches, timer), timer)

    def shift(self, cache: Sequence[LayerCache], n_keep: int, n_discard: int) -> None:
        """Forget `n_discard` tokens after the first `n_keep`; those behind move up to close the gap.

        RoPE turns a key by its position, and turns add up, so a kept key needs one more turn by `-n_discard`
        positions (Xiao et al. 2023, https://arxiv.org/abs/2309.17453, cache keys before RoPE instead). What
        the kept values have seen of the forgotten tokens stays in them.
        """
        back = rotations(self._inverse_frequencies, np.array([-n_discard], np.float32))
        for layer_cache in cache:
            layer_cache.discard(n_keep, n_discard, lambda keys: rotate(keys, *back))

    def check_ids(self, ids: Sequence[int]) -> None:
        """Raise EngineError for no ids, or for one outside the vocabulary (padding rows are inside)."""
        if not ids:
            raise EngineError("no tokens to feed; give a prompt of at least one token")
        if min(ids) < 0 or max(ids) >= self.config.vocab_size:
            wrong = next(i for i in ids if not 0 <= i < self.config.vocab_size)
            raise EngineError(f"token id {wrong} is outside the model's vocabulary of {self.config.vocab_size}")

    def _layers(self, ids: Sequence[int], caches: Sequence[Sequence[LayerCache]], timer: Timer | None) -> Array:
        """The residual stream after the last layer, (len(ids), hidden_size).

        With one cache all tokens are its sequence's next; with several each token is the next of its own.
        """
        rotation = rotations(self._inverse_frequencies, _positions(len(ids), caches))
        hidden: Array = self.weights.embedding[np.asarray(ids)]
        # exp overflows to infinity in silu's denominator, where the quotient is then the right 0
        with np.errstate(over="ignore"):
            for layer, weights in enumerate(self.weights.layers):
                layer_caches = [cache[layer] for cache in caches]
                hidden += self._attention(hidden, weights, layer_caches, rotation, timer, layer)
                hidden += self._mlp(hidden, weights, timer, layer)
                if timer is not None:
                    lasts = hidden[-1:] if len(caches) == 1 else hidden
                    for place, (last, cache) in enumerate(zip(lasts, layer_caches, strict=True)):
                        timer.layer_done(layer, last, cache.write_pos, place)
        return hidden

    def _logits(self, hidden: Array, timer: Timer | None) -> Array:
        """(n, vocab_size) from the residual stream of n tokens."""
        normed = rms_norm(hidden, self.weights.final_norm, self.config.rms_norm_eps)
        return _project(normed, self.weights.lm_head, None, timer, "lm_head", -1)

    def _attention(
        self,
        hidden: Array,
        weights: LayerWeights,
        caches: Sequence[LayerCache],
        rotation: tuple[Array, Array],
        timer: Timer | None,
        layer: int,
    ) -> Array:
        normed = rms_norm(hidden, weights.attn_norm, self.config.rms_norm_eps)
        qkv = _project(normed, weights.qkv, weights.qkv_bias, timer, "qkv", layer)
        began = timer.now() if timer is not None else 0
        attended = self._attend(qkv, weights.qk_norm, caches, rotation)
        if timer is not None:
            timer.add("attn", layer, began)
        return _project(attended, weights.o, weights.o_bias, timer, "o", layer)

    def _attend(
        self, qkv: Array, qk_norm: Array | None, caches: Sequence[LayerCache], rotation: tuple[Array, Array]
    ) -> Array:
        """Position the queries and keys, grow the caches, and attend to all that each may see."""
        config = self.config
        heads = qkv.reshape(len(qkv), config.n_qkv_heads, config.head_dim)
        n_qk = config.n_heads + config.n_kv_heads
        query_key, values = heads[:, :n_qk], heads[:, n_qk:]
        if qk_norm is not None:
            query_key = rms_norm(query_key, qk_norm, config.rms_norm_eps)
        query_key = rotate(query_key, *rotation)
        queries, keys = query_key[:, : config.n_heads], query_key[:, config.n_heads :]
        if len(caches) == 1:
            return _attend_one(queries, keys, values, caches[0])
        own = [slice(place, place + 1) for place in range(len(caches))]
        return np.concatenate(
            [_attend_one(queries[at], keys[at], values[at], cache) for at, cache in zip(own, caches, strict=True)]
        )

    def _mlp(self, hidden: Array, weights: LayerWeights, timer: Timer | None, layer: int) -> Array:
        normed = rms_norm(hidden, weights.mlp_norm, self.config.rms_norm_eps)
        if weights.router is not None:
            return self._experts(normed, weights, weights.router, timer, layer)
        gate_up = _project(normed, weights.gate_up, weights.gate_up_bias, timer, "gate_up", layer)
        return _project(swiglu(gate_up), weights.down, weights.down_bias, timer, "down", layer)

    def _experts(self, normed: Array, weights: LayerWeights, router: Array, timer: Timer | None, layer: int) -> Array:
        """The chosen experts' MLPs, weighted by their shares; the matrices of the others are not read."""
        experts = self.config.experts
        assert experts is not None
        # the router is the gate's first product: its time goes there
        scores = _project(normed, router, None, timer, "gate_up", layer)
        chosen, shares = route(scores, experts.n_used, experts.is_normalised)
        mixed = np.zeros_like(normed)
        for expert in np.unique(chosen):
            tokens, ranks = np.nonzero(chosen == expert)
            gate_up = _project(normed[tokens], weights.gate_up[expert], None, timer, "gate_up", layer)
            down = _project(swiglu(gate_up), weights.down[expert], None, timer, "down", layer)
            mixed[tokens] += shares[tokens, ranks, None] * down
        return mixed


def load_model(path: str | Path, progress: Progress | None = None) -> Model:
    """The model in a Hugging Face model directory or a GGUF file, as float32.

    progress: called with (bytes read, bytes in all); by default a bar on stderr, at a terminal and for large
    models. Raises EngineError, with one line that names the file, for whatever is missing, damaged or not
    supported.
    """
    place = Path(path)
    if place.suffix == ".gguf" or place.is_file():
        return _load_gguf(place, progress)
    if not place.is_dir():
        is_there = "neither a model folder nor a GGUF file" if place.exists() else "no such model directory"
        raise EngineError(f"{place}: {is_there}")
    files = sorted(place.glob("*.gguf"))
    if files and not (place / "config.json").exists():
        raise EngineError(f"{place}: a GGUF model is named by its file, as {files[0]}")
    config = read_config(place)
    checkpoint = open_checkpoint(place)
    defaults = read_generation_defaults(place)
    tokenizer = load_tokenizer(place, config.vocab_size)
    weights = load_weights(config, checkpoint, progress)
    return Model(config, weights, tokenizer, place.resolve().name, defaults, weights_sha256(checkpoint.files))


def _load_gguf(path: Path, progress: Progress | None) -> Model:
    file = read_gguf(path)
    config = gguf_config(file)
    checkpoint = gguf_checkpoint(file, config)
    tokenizer = gguf_tokenizer(file, config.vocab_size)
    weights = load_weights(config, checkpoint, progress)
    return Model(config, weights, tokenizer, path.stem, gguf_defaults(file), weights_sha256(checkpoint.files))


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """Each row of `x` (..., n) divided by its root mean square, times `weight`.

    Zhang & Sennrich 2019, https://arxiv.org/abs/1910.07467.
    """
    mean_square = np.einsum("...i,...i->...", x, x)[..., None] / np.float32(x.shape[-1])
    normed: Array = x / np.sqrt(mean_square + np.float32(eps))
    normed *= weight
    return normed


def swiglu(gate_up: Array) -> Array:
    """gate · sigmoid(gate) · up, (n, inner), of gate and up side by side, (n, 2 · inner).

    Shazeer 2020, https://arxiv.org/abs/2002.05202.
    """
    inner = gate_up.shape[-1] // 2
    gated: Array = np.empty((len(gate_up), inner), gate_up.dtype)
    for start in range(0, len(gate_up), CACHED_ROWS):
        rows = slice(start, start + CACHED_ROWS)
        gate, up, out = gate_up[rows, :inner], gate_up[rows, inner:], gated[rows]
        np.exp(np.negative(gate, out=out), out=out)
        out += 1
        np.divide(gate, out, out=out)
        out *= up
    return gated


def route(scores: Array, n_used: int, is_normalised: bool) -> tuple[NDArray[np.intp], Array]:
    """The experts of each token, best first, and their shares: (n, n_used) each.

    scores: the router's, (n, n_experts). A share is an expert's part of the softmax over all;
    is_normalised: the chosen ones' brought to a sum of 1.
    """
    likely = np.exp(scores - scores.max(axis=-1, keepdims=True))
    likely /= likely.sum(axis=-1, keepdims=True)
    chosen = np.argsort(-likely, axis=-1, kind="stable")[:, :n_used]
    shares: Array = np.take_along_axis(likely, chosen, axis=-1)
    if is_normalised:
        shares /= shares.sum(axis=-1, keepdims=True)
    return chosen, shares


def inverse_frequencies(rope: RopeSettings, head_dim: int) -> Array:
    """Radians a position for each rotated pair, (head_dim / 2,).

    Su et al. 2021, https://arxiv.org/abs/2104.09864. "llama3" divides the slow pairs by `factor`, leaves the
    fast ones, and blends between (Llama 3.1's reference code, also transformers' modeling_rope_utils).
    """
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    frequencies: Array = 1 / np.power(np.float32(rope.theta), exponents)
    if rope.kind == "default":
        return frequencies
    if rope.kind == "divided":
        divisors: Array = np.array(rope.divisors, np.float32)
        return np.divide(frequencies, divisors)
    turns = rope.original_context * frequencies / np.float32(2 * math.pi)
    kept = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    kept = np.clip(kept, 0, 1)
    scaled: Array = (kept * frequencies + (1 - kept) * frequencies / rope.factor).astype(np.float32)
    return scaled


def rotations(frequencies: Array, positions: Array) -> tuple[Array, Array]:
    """Cosines and sines for n positions, (n, 1, head_dim / 2) each."""
    angles = positions[:, None, None] * frequencies
    return np.cos(angles), np.sin(angles)


def rotate(heads: Array, cosines: Array, sines: Array) -> Array:
    """Turn each head's pairs (i, i + head_dim / 2) by their angles; `heads` is (n, heads, head_dim)."""
    half = heads.shape[-1] // 2
    first, second = heads[..., :half], heads[..., half:]
    return np.concatenate((first * cosines - second * sines, second * cosines + first * sines), axis=-1)


def attend(queries: Array, keys: Array, values: Array, window: int | None = None) -> Array:
    """Causal softmax attention of the newest n tokens over all rows, (n, n_heads · head_dim).

    queries: (n, n_heads, head_dim); keys, values: (n_kv_heads, rows, head_dim), the last n rows being the
    queries' own. window: the newest rows that a query sees, its own among them; None for all. Query heads that
    share a key head are stacked as its rows: one product a key head, no copy of the cache (grouped-query
    attention, Ainslie et al. 2023, https://arxiv.org/abs/2305.13245).
    """
    n, n_heads, head_dim = queries.shape
    n_kv_heads, rows, _ = keys.shape
    grouped = queries.reshape(n, n_kv_heads, -1, head_dim).transpose(1, 2, 0, 3)
    stacked: Array = np.divide(grouped.reshape(n_kv_heads, -1, head_dim), np.float32(math.sqrt(head_dim)))
    scores: Array
    if n == 1:
        # for so few queries BLAS takes half the time with the keys first, the transposing copy included
        scores = np.ascontiguousarray((keys @ stacked.transpose(0, 2, 1)).transpose(0, 2, 1))
    else:
        scores = stacked @ keys.transpose(0, 2, 1)
        by_query = scores.reshape(n_kv_heads, -1, n, rows)
        own = by_query[..., rows - n :]
        own += np.triu(np.full((n, n), -np.inf, np.float32), k=1)
        if window is not None and rows > window:
            by_query += np.tril(np.full((n, rows), -np.inf, np.float32), k=rows - n - window)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    # dividing after the weighted sum touches head_dim values a query instead of all its rows
    attended: Array = (scores @ values) / scores.sum(axis=-1, keepdims=True)
    return attended.reshape(n_kv_heads, -1, n, head_dim).transpose(2, 0, 1, 3).reshape(n, -1)


def _positions(n: int, caches: Sequence[Sequence[LayerCache]]) -> Array:
    """Where the n tokens that are fed stand in their sequences, (n,)."""
    starts = [cache[0].position for cache in caches]
    if len(starts) == 1:
        return np.arange(starts[0], starts[0] + n, dtype=np.float32)
    return np.array(starts, np.float32)


def _attend_one(queries: Array, keys: Array, values: Array, cache: LayerCache) -> Array:
    """Grow one sequence's cache and attend to it; all are (n, heads, head_dim) of its newest n tokens."""
    cache.append(keys, values)
    n = len(queries)
    seen_keys, seen_values = cache.visible(n)
    before = seen_keys.shape[1] - n
    blocks = []
    for start in range(0, n, QUERY_BLOCK):
        stop = min(start + QUERY_BLOCK, n)
        rows = slice(before + stop)
        blocks.append(attend(queries[start:stop], seen_keys[:, rows], seen_values[:, rows], cache.window))
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _project(x: Array, weight: Array, bias: Array | None, timer: Timer | None, part: str, layer: int) -> Array:
    """x (n, inputs) times weight (outputs, inputs), plus bias: (n, outputs)."""
    began = timer.now() if timer is not None else 0
    product: Array = x @ weight.T
    if timer is not None:
        timer.add(part, layer, began)
    if bias is not None:
        product += bias
    return product
