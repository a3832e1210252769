"""What a decode step must read, against public figures of public models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import EngineError
from engine.floor import (
    as_stored,
    bytes_read,
    floor_facts,
    floor_of,
    in_elements,
    matrices_of,
    measure_bandwidth,
    read_shape,
    stand_in,
)
from engine.model import DEMO_MODEL, load_model
from engine.threads import limit_threads, settle_threads, threads_in_use
from tests.engine.conftest import ORACLE, oracle_model
from tests.engine.gguf_files import model_as_gguf

QWEN25_05B: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
}
QWEN25_7B = QWEN25_05B | {
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}
QWEN3_30B_A3B = QWEN25_7B | {
    "architectures": ["Qwen3MoeForCausalLM"],
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "head_dim": 128,
    "vocab_size": 151936,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
}


def shape(tmp_path: Path, entries: dict[str, Any]) -> Any:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(entries))
    return read_shape(path)[0]


def test_qwen25_05b(tmp_path: Path) -> None:
    floor = floor_of(shape(tmp_path, QWEN25_05B))
    assert 90 * floor.kv_bytes_per_row == 2_211_840
    # its model card: 0.49B parameters, of them 0.36B outside the embedding; the tied embedding is read as lm_head
    assert floor.bytes_per_token == 4 * (494_032_768 + 896)
    assert sum(floor.weight_bytes.values()) - floor.weight_bytes["lm_head"] == pytest.approx(4 * 0.36e9, rel=0.01)


def test_qwen25_7b(tmp_path: Path) -> None:
    floor = floor_of(shape(tmp_path, QWEN25_7B), in_elements(2), kv_element_bytes=2)
    assert 2048 * floor.kv_bytes_per_row == 117_440_512
    assert floor.queries_per_key == 7
    # 7,615,616,512 parameters; of an embedding that is not the lm_head one row is read
    assert floor.bytes_per_token == 2 * (7_615_616_512 - (152_064 - 1) * 3584)


def test_a_window_bounds_what_its_layers_read(tmp_path: Path) -> None:
    kinds = ["full_attention", "sliding_attention"] * 12
    sliding = {"layer_types": kinds, "sliding_window": 1000}
    floor = floor_of(shape(tmp_path, QWEN25_05B | sliding))
    # 2 x 2 heads x 64 x 4 bytes a row and layer
    assert floor.kv_bytes(500) == 24 * 500 * 1024
    assert floor.kv_bytes(5000) == 12 * (5000 + 1000) * 1024
    assert floor.kv_bytes_per_row == 12 * 1024


def test_of_experts_only_the_chosen_ones_are_read(tmp_path: Path) -> None:
    config = shape(tmp_path, QWEN3_30B_A3B)
    # its model card: 30.5B parameters, 3.3B activated, the embedding included
    read = sum(bytes_read(config, in_elements(1)).values())
    assert read + 151_936 * 2048 == pytest.approx(3.3e9, rel=0.02)


def test_every_weight_of_a_dense_model_is_read_once() -> None:
    config, checkpoint = read_shape(ORACLE / "tiny-llama3-f16-untied")
    assert checkpoint is not None
    embedding = checkpoint.tensors["model.embed_tokens.weight"].n_bytes
    stored = sum(tensor.n_bytes for tensor in checkpoint.tensors.values())
    assert sum(bytes_read(config, as_stored(config, checkpoint)).values()) == stored - embedding + 64 * 2


def test_stored_sizes_of_a_quantised_file(tmp_path: Path) -> None:
    path = model_as_gguf(ORACLE / "tiny-qwen3-f32-tied", tmp_path / "q8.gguf", "Q8_0")
    config, checkpoint = read_shape(path)
    assert checkpoint is not None
    # 34 bytes for 32 values
    assert bytes_read(config, as_stored(config, checkpoint))["down"] == 4 * 96 * 256 * 34 // 32


def test_least_time(tmp_path: Path) -> None:
    floor = floor_of(shape(tmp_path, QWEN25_05B))
    # 4 x 494,033,664 bytes at 100 GB/s; then 1,000 rows of 24 layers, 2 x 2 heads x 64 x 4 bytes
    assert floor.least_ms(0, 100e9) == pytest.approx(19.76134656)
    assert floor.least_ms(1000, 100e9) == pytest.approx(19.76134656 + 0.24576)


def test_the_bandwidth_is_that_of_real_reads() -> None:
    # between a slow disk and any cache
    for matrices in (stand_in(1 << 24), [np.ones((4096, 512), np.float32)]):
        assert 1e7 < measure_bandwidth(matrices) < 1e13


def test_a_stand_in_is_as_large_as_the_model_and_no_larger_than_needed() -> None:
    assert sum(matrix.nbytes for matrix in stand_in(1 << 24)) == 1 << 24
    assert len(stand_in(0)) == 1


@pytest.mark.parametrize("name", ["tiny-qwen3-moe-bf16-untied", "tiny-llama-f32-untied-sharded"])
def test_all_matrices_of_a_model_are_there_to_measure(name: str) -> None:
    model = oracle_model(name)
    config, checkpoint = read_shape(ORACLE / name)
    assert checkpoint is not None
    stored = (t for n, t in checkpoint.tensors.items() if len(t.shape) == 2 and ".gate.weight" not in n)
    expected = sum(t.shape[0] * t.shape[1] for t in stored) - config.vocab_size * config.hidden_size
    assert sum(matrix.size for matrix in matrices_of(model.weights)) == expected


def test_the_header_of_a_run_carries_it() -> None:
    facts = floor_facts(load_model(DEMO_MODEL))
    # 2 x 4 layers x 2 heads x 32 x 4 bytes
    assert facts["kv_bytes_per_row"] == 2048
    # 4 layers: q, k and v of 4 + 2 + 2 heads of 32, o, three of the MLP of 384, two norms of 128 and two of 32;
    # then the last norm, a row of the embedding, and the embedding as the lm_head
    layer = 128 * 256 + 128 * 128 + 3 * 128 * 384 + 2 * 128 + 2 * 32
    assert facts["bytes_per_token"] == 4 * (4 * layer + 128 + 128 + 1024 * 128)
    assert sum(facts["weight_bytes"].values()) == facts["bytes_per_token"]
    assert facts["bandwidth_gb_s"] > 0


def test_a_config_alone_or_its_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN25_05B))
    assert read_shape(tmp_path) == read_shape(tmp_path / "config.json")
    with pytest.raises(EngineError, match=r"config\.json: missing"):
        read_shape(tmp_path / "nowhere")


@pytest.fixture
def threads_as_before() -> Any:
    before = threads_in_use()
    yield
    limit_threads(before)


@pytest.mark.usefixtures("threads_as_before")
def test_threads() -> None:
    limit_threads(1)
    assert threads_in_use() == 1
    settle_threads(2, DEMO_MODEL)
    assert threads_in_use() == 2
    settle_threads(None, ORACLE)
    assert threads_in_use() == 2
    settle_threads(None, DEMO_MODEL)
    assert threads_in_use() == 1
    with pytest.raises(EngineError, match="threads is 0; it is 1 or more"):
        settle_threads(0, ORACLE)
