"""Turns over one cache: what is reused, that the answers do not depend on it, and how a turn may go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.conversation import Conversation
from engine.errors import EngineError
from engine.loop import StopSettings, run_generation
from engine.loop_settings import LoopSettings
from engine.model import DEMO_MODEL, Model, load_model
from engine.sampling import SamplerSettings
from engine.tracing import run_facts
from tests.engine.recorded import interrupt_after, read
from traces.writer import TraceWriter

TURNS = ("Count to ten", "Name three months", "Count to ten")


@pytest.fixture(scope="module")
def demo() -> Model:
    return load_model(DEMO_MODEL)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.steps"


class Talk:
    """A conversation with the embedded model and its open trace."""

    def __init__(self, model: Model, path: Path, system: str | None = None, **loop: Any) -> None:
        stops, sampler, settings = StopSettings(model.defaults.eos), SamplerSettings(), LoopSettings(**loop)
        self.writer = TraceWriter(path, run_facts(model, sampler, stops, settings))
        self.conversation = Conversation(model, self.writer, sampler, stops, settings, system)

    def __enter__(self) -> Conversation:
        return self.conversation

    def __exit__(self, *_: object) -> None:
        self.conversation.end()
        self.writer.close()


def prompts(model: Model, texts: Iterator[str] | tuple[str, ...]) -> Iterator[list[int]]:
    """Each turn's whole prompt, with the answers that a fresh run gives."""
    assert model.tokenizer is not None
    turns: list[dict[str, str]] = []
    for text in texts:
        turns.append({"role": "user", "content": text})
        ids = model.tokenizer.encode(model.tokenizer.chat_prompt(turns))
        turns.append({"role": "assistant", "content": run_generation(model, ids).text})
        yield ids


def shared(a: list[int], b: list[int]) -> int:
    """How many ids two lists begin with together."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def test_each_answer_is_that_of_a_fresh_run(demo: Model, path: Path) -> None:
    with Talk(demo, path) as talk:
        results = [talk.ask(text).result for text in TURNS]
    assert results == [run_generation(demo, ids) for ids in prompts(demo, TURNS)]


def test_what_the_cache_holds_is_not_fed_again(demo: Model, path: Path) -> None:
    with Talk(demo, path) as talk:
        turns = [talk.ask(text) for text in TURNS]
    asked, held = list(prompts(demo, TURNS)), list[int]()
    for ids, turn in zip(asked, turns, strict=True):
        assert turn.n_reused == shared(held, ids)
        held = ids + list(turn.result.tokens[:-1])  # the end token is not fed
    assert turns[2].n_reused > turns[1].n_reused > 20


def test_the_trace_keeps_the_rules_and_tells_what_was_reused(demo: Model, path: Path) -> None:
    with Talk(demo, path, prefill_chunk=6) as talk:
        turns = [talk.ask(text) for text in TURNS]
    trace = read(path)
    requests = [note for note in trace.notes if note["kind"] == "request"]
    assert [note["seq_id"] for note in requests] == [0, 1, 2]
    assert [note["n_reused"] for note in requests] == [turn.n_reused for turn in turns]
    for seq_id, turn in enumerate(turns):
        steps = [step for step in trace.steps if step["seq_id"] == seq_id]
        assert (steps[0]["seq_before"], steps[0]["n_reused"], steps[0]["write_pos"]) == (turn.n_reused,) * 3
        fed = sum(step["n_tokens"] for step in steps if step["phase"] == "prefill")
        assert turn.n_reused + fed == turn.result.prompt_tokens
    assert trace.note("release")["seq_id"] == 2
    assert trace.verdict == "pass"


def test_the_same_prompt_again_feeds_its_last_token(demo: Model, path: Path) -> None:
    with Talk(demo, path, system="Be brief") as talk:
        first = talk.ask("Count to ten")
        talk.forget()
        again = talk.ask("Count to ten")
    assert again.result == first.result
    assert again.n_reused == first.result.prompt_tokens - 1


def test_an_answer_that_was_stopped_stays_said(demo: Model, path: Path) -> None:
    with Talk(demo, path) as talk:
        stopped = talk.ask("Count to ten", on_text=interrupt_after(4, KeyboardInterrupt))
        following = talk.ask("Name three months")
    assert stopped.result.finish == "abort"
    # a piece of text, and the token behind it, may be on their way when Ctrl-C strikes
    assert following.n_reused >= stopped.result.prompt_tokens + len(stopped.result.tokens) - 2
    assert read(path).verdict == "pass"


def test_a_turn_that_does_not_fit_leaves_the_conversation_as_it_was(demo: Model, path: Path) -> None:
    with Talk(demo, path, capacity=50) as talk:
        talk.ask("Count to three")
        with pytest.raises(EngineError, match="the context holds 50"):
            talk.ask("Count to ten, " * 20)
        following = talk.ask("Name two days of the week")
    assert following.result.text == "Monday Tuesday"
    assert following.n_reused >= 20
    assert read(path).verdict == "pass"


def test_with_n_keep_it_goes_on_without_its_oldest_turns(demo: Model, path: Path) -> None:
    asked = ("Count to forty", "Name three months", "Count to ten")
    whole = list(prompts(demo, asked))
    last_two = list(prompts(demo, asked[1:]))[-1]
    assert len(whole[-1]) > 70 > len(last_two)
    with Talk(demo, path, capacity=70, n_keep=4) as talk:
        turns = [talk.ask(text) for text in asked]
    assert [turn.n_forgotten for turn in turns] == [0, 1, 0]
    assert turns[-1].result == run_generation(demo, last_two)
    assert read(path).verdict == "pass"


def test_a_model_without_a_tokenizer_cannot_talk(llama_without_tokenizer: Model, path: Path) -> None:
    with pytest.raises(EngineError, match="has no tokenizer to talk through"):
        Talk(llama_without_tokenizer, path)
