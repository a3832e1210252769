"""Loading a model directory: exact conversion, and one clear line for whatever is missing or damaged."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from engine.config import read_config
from engine.errors import EngineError
from engine.model import load_model
from engine.weights import load_weights, open_checkpoint, weights_sha256
from tests.engine.conftest import ORACLE

SHARDED = "tiny-llama-f32-untied-sharded"


def rewrite(folder: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    """Load a model's tensors, change them, save them."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """The upper halves of float32 values that bfloat16 holds exactly."""
    bits = values.astype("<f4").view("<u4")
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype("<u2")


def write_raw(path: Path, tensors: dict[str, tuple[str, list[int], bytes]]) -> None:
    """A safetensors file byte by byte: name -> (dtype, shape, data)."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def refusal(folder: Path) -> str:
    """The one line that loading this directory ends with."""
    with pytest.raises(EngineError) as failure:
        load_model(folder)
    message = str(failure.value)
    assert "\n" not in message
    return message


def test_float32_arrives_bit_for_bit() -> None:
    folder = ORACLE / "tiny-qwen2-f32-tied"
    stored = load_file(folder / "model.safetensors")
    weights = load_weights(read_config(folder), open_checkpoint(folder))
    np.testing.assert_array_equal(weights.embedding, stored["model.embed_tokens.weight"])
    attention = [stored[f"model.layers.2.self_attn.{part}_proj.weight"] for part in ("q", "k", "v")]
    np.testing.assert_array_equal(weights.layers[2].qkv, np.concatenate(attention))
    mlp = [stored[f"model.layers.3.mlp.{part}_proj.weight"] for part in ("gate", "up")]
    np.testing.assert_array_equal(weights.layers[3].gate_up, np.concatenate(mlp))
    assert weights.lm_head is weights.embedding


def test_float16_is_widened_exactly() -> None:
    folder = ORACLE / "tiny-llama3-f16-untied"
    stored = load_file(folder / "model.safetensors")
    weights = load_weights(read_config(folder), open_checkpoint(folder))
    assert weights.lm_head.dtype == np.float32
    np.testing.assert_array_equal(weights.lm_head, stored["lm_head.weight"].astype(np.float32))


def test_bfloat16_is_widened_exactly(qwen2_copy: Path) -> None:
    stored = load_file(qwen2_copy / "model.safetensors")
    special = np.array([1.0, -2.5, 0.0, -0.0, 2.0**-126, 3.3895314e38, 2.0**-133], np.float32)
    rounded = {name: np.zeros_like(value) for name, value in stored.items()}
    rounded["model.norm.weight"][: len(special)] = special
    write_raw(
        qwen2_copy / "model.safetensors",
        {name: ("BF16", list(v.shape), bfloat16_bits(v).tobytes()) for name, v in rounded.items()},
    )
    weights = load_weights(read_config(qwen2_copy), open_checkpoint(qwen2_copy))
    assert weights.final_norm[: len(special)].tobytes() == special.tobytes()


def test_progress_counts_bytes_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    load_model(ORACLE / SHARDED, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (1969536, 1969536)  # total_size of the index


def test_nothing_is_drawn_unless_at_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    load_model(ORACLE / "tiny-qwen2-f32-tied")
    assert capfd.readouterr() == ("", "")


def test_the_hash_of_one_file_is_its_sha256() -> None:
    path = ORACLE / "tiny-qwen2-f32-tied" / "model.safetensors"
    assert weights_sha256([path]) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_large_files_are_not_hashed(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate((64 << 20) + 1)
    assert weights_sha256([path]) is None


def test_a_missing_directory(tmp_path: Path) -> None:
    assert "no such model directory" in refusal(tmp_path / "nowhere")
    assert "README.md: not a GGUF file; name safetensors models by their folder" in refusal(ORACLE / "README.md")


def test_no_weights_at_all(qwen2_copy: Path) -> None:
    (qwen2_copy / "model.safetensors").rename(qwen2_copy / "pytorch_model.bin")
    assert "neither model.safetensors nor model.safetensors.index.json" in refusal(qwen2_copy)


def test_a_missing_shard_is_named(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of(SHARDED)
    (folder / "model-00007-of-00010.safetensors").unlink()
    assert "model-00007-of-00010.safetensors: this shard is missing" in refusal(folder)


def test_a_damaged_index_is_named(copy_of: Callable[[str], Path], change_json: Callable[..., None]) -> None:
    folder = copy_of(SHARDED)
    change_json(folder / "model.safetensors.index.json", weight_map=...)
    assert "model.safetensors.index.json: weight_map is missing" in refusal(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_an_unfinished_download_is_named(qwen2_copy: Path, name: str) -> None:
    (qwen2_copy / name).rename(qwen2_copy / f"{name}.incomplete")
    assert f"{name}.incomplete: this download did not finish" in refusal(qwen2_copy)


def test_a_left_over_part_of_a_finished_download_is_no_error(qwen2_copy: Path) -> None:
    (qwen2_copy / "model.safetensors.incomplete").write_bytes(b"")
    load_model(qwen2_copy)


def test_a_file_shorter_than_its_header_says(qwen2_copy: Path) -> None:
    path = qwen2_copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    message = refusal(qwen2_copy)
    assert "model.safetensors" in message and "the file has 1976280" in message


@pytest.mark.parametrize("content", [b"", b"\0\0\0", b"version https://git-lfs.github.com/spec/v1\n", b"\xff" * 64])
def test_a_file_that_is_no_safetensors(qwen2_copy: Path, content: bytes) -> None:
    (qwen2_copy / "model.safetensors").write_bytes(content)
    assert "model.safetensors: the header should be" in refusal(qwen2_copy)


@pytest.mark.parametrize(
    "header",
    [
        b"not json",
        b"[]",
        b'{"a": 1}',
        b'{"a": {"dtype": "F32", "shape": [1]}}',
        b'{"a": {"dtype": "F32", "shape": "x", "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}',
        b'{"a": {"dtype": "F32", "shape": [Infinity], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 1e400]}}',
        b"\xff\xff",
        b"[" * 100_000,
    ],
)
def test_a_damaged_header(qwen2_copy: Path, header: bytes) -> None:
    (qwen2_copy / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(64))
    assert "model.safetensors: the header is not a safetensors header" in refusal(qwen2_copy)


def test_a_shape_that_does_not_fit_its_bytes(qwen2_copy: Path) -> None:
    write_raw(qwen2_copy / "model.safetensors", {"model.norm.weight": ("F32", [96], bytes(380))})
    assert "model.norm.weight [96] in F32 is not 380 bytes" in refusal(qwen2_copy)


def test_a_missing_tensor_is_named(qwen2_copy: Path) -> None:
    def remove(tensors: dict[str, np.ndarray]) -> None:
        del tensors["model.layers.3.mlp.up_proj.weight"]

    rewrite(qwen2_copy, remove)
    assert "tensor model.layers.3.mlp.up_proj.weight is missing" in refusal(qwen2_copy)


@pytest.mark.parametrize(
    ("entries", "tensor"),
    [
        ({"num_hidden_layers": 3, "layer_types": ...}, "model.layers.3."),
        ({"architectures": ["LlamaForCausalLM"]}, "model.layers.0.self_attn.k_proj.bias"),
    ],
)
def test_a_tensor_that_would_be_left_out_is_named(
    qwen2_copy: Path, change_json: Callable[..., None], entries: dict[str, Any], tensor: str
) -> None:
    change_json(qwen2_copy / "config.json", **entries)
    assert f"tensor {tensor}" in refusal(qwen2_copy)


def test_stored_rope_frequencies_are_not_needed(qwen2_copy: Path) -> None:
    def add(tensors: dict[str, np.ndarray]) -> None:
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(8, np.float32)

    rewrite(qwen2_copy, add)
    load_model(qwen2_copy)


def test_a_wrong_shape_says_expected_and_seen(qwen2_copy: Path) -> None:
    def transpose(tensors: dict[str, np.ndarray]) -> None:
        name = "model.layers.0.mlp.down_proj.weight"
        tensors[name] = np.ascontiguousarray(tensors[name].T)

    rewrite(qwen2_copy, transpose)
    message = refusal(qwen2_copy)
    assert "model.layers.0.mlp.down_proj.weight has shape [256, 96]" in message
    assert "asks for [96, 256]" in message


def test_an_untied_model_needs_its_head(qwen2_copy: Path, change_json: Callable[..., None]) -> None:
    change_json(qwen2_copy / "config.json", tie_word_embeddings=False)
    assert "tensor lm_head.weight is missing" in refusal(qwen2_copy)


def test_an_unsupported_dtype_is_named(qwen2_copy: Path) -> None:
    def quantise(tensors: dict[str, np.ndarray]) -> None:
        name = "model.layers.0.self_attn.o_proj.weight"
        tensors[name] = tensors[name].astype(np.int8)

    rewrite(qwen2_copy, quantise)
    message = refusal(qwen2_copy)
    assert "model.layers.0.self_attn.o_proj.weight has dtype I8, supported: F32, F16, BF16" in message


def test_tokenizer_ids_beyond_the_vocabulary(qwen2_copy: Path, change_json: Callable[..., None]) -> None:
    def shorten(tensors: dict[str, np.ndarray]) -> None:
        name = "model.embed_tokens.weight"
        tensors[name] = np.ascontiguousarray(tensors[name][:1000])

    rewrite(qwen2_copy, shorten)
    change_json(qwen2_copy / "config.json", vocab_size=1000)
    assert "tokenizer.json: ids go up to 1023, the model's vocabulary has 1000" in refusal(qwen2_copy)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "chat_template.jinja"])
def test_a_pipe_is_refused_not_waited_for(qwen2_copy: Path, name: str) -> None:
    (qwen2_copy / name).unlink(missing_ok=True)
    os.mkfifo(qwen2_copy / name)
    assert f"{name}: not a regular file" in refusal(qwen2_copy)


PANICS = json.dumps(
    # the package cuts this prefix off merges that are shorter
    {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]],
     "continuing_subword_prefix": "99999"}, "added_tokens": []}
)  # fmt: skip


@pytest.mark.parametrize(
    ("content", "says"), [("{", "bad JSON"), ('{"model": 1}', "cannot read it"), (PANICS, "cannot read it")]
)
def test_a_damaged_tokenizer(qwen2_copy: Path, content: str, says: str) -> None:
    (qwen2_copy / "tokenizer.json").write_text(content)
    message = refusal(qwen2_copy)
    assert "tokenizer.json" in message and says in message
