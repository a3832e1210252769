"""Drafting and verifying: how many forwards it saves, what is taken back, and that nothing follows the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.drafts import ModelDrafter, NgramDrafter
from engine.errors import EngineError
from engine.loop import Step, StopSettings, generate_speculative, run_generation
from engine.loop_settings import LoopSettings
from engine.model import DEMO_MODEL, Model, load_model
from engine.sampling import SamplerSettings, make_sampler
from engine.tracing import record_generation
from engine.weights import Array
from tests.engine.conftest import oracle_model
from tests.engine.recorded import read


class Rows(list[int]):
    """A layer's cache that holds the ids themselves."""

    def cut(self, length: int) -> None:
        del self[length:]


class Counting:
    """A model whose next token is always the last one + 1; from 9 it goes back to 0."""

    def __init__(self) -> None:
        self.fed: list[list[int]] = []

    def new_cache(self, capacity: int) -> list[Rows]:
        return [Rows(), Rows()]

    def forward(self, ids: Sequence[int], cache: list[Rows], timer: object = None) -> Array:
        return self.forward_each(ids, cache)[-1]

    def forward_each(self, ids: Sequence[int], cache: list[Rows], timer: object = None) -> Array:
        self.fed.append(list(ids))
        for layer in cache:
            layer.extend(ids)
        return np.eye(10, dtype=np.float32)[[(i + 1) % 10 for i in ids]]


class Scripted:
    """Proposes what the test says, step by step."""

    def __init__(self, *drafts: Sequence[int]) -> None:
        self._drafts = iter(drafts)

    def propose(self, sequence: Sequence[int], k: int) -> list[int]:
        return list(next(self._drafts, ()))[:k]

    def keep(self, length: int) -> None:
        return None


def film(drafter: Any, capacity: int = 99, k: int = 4, **stops: Any) -> list[Any]:
    """(phase, token, drafts, n_accepted, n_tokens, seq_before, seq_len, cache_len, finish) after the prompt 1 2 3."""
    sampler = make_sampler(SamplerSettings())
    steps = generate_speculative(
        Counting(), [1, 2, 3], sampler, StopSettings(**stops), capacity, drafter, k, lambda token: b"%d," % token
    )
    return [
        (s.phase, s.pick and s.pick.token_id, s.drafts, s.n_accepted, s.n_tokens, s.seq_before, s.seq_len, s.cache_len,
         s.finish)
        for s in steps
    ][1:]  # fmt: skip


def test_accepted_drafts_are_kept_and_the_others_taken_back() -> None:
    assert film(Scripted([5, 6, 0]), max_new_tokens=5) == [
        ("verify", 4, (5, 6, 0), 2, 4, 3, 6, (6, 6), None),
        ("decode", 7, (), 0, 1, 6, 7, (7, 7), None),
        ("decode", 8, (), 0, 0, 7, 7, (7, 7), "length"),
    ]


def test_when_all_are_accepted_the_token_behind_them_comes_free() -> None:
    assert film(Scripted([5, 6], [8]), max_new_tokens=5) == [
        ("verify", 4, (5, 6), 2, 3, 3, 6, (6, 6), None),
        ("verify", 7, (8,), 0, 2, 6, 7, (7, 7), None),
        ("decode", 8, (), 0, 0, 7, 7, (7, 7), "length"),
    ]


def test_a_draft_behind_a_wrong_one_is_not_looked_at() -> None:
    assert film(Scripted([9, 6]), max_new_tokens=2)[0] == ("verify", 4, (9, 6), 0, 3, 3, 4, (4, 4), None)


@pytest.mark.parametrize(
    ("stops", "finish"),
    [
        ({"eos": (6,)}, "eos"),
        ({"max_new_tokens": 3}, "length"),
        ({"stop_strings": ("5,6",)}, "stop"),
    ],
)
def test_a_draft_that_ends_the_sequence_is_sampled_and_not_fed(stops: dict[str, Any], finish: str) -> None:
    assert film(Scripted([5, 6, 7, 8]), **stops) == [
        ("verify", 4, (5, 6, 7, 8), 1, 5, 3, 5, (5, 5), None),
        ("decode", 6, (), 0, 0, 5, 5, (5, 5), finish),
    ]


def test_drafts_stop_at_the_capacity() -> None:
    # 3 tokens of 6 are taken; the pending one and two drafts fill the rest
    assert film(Scripted([5, 6, 7, 8]), capacity=6) == [
        ("verify", 4, (5, 6), 2, 3, 3, 6, (6, 6), None),
        ("decode", 7, (), 0, 0, 6, 6, (6, 6), "capacity"),
    ]


def test_no_new_tokens_feeds_the_prompt_only() -> None:
    assert film(Scripted(), max_new_tokens=0) == []


class TestNgrams:
    def test_the_longest_match_decides(self) -> None:
        #        1 2 3 → 4 stands first, 9 3 → 7 later: three tokens match better than one
        assert NgramDrafter().propose([1, 2, 3, 4, 9, 3, 7, 1, 2, 3], 2) == [4, 9]

    def test_of_equal_matches_the_latest_decides(self) -> None:
        assert NgramDrafter().propose([5, 1, 5, 2, 5], 1) == [2]

    def test_what_runs_into_the_end_repeats_itself(self) -> None:
        assert NgramDrafter().propose([8, 1, 2, 3, 1, 2, 3], 7) == [1, 2, 3, 1, 2, 3, 1]

    def test_without_a_match_there_is_no_guess(self) -> None:
        assert NgramDrafter().propose([1, 2, 3, 4], 3) == []

    def test_it_learns_as_the_sequence_grows(self) -> None:
        drafter = NgramDrafter()
        assert drafter.propose([1, 2], 2) == []
        assert drafter.propose([1, 2, 3, 1], 2) == [2, 3]


@pytest.fixture(scope="module")
def demo() -> Model:
    return load_model(DEMO_MODEL)


def conversation(model: Model, request: str) -> list[int]:
    """A prompt that asks again what was answered already."""
    tokenizer = model.tokenizer
    assert tokenizer is not None
    answer = run_generation(model, tokenizer.encode(tokenizer.chat_prompt(request))).text
    turns = [("user", request), ("assistant", answer), ("user", request)]
    return tokenizer.encode(tokenizer.chat_prompt([{"role": role, "content": text} for role, text in turns]))


@pytest.mark.parametrize("request_text", ["List the months of the year", "Count from 1 to 40"])
def test_repetitive_text_needs_few_forwards(demo: Model, tmp_path: Path, request_text: str) -> None:
    prompt = conversation(demo, request_text)
    path = tmp_path / "run.steps"
    result = record_generation(demo, prompt, path=path, loop=LoopSettings("speculative"))
    assert result == run_generation(demo, prompt)
    trace = read(path)
    forwards = sum(step["n_tokens"] > 0 for step in trace.steps if step["phase"] != "prefill")
    assert forwards <= 0.6 * (len(result.tokens) - 1)  # measured: 0.25; the end token is not fed
    assert trace.verdict == "pass"


def test_sampling_says_what_the_cached_loop_says(demo: Model) -> None:
    prompt = conversation(demo, "Name four days of the week")
    sampler, stops = SamplerSettings(temperature=1.3, seed=3, repetition_penalty=1.2), StopSettings(max_new_tokens=40)
    plain = run_generation(demo, prompt, sampler, stops)
    assert run_generation(demo, prompt, sampler, stops, loop=LoopSettings("speculative")) == plain


def test_the_trace_tells_drafts_and_what_became_of_them(demo: Model, tmp_path: Path) -> None:
    path = tmp_path / "run.steps"
    loop = LoopSettings("speculative", draft_k=3)
    result = record_generation(demo, conversation(demo, "List the days of the week"), path=path, loop=loop)
    trace = read(path)
    assert (trace.run["loop"], trace.run["draft"]) == ("speculative", {"kind": "ngram", "k": 3})
    said: list[int] = []
    for step in trace.steps:
        if step["phase"] == "verify":
            assert step["n_tokens"] == 1 + step["n_drafted"]
            assert step["draft_ids"][step["n_drafted"] :] == [None] * (3 - step["n_drafted"])
            said += [step["token_id"], *step["draft_ids"][: step["n_accepted"]]]
        elif step["phase"] == "decode":
            said.append(step["token_id"])
    assert tuple(said) == result.tokens
    assert any(step["phase"] == "verify" for step in trace.steps)
    assert trace.verdict == "pass"


class TestDraftModel:
    def test_its_cache_follows_the_sequence(self, qwen2: Model, tmp_path: Path) -> None:
        path = tmp_path / "run.steps"
        # the bfloat16 twin has other weights: some of its drafts are wrong
        loop = LoopSettings("speculative", draft_k=3, draft_model=oracle_model("tiny-qwen2-bf16-tied"))
        stops = StopSettings(max_new_tokens=30)
        result = record_generation(qwen2, [5, 6, 7], stops=stops, path=path, loop=loop)
        assert result == run_generation(qwen2, [5, 6, 7], stops=stops)
        trace = read(path)
        assert trace.run["draft"] == {"kind": "model", "name": "tiny-qwen2-bf16-tied", "n_layers": 4, "k": 3}
        verified = [step for step in trace.steps if step["phase"] == "verify"]
        for step in verified:
            missing = step["n_accepted"] == step["n_drafted"]
            assert step["draft_cache_len"] == step["seq_len"] - missing
        assert verified
        assert trace.verdict == "pass"

    def test_a_model_that_drafts_for_itself_is_always_right(self, qwen2: Model, tmp_path: Path) -> None:
        path = tmp_path / "run.steps"
        loop = LoopSettings("speculative", draft_k=4, draft_model=qwen2)
        record_generation(qwen2, [5, 6, 7], stops=StopSettings(max_new_tokens=21), path=path, loop=loop)
        trace = read(path)
        steps = [step for step in trace.steps if step["n_tokens"] and step["phase"] != "prefill"]
        # 20 tokens are fed, five a forward
        assert [(s["n_drafted"], s["n_accepted"]) for s in steps] == [(4, 4)] * 4
        assert trace.verdict == "pass"

    def test_it_stops_where_its_own_context_is_full(self, llama_without_tokenizer: Model) -> None:
        drafter = ModelDrafter(llama_without_tokenizer)
        longest = llama_without_tokenizer.config.context_length
        assert len(drafter.propose([3] * (longest - 1), 4)) == 2
        assert drafter.propose([3] * (longest + 1), 4) == []

    def test_another_vocabulary_is_refused(self, qwen2: Model) -> None:
        loop = LoopSettings("speculative", draft_model=oracle_model("tiny-llama3-f16-untied"))
        with pytest.raises(EngineError, match="draft model has a vocabulary of 384, the model one of 1024"):
            run_generation(qwen2, [1], loop=loop)


def test_more_drafts_than_the_context_holds_are_refused(qwen2: Model) -> None:
    with pytest.raises(EngineError, match="draft_k is 8, the context holds 8; draft at most 7"):
        run_generation(qwen2, [1], loop=LoopSettings("speculative", capacity=8, draft_k=8))


def test_steps_without_drafts_are_plain_decode_steps(qwen2: Model) -> None:
    sampler = make_sampler(SamplerSettings())
    steps = generate_speculative(qwen2, [1, 2], sampler, StopSettings(max_new_tokens=4), 64, Scripted(), 4)
    assert [step.phase for step in steps] == ["prefill", "decode", "decode", "decode", "decode"]
    assert all(isinstance(step, Step) for step in steps)
