"""GGUF files give the answers of the models they were made from, and damaged ones a line that says so."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EngineError
from engine.gguf_file import read_gguf
from engine.loop import StopSettings, run_generation
from engine.model import DEMO_MODEL, load_model
from engine.weights import BLOCKS
from tests.engine import gguf_files
from tests.engine.conftest import ORACLE
from tests.engine.gguf_files import model_as_gguf, shape_metadata, tensors_of, write_gguf

QWEN3 = ORACLE / "tiny-qwen3-f32-tied"
QUANTISED = [name for name in BLOCKS if name.startswith("Q")]
MODELS = [
    "tiny-qwen2-f32-tied",
    "tiny-qwen3-f32-tied",
    "tiny-llama-f32-untied-sharded",
    "tiny-llama3-f16-untied",
]


def refusal(path: Path) -> str:
    """The one line that loading this file ends with."""
    with pytest.raises(EngineError) as failure:
        load_model(path)
    message = str(failure.value)
    assert "\n" not in message and path.name in message
    return message


@pytest.fixture(scope="module")
def qwen3_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_as_gguf(QWEN3, tmp_path_factory.mktemp("gguf") / "qwen3.gguf")


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    model = load_model(model_as_gguf(ORACLE / name, tmp_path / "model.gguf"))
    for run in json.loads((ORACLE / f"{name}.expected.json").read_text())["runs"]:
        stops = StopSettings(max_new_tokens=len(run["greedy"]))
        assert list(run_generation(model, run["prompt"], stops=stops).tokens) == run["greedy"]
        logits = model.forward(run["prompt"], model.new_cache(512))
        np.testing.assert_allclose(logits[:16], run["prefill_last_logits_first16"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_weights_are_the_stored_ones(dtype: str, tmp_path: Path) -> None:
    model = load_model(model_as_gguf(QWEN3, tmp_path / "model.gguf", dtype))
    kind = gguf.GGMLQuantizationType[dtype]
    original = tensors_of(QWEN3)

    def stored(name: str) -> np.ndarray:
        return np.asarray(dequantize(gguf.quants.quantize(original[f"model.{name}.weight"], kind), kind))

    np.testing.assert_array_equal(model.weights.embedding, stored("embed_tokens"))
    np.testing.assert_array_equal(model.weights.layers[2].down, stored("layers.2.mlp.down_proj"))
    gate_up = [stored(f"layers.1.mlp.{part}_proj") for part in ("gate", "up")]
    np.testing.assert_array_equal(model.weights.layers[1].gate_up, np.concatenate(gate_up))


def test_a_block_by_hand(tmp_path: Path) -> None:
    # Q8_0: a float16 scale, then 32 signed bytes
    block = np.frombuffer(struct.pack("<e32b", 0.5, *range(-16, 16)), np.uint8)
    folder = one_layer(tmp_path, "Q8_0", 32, embedding=np.tile(block, (64, 1)))
    np.testing.assert_array_equal(load_model(folder).weights.embedding[63], np.arange(-16, 16) / 2)


@pytest.mark.parametrize("dtype", QUANTISED)
def test_blocks_of_every_kind_are_as_long_as_ggml_has_them(dtype: str) -> None:
    assert BLOCKS[dtype] == gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[dtype]]


@pytest.mark.parametrize("dtype", [name for name in QUANTISED if name.endswith("K")])
def test_k_quants(dtype: str, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 60, (64, BLOCKS[dtype].n_bytes), dtype=np.uint8)
    model = load_model(one_layer(tmp_path, dtype, 256, embedding=rows))
    expected = dequantize(rows, gguf.GGMLQuantizationType[dtype])
    assert np.isfinite(expected).all() and expected.any()
    np.testing.assert_array_equal(model.weights.embedding, expected)


def one_layer(folder: Path, dtype: str, hidden: int, embedding: np.ndarray) -> Path:
    """A Qwen3 of one layer whose embedding is made of these raw blocks."""
    config = {
        "model_type": "qwen3",
        "num_hidden_layers": 1,
        "max_position_embeddings": 64,
        "hidden_size": hidden,
        "intermediate_size": 32,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e4,
    }
    shapes = {"attn_q": (32, hidden), "attn_k": (16, hidden), "attn_v": (16, hidden), "attn_output": (hidden, 32)}
    shapes |= {"ffn_gate": (32, hidden), "ffn_up": (32, hidden), "ffn_down": (hidden, 32)}
    norms = {"attn_norm": hidden, "ffn_norm": hidden, "attn_q_norm": 16, "attn_k_norm": 16}
    tensors = {f"blk.0.{name}.weight": np.ones(shape, np.float32) for name, shape in (shapes | norms).items()}
    tensors |= {"output_norm.weight": np.ones(hidden, np.float32), "token_embd.weight": embedding}
    return write_gguf(folder / "one.gguf", "qwen3", shape_metadata(config), tensors, {"token_embd.weight": dtype})


def test_the_name_is_the_files(qwen3_file: Path) -> None:
    assert load_model(qwen3_file).name == "qwen3"


def test_end_ids_are_the_named_one_and_those_that_end_a_turn(tmp_path: Path) -> None:
    metadata = {
        "tokenizer.ggml.eos_token_id": 7,
        "tokenizer.ggml.tokens": ["a", "<|im_end|>", "<|endoftext|>", "</s>"],
        "tokenizer.ggml.token_type": [1, 3, 3, 1],
    }
    assert load_model(model_as_gguf(QWEN3, tmp_path / "m.gguf", metadata=metadata)).defaults.eos == (7, 1, 2)


def test_float_weights_do_not_need_the_gguf_package_and_quantised_ones_say_so(tmp_path: Path, qwen3_file: Path) -> None:
    code = "import sys; sys.modules['gguf'] = None\nfrom engine.model import load_model\nload_model(sys.argv[1])"
    assert subprocess.run([sys.executable, "-c", code, qwen3_file], capture_output=True).returncode == 0
    quantised = model_as_gguf(QWEN3, tmp_path / "q8.gguf", "Q8_0")
    done = subprocess.run([sys.executable, "-c", code, quantised], capture_output=True, text=True)
    assert "need the gguf package; type: pip install 'stepscope[gguf]'" in done.stderr


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({"general.architecture": "mamba"}, "architecture 'mamba' is not supported; supported in GGUF: llama, qwen2"),
        ({"split.count": 3}, "one of 3 parts; join them"),
        ({"qwen3.block_count": ...}, "metadata qwen3.block_count is missing"),
        ({"qwen3.block_count": 5}, "tensor blk.4.attn_norm.weight is missing"),
        ({"qwen3.block_count": 4_000_000_000}, "4000000000 layers cannot be in 46 tensors"),
        ({"qwen3.context_length": 0}, "qwen3.context_length is 0"),
        ({"qwen3.rope.freq_base": float("inf")}, "qwen3.rope.freq_base is inf; it should be a number above zero"),
        ({"qwen3.attention.head_count_kv": 4}, "6 query heads are not a multiple of 4 key heads"),
        (
            {"qwen3.feed_forward_length": 128},
            r"blk.0.ffn_gate.weight has shape [256, 96], its metadata asks for [128, 96]",
        ),
        ({"qwen3.rope.scaling.type": "yarn"}, "RoPE scaling 'yarn' is not supported; supported: none"),
        ({"qwen3.rope.dimension_count": 16}, "rope.dimension_count is 16; only RoPE over whole heads (32)"),
        ({"qwen3.expert_count": 8}, "expert_count is 8; only one MLP a layer"),
        ({"qwen3.attention.sliding_window": 64}, "sliding_window is 64; only full attention"),
        ({"tokenizer.ggml.model": "bert"}, "tokenizer kind 'bert' is not supported; supported: gpt2"),
        (
            {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.pre": "whale"},
            "tokenizer.ggml.pre 'whale' is not supported; supported: gpt-2, smollm, llama-bpe",
        ),
        ({"tokenizer.ggml.model": "gpt2"}, "tokenizer.ggml.tokens is missing"),
        (
            {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.token_type": [1, 1]},
            "token_type does not fit the 1 tokens",
        ),
        (
            {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": ["a"] * 2000},
            "2000 tokens, the embedding has 1024 rows",
        ),
        ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": ["a"]}, "scores does not fit the 1 tokens"),
    ],
)
def test_what_cannot_be_used_is_refused(metadata: dict[str, Any], says: str, tmp_path: Path) -> None:
    assert says in refusal(model_as_gguf(QWEN3, tmp_path / "m.gguf", metadata=metadata))


@pytest.mark.parametrize(
    ("divisors", "says"),
    [([1.0] * 3, "rope_freqs.weight is F32 [3], not F32 [8]"), ([1.0] * 7 + [0.0], "a divisor that is not above zero")],
)
def test_impossible_rope_divisors_are_refused(
    divisors: list[float], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf_files, "llama3_divisors", lambda config: np.array(divisors, np.float32))
    assert says in refusal(model_as_gguf(ORACLE / "tiny-llama3-f16-untied", tmp_path / "m.gguf"))


def test_an_unsupported_quantisation_is_named_with_its_alternatives(tmp_path: Path) -> None:
    rows = np.zeros((64, 136), np.uint8)  # IQ4_XS: 136 bytes for 256 values
    message = refusal(one_layer(tmp_path, "IQ4_XS", 256, embedding=rows))
    assert "token_embd.weight is quantised as IQ4_XS; supported: F32, F16, BF16, Q4_0" in message


def test_a_folder_of_gguf_files_says_how_to_name_one(qwen3_file: Path) -> None:
    with pytest.raises(EngineError, match=r"a GGUF model is named by its file, as .*qwen3\.gguf"):
        load_model(qwen3_file.parent)


def test_what_is_no_gguf_file(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    assert "No such file" in refusal(path)
    path.write_bytes(b"")
    assert "the file is empty" in refusal(path)
    path.write_bytes(b"GGML" + bytes(60))
    assert "not a GGUF file" in refusal(path)
    path.write_bytes(b"GGUF" + struct.pack("<I", 1) + bytes(60))
    assert "GGUF version 1 is not supported; supported: 2 and 3" in refusal(path)


@pytest.mark.parametrize("claim", [1 << 20, 1 << 40, (1 << 64) - 1])
@pytest.mark.parametrize("at", [8, 16, 24], ids=["tensors", "entries", "the first key's length"])
def test_a_claim_beyond_the_file_allocates_nothing(at: int, claim: int, qwen3_file: Path, tmp_path: Path) -> None:
    whole = bytearray(qwen3_file.read_bytes()[:4096])
    struct.pack_into("<Q", whole, at, claim)
    path = tmp_path / "claim.gguf"
    path.write_bytes(whole)
    tracemalloc.start()
    message = refusal(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert f"{claim} " in message and "should follow" in message
    assert peak < 200_000


def test_a_file_that_was_cut_off_is_refused_wherever_it_was(qwen3_file: Path, tmp_path: Path) -> None:
    whole = qwen3_file.read_bytes()
    header = read_gguf(qwen3_file).tensors["token_embd.weight"].offset
    path = tmp_path / "cut.gguf"
    for n in (*range(1, header, 61), header + 1, len(whole) - 200_000):
        path.write_bytes(whole[:n])
        refusal(path)


@settings(max_examples=150)
@given(data=st.data())
def test_any_damage_to_the_header_is_refused_or_harmless(
    data: st.DataObject, qwen3_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = bytearray(qwen3_file.read_bytes())
    for at in data.draw(st.lists(st.integers(0, 3000), min_size=1, max_size=4)):
        whole[at] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(whole)
    try:
        load_model(path)
    except EngineError as error:
        assert "\n" not in str(error)


def test_the_embedded_model_answers_alike(tmp_path: Path) -> None:
    whole = (DEMO_MODEL / "tokenizer.json").read_text()
    template = json.loads((DEMO_MODEL / "tokenizer_config.json").read_text())["chat_template"]
    metadata = {
        "tokenizer.huggingface.json": whole,
        "tokenizer.chat_template": template,
        "tokenizer.ggml.eos_token_id": 959,
    }
    model = load_model(model_as_gguf(DEMO_MODEL, tmp_path / "demo.gguf", metadata=metadata))
    assert model.tokenizer
    prompt = model.tokenizer.chat_prompt("List the first six letters of the alphabet")
    result = run_generation(model, model.tokenizer.encode(prompt))
    assert (result.text, result.finish) == ("a b c d e f", "eos")
