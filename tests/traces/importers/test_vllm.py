"""vLLM's statistics lines and benchmark results."""
# ruff: noqa: E501 - logs are as wide as they are

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.traces.importers.importing import imported, some

LOG = """\
INFO 03-19 07:08:40 [core.py:65] Initializing a V1 LLM engine (v0.9.1) with config: model='org/tiny', speculative_config=None
INFO 03-19 07:08:41 [kv_cache_utils.py:638] GPU KV cache size: 123,456 tokens
(APIServer pid=1) INFO 03-19 07:08:57 [loggers.py:259] Engine 000: Avg prompt throughput: 93.9 tokens/s, Avg generation throughput: 13.0 tokens/s, Running: 1 reqs, Waiting: 2 reqs, GPU KV cache usage: 0.5%, Prefix cache hit rate: 25.0%
(APIServer pid=1) INFO:     127.0.0.1:50300 - "POST /v1/chat/completions HTTP/1.1" 200 OK
(APIServer pid=1) INFO 03-19 07:09:07 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 1.50 tokens/s, Drafted throughput: 3.00 tokens/s, Accepted: 15 tokens, Drafted: 30 tokens, Per-position acceptance rate: 0.800, 0.500, 0.200, Avg Draft acceptance rate: 50.0%
INFO 03-19 07:09:08 metrics.py:229] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: nan tokens/s, Running: 0 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.0%, CPU KV cache usage: 0.0%
"""


def test_averages_are_intervals_never_requests(tmp_path: Path) -> None:
    got = imported(tmp_path, LOG, "vllm")
    first, second, third = got.notes("interval")
    assert some(first, t_ns=0, engine=0, prompt_tok_s=93.9, generation_tok_s=13.0, running=1, waiting=2)
    assert some(first, kv_used_percent=0.5, prefix_hit_percent=25.0)
    assert some(second, t_ns=10_000_000_000, n_accepted=15, n_drafted=30, mean_acceptance_length=2.5)
    assert second["acceptance_by_position"] == [0.8, 0.5, 0.2]
    assert some(third, t_ns=11_000_000_000, prompt_tok_s=0.0, generation_tok_s=None, swapped=0, waiting=0)
    assert got.doubts == ["line 6: Avg generation throughput is nan"]
    assert (got.steps, got.totals, got.figures["requests"]) == ([], [], [])
    assert (got.facts["model"]["name"], got.facts["engine"]["version"]) == ("tiny", "0.9.1")
    assert got.facts["kv"]["total"] == 123456


def result(**more: Any) -> dict[str, Any]:
    return {
        "model_id": "org/tiny",
        "duration": 2.0,
        "completed": 2,
        "total_input_tokens": 30,
        "total_output_tokens": 6,
        "request_throughput": 1.0,
        "mean_ttft_ms": 150.0,
        **more,
    }


def test_a_detailed_result_has_every_request(tmp_path: Path) -> None:
    lists = {
        "input_lens": [10, 20],
        "output_lens": [4, 2],
        "ttfts": [0.1, 0.2],
        "itls": [[0.02, 0.03, 0.04], [0.05]],
        "errors": ["", ""],
    }
    got = imported(tmp_path, json.dumps(result(**lists)), "vllm")
    first, second = got.totals
    assert some(first, seq_id=0, prompt_tokens=10, generated=4, ttft_ms=100.0, n_reused=None, fed=None)
    assert first["itl_ms"] == pytest.approx([20.0, 30.0, 40.0])
    assert (first["decode_ms"], first["total_ms"]) == (pytest.approx(90.0), pytest.approx(190.0))
    figures = got.figures
    assert figures["ttft_ms"] == 150.0
    assert figures["tpot_ms"] == pytest.approx(40.0)  # the median of 90 / 3 and 50 / 1
    assert figures["itl_ms"]["p50"] == pytest.approx(35.0)
    assert got.notes("benchmark")[0]["mean_ttft_ms"] == 150.0
    assert second["seq_id"] == 1


def test_a_failed_request_is_said_and_has_no_times(tmp_path: Path) -> None:
    lists = {
        "input_lens": [10, 20],
        "output_lens": [4, 0],
        "ttfts": [0.1, 0.0],
        "itls": [[0.02, 0.03, 0.04], []],
        "errors": ["", "503"],
    }
    got = imported(tmp_path, json.dumps(result(**lists)), "vllm")
    assert [note["seq_id"] for note in got.totals] == [0]
    assert got.doubts == ["line 1: request 1 failed"]


def test_lists_of_different_lengths_are_read_up_to_the_shortest(tmp_path: Path) -> None:
    lists = {"input_lens": [10, 20], "output_lens": [4, 2], "ttfts": [0.1], "itls": [[0.02, 0.03, 0.04], [0.05]]}
    got = imported(tmp_path, json.dumps(result(**lists)), "vllm")
    assert [note["prompt_tokens"] for note in got.totals] == [10]
    assert got.doubts == ["line 1: its lists are of different lengths: read up to the shortest"]


def test_a_request_that_is_logged_with_its_ids_is_noted(tmp_path: Path) -> None:
    line = (
        "INFO 03-19 07:08:41 [logger.py:39] Received request cmpl-7f-0: prompt: 'a b', "
        "params: SamplingParams(n=1), prompt_token_ids: [64, 317, 302], lora_request: None.\n"
    )
    got = imported(tmp_path, LOG + line, "vllm")
    (request,) = got.notes("request")
    assert some(request, seq_id=0, prompt_ids=[64, 317, 302], prompt_tokens=3, name="cmpl-7f-0")


def test_a_result_of_means_stays_means(tmp_path: Path) -> None:
    got = imported(tmp_path, json.dumps(result(), indent=1), "vllm")
    assert (got.totals, got.notes("benchmark")[0]["completed"]) == ([], 2)
    assert got.done.doubts == 0


def test_the_printed_result(tmp_path: Path) -> None:
    log = """\
============ Serving Benchmark Result ============
Successful requests:                     2
Benchmark duration (s):                  2.00
Total input tokens:                      30
---------------Time to First Token----------------
Mean TTFT (ms):                          150.00
P99 TTFT (ms):                           inf
==================================================
"""
    got = imported(tmp_path, log, "vllm")
    (note,) = got.notes("benchmark")
    assert some(note, completed=2.0, duration=2.0, total_input_tokens=30.0, mean_ttft_ms=150.0, p99_ttft_ms=None)
    assert len(got.doubts) == 1
    cut = imported(tmp_path, log[: log.index("P99")], "vllm")
    assert some(cut.notes("benchmark")[0], completed=2.0, mean_ttft_ms=150.0)
    assert not cut.table.complete
