"""Two builds compared: public reports with a known answer, small traces by hand, and what must hold for any trace."""

from __future__ import annotations

import json
import math
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.traces.known_pairs import PAIRS, known_pair
from tests.traces.traces_by_hypothesis import traces as any_traces
from tests.traces.traces_by_hypothesis import write
from traces import record
from traces.diff import Diff, as_json, compare
from traces.fields import REQUIRED, declaration
from traces.importers.jsonl import import_jsonl
from traces.table import Table
from traces.writer import TraceWriter

NAMES = sorted(p.name.removesuffix(".expect.json") for p in PAIRS.glob("*.expect.json"))


def opened(paths: list[Path]) -> list[tuple[str, Table]]:
    return [(path.name, Table(path)) for path in paths]


def compared(base: list[Path], new: list[Path]) -> Diff:
    return compare(opened(base), opened(new))


# -- public reports ----------------------------------------------------------------------------------------------------


def test_there_are_cases() -> None:
    assert len(NAMES) == 4


@pytest.mark.parametrize("name", NAMES)
def test_the_known_answer(name: str, tmp_path: Path) -> None:
    answer = json.loads((PAIRS / f"{name}.expect.json").read_text())["diff"]
    said = as_json(compared(*known_pair(name, tmp_path)), ["tokens", "state"])
    assert said["tokens"]["verdict"] == answer["tokens"]["verdict"]
    expected = answer["tokens"]["first_divergence"]
    first = said["tokens"]["first_divergence"]
    assert (first is None) == (expected is None)
    if expected is not None:
        assert first["index"] == expected["index"]
        for side in ("base", "new"):
            assert first[side]["token_id"] == expected[side]["token_id"]
        assert first["base"]["margin"] == answer["margin"]
        assert first["kind"] in answer["kind"]
    evaluated = [request["evaluated"] for request in said["requests"]]
    assert [e[0] for e in evaluated] == answer["prompt_evaluated"]["base"]
    assert [e[1] for e in evaluated] == answer["prompt_evaluated"]["new"]
    times = {line["phase"]: line for line in said["time"] if line["part"] == "total"}
    if answer["time"] == "cannot-decide":
        assert {line["verdict"] for line in said["time"]} == {"cannot-decide"}
    else:
        assert {phase: times[phase]["verdict"] for phase in answer["time"]} == answer["time"]
        low, high = answer["prefill_ratio_between"]
        assert low <= times["prefill"]["ratio"] <= high


def test_reuse_that_is_gone_is_a_difference_of_state(tmp_path: Path) -> None:
    diff = compared(*known_pair("repeat_prompt_not_cached", tmp_path))
    assert diff.verdicts["state"] == "differs"
    first = {d.field: (d.step, d.seq_id, d.base, d.new) for d in diff.state}
    assert first["seq_before"] == (5, 1, 249, 0)
    assert first["reused"] == (None, 1, 249, 0)


# -- small traces by hand ----------------------------------------------------------------------------------------------

Step = dict[str, Any]


def greedy(path: Path, ids: list[int], change: Callable[[int, Step], None] = lambda i, s: None, **run: Any) -> Path:
    """One request of 5 prompt tokens and these ids; step 0 is the prefill, step i samples ids[i - 1]. `change` may
    alter a step before it is recorded. The last step ends with eos where the last id is 9, else with length."""
    facts: dict[str, Any] = {"n_layers": 3, "model": {"vocab_size": 100}, "clock": "monotonic"} | run
    with record(path, **facts) as trace:
        trace.request(prompt_tokens=5, n_reused=0, prompt_ids=[1, 2, 3, 4, 5])
        for i in range(len(ids) + 1):
            last = i == len(ids) > 0
            fed = 5 if i == 0 else 0 if last else 1
            length = 5 + i - last
            step: Step = {
                "phase": "decode" if i else "prefill",
                "token_id": ids[i - 1] if i else None,
                "n_tokens": fed,
                "seq_before": length - fed,
                "seq_len": length,
                "cache_len": [length] * 3,
                "finish": ("eos" if ids[-1] == 9 else "length") if last else None,
                "hidden_rms": [1.0, 2.0, 3.0],
                "margin": 2.0 if i else None,
                "total_ms": 1.0,
            }
            change(i, step)
            trace.step(**step)
    return path


IDS = [10, 11, 12, 13, 14, 9]


def test_a_token_that_differs_by_a_wide_margin_is_a_fault(tmp_path: Path) -> None:
    base = greedy(tmp_path / "a", IDS)
    diff = compared([base], [greedy(tmp_path / "b", [10, 11, 12, 50, 14, 9])])
    assert diff.verdicts["tokens"] == "differs"
    assert diff.first is not None
    assert (diff.first.index, diff.first.base.step, diff.first.kind) == (3, 4, "fault")
    assert (diff.first.base.token_id, diff.first.new.token_id) == (13, 50)


@pytest.mark.parametrize(("wobble", "kind"), [(0.04, "near-tie"), (0.004, "fault")])
def test_a_margin_within_the_noise_before_is_a_near_tie(wobble: float, kind: str, tmp_path: Path) -> None:
    def base_margins(i: int, step: Step) -> None:
        step["margin"] = 0.03 if i == 4 else step["margin"]

    def new_margins(i: int, step: Step) -> None:
        step["margin"] = 0.03 if i == 4 else 2.0 + wobble if i else None

    base = greedy(tmp_path / "a", IDS, base_margins)
    diff = compared([base], [greedy(tmp_path / "b", [10, 11, 12, 50, 14, 9], new_margins)])
    assert diff.first is not None
    assert diff.first.kind == kind
    assert diff.first.noise == pytest.approx(wobble, rel=1e-3)


def test_without_margins_a_token_that_differs_is_neither_a_fault_nor_a_near_tie(tmp_path: Path) -> None:
    def without(i: int, step: Step) -> None:
        del step["margin"]

    base = greedy(tmp_path / "a", IDS, without)
    diff = compared([base], [greedy(tmp_path / "b", [10, 11, 12, 50, 14, 9], without)])
    assert diff.first is not None
    assert (diff.first.index, diff.first.kind) == (3, None)


def test_a_fault_in_a_layer_long_before_the_token(tmp_path: Path) -> None:
    def wrong_from_2(i: int, step: Step) -> None:
        if i >= 2:
            step["hidden_rms"] = [1.0, 2.1, 3.2]

    base = greedy(tmp_path / "a", IDS)
    diff = compared([base], [greedy(tmp_path / "b", [10, 11, 12, 13, 50, 9], wrong_from_2)])
    assert diff.layer is not None
    assert (diff.layer.step, diff.layer.layer, diff.layer.base, diff.layer.new) == (2, 1, 2.0, pytest.approx(2.1))
    assert diff.first is not None
    assert (diff.first.index, diff.first.kind) == (4, "fault")


def test_rounding_in_every_layer_is_noise(tmp_path: Path) -> None:
    def rounded(i: int, step: Step) -> None:
        step["hidden_rms"] = [1.0 + 1e-6 * (i % 3), 2.0 + 8e-6 * (i % 2), 3.0]

    diff = compared([greedy(tmp_path / "a", IDS)], [greedy(tmp_path / "b", IDS, rounded)])
    assert diff.layer is None
    assert diff.verdicts["layers"] == "same"


@pytest.mark.parametrize("broken", [math.inf, math.nan])
def test_a_layer_that_overflows_is_named(broken: float, tmp_path: Path) -> None:
    def overflows(i: int, step: Step) -> None:
        if i >= 2:
            step["hidden_rms"] = [1.0, broken, math.nan]

    base, new = greedy(tmp_path / "a", IDS), greedy(tmp_path / "b", IDS, overflows)
    for diff in (compared([base], [new]), compared([new], [base])):
        assert diff.layer is not None
        assert (diff.layer.step, diff.layer.layer, diff.layer.relative) == (2, 1, 1.0)
    assert compared([new], [new]).verdicts["layers"] == "same"


def test_rows_that_differ_are_named_by_layer(tmp_path: Path) -> None:
    def row_lost(i: int, step: Step) -> None:
        if i >= 3:
            step["cache_len"] = [step["seq_len"], step["seq_len"] - 1, step["seq_len"]]

    diff = compared([greedy(tmp_path / "a", IDS)], [greedy(tmp_path / "b", IDS, row_lost)])
    assert diff.verdicts == {"tokens": "same", "state": "differs", "layers": "same", "time": "cannot-decide"}
    first = diff.state[0]
    assert (first.step, first.field, first.layer, first.base, first.new) == (3, "cache_len", 1, 8, 7)


def test_an_early_end_is_a_difference_of_length(tmp_path: Path) -> None:
    diff = compared([greedy(tmp_path / "a", IDS)], [greedy(tmp_path / "b", [10, 11, 12])])
    assert diff.first is not None
    assert (diff.first.kind, diff.first.index, diff.first.new.token_id) == ("length", 3, None)
    shorter = {"stop": {"eos": [9], "max_new_tokens": 3}}
    other = greedy(tmp_path / "c", [10, 11, 12], **shorter)
    longer = greedy(tmp_path / "d", IDS, stop={"eos": [9], "max_new_tokens": 8})
    assert compared([longer], [other]).verdicts["tokens"] == "same"


def test_a_verify_step_owns_a_range_of_tokens(tmp_path: Path) -> None:
    base = greedy(tmp_path / "a", IDS)
    with record(tmp_path / "b", n_layers=3, model={"vocab_size": 100}) as trace:
        trace.request(prompt_tokens=5, n_reused=0)
        trace.step(n_tokens=5, seq_before=0, seq_len=5, cache_len=[5] * 3, draft_ids=[None] * 3)
        draft = {"n_drafted": 3, "draft_ids": [11, 12, 70]}
        trace.step(phase="verify", token_id=10, n_tokens=4, seq_before=5, seq_len=8, cache_len=[8] * 3, n_accepted=2,
                   **draft)  # fmt: skip
        draft = {"n_drafted": 3, "draft_ids": [15, 9, 9]}
        trace.step(phase="verify", token_id=13, n_tokens=4, seq_before=8, seq_len=10, cache_len=[10] * 3, n_accepted=1,
                   **draft)  # fmt: skip
    diff = compared([base], [tmp_path / "b"])
    assert list(diff.alignments[0].new_steps) == [1, 1, 1, 2, 2]
    assert list(diff.alignments[0].base_steps) == [1, 2, 3, 4, 5, 6]
    assert diff.first is not None
    assert (diff.first.index, diff.first.base.step, diff.first.new.step) == (4, 5, 2)
    assert (diff.first.base.token_id, diff.first.new.token_id) == (14, 15)


def test_what_forbids_an_answer_is_said(tmp_path: Path) -> None:
    base = greedy(tmp_path / "a", IDS, sampler={"kind": "greedy"}, host={"cpu": "x"})
    new = greedy(tmp_path / "b", [10, 77, 9], sampler={"kind": "multinomial", "seed": 3}, host={"cpu": "y"})
    diff = compared([base], [new])
    assert diff.verdicts["tokens"] == diff.verdicts["time"] == "cannot-decide"
    assert diff.why["tokens"] == "sampler forbids it"
    debugged = greedy(tmp_path / "c", IDS, clock="debugger")
    diff = compared([debugged], [debugged])
    assert (diff.verdicts["tokens"], diff.verdicts["time"]) == ("same", "cannot-decide")
    assert diff.why["time"] == "clock forbids it"


def test_a_setting_that_does_nothing_may_be_left_out(tmp_path: Path) -> None:
    plain = greedy(tmp_path / "a", IDS, sampler={"kind": "greedy"})
    off = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}
    told = greedy(tmp_path / "b", IDS, sampler={"kind": "greedy", **off})
    assert compared([plain], [told]).verdicts["tokens"] == "same"
    for name, value in {"top_k": 40, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.1}.items():
        other = greedy(tmp_path / name, IDS, sampler={"kind": "greedy", **off, name: value})
        assert compared([plain], [other]).why["tokens"] == "sampler forbids it"


def test_runs_of_one_build_that_do_not_agree(tmp_path: Path) -> None:
    good = [greedy(tmp_path / f"a{i}", IDS) for i in range(2)]
    flaky = [greedy(tmp_path / "b0", IDS), greedy(tmp_path / "b1", [10, 50, 12, 13, 14, 9])]
    diff = compared(good, flaky)
    assert (diff.verdicts["tokens"], diff.pair) == ("differs", (0, 1))
    assert "b1 parts from b0" in diff.notes[0]
    assert compared(flaky, flaky[::-1]).verdicts["tokens"] == "cannot-decide"


# -- cut, empty, short -------------------------------------------------------------------------------------------------


def cut_off(path: Path, out: Path, keep: int) -> Path:
    """The same trace, killed after `keep` steps."""
    block = next(Table(path).blocks.since(0))
    assert block.per_frame == 1
    out.write_bytes(path.read_bytes()[: block.offset + keep * block.size])
    return out


def test_a_truncated_trace_is_same_as_far_as_it_goes_and_cannot_decide(tmp_path: Path) -> None:
    base = greedy(tmp_path / "a", IDS)
    short = cut_off(base, tmp_path / "b", 4)
    diff = compared([base], [short])
    assert (diff.verdicts["tokens"], diff.verdicts["state"]) == ("cannot-decide", "cannot-decide")
    assert diff.verdicts["layers"] == "cannot-decide"
    assert "new ends after 3 tokens" in diff.why["tokens"]
    assert compared([short], [short]).verdict(["tokens", "state"]) == "same"
    other = cut_off(greedy(tmp_path / "c", [10, 50, 12, 13, 14, 9]), tmp_path / "d", 4)
    assert compared([base], [other]).verdicts["tokens"] == "differs"


def test_a_trace_without_steps(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "empty", {"fields": declaration(list(REQUIRED))}):
        pass
    base = greedy(tmp_path / "a", IDS)
    diff = compared([base], [tmp_path / "empty"])
    assert diff.verdicts["tokens"] == "differs"
    assert diff.verdicts["time"] == "cannot-decide"


def test_one_step(tmp_path: Path) -> None:
    base = greedy(tmp_path / "a", [])
    assert compared([base], [base]).verdicts["tokens"] == "same"
    assert compared([greedy(tmp_path / "b", IDS)], [base]).verdicts["tokens"] == "differs"


def totals(path: Path, *notes: dict[str, Any]) -> Path:
    """A log that has totals of its requests and no steps."""
    with TraceWriter(path, {"fields": declaration(list(REQUIRED)), "clock": "monotonic"}) as writer:
        for i, note in enumerate(notes):
            writer.note(kind="totals", seq_id=i, **note)
    return path


def test_logs_with_totals_compare_as_runs(tmp_path: Path) -> None:
    """Two tests of a bench in six repetitions: a prompt of 512 at 100 and 120 ms, 129 tokens at 10 ms each."""
    sides = []
    for side, prefill in (("a", 100.0), ("b", 120.0)):
        notes = [
            ({"fed": 512, "generated": 0, "prefill_ms": prefill + i}, {"generated": 129, "decode_ms": 1280.0 + i})
            for i in range(6)
        ]
        sides.append([totals(tmp_path / f"{side}{i}", *note) for i, note in enumerate(notes)])
    lines = {t.line[:2]: t for t in compared(*sides).timing.lines}
    assert {name: t.judgement.verdict for name, t in lines.items()} == {
        ("prefill", "total"): "slower", ("request", "tpot"): "same",
    }  # fmt: skip
    assert lines["prefill", "total"].judgement.ratio == pytest.approx(1.195, abs=0.005)
    assert lines["request", "tpot"].base_ms == pytest.approx(10, rel=0.01)
    other = [totals(tmp_path / f"c{i}", {"fed": 256, "generated": 0, "prefill_ms": 50.0}) for i in range(6)]
    assert compared(sides[0], other).timing.lines == []


def test_a_log_with_totals_only(tmp_path: Path) -> None:
    paths = []
    for i, generated in enumerate((7, 7, 8)):
        paths.append(tmp_path / f"{i}.jsonl")
        note = {"kind": "totals", "seq_id": 0, "prompt_tokens": 9, "n_reused": 0, "fed": 9, "generated": generated}
        run = {"format": "stepscope", "version": 1, "fields": declaration(list(REQUIRED))}
        paths[-1].write_text("\n".join(map(json.dumps, (run, {"note": note}, {"note": {"kind": "end"}}))))
        import_jsonl(paths[-1], tmp_path / f"{i}.steps")
    steps = [tmp_path / f"{i}.steps" for i in range(3)]
    same, longer = compared([steps[0]], [steps[1]]), compared([steps[0]], [steps[2]])
    assert (same.verdicts["tokens"], same.verdicts["state"]) == ("cannot-decide", "same")
    assert longer.verdicts["state"] == "differs"


# -- any trace ---------------------------------------------------------------------------------------------------------


def written(path: str, events: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, Table]]:
    write(Path(path), events)
    return [("a", Table(path))]


@given(any_traces())
@settings(max_examples=80, suppress_health_check=list(HealthCheck))
def test_a_trace_is_the_same_as_itself(events: list[tuple[str, dict[str, Any]]]) -> None:
    with tempfile.NamedTemporaryFile() as file:
        a = written(file.name, events)
        diff = compare(a, a)
    assert diff.verdicts["state"] == "same"
    assert diff.verdicts["tokens"] == "same" or diff.why["tokens"].startswith("no token")
    assert diff.layer is None
    assert all(t.judgement.verdict == "cannot-decide" for t in diff.timing.lines)
    json.dumps(as_json(diff, ["tokens"]))


@given(any_traces(), any_traces())
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
def test_many_runs_of_any_content_are_judged(one: list[Any], other: list[Any]) -> None:
    with tempfile.NamedTemporaryFile() as file, tempfile.NamedTemporaryFile() as second, warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        a, b = 5 * written(file.name, one), 5 * written(second.name, other)
        same, two = compare(a, a), compare(a, b)
    assert all(t.judgement.verdict in ("same", "cannot-decide") for t in same.timing.lines)
    for timing in (same.timing, two.timing):
        for t in timing.lines:
            assert 0 < t.judgement.ratio < math.inf
            assert t.judgement.p is None or 0 < t.judgement.p <= 1


@given(any_traces(), any_traces())
@settings(max_examples=80, suppress_health_check=list(HealthCheck))
def test_swapped_sides_say_the_same(one: list[Any], other: list[Any]) -> None:
    with tempfile.NamedTemporaryFile() as file, tempfile.NamedTemporaryFile() as second:
        a, b = written(file.name, one), written(second.name, other)
        there, back = compare(a, b), compare(b, a)
    assume(there.first is None or back.first is None or there.first.seq_id == back.first.seq_id)
    assert there.verdicts["tokens"] == back.verdicts["tokens"]
    assert there.verdicts["state"] == back.verdicts["state"]
