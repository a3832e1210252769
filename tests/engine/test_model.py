"""The forward: what it does to the cache, what it refuses, and that it reads a clock only for a timer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from engine.config import ModelConfig, RopeSettings
from engine.errors import EngineError
from engine.model import Model, attend, inverse_frequencies, rms_norm, rotate, rotations, route, swiglu
from engine.timing import ForwardTimer
from engine.weights import Array
from tests.engine.conftest import oracle_model


def clock_reads(call: Callable[[], object]) -> list[str]:
    """Names of the functions of module `time` that are called during `call`."""
    reads: list[str] = []

    def watch(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and getattr(function, "__module__", None) == "time":
            reads.append(function.__name__)

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return reads


def test_without_a_timer_no_clock_is_read(qwen2: Model) -> None:
    cache, timer = qwen2.new_cache(64), ForwardTimer(qwen2.config.n_layers)
    assert clock_reads(lambda: qwen2.forward([1, 2, 3], cache)) == []
    assert clock_reads(lambda: qwen2.forward([4], cache)) == []
    assert clock_reads(lambda: qwen2.forward([5], cache, timer)) != []


def test_a_timer_does_not_change_the_logits(qwen2: Model) -> None:
    plain = qwen2.forward([1, 2, 3], qwen2.new_cache(64))
    timed = qwen2.forward([1, 2, 3], qwen2.new_cache(64), ForwardTimer(qwen2.config.n_layers))
    np.testing.assert_array_equal(plain, timed)


def test_each_layer_grows_its_own_cache(qwen2: Model) -> None:
    cache = qwen2.new_cache(64)
    qwen2.forward([1, 2, 3], cache)
    assert [len(layer) for layer in cache] == [3, 3, 3, 3]
    qwen2.forward([4], cache)
    assert [len(layer) for layer in cache] == [4, 4, 4, 4]
    assert [layer.write_pos for layer in cache] == [3, 3, 3, 3]


def test_logits_cover_the_vocabulary(qwen2: Model) -> None:
    logits = qwen2.forward([1], qwen2.new_cache(8))
    assert logits.shape == (1024,)
    assert logits.dtype == np.float32


@pytest.mark.parametrize("pieces", [[1] * 300, [299, 1], [100, 200], [257, 43]])
def test_a_prompt_fed_in_pieces_gives_the_same_logits(qwen2: Model, pieces: list[int]) -> None:
    ids = [int(i) for i in np.random.default_rng(0).integers(0, 1021, 300)]
    whole = qwen2.forward(ids, qwen2.new_cache(512))
    cache, start = qwen2.new_cache(512), 0
    for n in pieces:
        logits = qwen2.forward(ids[start : start + n], cache)
        start += n
    np.testing.assert_allclose(logits, whole, rtol=0, atol=1e-4)


@pytest.mark.parametrize("wrong", [-1, 1024])
def test_ids_outside_the_vocabulary_are_refused(qwen2: Model, wrong: int) -> None:
    with pytest.raises(EngineError, match=f"token id {wrong} .* vocabulary of 1024"):
        qwen2.forward([1, wrong], qwen2.new_cache(8))


def test_no_ids_are_refused(qwen2: Model) -> None:
    with pytest.raises(EngineError, match="at least one token"):
        qwen2.forward([], qwen2.new_cache(8))


def test_a_full_cache_refuses_more(qwen2: Model) -> None:
    cache = qwen2.new_cache(2)
    qwen2.forward([1, 2], cache)
    with pytest.raises(EngineError, match="holds 2 rows, 3 are needed"):
        qwen2.forward([3], cache)


def test_rms_norm_by_hand() -> None:
    x = np.array([[3, 4]], np.float32)  # mean square 12.5
    normed = rms_norm(x, np.array([1, 2], np.float32), 0.0)
    np.testing.assert_allclose(normed, [[3 / 12.5**0.5, 8 / 12.5**0.5]], rtol=1e-6)


def test_swiglu_by_hand() -> None:
    gate_up = np.array([[0, 1, -200, 7, 2, 5]], np.float32)
    with np.errstate(over="ignore"):
        gated = swiglu(gate_up)
    np.testing.assert_allclose(gated, [[0, 2 / (1 + np.exp(-1)), 0]], rtol=1e-6, atol=1e-30)


def test_rotation_by_hand() -> None:
    frequencies = inverse_frequencies(RopeSettings(theta=10000.0), head_dim=4)
    np.testing.assert_allclose(frequencies, [1, 0.01], rtol=1e-6)
    head = np.array([[[1, 0, 0, 1]]], np.float32)  # pairs (1, 0) and (0, 1)
    turned = rotate(head, *rotations(frequencies, np.array([3], np.float32)))
    expected = [np.cos(3), -np.sin(0.03), np.sin(3), np.cos(0.03)]
    np.testing.assert_allclose(turned[0, 0], expected, rtol=1e-5)


def test_llama3_scaling_keeps_fast_pairs_and_slows_slow_ones() -> None:
    rope = RopeSettings(500000.0, "llama3", 8.0, 1.0, 4.0, original_context=8192)
    scaled, plain = inverse_frequencies(rope, 128), inverse_frequencies(RopeSettings(500000.0), 128)
    wavelengths = 2 * np.pi / plain
    np.testing.assert_array_equal(scaled[wavelengths < 8192 / 4], plain[wavelengths < 8192 / 4])
    np.testing.assert_allclose(scaled[wavelengths > 8192], plain[wavelengths > 8192] / 8, rtol=1e-6)
    between = (wavelengths >= 8192 / 4) & (wavelengths <= 8192)
    assert between.any()
    assert (scaled[between] <= plain[between]).all() and (scaled[between] >= plain[between] / 8).all()


def test_attention_by_hand() -> None:
    # one key head shared by two query heads; scores are 0 and ln 3 · √1, so the weights are 1/4 and 3/4
    queries = np.array([[[np.log(3)], [0]]], np.float32)
    keys = np.array([[[0], [1]]], np.float32)
    values = np.array([[[4], [8]]], np.float32)
    np.testing.assert_allclose(attend(queries, keys, values), [[7, 6]], rtol=1e-6)


def test_attention_does_not_look_ahead() -> None:
    queries = np.zeros((2, 1, 1), np.float32)
    keys = np.zeros((1, 3, 1), np.float32)
    values = np.array([[[3], [5], [100]]], np.float32)
    np.testing.assert_allclose(attend(queries, keys, values), [[4], [36]], rtol=1e-6)


def test_routing_by_hand() -> None:
    # likelihoods 1/10, 2/10, 4/10, 3/10
    scores = np.log(np.array([[1, 2, 4, 3]], np.float32)) + 5
    chosen, shares = route(scores, 2, is_normalised=False)
    assert chosen.tolist() == [[2, 3]]
    np.testing.assert_allclose(shares, [[0.4, 0.3]], rtol=1e-6)
    np.testing.assert_allclose(route(scores, 2, is_normalised=True)[1], [[4 / 7, 3 / 7]], rtol=1e-6)


def test_only_the_chosen_experts_are_multiplied() -> None:
    model = oracle_model("tiny-qwen3-moe-bf16-untied")
    products: list[tuple[str, int]] = []

    class Products:
        def now(self) -> int:
            return 0

        def add(self, part: str, layer: int, since: int) -> None:
            products.append((part, layer))

        def layer_done(self, layer: int, residual: Array, write_pos: int, place: int = 0) -> None:
            pass

    model.forward([5], model.new_cache(8), Products())
    # the router and three experts of eight in layers 0 and 2; layer 1 is dense
    assert [products.count(("gate_up", layer)) for layer in range(3)] == [4, 1, 4]
    assert [products.count(("down", layer)) for layer in range(3)] == [3, 1, 3]


def test_a_config_counts_its_fused_heads() -> None:
    config = ModelConfig("LlamaForCausalLM", 1, 8, 4, 2, 2, 8, 16, 32)
    assert config.n_qkv_heads == 8


def test_a_window_hides_what_is_older() -> None:
    queries = np.zeros((2, 1, 1), np.float32)
    keys = np.zeros((1, 4, 1), np.float32)
    values = np.array([[[100], [3], [5], [9]]], np.float32)
    # each sees its own row and the one before it
    np.testing.assert_allclose(attend(queries, keys, values, window=2), [[4], [7]], rtol=1e-6)


def turned(keys: np.ndarray, frequencies: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """RoPE in float64, a pair (i, i + half) as one complex number: keys (heads, rows, head_dim)."""
    half = keys.shape[-1] // 2
    pairs = keys[..., :half].astype(np.float64) + 1j * keys[..., half:]
    pairs = pairs * np.exp(1j * np.outer(positions, frequencies.astype(np.float64)))
    return np.concatenate((pairs.real, pairs.imag), axis=-1)


@pytest.mark.parametrize("name", ["tiny-qwen2-f32-tied", "tiny-llama3-f16-untied"])
def test_a_shift_turns_keys_to_their_new_positions(name: str) -> None:
    model = oracle_model(name)
    ids = [3 + 5 * i % 300 for i in range(40)]
    cache = model.new_cache(64)
    model.forward(ids, cache)
    frequencies = inverse_frequencies(model.config.rope, model.config.head_dim)
    before = [(layer.keys.copy(), layer.values.copy()) for layer in cache]
    model.shift(cache, 4, 10)
    kept = np.r_[:4, 14:40]
    for layer, (keys, values) in zip(cache, before, strict=True):
        plain = turned(keys, frequencies, -np.arange(40))[:, kept]
        np.testing.assert_allclose(layer.keys, turned(plain, frequencies, np.arange(30)), rtol=0, atol=2e-5)
        np.testing.assert_array_equal(layer.values, values[:, kept])


def test_in_the_first_layer_a_shift_equals_feeding_the_kept_tokens(qwen2: Model) -> None:
    # its keys depend on nothing but the token and its position; in later layers a row has seen what is gone
    ids = [3 + 7 * i % 900 for i in range(30)]
    shifted, afresh = qwen2.new_cache(64), qwen2.new_cache(64)
    qwen2.forward(ids, shifted)
    qwen2.shift(shifted, 3, 12)
    qwen2.forward(ids[:3] + ids[15:], afresh)
    np.testing.assert_allclose(shifted[0].keys, afresh[0].keys, rtol=0, atol=1e-5)
    assert np.abs(shifted[1].keys - afresh[1].keys).max() > 1e-2


def test_forward_each_has_the_logits_of_every_position(qwen2: Model) -> None:
    cache = qwen2.new_cache(64)
    qwen2.forward([1, 2, 3], cache)
    several = qwen2.forward_each([4, 5, 6], cache)
    for n, logits in enumerate(several, start=4):
        alone = qwen2.forward(list(range(1, n + 1)), qwen2.new_cache(64))
        np.testing.assert_allclose(logits, alone, rtol=0, atol=1e-4)


def test_a_batch_gives_each_sequence_its_own_logits(qwen2: Model) -> None:
    prompts = [[1, 2, 3], [9], [400, 7, 7, 7, 12, 1]]
    caches = [qwen2.new_cache(64) for _ in prompts]
    for prompt, cache in zip(prompts, caches, strict=True):
        qwen2.forward(prompt, cache)
    together = qwen2.forward_batch([4, 5, 6], caches)
    for prompt, last, logits, cache in zip(prompts, (4, 5, 6), together, caches, strict=True):
        alone = qwen2.forward([*prompt, last], qwen2.new_cache(64))
        np.testing.assert_allclose(logits, alone, rtol=0, atol=1e-4)
        assert [len(layer) for layer in cache] == [len(prompt) + 1] * 4
