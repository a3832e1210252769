"""The token loop on a scripted model: the order of calls, what is fed, and why it stops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from engine.errors import EngineError
from engine.loop import (
    Context,
    Step,
    StopSettings,
    collect,
    generate,
    generate_naive,
    keep_prefix,
    run_generation,
)
from engine.loop_settings import LoopSettings
from engine.model import Model
from engine.sampling import Pick, pick_greedy
from engine.text_stream import TextStream
from engine.weights import Array
from tests.engine.conftest import oracle_model


class ScriptedModel:
    """Answers with logits whose best ids are `script`, in order, and writes down what it was asked."""

    def __init__(self, script: Sequence[int], n_layers: int = 2) -> None:
        self.calls: list[Any] = []
        self._script = iter(script)
        self._n_layers = n_layers

    def new_cache(self, capacity: int) -> list[list[int]]:
        self.calls.append(("new_cache", capacity))
        return [[] for _ in range(self._n_layers)]

    def forward(self, ids: Sequence[int], cache: list[list[int]], timer: object = None) -> Array:
        self.calls.append(("forward", list(ids)))
        for layer in cache:
            layer.extend(ids)
        logits = np.zeros(10, np.float32)
        logits[next(self._script)] = 1.0
        return logits

    def sample(self, logits: Array, sequence: Sequence[int]) -> Pick:
        self.calls.append(("sample", list(sequence)))
        return pick_greedy(logits)


def film(
    model: ScriptedModel, prompt: Sequence[int] = (1, 2, 3), capacity: int = 99, loop: Any = generate, **stops: Any
) -> list:
    """(phase, token, n_tokens, seq_before, seq_len, cache_len, finish) of every step."""
    steps = loop(model, prompt, model.sample, StopSettings(**stops), capacity, lambda token: b"%d," % token)
    return [
        (
            step.phase,
            step.pick and step.pick.token_id,
            step.n_tokens,
            step.seq_before,
            step.seq_len,
            step.cache_len,
            step.finish,
        )
        for step in steps
    ]


def test_the_order_of_calls() -> None:
    model = ScriptedModel([5, 6, 9])
    film(model, eos=(9,), capacity=40)
    assert model.calls == [
        ("new_cache", 40),
        ("forward", [1, 2, 3]),
        ("sample", [1, 2, 3]),
        ("forward", [5]),
        ("sample", [1, 2, 3, 5]),
        ("forward", [6]),
        ("sample", [1, 2, 3, 5, 6]),
    ]


def test_the_film_of_a_run_that_ends_with_eos() -> None:
    assert film(ScriptedModel([5, 6, 9]), eos=(8, 9)) == [
        ("prefill", None, 3, 0, 3, (3, 3), None),
        ("decode", 5, 1, 3, 4, (4, 4), None),
        ("decode", 6, 1, 4, 5, (5, 5), None),
        ("decode", 9, 0, 5, 5, (5, 5), "eos"),
    ]


def test_the_token_that_reaches_the_limit_is_not_fed() -> None:
    assert film(ScriptedModel([5, 6, 7]), max_new_tokens=2)[1:] == [
        ("decode", 5, 1, 3, 4, (4, 4), None),
        ("decode", 6, 0, 4, 4, (4, 4), "length"),
    ]


def test_no_new_tokens_feeds_the_prompt_only() -> None:
    model = ScriptedModel([5])
    assert film(model, max_new_tokens=0) == [("prefill", None, 3, 0, 3, (3, 3), "length")]
    assert model.calls[-1] == ("forward", [1, 2, 3])


def test_a_full_context_ends_on_the_token_that_does_not_fit() -> None:
    assert film(ScriptedModel([5, 6, 7]), capacity=4)[1:] == [
        ("decode", 5, 1, 3, 4, (4, 4), None),
        ("decode", 6, 0, 4, 4, (4, 4), "capacity"),
    ]


def test_a_prompt_that_fills_the_context_gets_one_token() -> None:
    assert film(ScriptedModel([5]), capacity=3)[1:] == [("decode", 5, 0, 3, 3, (3, 3), "capacity")]


def test_eos_wins_over_the_other_reasons() -> None:
    last = film(ScriptedModel([9]), capacity=3, eos=(9,), max_new_tokens=1, stop_strings=("9",))[-1]
    assert last[-1] == "eos"


def test_ignore_eos_keeps_going() -> None:
    assert [step[1] for step in film(ScriptedModel([9, 9, 9]), eos=(9,), ignore_eos=True, max_new_tokens=3)] == [
        None,
        9,
        9,
        9,
    ]


@pytest.mark.parametrize("stop", ["6", "5,6", ",6,"])
def test_a_stop_string_ends_it_also_across_tokens(stop: str) -> None:
    assert film(ScriptedModel([5, 6, 7]), stop_strings=(stop, "zzz"))[-1][1:] == (6, 0, 4, 4, (4, 4), "stop")


def test_cache_len_is_what_the_caches_say() -> None:
    class Forgetful(ScriptedModel):
        def forward(self, ids: Sequence[int], cache: list[list[int]], timer: object = None) -> Array:
            return super().forward(ids, cache[:1], timer)

    assert [step[5] for step in film(Forgetful([5, 9]), eos=(9,))] == [(3, 0), (4, 0), (4, 0)]


class TestNaive:
    def test_every_step_feeds_the_whole_sequence_and_keeps_nothing(self) -> None:
        model = ScriptedModel([5, 6, 9])
        assert film(model, loop=generate_naive, eos=(9,)) == [
            ("prefill", None, 3, 0, 3, (0, 0), None),
            ("decode", 5, 4, 3, 4, (0, 0), None),
            ("decode", 6, 5, 4, 5, (0, 0), None),
            ("decode", 9, 0, 5, 5, (0, 0), "eos"),
        ]
        fed = [call[1] for call in model.calls if call[0] == "forward"]
        assert fed == [[1, 2, 3], [1, 2, 3, 5], [1, 2, 3, 5, 6]]

    @pytest.mark.parametrize("stops", [{"max_new_tokens": 2}, {"capacity": 4}, {"stop_strings": ("5,6",)}])
    def test_it_ends_where_the_cached_loop_ends(self, stops: dict[str, Any]) -> None:
        cached, naive = (film(ScriptedModel([5, 6, 7]), loop=loop, **stops) for loop in (generate, generate_naive))
        assert [(step[1], step[4], step[6]) for step in naive] == [(step[1], step[4], step[6]) for step in cached]

    def test_a_prompt_alone(self) -> None:
        assert film(ScriptedModel([5]), loop=generate_naive, max_new_tokens=0)[0][-1] == "length"


class TestChunkedPrefill:
    def test_each_chunk_is_a_step(self) -> None:
        model = ScriptedModel([0, 0, 9])
        loop = partial(generate, prefill_chunk=2)
        assert film(model, prompt=[1, 2, 3, 4, 5], loop=loop, eos=(9,)) == [
            ("prefill", None, 2, 0, 2, (2, 2), None),
            ("prefill", None, 2, 2, 4, (4, 4), None),
            ("prefill", None, 1, 4, 5, (5, 5), None),
            ("decode", 9, 0, 5, 5, (5, 5), "eos"),
        ]

    def test_only_the_last_chunk_ends_a_prompt_alone(self) -> None:
        loop = partial(generate, prefill_chunk=2)
        assert [step[-1] for step in film(ScriptedModel([0, 0]), loop=loop, max_new_tokens=0)] == [None, "length"]


class Shifting(ScriptedModel):
    """Layers that hold the ids themselves, so a shift is easy to see."""

    def shift(self, cache: list[list[int]], n_keep: int, n_discard: int) -> None:
        self.calls.append(("shift", n_keep, n_discard))
        for layer in cache:
            del layer[n_keep : n_keep + n_discard]


class TestContextShift:
    def test_half_of_what_may_go_goes_when_the_context_is_full(self) -> None:
        model = Shifting([4, 5, 6, 7, 8, 9])
        context = Context([], model.new_cache(6))
        stops = StopSettings(eos=(9,))
        steps = list(generate(model, [1, 2, 3], model.sample, stops, 6, context=context, n_keep=1))
        assert [(s.shift, s.seq_before, s.seq_len, s.cache_len[0]) for s in steps] == [
            (None, 0, 3, 3),
            (None, 3, 4, 4),
            (None, 4, 5, 5),
            (None, 5, 6, 6),
            ((1, 2), 4, 5, 5),
            (None, 5, 6, 6),
            (None, 6, 6, 6),
        ]
        # 2 and 3 went
        assert context.ids == context.cache[0] == [1, 4, 5, 6, 7, 8]

    def test_a_token_that_is_not_fed_shifts_nothing(self) -> None:
        model = Shifting([9])
        list(generate(model, [1, 2, 3], model.sample, StopSettings(eos=(9,)), 3, n_keep=0))
        assert ("shift", 0, 1) not in model.calls

    @pytest.mark.parametrize(
        ("settings", "says"),
        [
            ({"capacity": 20, "n_keep": 19}, "n_keep is 19, the context holds 20; keep at most 18"),
            # of 24 tokens 10 go, 10 behind the kept ones are left, the window sees 16
            ({"capacity": 24, "n_keep": 4}, "leave 10 recent tokens, the model's window layers see 16"),
            ({"capacity": 513}, "a context of 513 is asked for, the model's is 512"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, settings: dict[str, Any], says: str) -> None:
        with pytest.raises(EngineError, match=says):
            run_generation(oracle_model("tiny-qwen3-f16-window"), [5], loop=LoopSettings(**settings))


class TestKeepPrefix:
    def context(self, model: Model, ids: Sequence[int]) -> Context:
        cache = model.new_cache(512)
        model.forward(ids, cache)
        return Context(list(ids), cache)

    @pytest.mark.parametrize(
        ("prompt", "kept"),
        [
            ([5, 6, 7, 8, 9, 10], [5, 6, 7, 8]),
            ([5, 6, 9, 8], [5, 6]),
            ([5, 6, 7, 8], [5, 6, 7]),  # the last token is fed again: its logits are needed
            ([5, 6], [5]),
            ([9], []),
        ],
    )
    def test_the_longest_common_prefix_stays(self, qwen2: Model, prompt: list[int], kept: list[int]) -> None:
        context = self.context(qwen2, [5, 6, 7, 8])
        assert keep_prefix(context, prompt)
        assert context.ids == kept
        assert [len(layer) for layer in context.cache] == [len(kept)] * 4

    def test_the_answer_does_not_depend_on_what_was_there(self, qwen2: Model) -> None:
        context = self.context(qwen2, [5, 6, 7, 8, 1, 2, 3])
        prompt = [5, 6, 7, 8, 100, 200]
        keep_prefix(context, prompt)
        again = qwen2.forward(prompt[len(context.ids) :], context.cache)
        np.testing.assert_allclose(again, qwen2.forward(prompt, qwen2.new_cache(64)), rtol=0, atol=1e-4)

    def test_rows_of_a_step_that_was_interrupted_go_too(self, qwen2: Model) -> None:
        context = self.context(qwen2, [5, 6, 7])
        row = np.zeros((1, 2, 16), np.float32)
        context.cache[0].append(row, row)
        assert keep_prefix(context, [5, 6, 7, 8])
        assert [len(layer) for layer in context.cache] == [3] * 4

    def test_rows_that_a_shift_changed_go_whatever_their_ids(self, qwen2: Model) -> None:
        context = Context([], qwen2.new_cache(12))
        prompt, stops = [5] * 12, StopSettings(max_new_tokens=2)
        steps = list(generate(qwen2, prompt, lambda *_: Pick(5, 0, 0, 0), stops, 12, context=context, n_keep=2))
        assert steps[1].shift == (2, 5) and context.ids == [5] * 8
        assert keep_prefix(context, prompt)
        assert context.ids == [5, 5]
        again = qwen2.forward(prompt[2:], context.cache)
        np.testing.assert_allclose(again, qwen2.forward(prompt, qwen2.new_cache(12)), rtol=0, atol=1e-4)

    def test_a_shift_that_was_interrupted_leaves_only_what_it_keeps(
        self, qwen2: Model, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def half_a_shift(cache: Any, n_keep: int, n_discard: int) -> None:
            cache[0].discard(n_keep, n_discard, lambda keys: keys)
            raise KeyboardInterrupt

        monkeypatch.setattr(qwen2, "shift", half_a_shift)
        context = Context([], qwen2.new_cache(12))
        steps = generate(
            qwen2, [5] * 12, lambda *_: Pick(5, 0, 0, 0), StopSettings(max_new_tokens=2), 12, context=context, n_keep=2
        )
        with pytest.raises(KeyboardInterrupt):
            list(steps)
        assert keep_prefix(context, [5] * 12)
        assert [len(layer) for layer in context.cache] == [2] * 4

    def test_a_window_that_went_on_too_far_cannot_go_back(self) -> None:
        model = oracle_model("tiny-mistral-f16-window")
        ids = [3 + i % 100 for i in range(400)]
        context = self.context(model, ids)
        model.forward(ids[:100], context.cache)
        context.ids += ids[:100]
        assert not keep_prefix(context, [*ids[:30], 9, 9])
        assert len(context.ids) == 500
        assert keep_prefix(context, [*context.ids[:480], 9])


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "fast"}, {"capacity": 0}, {"prefill_chunk": 0}, {"kv_dtype": "int4"}, {"n_keep": -1}, {"draft_k": 0},
     {"draft_k": 65}, {"max_batch": 0}],
)  # fmt: skip
def test_loop_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(EngineError, match=f"{next(iter(wrong)).replace('capacity', 'context')} is "):
        LoopSettings(**wrong)


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(EngineError, match="prompt is empty"):
        film(ScriptedModel([5]), prompt=[])


def test_a_prompt_longer_than_the_context_is_refused() -> None:
    with pytest.raises(EngineError, match="prompt has 3 tokens, the context holds 2"):
        film(ScriptedModel([5]), capacity=2)


def test_stop_strings_need_token_text(llama_without_tokenizer: Model) -> None:
    with pytest.raises(EngineError, match="stop strings need .*tokenizer.json"):
        run_generation(llama_without_tokenizer, [1, 2], stops=StopSettings(stop_strings=("x",)))


@pytest.mark.parametrize("wrong", [{"max_new_tokens": -1}, {"stop_strings": ("",)}, {"stop_strings": ("a\udcff",)}])
def test_stop_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(EngineError):
        StopSettings(**wrong)


def test_the_result_has_every_sampled_token(qwen2: Model) -> None:
    prompt = qwen2.tokenizer.encode("Hello")
    result = run_generation(qwen2, prompt, stops=StopSettings(max_new_tokens=5))
    assert result.prompt_tokens == len(prompt)
    assert len(result.tokens) == 5
    assert result.finish == "length"


def test_streamed_text_is_the_results_text(qwen2: Model) -> None:
    pieces: list[str] = []
    stops = StopSettings(max_new_tokens=60)
    result = run_generation(qwen2, qwen2.tokenizer.encode("Hello"), stops=stops, on_text=pieces.append)
    assert "".join(pieces) == result.text == qwen2.tokenizer.decode(result.tokens)


def test_ctrl_c_in_the_loop_ends_with_abort(qwen2: Model) -> None:
    def steps() -> Iterator[Step]:
        yield Step("prefill", None, 1, 0, 1, (1,), None)
        yield Step("decode", Pick(64, 1.0, 1.0, 2), 1, 1, 2, (2,), None)
        raise KeyboardInterrupt

    result = collect(steps(), 1, StopSettings(), qwen2.tokenizer)
    assert (result.tokens, result.finish) == ((64,), "abort")
    assert result.text == qwen2.tokenizer.decode([64])


def test_ctrl_c_while_text_is_shown_ends_with_abort(qwen2: Model) -> None:
    def interrupt(text: str) -> None:
        raise KeyboardInterrupt

    result = run_generation(qwen2, qwen2.tokenizer.encode("Hello"), on_text=interrupt)
    assert result.finish == "abort"


class TestTextStream:
    def test_half_a_character_waits_for_its_other_half(self) -> None:
        shown: list[str] = []
        text = TextStream(on_text=shown.append)
        for piece in (b"a", b"\xf0\x9f", b"\x8e", b"\x89!"):
            text.feed(piece)
        text.end(at_stop_string=False)
        assert shown == ["a", "🎉!"]

    def test_a_half_character_at_the_end_is_shown_as_such(self) -> None:
        text = TextStream()
        text.feed(b"a\xf0\x9f")
        text.end(at_stop_string=False)
        assert text.shown == "a\ufffd"

    def test_what_may_begin_a_stop_string_is_held_back(self) -> None:
        shown: list[str] = []
        text = TextStream(("END",), shown.append)
        text.feed(b"ab E")
        assert shown == ["ab "]
        text.feed(b"Nx")
        assert shown == ["ab ", "ENx"]

    def test_text_is_cut_before_the_stop_string(self) -> None:
        text = TextStream(("END", "STOP"))
        for piece in (b"one S", b"T", b"OP two"):
            text.feed(piece)
        text.end(at_stop_string=True)
        assert text.shown == "one "

    def test_an_unfinished_stop_string_is_text_after_all(self) -> None:
        text = TextStream(("END",))
        text.feed(b"the EN")
        text.end(at_stop_string=False)
        assert text.shown == "the EN"
