"""The search line: its grammar, and the steps it finds, held against a search one step at a time."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inspector.tui.search import Compare, Fails, SearchError, Text, find, parse
from tests.inspector.tui.small_traces import LAYERS, damage, letters, run_facts
from traces.table import Table
from traces.writer import TraceWriter


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("hello", (Text("hello"),)),
        ("hello world", (Text("hello world"),)),
        ("317", (Text("317", or_id=317),)),
        ("fail", (Fails(),)),
        ('"fail"', (Text("fail"),)),
        ("failure", (Text("failure"),)),
        ("seq 3", (Compare("seq_id", "=", 3.0),)),
        ("seq = 3", (Compare("seq_id", "=", 3.0),)),
        ("id -1", (Compare("token_id", "=", -1.0),)),
        ("total > 5ms", (Compare("total_ms", ">", 5.0),)),
        ("total>5", (Compare("total_ms", ">", 5.0),)),
        ("total >= 1.5s", (Compare("total_ms", ">=", 1500.0),)),
        ("attn<250us", (Compare("attn_ms", "<", 0.25),)),
        ("layer 12 > 2ms", (Compare("layer", ">", 2.0, 12),)),
        ("layer 0 attn <= .5", (Compare("attn_ms", "<=", 0.5, 0),)),
        ("layer 1 rows != 30", (Compare("cache_len", "!=", 30.0, 1),)),
        ("phase=verify", (Compare("phase", "=", 3.0),)),
        ("finish != none", (Compare("finish", "!=", 0.0),)),
        ("hidden_rms > 3", (Compare("hidden_rms", ">", 3.0),)),
        ('seq 3 "a b" fail', (Compare("seq_id", "=", 3.0), Text("a b"), Fails())),
        ("a > b", (Text("a > b"),)),
        ("x = 5", (Text("x = 5"),)),
        ("layer cake", (Text("layer cake"),)),
    ],
)  # fmt: skip
def test_a_line_has_a_meaning(line: str, meaning: tuple[Any, ...]) -> None:
    assert parse(line, ["hidden_rms"]) == meaning


@pytest.mark.parametrize(
    "line",
    ["", "  ", "total > much", "total > 5kg", "layer 3 > fast", "phase=later", "len > 3ms", "fail hello", "seq 3 x"],
)
def test_half_a_filter_is_refused_in_one_line(line: str) -> None:
    with pytest.raises(SearchError) as refused:
        parse(line)
    assert "\n" not in str(refused.value)


@given(st.text(max_size=40))
def test_any_line_has_a_meaning_or_is_refused(line: str) -> None:
    with contextlib.suppress(SearchError):
        assert parse(line)


NUMBERS = st.integers(0, 3)
TIMES = st.one_of(st.none(), NUMBERS.map(float))
STEPS = st.lists(
    st.fixed_dictionaries({
        "phase": st.sampled_from(["prefill", "decode", "verify"]), "seq_id": NUMBERS,
        "token_id": st.one_of(st.none(), NUMBERS), "total_ms": TIMES,
        "gemm_ms": st.one_of(st.none(), st.lists(TIMES, min_size=LAYERS, max_size=LAYERS)),
        "text": st.sampled_from([b"", b"a", b"b", b"ab", b"A"]),
    }),
    min_size=1, max_size=30,
)  # fmt: skip
TERMS = st.one_of(
    st.builds(lambda n: f"seq {n}", NUMBERS),
    st.builds(lambda n: f"id {n}", NUMBERS),
    st.builds(lambda sign, n: f"total {sign} {n}", st.sampled_from(["<", ">", "=", "!=", "<=", ">="]), NUMBERS),
    st.builds(lambda sign, n: f"gemm {sign} {n}", st.sampled_from(["<", ">"]), NUMBERS),
    st.builds(lambda layer, n: f"layer {layer} gemm >= {n}", st.integers(0, LAYERS), NUMBERS),
    st.sampled_from(["phase=prefill", "phase!=decode", "fail", '"a"', '"ab"', '"B"', '"ba"']),
)


@settings(max_examples=150)
@given(STEPS, st.lists(TERMS, min_size=1, max_size=3), st.sets(st.integers(0, 29)), st.integers(0, 29),
       st.sampled_from([1, -1]))  # fmt: skip
def test_the_step_found_is_the_nearest_that_holds(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[str, Any]], terms: list[str], failing: set[int],
    start: int, way: int,
) -> None:  # fmt: skip
    path = tmp_path_factory.mktemp("search") / "a.steps"
    with TraceWriter(path, run_facts()) as writer:
        for step in steps:
            writer.step(n_tokens=1, seq_before=0, seq_len=1, cache_len=[1] * LAYERS, **step)
    table = Table(path)
    fails = sorted(number for number in failing if number < len(steps))
    start = min(start, len(steps) - 1)
    found = find(table, parse(" ".join(terms)), start, way, len(steps), fails)
    holding = [n for n in order(len(steps), start, way) if all(holds(steps, n, term, fails) for term in terms)]
    assert found == (holding[0] if holding else None)


def order(steps: int, start: int, way: int) -> Iterator[int]:
    """Steps from behind `start` round to it."""
    for i in range(1, steps + 1):
        yield (start + way * i) % steps


def holds(steps: list[dict[str, Any]], number: int, term: str, failing: list[int]) -> bool:
    """Whether one filter holds of one step, said plainly."""
    step, words = steps[number], term.split()
    if term == "fail":
        return number in failing
    if term.startswith('"'):
        return begins_here(steps, number, term.strip('"'))
    if term.startswith("phase"):
        return step["phase"] == "prefill" if "!" not in term else step["phase"] != "decode"
    if words[0] in ("seq", "id"):
        return step["seq_id" if words[0] == "seq" else "token_id"] == int(words[1])
    value, sign, limit = measured(step, words), words[-2], float(words[-1])
    answers = {"<": value < limit, ">": value > limit, "=": value == limit, "!=": value != limit, "<=": value <= limit,
               ">=": value >= limit}  # fmt: skip
    return not math.isnan(value) and answers[sign]


def measured(step: dict[str, Any], words: list[str]) -> float:
    """A time of a step, NaN where it has none."""
    if words[0] == "total":
        return math.nan if step["total_ms"] is None else float(step["total_ms"])
    layers = step["gemm_ms"] or []
    if words[0] == "layer":
        value = layers[int(words[1])] if int(words[1]) < len(layers) else None
        return math.nan if value is None else float(value)
    present = [value for value in layers if value is not None]
    return sum(present) if present else math.nan


def begins_here(steps: list[dict[str, Any]], number: int, wanted: str) -> bool:
    """Whether the text begins with a byte of this step's token, over the tokens of its own sequence."""
    own = [n for n, step in enumerate(steps) if step["seq_id"] == steps[number]["seq_id"]]
    texts = [steps[n]["text"].decode() for n in own]
    joined, before = "".join(texts), sum(len(text) for n, text in zip(own, texts, strict=True) if n < number)
    if wanted == wanted.lower():
        joined = joined.lower()
    return any(joined.startswith(wanted, before + i) for i in range(len(steps[number]["text"])))


def test_text_is_found_where_it_begins_also_across_tokens(tmp_path: Path) -> None:
    table = Table(letters(tmp_path / "a.steps"))  # "-" a b c d e f <eos>
    assert find(table, parse("cde"), 0, 1, table.steps) == 3
    assert find(table, parse("CDE"), 0, 1, table.steps) is None
    assert find(table, parse("eos"), 0, 1, table.steps) == 7
    assert find(table, parse("384"), 0, 1, table.steps) == 5


def test_it_goes_on_from_the_other_end_and_can_be_told_not_to(tmp_path: Path) -> None:
    table = Table(letters(tmp_path / "a.steps"))
    assert find(table, parse("b"), 4, 1, table.steps) == 2
    assert find(table, parse("b"), 4, 1, table.steps, wrap=False) is None
    assert find(table, parse("f"), 4, -1, table.steps) == 6


def test_a_token_longer_than_its_field_is_searched_whole(tmp_path: Path) -> None:
    table = Table(letters(tmp_path / "a.steps"))
    assert find(table, parse("expialidocious"), 0, 1, table.steps, texts={3: "supercalifragilisticexpialidocious"}) == 3


def test_a_damaged_step_never_matches(tmp_path: Path) -> None:
    table = Table(damage(letters(tmp_path / "a.steps"), step=4))
    assert find(table, parse("total > 1"), 3, 1, table.steps) == 5


def test_a_search_can_be_given_up(tmp_path: Path) -> None:
    table = Table(letters(tmp_path / "a.steps"))
    assert find(table, parse("f"), 7, 1, table.steps, go_on=lambda looked_at: False) == 6  # found in the first piece
    assert find(table, parse("nowhere"), 7, 1, table.steps, go_on=lambda looked_at: False) is None
