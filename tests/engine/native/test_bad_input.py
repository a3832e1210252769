"""Input that is damaged, missing or impossible: one line that names the file and the place, exit code 2."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import ORACLE
from tests.engine.native.conftest import QWEN2, built, run

SHARDED = "tiny-llama-f32-untied-sharded"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(QWEN2, tmp_path / "model"))


@pytest.fixture
def weights(model: Path) -> Path:
    return model / "model.safetensors"


def complaint(*words: object) -> str:
    """What the sanitized engine says when it refuses; its only line, after 'engine: '."""
    done = run(built("asan"), *words)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("engine: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr[len("engine: ") : -1]


def about(model: Path, ids: str = "1,2,3", *words: object) -> str:
    return complaint(model, "--ids", ids, *words)


def header_of(path: Path) -> tuple[dict[str, Any], bytes]:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def write_header(path: Path, header: Any, body: bytes) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--ids", ""], "--ids: the prompt is empty; give at least one token id"),
        (["--ids", "1,two"], "--ids: 'two' is not a token id; ids are whole numbers between commas"),
        (["--ids", "1.5"], "--ids: '1.5' is not a token id; ids are whole numbers between commas"),
        (["--ids", "99999999999999999999"], "--ids: '99999999999999999999' is too large for a token id"),
        (["--ids", "3,1024"], "prompt 0: token id 1024 is outside the model's vocabulary of 1024"),
        (["--ids", "1", "--ids", "-1"], "prompt 1: token id -1 is outside the model's vocabulary of 1024"),
        (["--ids", "1,2,3", "--capacity", "2"], "prompt 0 has 3 tokens, the KV cache holds 2; shorten the prompt"),
        (["--ids", "1", "--capacity", "1025"], "--capacity is 1025; the model's context is 1024 tokens"),
        (["--ids", "1", "--capacity", "x"], "--capacity is 'x'; it is a whole number, 1 or more"),
        (["--ids", "1", "--max-new-tokens", "-1"], "--max-new-tokens is '-1'; it is a whole number, 0 or more"),
        (["--ids-file", "/no/such"], "/no/such: cannot read: No such file or directory"),
        (["--ids-file", "/"], "/: is not a file"),
    ],
)
def test_requests(words: list[str], expected: str) -> None:
    assert complaint(QWEN2, *words) == expected


def test_a_binary_file_of_ids(tmp_path: Path) -> None:
    (tmp_path / "ids").write_bytes(b"1,2\0,3")
    assert complaint(QWEN2, "--ids-file", tmp_path / "ids") == f"{tmp_path}/ids: is not a text of token ids"


def test_missing_files(model: Path) -> None:
    assert about(model / "nowhere") == f"{model}/nowhere: no such model directory"
    (model / "model.safetensors").unlink()
    assert about(model) == f"{model}: neither model.safetensors nor model.safetensors.index.json is here"
    (model / "config.json").unlink()
    assert about(model) == f"{model}/config.json: cannot read: No such file or directory"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "line 1: the text ends too early"),
        ("[]", ""),
        ('{"a": 1,\n"b" 2}', "line 2: ':' is expected after a name"),
        ('{"a": [1, 2}', "line 1: ',' or ']' is expected"),
        ('{"a": "x', "line 1: a string without an end"),
        ('{"a": "\\q"}', "line 1: an unknown escape in a string"),
        ('{"a": "\\u12g4"}', "line 1: \\u without four hexadecimal digits"),
        ('{"a": tru}', "line 1: not a JSON value"),
        ('{"a": 1.}', "line 1: a number without digits"),
        ('{"a": 01}', "line 1: ',' or '}' is expected"),
        ("{}\n{}", "line 2: something follows the end"),
        # named: a test's name goes into the environment of what it runs, which has bounds
        pytest.param("[" * 100_000, "line 1: nested too deeply", id="deep lists"),
        pytest.param('{"a":' * 100_000, "line 1: nested too deeply", id="deep objects"),
    ],
)
def test_bad_json(model: Path, text: str, place: str) -> None:
    (model / "config.json").write_text(text)
    line = about(model)
    assert line.startswith(f"{model}/config.json: ")
    assert place in line


@pytest.mark.parametrize(
    ("entry", "value", "expected"),
    [
        ("architectures", ["GPT2LMHeadModel"], 'architectures is ["GPT2LMHeadModel"]; it is one of LlamaForCausalLM'),
        ("architectures", None, "architectures is missing"),
        ("num_hidden_layers", "4", 'num_hidden_layers is "4"; it is a whole number above zero'),
        ("num_hidden_layers", 0, "num_hidden_layers is 0; it is a whole number above zero"),
        ("num_hidden_layers", 1e9, "num_hidden_layers is 1000000000.0; it is a whole number above zero"),
        ("num_hidden_layers", 10**30, "it is a whole number above zero"),
        ("hidden_size", None, "hidden_size is missing"),
        ("head_dim", 15, "head_dim 15 is odd"),
        ("head_dim", 2**30, "the sizes in it are too large to be a model's"),
        ("num_key_value_heads", 4, "num_attention_heads 6 is not a multiple of num_key_value_heads 4"),
        ("quantization_config", {"quant_method": "gptq"}, "quantised weights are not supported"),
        ("hidden_act", "gelu", 'hidden_act is "gelu"; it is silu'),
        ("layer_types", ["full_attention", "sliding_attention"], 'layer 1 is "sliding_attention"'),
        ("rope_parameters", {"rope_type": "yarn"}, 'rope_type is "yarn"'),
        ("rope_parameters", {"rope_type": "llama3"}, "factor is missing"),
        ("rms_norm_eps", -1, "rms_norm_eps is -1; it is a number above zero"),
        ("tie_word_embeddings", 1, "tie_word_embeddings is 1; it is true or false"),
        ("partial_rotary_factor", 0.5, "partial_rotary_factor is 0.5"),
    ],
)
def test_configs_that_are_refused(
    model: Path, change_json: Callable[..., None], entry: str, value: Any, expected: str
) -> None:
    change_json(model / "config.json", **{entry: value})
    line = about(model)
    assert line.startswith(f"{model}/config.json: ")
    assert expected in line


def test_a_value_over_several_lines_is_told_in_one(model: Path, change_json: Callable[..., None]) -> None:
    change_json(model / "config.json", architectures=["Other"])
    config = model / "config.json"
    config.write_text(config.read_text().replace('["Other"]', '[\n  "Other\x7f"\n]'))
    assert 'architectures is [ "Other " ]; it is one of' in about(model)


def test_end_ids_that_are_none(model: Path, change_json: Callable[..., None]) -> None:
    change_json(model / "generation_config.json", eos_token_id=["</s>"])
    assert about(model) == (
        f'{model}/generation_config.json: eos_token_id is "</s>"; it is a token id or a list of them'
    )


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 9, 100, 2000, -1, -5000])
def test_truncated_weights(model: Path, weights: Path, kept: int) -> None:
    weights.write_bytes(weights.read_bytes()[:kept])
    line = about(model)
    assert line.startswith(f"{weights}: ")
    assert line.endswith("; download it again")


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 2**64 - 8, 10**9])
def test_header_lengths_that_lie(model: Path, weights: Path, length: int) -> None:
    data = weights.read_bytes()
    weights.write_bytes(struct.pack("<Q", length) + data[8:])
    assert f"the header should be {length} bytes long, the file has {len(data)}" in about(model)


@pytest.mark.parametrize("header", [b"{", b"[1]", b"\xff\xfe{}", b'{"t": 1}', b'{"t": {"dtype": "F32"}}', b"\0" * 64])
def test_headers_that_are_none(model: Path, weights: Path, header: bytes) -> None:
    write_header(weights, header, b"")
    line = about(model)
    assert line.startswith(f"{weights}: ")
    assert line.endswith("download it again")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"shape": [96, 1]}, "the shape of model.norm.weight"),
        ({"shape": [95]}, "does not fit its 384 bytes"),
        ({"shape": [2**62, 2**62]}, "does not fit its 384 bytes"),
        ({"shape": [-96]}, "the header is not a safetensors header"),
        ({"shape": [2, 3, 4, 4]}, "model.norm.weight has another shape than config.json asks for ([96])"),
        ({"shape": [48, 2]}, "model.norm.weight has another shape than config.json asks for ([96])"),
        ({"data_offsets": [0, 2**62]}, "model.norm.weight ends at byte"),
        ({"data_offsets": [8, 4]}, "the header is not a safetensors header"),
        ({"data_offsets": [0]}, "the header is not a safetensors header"),
        ({"data_offsets": [0, 384, 768]}, "the header is not a safetensors header"),
        ({"data_offsets": [0, 10**40]}, "the header is not a safetensors header"),
        ({"dtype": "I8"}, "model.norm.weight has a dtype other than F32, F16 and BF16"),
        ({"dtype": "BF16"}, "does not fit its 384 bytes"),
        ({"dtype": 5}, "the header is not a safetensors header"),
    ],
)
def test_tensors_that_do_not_fit(model: Path, weights: Path, entry: dict[str, Any], expected: str) -> None:
    header, body = header_of(weights)
    header["model.norm.weight"].update(entry)
    write_header(weights, header, body)
    if entry == {"shape": [96, 1]}:
        expected = "model.norm.weight has another shape"
    line = about(model)
    assert line.startswith(str(weights))
    assert expected in line


def test_a_tensor_that_is_missing(model: Path, weights: Path) -> None:
    header, body = header_of(weights)
    del header["model.layers.2.mlp.up_proj.weight"]
    write_header(weights, header, body)
    assert about(model) == (
        f"{model}: tensor model.layers.2.mlp.up_proj.weight is missing; config.json asks for it, is it this model's?"
    )


def test_a_config_of_another_model(model: Path, weights: Path, change_json: Callable[..., None]) -> None:
    change_json(model / "config.json", num_hidden_layers=2_000_000_000)
    assert "tensor model.layers.4.input_layernorm.weight is missing" in about(model)
    change_json(model / "config.json", num_hidden_layers=4, vocab_size=2048)
    assert about(model) == (
        f"{weights}: model.embed_tokens.weight has another shape than config.json asks for ([2048, 96]); "
        "use the config.json that belongs to these weights"
    )


def test_a_context_that_no_memory_holds(model: Path, change_json: Callable[..., None]) -> None:
    change_json(model / "config.json", max_position_embeddings=2**31 - 1)
    assert "--capacity makes the KV cache smaller" in about(model)


def test_shards(tmp_path: Path, change_json: Callable[..., None]) -> None:
    model = Path(shutil.copytree(ORACLE / SHARDED, tmp_path / "sharded"))
    index = model / "model.safetensors.index.json"
    (model / "model-00004-of-00010.safetensors").rename(model / "elsewhere")
    assert about(model) == (
        f"{model}/model-00004-of-00010.safetensors: cannot read this part of the weights: "
        "No such file or directory; download it again"
    )
    for named, expected in (
        ({}, "weight_map is missing or damaged"),
        (7, "weight_map is missing or damaged"),
        ({"a": 1}, "weight_map is damaged"),
        ({"a": "../../secret"}, "weight_map is damaged"),
        ({"a": "x" * 300}, "weight_map is damaged"),
    ):
        change_json(index, weight_map=named)
        assert about(model) == f"{index}: {expected}; download it again"
    index.write_text('{"weight_map": {')
    assert "bad JSON at byte" in about(model)


def test_weights_that_are_not_numbers(model: Path, weights: Path, trace: Path) -> None:
    header, body = header_of(weights)
    begin, end = header["model.norm.weight"]["data_offsets"]
    write_header(weights, header, body[:begin] + b"\xff" * (end - begin) + body[end:])
    done = run(built("asan"), model, "--ids", "1,2,3", "--trace", trace)
    assert done.returncode == 1
    assert done.stderr == "engine: the best logit is not finite; the weights are damaged or overflowed\n"
