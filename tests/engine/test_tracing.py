"""A recorded generation: the film, the notes, the times, and a trace that is closed however it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import EngineError
from engine.loop import StopSettings, run_generation
from engine.loop_settings import LoopSettings
from engine.model import Model
from engine.sampling import SamplerSettings
from engine.tracing import record_generation
from tests.engine.conftest import ORACLE, oracle_model
from tests.engine.recorded import Trace, interrupt_after, read


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.steps"


def prompt_of(model: Model) -> list[int]:
    assert model.tokenizer is not None
    return model.tokenizer.encode(model.tokenizer.chat_prompt("Hello"))


def test_the_film(qwen2: Model, path: Path) -> None:
    prompt = prompt_of(qwen2)
    n = len(prompt)
    result = record_generation(qwen2, prompt, stops=StopSettings(max_new_tokens=3), path=path)
    trace = read(path)
    lengths = [(s["phase"], s["n_tokens"], s["seq_before"], s["seq_len"], s["finish"]) for s in trace.steps]
    assert lengths == [
        ("prefill", n, 0, n, None),
        ("decode", 1, n, n + 1, None),
        ("decode", 1, n + 1, n + 2, None),
        ("decode", 0, n + 2, n + 2, "length"),
    ]
    assert [s["token_id"] for s in trace.steps] == [None, *result.tokens]
    assert [s["cache_len"] for s in trace.steps] == [[n] * 4, [n + 1] * 4, [n + 2] * 4, [n + 2] * 4]
    assert [s["write_pos"] for s in trace.steps] == [0, n, n + 1, None]
    assert trace.steps[0]["n_reused"] == 0
    assert trace.end is not None
    assert trace.verdict == "pass"


def test_recording_does_not_change_the_result(qwen2: Model, path: Path) -> None:
    stops = StopSettings(max_new_tokens=40)
    sampler = SamplerSettings(temperature=0.8, top_p=0.9, seed=11)
    plain = run_generation(qwen2, prompt_of(qwen2), sampler, stops)
    assert record_generation(qwen2, prompt_of(qwen2), sampler, stops, path) == plain


def test_every_rule_holds_on_a_sampled_run(qwen2: Model, path: Path) -> None:
    sampler = SamplerSettings(temperature=1.0, seed=5, repetition_penalty=1.1)
    record_generation(qwen2, prompt_of(qwen2), sampler, StopSettings(max_new_tokens=50), path)
    assert read(path).verdict == "pass"


def test_the_run_describes_itself(qwen2: Model, path: Path) -> None:
    sampler = SamplerSettings(temperature=0.5, top_k=7)
    stops = StopSettings(eos=(1023, 1021), max_new_tokens=2)
    record_generation(qwen2, prompt_of(qwen2), sampler, stops, path)
    run = read(path).run
    assert run["engine"]["name"] == "stepscope-numpy"
    assert (
        run["model"].items()
        >= {
            "name": "tiny-qwen2-f32-tied",
            "n_layers": 4,
            "n_heads": 6,
            "n_kv_heads": 2,
            "head_dim": 16,
            "vocab_size": 1024,
            "tokenizer_size": 1024,
        }.items()
    )
    assert len(run["model"]["weights_sha256"]) == 64
    assert run["layers"] == [{"kind": "full"}] * 4
    assert run["kv"] == {"capacity": 1024, "dtype": "f32", "unit": "rows"}
    assert run["sampler"].items() >= {"kind": "sample", "temperature": 0.5, "top_k": 7}.items()
    assert isinstance(run["sampler"]["seed"], int)
    assert run["stop"].items() >= {"eos": [1023, 1021], "max_new_tokens": 2, "ignore_eos": False}.items()
    assert run["loop"] == "cached"
    assert run["clock"] == "monotonic"


def test_a_seed_that_was_drawn_repeats_the_run(qwen2: Model, path: Path) -> None:
    stops = StopSettings(max_new_tokens=20)
    result = record_generation(qwen2, prompt_of(qwen2), SamplerSettings(temperature=1.0), stops, path)
    seed = read(path).run["sampler"]["seed"]
    again = run_generation(qwen2, prompt_of(qwen2), SamplerSettings(temperature=1.0, seed=seed), stops)
    assert again == result


def test_the_notes(qwen2: Model, path: Path) -> None:
    prompt = prompt_of(qwen2)
    record_generation(qwen2, prompt, stops=StopSettings(max_new_tokens=2), path=path, prompt_text="Hello")
    trace = read(path)
    request = trace.note("request")
    assert (request["seq_id"], request["prompt"], request["prompt_ids"]) == (0, "Hello", prompt)
    assert (request["prompt_tokens"], request["n_reused"], request["max_new_tokens"]) == (len(prompt), 0, 2)
    source = trace.note("source")
    lines = Path(__file__).parents[2].joinpath(source["file"]).read_text().splitlines()
    assert lines[source["line"] - 1].startswith(f"def {source['function']}(")
    assert trace.notes[-1] == {"kind": "release", "seq_id": 0}


def test_times_nest(qwen2: Model, path: Path) -> None:
    record_generation(qwen2, prompt_of(qwen2), stops=StopSettings(max_new_tokens=4), path=path)
    steps = read(path).steps
    for step in steps[:-1]:
        gemm, attn = sum(step["gemm_ms"]), sum(step["attn_ms"])
        parts = step["qkv_ms"] + step["o_ms"] + step["gate_up_ms"] + step["down_ms"]
        assert parts > 0
        assert gemm == pytest.approx(parts, rel=1e-3)
        assert attn > 0
        assert step["lm_head_ms"] > 0
        assert gemm + attn + step["lm_head_ms"] <= step["forward_ms"] * 1.001
        assert step["forward_ms"] <= step["total_ms"] * 1.001
        assert len(step["gemm_ms"]) == len(step["attn_ms"]) == 4
    assert [step["sample_ms"] is None for step in steps] == [True, False, False, False, False]
    assert steps[-1]["forward_ms"] is None and steps[-1]["gemm_ms"] in (None, [None] * 4)
    times = [step["t_ns"] for step in steps]
    assert times == sorted(times)


def test_what_sampling_saw(qwen2: Model, path: Path) -> None:
    record_generation(qwen2, prompt_of(qwen2), stops=StopSettings(max_new_tokens=2), path=path)
    first = read(path).steps[1]
    logits = qwen2.forward(prompt_of(qwen2), qwen2.new_cache(1024))
    second, best = np.argsort(logits)[-2:]
    assert (first["token_id"], first["runner_up"]) == (best, second)
    assert first["logit"] == pytest.approx(logits[best], abs=1e-5)
    assert first["margin"] == pytest.approx(logits[best] - logits[second], abs=1e-5)


def test_hidden_rms_is_the_residual_streams(qwen2: Model, path: Path) -> None:
    expected = json.loads((ORACLE / "tiny-qwen2-f32-tied.expected.json").read_text())["runs"][0]
    record_generation(qwen2, expected["prompt"], stops=StopSettings(max_new_tokens=1), path=path)
    rms = read(path).steps[0]["hidden_rms"]
    for layer, l2 in enumerate(expected["hidden_state_l2_last_token"][1:-1]):
        assert rms[layer] == pytest.approx(l2 / 96**0.5, rel=1e-5)


def test_text_is_the_tokens_bytes(qwen2: Model, path: Path) -> None:
    result = record_generation(qwen2, prompt_of(qwen2), stops=StopSettings(max_new_tokens=30), path=path)
    tokenizer = qwen2.tokenizer
    assert tokenizer is not None
    for step, token in zip(read(path).steps[1:], result.tokens, strict=True):
        raw = tokenizer.token_bytes(token)
        assert step["text"].encode("utf-8", "surrogateescape") == raw


def test_eos_is_sampled_and_not_fed(qwen2: Model, path: Path) -> None:
    first = run_generation(qwen2, prompt_of(qwen2), stops=StopSettings(max_new_tokens=1)).tokens[0]
    result = record_generation(qwen2, prompt_of(qwen2), stops=StopSettings(eos=(first,)), path=path)
    last = read(path).steps[-1]
    assert (last["token_id"], last["n_tokens"], last["finish"]) == (first, 0, "eos")
    assert (result.text, result.finish) == ("", "eos")


def test_a_stop_string_is_recorded(qwen2: Model, path: Path) -> None:
    text = run_generation(qwen2, prompt_of(qwen2), stops=StopSettings(max_new_tokens=20)).text
    stop = text[5:9]
    result = record_generation(
        qwen2, prompt_of(qwen2), stops=StopSettings(max_new_tokens=20, stop_strings=(stop,)), path=path
    )
    assert (result.finish, result.text) == ("stop", text[: text.index(stop)])
    trace = read(path)
    assert trace.steps[-1]["finish"] == "stop"
    assert trace.verdict == "pass"


def test_a_full_context_is_recorded(llama_without_tokenizer: Model, path: Path) -> None:
    prompt = [3 + i % 500 for i in range(1022)]
    result = record_generation(llama_without_tokenizer, prompt, path=path, stops=StopSettings())
    trace = read(path)
    assert result.finish == trace.steps[-1]["finish"] == "capacity"
    assert [step["seq_len"] for step in trace.steps] == [1022, 1023, 1024, 1024]
    assert [step["write_pos"] for step in trace.steps] == [0, 1022, 1023, None]
    assert trace.verdict == "pass"


def test_a_model_without_a_tokenizer_records_ids_only(llama_without_tokenizer: Model, path: Path) -> None:
    result = record_generation(llama_without_tokenizer, [1, 2], path=path, stops=StopSettings(max_new_tokens=2))
    trace = read(path)
    assert result.text == "" and len(result.tokens) == 2
    assert not any(step["text"] for step in trace.steps)
    assert "tokenizer_size" not in trace.run["model"]


class TestLoops:
    """What the other ways of running leave in the trace; tests/engine/test_oracle.py compares their tokens."""

    def trace(self, model: Model, path: Path, prompt: list[int], n: int, **loop: Any) -> Trace:
        record_generation(model, prompt, stops=StopSettings(max_new_tokens=n), path=path, loop=LoopSettings(**loop))
        trace = read(path)
        assert trace.verdict == "pass"
        return trace

    def test_naive(self, qwen2: Model, path: Path) -> None:
        trace = self.trace(qwen2, path, [1, 2, 3], 4, kind="naive")
        assert (trace.run["loop"], trace.run["layers"]) == ("naive", [{"kind": "none"}] * 4)
        assert [(s["n_tokens"], s["seq_len"]) for s in trace.steps] == [(3, 3), (4, 4), (5, 5), (6, 6), (0, 6)]
        assert all(s["cache_len"] == [0] * 4 and s["write_pos"] is None for s in trace.steps)
        assert trace.note("source")["function"] == "generate_naive"

    def test_chunks(self, qwen2: Model, path: Path) -> None:
        trace = self.trace(qwen2, path, [1, 2, 3, 4, 5], 2, prefill_chunk=2)
        fed = [(s["phase"], s["n_tokens"], s["write_pos"], s["n_reused"]) for s in trace.steps]
        assert fed == [
            ("prefill", 2, 0, 0),
            ("prefill", 2, 2, None),
            ("prefill", 1, 4, None),
            ("decode", 1, 5, None),
            ("decode", 0, None, None),
        ]

    def test_a_shift(self, qwen2: Model, path: Path) -> None:
        trace = self.trace(qwen2, path, [5] * 10, 12, capacity=12, n_keep=2)
        assert trace.run["kv"]["capacity"] == 12
        shift = {"kind": "shift", "seq_id": 0, "n_keep": 2, "n_discard": 5}
        assert [note for note in trace.notes if note["kind"] == "shift"] == [shift, shift]
        assert [s["seq_before"] for s in trace.steps] == [0, 10, 11, 7, 8, 9, 10, 11, 7, 8, 9, 10, 11]
        assert max(s["seq_len"] for s in trace.steps) == 12

    def test_windows(self, path: Path) -> None:
        trace = self.trace(oracle_model("tiny-qwen3-f16-window"), path, [7] * 20, 3)
        window, full = {"kind": "window", "window": 16, "slack": 0}, {"kind": "full"}
        assert trace.run["layers"] == [window, window, full] * 2
        assert [s["cache_len"] for s in trace.steps[:2]] == [[16, 16, 20] * 2, [16, 16, 21] * 2]
        assert [s["write_pos"] for s in trace.steps[:2]] == [0, 20]

    def test_windows_alone_have_no_full_layer_to_write_to(self, path: Path) -> None:
        trace = self.trace(oracle_model("tiny-mistral-f16-window"), path, [7] * 20, 3)
        assert [s["cache_len"] for s in trace.steps[:2]] == [[8] * 3, [8] * 3]
        assert all(s["write_pos"] is None for s in trace.steps)

    def test_int8_says_what_it_cost(self, qwen2: Model, path: Path) -> None:
        trace = self.trace(qwen2, path, list(range(1, 60)), 3, kv_dtype="int8")
        # keys and values, 2 heads, 16 values and a scale of 4 bytes
        assert trace.run["kv"] == {"capacity": 1024, "dtype": "int8", "unit": "rows", "row_bytes": 2 * 2 * 20}
        text = trace.note("message")["text"]
        changed = re.fullmatch(r"int8 KV cache: rounding changed the rows by ([0-9.]+)% \(relative RMS\)", text)
        assert changed is not None
        # rounding to 1/127 of a row's largest value, at most 4 times its root mean square with 16 values a row
        assert 0.1 < float(changed[1]) < 100 * 4 / 127 / 12**0.5


def test_ctrl_c_closes_the_trace(qwen2: Model, path: Path) -> None:
    on_text = interrupt_after(3, KeyboardInterrupt)
    result = record_generation(qwen2, prompt_of(qwen2), stops=StopSettings(), path=path, on_text=on_text)
    trace = read(path)
    assert result.finish == "abort" and len(result.tokens) >= 3
    assert trace.note("finish") == {"kind": "finish", "seq_id": 0, "finish": "abort"}
    assert trace.end is not None
    assert len(trace.steps) == 1 + len(result.tokens)
    assert trace.verdict == "pass"


def test_ctrl_c_during_prefill_closes_the_trace(qwen2: Model, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(qwen2, "forward", interrupted)
    result = record_generation(qwen2, [1, 2], path=path)
    trace = read(path)
    assert (result.finish, result.tokens, trace.steps) == ("abort", (), [])
    assert trace.note("finish")["finish"] == "abort"
    assert trace.end is not None


def test_an_error_closes_the_trace_and_is_raised(qwen2: Model, path: Path) -> None:
    with pytest.raises(RuntimeError, match="from outside"):
        record_generation(qwen2, prompt_of(qwen2), path=path, on_text=interrupt_after(2, RuntimeError))
    trace = read(path)
    assert trace.note("finish")["finish"] == "error"
    assert trace.end is not None


@pytest.mark.parametrize("prompt", [[], [5000], [1] * 1025])
def test_a_request_that_cannot_run_costs_no_trace(qwen2: Model, path: Path, prompt: list[int]) -> None:
    record_generation(qwen2, [1], path=path, stops=StopSettings(max_new_tokens=1))
    before = path.read_bytes()
    with pytest.raises(EngineError):
        record_generation(qwen2, prompt, path=path)
    assert path.read_bytes() == before
