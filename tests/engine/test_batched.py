"""Continuous batching: who shares a forward, who waits, who leaves, and that nobody notices the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.batched import Request, generate_batched, run_batch
from engine.errors import EngineError
from engine.loop import StopSettings, run_generation
from engine.loop_settings import LoopSettings
from engine.model import Model
from engine.sampling import SamplerSettings, pick_greedy
from engine.tracing import record_batch
from engine.weights import Array
from tests.engine.recorded import read
from traces.metrics import stats
from traces.table import Table


class Counting:
    """A model whose next token is always the last one + 1; 9 ends every sequence. It writes down what it was fed."""

    def __init__(self) -> None:
        self.fed: list[list[int]] = []

    def new_cache(self, capacity: int) -> list[list[int]]:
        return [[]]

    def forward(self, ids: Sequence[int], cache: list[list[int]], timer: object = None) -> Array:
        return self.forward_batch(ids[-1:], [cache], fed=list(ids))[0]

    def forward_batch(self, ids: Sequence[int], caches: Any, timer: object = None, fed: Any = None) -> Array:
        self.fed.append(fed or list(ids))
        for token_id, cache in zip(ids, caches, strict=True):
            cache[0].extend(fed or [token_id])
        return np.eye(10, dtype=np.float32)[[(i + 1) % 10 for i in ids]]


def film(model: Counting, prompts: Sequence[Sequence[int]], **settings: Any) -> list[list[tuple[Any, ...]]]:
    """(seq_id, phase, token, n_tokens, seq_len, finish) of every step, round by round."""
    requests = [Request(i, prompt, lambda logits, sequence: pick_greedy(logits)) for i, prompt in enumerate(prompts)]
    rounds = generate_batched(model, requests, StopSettings(eos=(9,)), 99, **settings)
    return [
        [(s.seq_id, s.phase, s.pick and s.pick.token_id, s.n_tokens, s.seq_len, s.finish) for s in r] for r in rounds
    ]


def test_the_next_token_of_each_is_one_forward() -> None:
    model = Counting()
    assert film(model, [[1, 6], [7]]) == [
        [(0, "prefill", None, 2, 2, None)],
        [(1, "prefill", None, 1, 1, None)],
        [(0, "decode", 7, 1, 3, None), (1, "decode", 8, 1, 2, None)],
        [(0, "decode", 8, 1, 4, None), (1, "decode", 9, 0, 2, "eos")],
        [(0, "decode", 9, 0, 4, "eos")],
    ]
    assert model.fed == [[1, 6], [7], [7, 8], [8]]


def test_who_finds_no_place_joins_when_one_is_free() -> None:
    model = Counting()
    film(model, [[7], [5], [6]], max_batch=2)
    # 7 8 | then its end makes room for the third, while the second goes on
    assert model.fed == [[7], [5], [8, 6], [7], [6], [8, 7], [8]]


def test_a_long_prompt_joins_chunk_by_chunk_while_the_others_go_on() -> None:
    model = Counting()
    film(model, [[4], [1, 2, 3, 4, 5, 6, 7]], prefill_chunk=3)
    assert model.fed == [[4], [1, 2, 3], [5], [4, 5, 6], [6], [7], [7, 8], [8]]


@pytest.mark.parametrize("max_batch", [1, 2, 8])
def test_everyone_says_what_they_would_say_alone(qwen2: Model, max_batch: int) -> None:
    prompts = [[1, 2, 3], [700], [9, 8, 7, 6, 5, 4], [50, 60]]
    sampler, stops = SamplerSettings(temperature=0.9, seed=4), StopSettings(max_new_tokens=15)
    together = run_batch(qwen2, prompts, sampler, stops, LoopSettings("batched", max_batch=max_batch))
    assert together == [run_generation(qwen2, prompt, sampler, stops) for prompt in prompts]


def test_a_request_that_cannot_fit_stops_all_of_them_before_they_begin(qwen2: Model, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="prompt has 2000 tokens, the context holds 1024"):
        record_batch(qwen2, [[1], [1] * 2000], path=tmp_path / "x.steps")
    assert not (tmp_path / "x.steps").exists()


class TestTrace:
    @pytest.fixture
    def path(self, qwen2: Model, tmp_path: Path) -> Path:
        stops = StopSettings(max_new_tokens=6)
        loop = LoopSettings("batched", max_batch=2, prefill_chunk=4)
        record_batch(qwen2, [[1, 2, 3], [700] * 6, [9, 8]], stops=stops, path=tmp_path / "run.steps", loop=loop)
        return tmp_path / "run.steps"

    def test_it_keeps_the_rules(self, path: Path) -> None:
        trace = read(path)
        assert trace.verdict == "pass"
        assert trace.run["loop"] == "batched"
        assert [n["seq_id"] for n in trace.notes if n["kind"] == "request"] == [0, 1, 2]
        assert sorted(n["seq_id"] for n in trace.notes if n["kind"] == "release") == [0, 1, 2]

    def test_sequences_of_one_forward_share_its_id_and_its_times(self, path: Path) -> None:
        steps = read(path).steps
        shared: dict[int, list[dict[str, Any]]] = {}
        for step in steps:
            assert (step["forward_id"] is None) == (step["n_tokens"] == 0)
            if step["n_tokens"]:
                shared.setdefault(step["forward_id"], []).append(step)
        assert max(map(len, shared.values())) == 2
        for together in shared.values():
            for name in ("t_ns", "total_ms", "forward_ms", "gemm_ms", "attn_ms", "lm_head_ms"):
                assert len({str(step[name]) for step in together}) == 1, name
        assert [min(s["t_ns"] for s in shared[i]) for i in shared] == sorted(s[0]["t_ns"] for s in shared.values())

    def test_each_record_has_its_own_rows_and_fingerprint(self, path: Path) -> None:
        both = [s for s in read(path).steps if s["phase"] == "decode" and s["n_tokens"]]
        for step in both:
            assert step["write_pos"] == step["seq_before"]
            assert step["cache_len"] == [step["seq_len"]] * 4
        first = [s for s in both if s["forward_id"] == both[1]["forward_id"]]
        assert len(first) == 2 and first[0]["hidden_rms"] != first[1]["hidden_rms"]

    def test_totals_count_a_forward_once(self, path: Path) -> None:
        steps = read(path).steps
        once: dict[Any, float] = {}
        for i, step in enumerate(steps):
            if step["phase"] == "decode":
                once.setdefault(step["forward_id"] if step["n_tokens"] else f"alone {i}", step["total_ms"])
        figures = stats(Table(path))
        assert figures["decode"]["ms"] == pytest.approx(sum(once.values()), rel=1e-5)
        assert figures["decode"]["tokens"] == 15  # five of each request's six are fed
        assert figures["forwards"] == len({s["forward_id"] for s in steps if s["n_tokens"]})

    def test_ctrl_c_ends_those_that_still_run(
        self, qwen2: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        forward_batch, calls = qwen2.forward_batch, iter(range(3))

        def interrupted(*args: Any) -> Array:
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return forward_batch(*args)

        monkeypatch.setattr(qwen2, "forward_batch", interrupted)
        path = tmp_path / "x.steps"
        results = record_batch(qwen2, [[1, 2], [5]], stops=StopSettings(max_new_tokens=9), path=path)
        assert [result.finish for result in results] == ["abort", "abort"]
        trace = read(path)
        assert [(n["seq_id"], n["finish"]) for n in trace.notes if n["kind"] == "finish"] == [
            (0, "abort"),
            (1, "abort"),
        ]
        assert trace.end is not None
        assert trace.verdict == "pass"
