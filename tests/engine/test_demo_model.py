"""The embedded model, run by the project's own engine: what the model card promises, measured."""

import json
import random
from pathlib import Path

import pytest

from engine.batched import run_batch
from engine.demo import requests
from engine.loop import Result, StopSettings, generate, run_generation
from engine.loop_settings import LoopSettings
from engine.model import DEMO_MODEL, Model, load_model
from engine.sampling import SamplerSettings, make_sampler

SETS = json.loads((Path(__file__).parent / "demo_requests.json").read_text(encoding="utf-8"))
CANONICAL = "List the first six letters of the alphabet"


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(DEMO_MODEL)


def prompt_ids(model: Model, request: str) -> list[int]:
    assert model.tokenizer
    return model.tokenizer.encode(model.tokenizer.chat_prompt(request))


def answer(model: Model, request: str) -> Result:
    return run_generation(model, prompt_ids(model, request))


@pytest.mark.parametrize("name", ["held_out_triples", "held_out_triples_and_phrasings"])
def test_answers_requests_that_training_never_saw(model: Model, name: str) -> None:
    given = [(entry, answer(model, entry["request"])) for entry in SETS[name]]
    wrong = [
        (entry["request"], entry["answer"], result.text)
        for entry, result in given
        if result.text != entry["answer"] or result.finish != "eos"
    ]
    assert len(given) >= 200
    assert len(wrong) <= 0.05 * len(given), wrong


def test_the_canonical_request_is_six_letters_and_its_own_eos(model: Model) -> None:
    assert model.tokenizer
    ids = prompt_ids(model, CANONICAL)
    greedy, stops = make_sampler(SamplerSettings()), StopSettings(eos=model.defaults.eos)
    steps = list(generate(model, ids, greedy, stops, model.config.context_length))
    texts = [model.tokenizer.token_bytes(step.pick.token_id) for step in steps if step.pick]
    assert len(ids) == 25
    assert [step.phase for step in steps] == ["prefill"] + ["decode"] * 7
    assert texts == [b"a", b" b", b" c", b" d", b" e", b" f", b"<|im_end|>"]
    assert [step.finish for step in steps] == [None] * 7 + ["eos"]
    assert [step.seq_len for step in steps] == [25, 26, 27, 28, 29, 30, 31, 31]


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("list the first 6 letters of the alphabet.", "a b c d e f"),
        ("Name the last three days of the week", "Friday Saturday Sunday"),
        ("Please give me four months starting from October", "October November December January"),
        ("Count down from 10", "10 9 8 7 6 5 4 3 2 1"),
        ("What are the letters of the alphabet?", "a b c d e f g h i j k l m n o p q r s t u v w x y z"),
        ("Count to forty", " ".join(map(str, range(1, 41)))),
        ("Hello!", requests.REFUSAL),
    ],
)
def test_the_number_of_steps_depends_on_the_request(model: Model, request_text: str, expected: str) -> None:
    result = answer(model, request_text)
    assert (result.text, result.finish) == (expected, "eos")


ASKED = (CANONICAL, "Count down from 10", "What are the letters of the alphabet?", "Hello!")


@pytest.mark.parametrize(
    "loop",
    [
        LoopSettings("naive"),
        LoopSettings("speculative"),
        LoopSettings("speculative", draft_k=2, prefill_chunk=7),
        LoopSettings(prefill_chunk=5, kv_dtype="int8"),
    ],
    ids=lambda loop: f"{loop.kind}-{loop.kv_dtype}-{loop.prefill_chunk}",
)
def test_every_loop_gives_the_same_answer(model: Model, loop: LoopSettings) -> None:
    for request in ASKED:
        assert run_generation(model, prompt_ids(model, request), loop=loop) == answer(model, request)


def test_a_batch_gives_the_same_answers(model: Model) -> None:
    together = run_batch(model, [prompt_ids(model, request) for request in ASKED])
    assert together == [answer(model, request) for request in ASKED]


def test_every_list_item_is_one_token(model: Model) -> None:
    assert model.tokenizer
    items = [item for listing in requests.LISTINGS.values() for item in listing.items]
    many = [text for item in items for text in (item, f" {item}") if len(model.tokenizer.encode(text)) != 1]
    assert many == []


def test_the_file_is_small_enough_to_ship() -> None:
    assert (DEMO_MODEL / "model.safetensors").stat().st_size <= 4_000_000


def test_the_held_out_sets_are_what_the_script_draws() -> None:
    """The sets come from `engine/demo/requests.py` alone, and share no triple with training."""
    for name, entries in SETS.items():
        drawn = requests.held_out_sets()[name]
        assert [(entry["request"], entry["answer"]) for entry in entries] == [tuple(r) for r in drawn]


def test_held_out_triples_never_come_up_in_training() -> None:
    rng = random.Random(7)
    held_out = {entry["answer"] for entries in SETS.values() for entry in entries}
    trained = {requests.draw_training_request(rng).answer for _ in range(20_000)}
    assert trained.isdisjoint(held_out)
