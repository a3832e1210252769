"""config.json and generation_config.json: the spellings that are read, and what is refused by name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.config import ExpertSettings, RopeSettings, read_config, read_generation_defaults
from engine.errors import EngineError
from tests.engine.conftest import ORACLE

EXPERTS = "tiny-qwen3-moe-bf16-untied"
LLAMA3 = {
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@pytest.fixture
def config_with(tmp_path: Path) -> Callable[..., Path]:
    """A folder whose config.json is an oracle model's with other entries; `...` removes one."""

    def make(name: str = "tiny-qwen2-f32-tied", **entries: Any) -> Path:
        said = json.loads((ORACLE / name / "config.json").read_text()) | entries
        kept = {name: value for name, value in said.items() if value is not ...}
        (tmp_path / "config.json").write_text(json.dumps(kept))
        return tmp_path

    return make


def test_qwen3_has_its_own_head_dim_and_norms() -> None:
    config = read_config(ORACLE / "tiny-qwen3-f32-tied")
    assert (config.head_dim, config.hidden_size // config.n_heads) == (32, 16)
    assert config.qk_norm and config.tied and not config.qkv_bias


def test_qwen2_has_a_qkv_bias_and_no_other() -> None:
    config = read_config(ORACLE / "tiny-qwen2-f32-tied")
    assert (config.qkv_bias, config.o_bias, config.mlp_bias, config.qk_norm) == (True, False, False, False)
    assert (config.head_dim, config.n_heads, config.n_kv_heads, config.context_length) == (16, 6, 2, 1024)


def test_qwen3_without_head_dim_has_128(config_with: Callable[..., Path]) -> None:
    assert read_config(config_with("tiny-qwen3-f32-tied", head_dim=...)).head_dim == 128


def test_experts_are_where_the_config_says() -> None:
    by_name = read_config(ORACLE / "tiny-qwen3-moe-bf16-untied").experts
    assert by_name == ExpertSettings(8, 3, 24, is_normalised=True, layers=frozenset({0, 2}))
    every_second = read_config(ORACLE / "tiny-qwen3-moe-bf16-tied-sparse").experts
    assert every_second == ExpertSettings(8, 3, 24, is_normalised=False, layers=frozenset({1}))


def test_the_older_name_of_the_number_of_experts(config_with: Callable[..., Path]) -> None:
    experts = read_config(config_with(EXPERTS, num_local_experts=..., num_experts=8)).experts
    assert experts is not None and experts.n_experts == 8


def test_experts_in_no_layer_are_none(config_with: Callable[..., Path]) -> None:
    config = read_config(config_with(EXPERTS, mlp_only_layers=[0, 1, 2]))
    assert config.experts is None and not config.has_experts(0)


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"num_experts_per_tok": 9}, "num_experts_per_tok 9 is above the number of experts, 8"),
        ({"num_local_experts": 10**9}, "number of experts is 1000000000"),
        ({"num_local_experts": ...}, "num_experts is missing"),
        ({"mlp_only_layers": 1}, "mlp_only_layers is 1"),
        ({"decoder_sparse_step": 0}, "decoder_sparse_step is 0"),
    ],
)
def test_impossible_experts_are_refused(config_with: Callable[..., Path], entries: dict[str, Any], says: str) -> None:
    with pytest.raises(EngineError, match=says):
        read_config(config_with(EXPERTS, **entries))


def test_the_text_decoder_of_a_model_that_sees() -> None:
    folder = ORACLE / "tiny-qwen3-vl-bf16-tied"
    config = read_config(folder)
    assert (config.n_layers, config.vocab_size, config.tied, config.rope) == (3, 320, True, RopeSettings(5e6))
    assert config.tensor_prefix == "model.language_model"


def test_the_end_ids_of_a_model_that_sees_stand_with_its_text_decoder(config_with: Callable[..., Path]) -> None:
    assert read_generation_defaults(config_with("tiny-qwen3-vl-bf16-tied")).eos == (1,)


@pytest.mark.parametrize(
    ("entries", "rope"),
    [
        ({"rope_parameters": ..., "rope_theta": 5e5}, RopeSettings(5e5)),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, RopeSettings(5e5)),
        ({"rope_parameters": ..., "rope_theta": 5e5, "rope_scaling": None}, RopeSettings(5e5)),
        (
            {"rope_parameters": ..., "rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **LLAMA3}},
            RopeSettings(5e5, "llama3", 32.0, 1.0, 4.0, 8192),
        ),
        (
            {"rope_parameters": ..., "rope_theta": 5e5, "rope_scaling": {"type": "llama3", **LLAMA3}},
            RopeSettings(5e5, "llama3", 32.0, 1.0, 4.0, 8192),
        ),
        (
            {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3}},
            RopeSettings(5e5, "llama3", 32.0, 1.0, 4.0, 8192),
        ),
    ],
)
def test_rope_spellings(config_with: Callable[..., Path], entries: dict[str, Any], rope: RopeSettings) -> None:
    assert read_config(config_with(**entries)).rope == rope


def test_windows_that_never_slide_are_full_attention(config_with: Callable[..., Path]) -> None:
    unused = {"layer_types": ..., "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 4}
    assert read_config(config_with(**unused)).layer_windows == (None,) * 4
    switched_off = {"layer_types": ..., "use_sliding_window": False, "sliding_window": 64}
    assert read_config(config_with(**switched_off)).layer_windows == (None,) * 4


@pytest.mark.parametrize(
    ("entries", "windows"),
    [
        ({"layer_types": ["full_attention", "sliding_attention"] * 2, "sliding_window": 64}, (None, 64, None, 64)),
        (
            {"layer_types": ..., "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 2},
            (None, None, 64, 64),
        ),
        (
            {"architectures": ["MistralForCausalLM"], "layer_types": ..., "sliding_window": 8},
            (8, 8, 8, 8),
        ),
        ({"architectures": ["MistralForCausalLM"], "layer_types": ..., "sliding_window": None}, (None,) * 4),
        ({"architectures": ["MistralForCausalLM"], "layer_types": ..., "sliding_window": ...}, (4096,) * 4),
    ],
)
def test_which_layers_slide(
    config_with: Callable[..., Path], entries: dict[str, Any], windows: tuple[int | None, ...]
) -> None:
    assert read_config(config_with(**entries)).layer_windows == windows


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        (
            {"architectures": ["GPT2LMHeadModel"]},
            '"GPT2LMHeadModel" is not supported; supported: Llama.*Mistral.*Qwen2.*Qwen3.*Qwen3Moe.*Qwen3VL',
        ),
        ({"architectures": ...}, "architectures is missing; download the file again"),
        ({"architectures": []}, r"architecture \[\] is not supported"),
        ({"quantization_config": {"quant_method": "gptq"}}, 'quantization_config "gptq" is not supported'),
        ({"dtype": "float8_e4m3fn"}, 'dtype "float8_e4m3fn" is not supported; supported: float32'),
        ({"dtype": ..., "torch_dtype": "int8"}, 'dtype "int8" is not supported'),
        ({"hidden_act": "gelu"}, 'hidden_act "gelu" is not supported'),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, 'RoPE type "yarn" is not supported'),
        (
            {"rope_scaling": {"type": "dynamic"}, "rope_parameters": ...},
            'RoPE type "dynamic" is not supported',
        ),
        ({"rope_parameters": {"rope_type": "llama3"}}, "factor is missing"),
        ({"rope_parameters": 3}, "RoPE settings are 3"),
        (
            {"rope_parameters": {"rope_type": "llama3", **LLAMA3, "low_freq_factor": 4.0}},
            "low_freq_factor 4.0 is not below high_freq_factor 4.0",
        ),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5 is not supported"),
        (
            {"layer_types": ["full_attention", "chunked_attention"] * 2},
            'layer 1 is "chunked_attention"; supported kinds of layers: full_attention, sliding',
        ),
        ({"layer_types": ["full_attention"]}, "layer_types is not a list of 4 kinds"),
        ({"layer_types": "full_attention"}, "layer_types is not a list of 4 kinds"),
        ({"layer_types": ["sliding_attention"] * 4, "sliding_window": ...}, "sliding_window is missing"),
        ({"vocab_size": ...}, "vocab_size is missing"),
        ({"vocab_size": "many"}, 'vocab_size is "many"'),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"hidden_size": -96}, "hidden_size is -96"),
        ({"rms_norm_eps": "small"}, 'rms_norm_eps is "small"'),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings is 1"),
        ({"num_key_value_heads": 4}, "6 is not a multiple of num_key_value_heads 4"),
        (
            {"num_attention_heads": 7, "num_key_value_heads": 7},
            "96 is not a multiple of num_attention_heads 7",
        ),
        ({"head_dim": 15}, "head_dim 15 is odd"),
        # numbers that Python holds and float32, or any model, does not
        ({"hidden_size": 10**13}, "hidden_size is 10000000000000; it is a whole number above zero, at most 10"),
        ({"rms_norm_eps": 10**400}, "rms_norm_eps is 10{59}….*from 1e-30 to 1e30"),
        ({"rms_norm_eps": float("inf")}, "rms_norm_eps is Infinity"),
        ({"rope_parameters": {"rope_theta": 1e-300}}, "rope_theta is 1e-300"),
        ({"rope_parameters": {"rope_theta": float("nan")}}, "rope_theta is NaN"),
    ],
)
def test_what_cannot_be_computed_is_refused(
    config_with: Callable[..., Path], entries: dict[str, Any], says: str
) -> None:
    with pytest.raises(EngineError, match=says) as failure:
        read_config(config_with(**entries))
    assert "config.json" in str(failure.value) and "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"a": 1,\n "b"', "bad JSON at line 2"),
        (b"[1, 2]", "holds a list, not an object"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", "bad JSON at line 1"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"1" * 5000 + b"}", "a number of thousands of digits"),
    ],
)
def test_a_damaged_config_names_the_file_and_the_place(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(EngineError, match=says):
        read_config(tmp_path)


def test_a_pipe_is_refused_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(EngineError, match="config.json: not a regular file"):
        read_config(tmp_path)


def test_a_missing_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"config\.json: missing"):
        read_config(tmp_path)


def test_eos_ids_come_from_the_generation_config() -> None:
    defaults = read_generation_defaults(ORACLE / "tiny-qwen2-f32-tied")
    assert defaults.eos == (1023, 1021)
    assert defaults.sampling == {
        "do_sample": True,
        "temperature": 0.7,
        "top_k": 20,
        "top_p": 0.8,
        "repetition_penalty": 1.05,
    }


@pytest.mark.parametrize(("said", "eos"), [(7, (7,)), ([7, 8], (7, 8)), (None, ())])
def test_eos_ids_fall_back_to_the_config(config_with: Callable[..., Path], said: Any, eos: tuple[int, ...]) -> None:
    folder = config_with(eos_token_id=said)
    assert read_generation_defaults(folder).eos == eos
    (folder / "generation_config.json").write_text('{"temperature": 0.5}')
    assert read_generation_defaults(folder).eos == eos


@pytest.mark.parametrize(
    "wrong",
    [{"eos_token_id": "</s>"}, {"eos_token_id": [1, "x"]}, {"temperature": "hot"}, {"top_k": 0.5}, {"do_sample": 1},
     {"temperature": float("inf")}, {"repetition_penalty": 10**400}, {"min_p": -0.1}],
)  # fmt: skip
def test_a_damaged_generation_config_is_refused(config_with: Callable[..., Path], wrong: dict[str, Any]) -> None:
    folder = config_with()
    (folder / "generation_config.json").write_text(json.dumps(wrong))
    with pytest.raises(EngineError, match=rf"generation_config\.json: {next(iter(wrong))}"):
        read_generation_defaults(folder)
