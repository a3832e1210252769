"""Each rule on its own: what it fails, what it leaves alone, and what makes it unknown. Expected numbers by hand."""

from __future__ import annotations

from typing import Any

import pytest

from traces.check import Checker
from traces.fields import ABSENT_I64
from traces.rules import RULES

RUN: dict[str, Any] = {
    "layers": [{"kind": "full"}] * 3,
    "model": {"vocab_size": 100},
    "kv": {"capacity": 50},
    "stop": {"eos": [2], "max_new_tokens": 8},
}
NAN = float("nan")


def record(**values: Any) -> dict[str, Any]:
    """A raw record; what is not given is absent, cache_len follows seq_len in three layers."""
    out: dict[str, Any] = {"phase": 2, "seq_id": 0, "token_id": 7, "n_tokens": 1, "seq_before": -1, "seq_len": -1,
                           "finish": 0}  # fmt: skip
    out.update(values)
    out.setdefault("cache_len", (out["seq_len"],) * 3)
    return out


def decode(before: int, **values: Any) -> dict[str, Any]:
    return record(seq_before=before, seq_len=before + 1, **values)


def prefill(n: int, **values: Any) -> dict[str, Any]:
    return record(**{"phase": 1, "token_id": ABSENT_I64, "n_tokens": n, "seq_before": 0, "seq_len": n, **values})


def note(kind: str, **facts: Any) -> dict[str, Any]:
    return {"note": {"kind": kind, "seq_id": 0, **facts}}


REQUEST = note("request", prompt_tokens=5, n_reused=0)


def verdicts(code: str, *events: dict[str, Any], **run: Any) -> Any:
    checker = Checker([RULES[code]], limit=None)
    checker.start_run({**RUN, **run})
    for event in events:
        if "note" in event:
            checker.note(event["note"])
        else:
            checker.step(event)
    return checker.report.results[code]


def counts(code: str, *events: dict[str, Any], **run: Any) -> tuple[int, int, int]:
    """(passed, failed, unknown)"""
    result = verdicts(code, *events, **run)
    return result.passed, result.failed, result.unknown


def test_there_are_twenty_and_each_says_what_it_is_for() -> None:
    assert len(RULES) == 20
    for code, rule in RULES.items():
        assert code == rule.code
        assert rule.needs
        assert len(rule.fault) > 40
        assert rule.statement


def test_kv01_where_only_the_state_before_was_seen() -> None:
    entry = record(seq_before=5, cache_before=(5, 5, 5), cache_len=(-1, -1, -1))
    assert counts("KV01", entry) == (1, 0, 0)
    assert counts("KV01", {**entry, "cache_before": (4, 5, 5)}) == (0, 1, 0)
    assert counts("KV01", {**entry, "cache_before": (-1, 5, 5)}) == (0, 0, 1)


def test_kv01_and_kv02_see_layers_that_hold_nothing() -> None:
    assert counts("KV01", decode(4, cache_len=(0, 0, 0))) == (0, 1, 0)
    assert counts("KV02", decode(4, cache_len=(0, 5, 5))) == (0, 1, 0)
    entry = record(seq_before=5, cache_before=(0, 5, 5), cache_len=(-1, -1, -1))
    assert counts("KV02", entry) == (0, 1, 0)


def test_kv01_looks_at_the_first_full_layer() -> None:
    layers = [{"kind": "window", "window": 4}, {"kind": "recurrent"}, {"kind": "full"}]
    assert counts("KV01", decode(9, cache_len=(4, 0, 10)), layers=layers) == (1, 0, 0)
    assert counts("KV01", decode(9, cache_len=(10, 10, 9)), layers=layers) == (0, 1, 0)
    assert counts("KV01", decode(9), layers=[{"kind": "window", "window": 4}] * 3) == (0, 0, 0)


def test_full_layer_rules_are_unknown_without_layers() -> None:
    for code in ("KV01", "KV02", "KV06", "KV10", "KV11", "TK04"):
        assert counts(code, REQUEST, prefill(5, finish=2, write_pos=0), layers=None) == (0, 0, 1), code


def test_kv02_one_count_for_all_layers_says_nothing() -> None:
    assert counts("KV02", decode(5)) == (1, 0, 0)
    assert counts("KV02", record(n_tokens=0, seq_before=0, seq_len=0)) == (1, 0, 0)
    assert counts("KV02", decode(5, cache_len=6)) == (0, 0, 1)
    assert counts("KV02", decode(5, cache_len=(6, -1, -1))) == (0, 0, 1)
    assert counts("KV02", decode(5, cache_len=(6, -1, 5))) == (0, 1, 0)
    assert counts("KV02", decode(5, cache_len=(6,)), layers=[{"kind": "full"}]) == (0, 0, 0)
    assert counts("KV02", decode(5, cache_len=(6, 6, 6, 99))) == (0, 0, 1)  # the run describes three layers


def test_kv02_names_the_layer_that_stands_apart() -> None:
    failure = verdicts("KV02", decode(5, cache_len=(6, 5, 6))).failures[0]
    assert (failure.finding.layer, failure.finding.expected, failure.finding.seen) == (1, 6, 5)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (decode(5), (1, 0, 0)),
        (record(n_tokens=0, seq_before=5, seq_len=5), (1, 0, 0)),
        (record(n_tokens=1, seq_before=5, seq_len=7), (0, 1, 0)),
        (record(n_tokens=2, seq_before=5, seq_len=7), (0, 1, 0)),  # a decode feeds one
        (record(phase=1, n_tokens=2, seq_before=5, seq_len=7), (1, 0, 0)),
        (record(n_tokens=-1, seq_before=5, seq_len=6), (0, 0, 1)),
        (record(n_tokens=1, seq_before=-1, seq_len=6), (0, 0, 1)),
        (record(n_tokens=1, seq_before=5, seq_len=-1), (0, 0, 1)),
        (record(phase=3, n_tokens=1, n_drafted=0, n_accepted=0, seq_before=5, seq_len=6), (1, 0, 0)),
        (record(phase=3, n_tokens=5, n_drafted=4, n_accepted=0, seq_before=5, seq_len=6), (1, 0, 0)),
        (record(phase=3, n_tokens=5, n_drafted=4, n_accepted=2, seq_before=5, seq_len=8), (1, 0, 0)),
        (record(phase=3, n_tokens=5, n_drafted=4, n_accepted=2, seq_before=5, seq_len=10), (0, 1, 0)),
        (record(phase=3, n_tokens=4, n_drafted=4, n_accepted=2, seq_before=5, seq_len=8), (0, 1, 0)),
        (record(phase=3, n_tokens=3, n_drafted=2, n_accepted=3, seq_before=5, seq_len=9), (0, 1, 0)),
        (record(phase=3, n_tokens=5, n_drafted=4, seq_before=5, seq_len=8), (0, 0, 1)),
    ],
)
def test_kv03(step: dict[str, Any], expected: tuple[int, int, int]) -> None:
    assert counts("KV03", step) == expected


def message(code: str, *events: dict[str, Any], **run: Any) -> str:
    """The words for the first failure, behind the code and the place."""
    words: str = verdicts(code, *events, **run).failures[0].message
    return words.split(": ", 1)[1]


def test_the_words_say_what_was_expected() -> None:
    start = [REQUEST, prefill(5), decode(5)]
    wrong_fed = record(phase=3, n_tokens=4, n_drafted=4, n_accepted=2, seq_before=5, seq_len=8)
    assert message("KV03", wrong_fed) == "fed 4 with 4 drafts: expected 5"
    assert message("KV03", {**wrong_fed, "n_tokens": 5, "seq_len": 9}) == "grew by 4, fed 5 with 2 accepted: expected 3"
    assert message("KV04", *start, note("rollback", n=2), decode(6)) == (
        "starts at 6, the step before ended at 6 and 2 were removed since: expected 4"
    )
    layers = [{"kind": "window", "window": 8, "slack": 2}]
    assert message("KV06", decode(11, cache_len=(11,)), layers=layers) == (
        "layer 0 (window 8) holds 11 rows at length 12: expected 8 to 10"
    )
    after_end = verify(5, 2, drafted=3, draft_ids=(2, 5, 6))
    assert message("TK02", after_end) == "an end token was accepted at place 1 of the step, 1 token followed"
    assert message("TK05", record(n_tokens=2)) == "a decode step fed 2 tokens: expected 1"


def test_kv03_in_the_naive_loop_the_sequence_grows_by_one_whatever_is_fed() -> None:
    assert counts("KV03", record(n_tokens=6, seq_before=5, seq_len=6), loop="naive") == (1, 0, 0)
    assert counts("KV03", record(n_tokens=6, seq_before=5, seq_len=11), loop="naive") == (0, 1, 0)
    assert counts("KV03", record(n_tokens=0, seq_before=5, seq_len=5), loop="naive") == (1, 0, 0)


def test_kv04_across_shifts_rollbacks_and_gaps() -> None:
    start = [REQUEST, prefill(5), decode(5)]
    assert counts("KV04", *start, decode(6)) == (3, 0, 0)
    assert counts("KV04", *start, note("rollback", n=2), decode(4)) == (3, 0, 0)
    assert counts("KV04", *start, note("rollback", n=2), decode(6)) == (2, 1, 0)
    assert counts("KV04", *start, note("shift", n_keep=1, n_discard=3), note("rollback", n=1), decode(2)) == (3, 0, 0)
    assert counts("KV04", *start, note("rollback"), decode(4)) == (2, 0, 1)  # nobody said how many
    assert counts("KV04", *start, {"note": {"kind": "gap"}}, decode(30), decode(31)) == (3, 0, 1)
    assert counts("KV04", prefill(5), decode(5)) == (1, 0, 1)  # no request note


def test_kv04_a_second_request_of_the_same_id_begins_anew() -> None:
    again = note("request", prompt_tokens=8, n_reused=6)
    assert counts("KV04", REQUEST, prefill(5), again, record(phase=1, n_tokens=2, seq_before=6, seq_len=8)) == (2, 0, 0)


def test_kv05() -> None:
    assert counts("KV05", record(n_tokens=1, seq_before=49, seq_len=50)) == (1, 0, 0)
    assert counts("KV05", record(n_tokens=2, seq_before=49, seq_len=50)) == (0, 1, 0)
    assert counts("KV05", record(n_tokens=51, seq_before=50, seq_len=50), loop="naive") == (1, 0, 0)
    assert counts("KV05", decode(4), kv={}) == (0, 0, 1)
    assert counts("KV05", decode(60), layers=[{"kind": "window", "window": 50}]) == (0, 0, 0)  # it rolls on


def test_kv06() -> None:
    layers = [{"kind": "window", "window": 8, "slack": 2}, {"kind": "full"}, {"kind": "window", "window": 4}]
    for rows, good in (((8, 12, 4), True), ((10, 12, 4), True), ((11, 12, 4), False), ((7, 12, 4), False),
                       ((8, 12, 5), False)):  # fmt: skip
        assert counts("KV06", decode(11, cache_len=rows), layers=layers) == ((1, 0, 0) if good else (0, 1, 0))
    assert counts("KV06", decode(11, cache_len=(8, 12, -1)), layers=layers) == (0, 0, 1)
    assert counts("KV06", decode(11)) == (0, 0, 0)


def verify(before: int, accepted: int, drafted: int = 4, **values: Any) -> dict[str, Any]:
    return record(phase=3, n_tokens=1 + drafted, n_drafted=drafted, n_accepted=accepted, seq_before=before,
                  seq_len=before + 1 + accepted, **values)  # fmt: skip


def test_kv07_every_layer_grows_by_one_and_the_accepted() -> None:
    assert counts("KV07", REQUEST, prefill(5), verify(5, 2)) == (1, 0, 0)
    assert counts("KV07", REQUEST, prefill(5), verify(5, 2, cache_len=(8, 8, 10))) == (0, 1, 0)
    assert counts("KV07", verify(5, 2, cache_before=(5, 5, 5))) == (1, 0, 0)
    assert counts("KV07", verify(5, 2)) == (0, 0, 1)
    failure = verdicts("KV07", REQUEST, prefill(5), verify(5, 2, cache_len=(8, 8, 10))).failures[0]
    assert (failure.finding.layer, failure.finding.expected, failure.finding.seen) == (2, 3, 5)


@pytest.mark.parametrize(("accepted", "draft", "good"), [(2, 8, True), (2, 7, False), (4, 9, True), (4, 8, False)])
def test_kv07_the_draft_models_cache(accepted: int, draft: int, good: bool) -> None:
    step = verify(5, accepted, draft_cache_len=draft)
    assert counts("KV07", REQUEST, prefill(5), step)[1] == (0 if good else 1)


def test_kv07_one_row_behind_when_all_drafts_were_accepted() -> None:
    assert counts("KV07", REQUEST, prefill(5), verify(5, 4, draft_cache_len=9)) == (1, 0, 0)
    assert counts("KV07", REQUEST, prefill(5), verify(5, 3, draft_cache_len=8)) == (0, 1, 0)


def test_kv08() -> None:
    start = [REQUEST, prefill(5), decode(5)]
    shift = note("shift", n_keep=1, n_discard=2)
    assert counts("KV08", *start, decode(6)) == (0, 0, 0)
    assert counts("KV08", *start, shift, decode(4)) == (1, 0, 0)
    assert counts("KV08", *start, shift, decode(3)) == (0, 1, 0)
    assert counts("KV08", *start, shift, shift, decode(2)) == (0, 1, 0)
    assert counts("KV08", *start, note("shift", n_keep=5, n_discard=2), decode(4)) == (0, 1, 0)
    assert counts("KV08", *start, note("shift"), decode(4)) == (0, 0, 1)
    assert counts("KV08", REQUEST, {"note": {"kind": "gap"}}, shift, decode(4)) == (0, 0, 1)
    assert counts("KV08", *start, shift, record(n_tokens=1, seq_len=5)) == (0, 0, 1)


def test_kv09_is_judged_when_the_prefill_is_over_and_names_its_last_step() -> None:
    chunks = [prefill(2), record(phase=1, n_tokens=2, seq_before=2, seq_len=4)]
    assert counts("KV09", REQUEST, *chunks) == (0, 0, 0)
    result = verdicts("KV09", REQUEST, *chunks, decode(4))
    assert (result.failed, result.failures[0].step) == (1, 1)
    assert result.failures[0].message == "KV09 step 1 seq 0: 0 reused + 4 fed = 4, the prompt has 5"
    assert counts("KV09", REQUEST, prefill(5), decode(5)) == (1, 0, 0)
    assert counts("KV09", prefill(5), decode(5)) == (0, 0, 1)
    # all of the prompt reused and no prefill at all; a prefill that was perhaps not recorded
    assert counts("KV09", note("request", prompt_tokens=10, n_reused=10), decode(10)) == (0, 1, 0)
    assert counts("KV09", note("request", prompt_tokens=10, n_reused=0), decode(10)) == (0, 0, 1)
    # preempted and computed again; a second turn without a request of its own
    assert counts("KV09", REQUEST, prefill(5), note("rollback", n=5), prefill(5), decode(5)) == (0, 0, 1)
    more = record(phase=1, n_tokens=2, seq_before=6, seq_len=8)
    assert counts("KV09", REQUEST, prefill(5), decode(5), more, decode(8)) == (1, 0, 0)


def test_kv10() -> None:
    layers = [{"kind": "full"}, {"kind": "recurrent"}, {"kind": "shared", "owner": 0}]
    assert counts("KV10", decode(4, cache_len=(5, 0, 5)), layers=layers) == (1, 0, 0)
    assert counts("KV10", decode(4, cache_len=(5, 1, 5)), layers=layers) == (0, 1, 0)
    assert counts("KV10", decode(4, cache_len=(5, 0, 4)), layers=layers) == (0, 1, 0)
    assert counts("KV10", decode(4, cache_len=(5, -1, 5)), layers=layers) == (0, 0, 1)
    assert counts("KV10", decode(4)) == (0, 0, 0)


def test_kv11() -> None:
    start = [REQUEST, prefill(5, write_pos=0)]
    assert counts("KV11", *start, decode(5, write_pos=5)) == (2, 0, 0)
    assert counts("KV11", *start, decode(5, write_pos=4)) == (1, 1, 0)
    assert counts("KV11", *start, record(n_tokens=0, seq_before=5, seq_len=5)) == (1, 0, 0)
    assert counts("KV11", *start, decode(5)) == (1, 0, 1)
    assert counts("KV11", note("request", n_reused=3), prefill(2, write_pos=3, pos=0)) == (1, 0, 0)


def test_kv12_the_sum_is_constant_and_the_last_release_leaves_nothing() -> None:
    step = decode(4, kv_used=5, kv_free=15)
    assert counts("KV12", step, decode(5, kv_used=6, kv_free=14)) == (2, 0, 0)
    assert counts("KV12", step, decode(5, kv_used=6, kv_free=15)) == (1, 1, 0)
    assert counts("KV12", step, kv={"total": 21}) == (0, 1, 0)
    assert counts("KV12", step, note("release", kv_used=0, kv_free=20)) == (2, 0, 0)
    assert counts("KV12", step, note("release", kv_used=1, kv_free=19)) == (1, 1, 0)
    assert counts("KV12", step, note("release")) == (1, 0, 0)
    other = decode(4, seq_id=1, kv_used=10, kv_free=10)
    assert counts("KV12", step, other, note("release", kv_used=5, kv_free=15)) == (3, 0, 0)


def test_tk01() -> None:
    for token, expected in ((0, (1, 0, 0)), (99, (1, 0, 0)), (100, (0, 1, 0)), (-1, (0, 1, 0)),
                            (ABSENT_I64, (0, 0, 1))):  # fmt: skip
        assert counts("TK01", decode(4, token_id=token)) == expected
    assert counts("TK01", prefill(5)) == (0, 0, 0)
    assert counts("TK01", verify(5, 1, drafted=2, draft_ids=(5, 100))) == (0, 1, 0)
    assert counts("TK01", verify(5, 1, drafted=2, draft_ids=(5, ABSENT_I64))) == (0, 0, 1)
    assert counts("TK01", verify(5, 1, drafted=1, draft_ids=(5, 200))) == (1, 0, 0)  # the second was not drafted
    assert counts("TK01", decode(4, token_id=100), model={}) == (0, 0, 1)


def test_tk02() -> None:
    end = decode(4, finish=1)
    assert counts("TK02", decode(3), end) == (2, 0, 0)
    assert counts("TK02", end, decode(5), decode(6)) == (1, 2, 0)
    assert counts("TK02", end, decode(5, seq_id=1)) == (2, 0, 0)
    assert counts("TK02", decode(3), note("finish", finish="abort"), decode(4)) == (1, 1, 0)
    for ids, accepted, good in (
        ((2, 5, 6), 1, True),
        ((2, 5, 6), 2, False),
        ((5, 2, 6), 1, True),
        ((5, 6, 2), 3, True),
    ):
        step = verify(5, accepted, drafted=3, draft_ids=ids)
        assert counts("TK02", step) == ((1, 0, 0) if good else (0, 1, 0)), ids
    assert counts("TK02", decode(3, token_id=2), decode(4), decode(5)) == (1, 2, 0)  # it ran past the end id
    assert counts("TK02", verify(5, 1, drafted=3, draft_ids=(7, 5, 6)), decode(7)) == (2, 0, 0)
    assert counts("TK02", verify(5, 1, drafted=3, draft_ids=(2, 5, 6)), decode(7)) == (1, 1, 0)
    through = {"eos": [2], "ignore_eos": True}
    assert counts("TK02", decode(3, token_id=2), decode(4), stop=through) == (2, 0, 0)
    assert counts("TK02", verify(5, 2, drafted=3, draft_ids=(2, 5, 6)), stop=through) == (1, 0, 0)
    assert counts("TK02", verify(5, 2, drafted=3, draft_ids=(2, 5, 6)), stop={}) == (0, 0, 1)


def test_tk03_the_requests_limit_before_the_runs() -> None:
    two = note("request", max_new_tokens=2)
    assert counts("TK03", two, prefill(5), decode(5), decode(6), decode(7)) == (2, 1, 0)
    assert counts("TK03", REQUEST, prefill(5), *[decode(5 + i) for i in range(9)]) == (8, 1, 0)
    assert counts("TK03", two, prefill(5), verify(5, 1), verify(7, 0)) == (1, 1, 0)
    assert counts("TK03", prefill(5), decode(5), stop={}) == (0, 0, 1)
    assert counts("TK03", {"note": {"kind": "gap"}}, decode(30), decode(31)) == (0, 0, 2)  # its beginning may be lost


def test_tk04_whether_or_not_the_last_token_was_fed() -> None:
    start = [REQUEST, prefill(5), decode(5)]
    assert counts("TK04", *start, decode(6, finish=2)) == (1, 0, 0)
    assert counts("TK04", *start, record(n_tokens=0, seq_before=6, seq_len=6, finish=1)) == (1, 0, 0)
    assert counts("TK04", *start, decode(6, finish=2, cache_len=(8, 7, 7))) == (0, 1, 0)
    shifted = note("shift", n_keep=0, n_discard=4)
    assert counts("TK04", *start, shifted, decode(2, finish=2)) == (1, 0, 0)
    assert counts("TK04", *start, {"note": {"kind": "gap"}}, decode(6, finish=2)) == (0, 0, 1)
    assert counts("TK04", prefill(5), decode(5, finish=2)) == (0, 0, 1)  # nobody said how many were reused
    assert counts("TK04", *start, decode(6, finish=2, cache_len=(-1, -1, -1))) == (0, 0, 1)


def test_tk05() -> None:
    assert counts("TK05", record(n_tokens=2)) == (0, 1, 0)
    assert counts("TK05", record(n_tokens=2), loop="naive") == (0, 0, 0)
    assert counts("TK05", decode(4, forward_id=1), decode(5, forward_id=1)) == (1, 1, 0)
    assert counts("TK05", decode(4, forward_id=1), decode(4, forward_id=1, seq_id=1)) == (2, 0, 0)


def test_tm01() -> None:
    assert counts("TM01", decode(4, t_ns=5), decode(5, t_ns=5), decode(6, t_ns=4)) == (1, 1, 0)
    assert counts("TM01", note("request", t_ns=9), decode(4, t_ns=8)) == (0, 1, 0)
    assert counts("TM01", decode(4, t_ns=5), decode(5, t_ns=0)) == (0, 1, 0)
    assert counts("TM01", decode(4, t_ns=0), decode(5, t_ns=0)) == (1, 0, 0)
    assert counts("TM01", decode(4), decode(5)) == (0, 0, 2)
    assert counts("TM01", decode(4, t_ns=5), {"note": {"kind": "gap"}}, decode(5, t_ns=1)) == (0, 0, 1)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({"gemm_ms": (1.0, 1.0, 1.0), "attn_ms": 0.5, "lm_head_ms": 0.5, "forward_ms": 4.0}, (1, 0, 0)),
        ({"gemm_ms": (1.0, 1.0, 1.0), "attn_ms": 0.5, "lm_head_ms": 0.6, "forward_ms": 4.0}, (0, 1, 0)),
        ({"gemm_ms": 4.003, "forward_ms": 4.0}, (1, 0, 0)),  # within 0.1 %
        ({"gemm_ms": 4.005, "forward_ms": 4.0}, (0, 1, 0)),
        ({"qkv_ms": 1.0, "o_ms": 1.0, "gate_up_ms": 1.0, "down_ms": 1.0, "gemm_ms": (1.5, 1.5, 1.5)}, (1, 0, 0)),
        ({"qkv_ms": (1.0, 1.0), "o_ms": (0.5, 0.1), "gemm_ms": (1.2, 1.8)}, (0, 1, 0)),  # inside the sum, not the layer
        ({"forward_ms": 3.0, "sample_ms": 1.0, "total_ms": 3.5}, (0, 1, 0)),
        ({"gemm_ms": 3.0, "attn_ms": 1.0, "total_ms": 3.5}, (0, 1, 0)),
        ({"gemm_ms": 0.0, "attn_ms": 0.0, "forward_ms": 0.0}, (1, 0, 0)),
        ({"total_ms": 3.5}, (0, 0, 1)),
        ({"gemm_ms": (NAN, NAN), "forward_ms": 1.0}, (0, 0, 1)),
    ],
)
def test_tm02(times: dict[str, Any], expected: tuple[int, int, int]) -> None:
    assert counts("TM02", decode(4, **times)) == expected


def test_tm02_each_part_may_be_off_by_the_clocks_resolution() -> None:
    times = {"gemm_ms": 4.0, "attn_ms": 1.0, "forward_ms": 4.0}
    assert counts("TM02", decode(4, **times), resolution_ms=0.4) == (0, 1, 0)
    assert counts("TM02", decode(4, **times), resolution_ms=0.5) == (1, 0, 0)


def test_sq01() -> None:
    mine, other = decode(4), decode(9, seq_id=1)
    assert counts("SQ01", mine, decode(5)) == (0, 0, 0)
    assert counts("SQ01", mine, other, decode(5)) == (1, 0, 0)
    assert counts("SQ01", mine, other, decode(5, cache_len=(1, 1, 1))) == (0, 1, 0)
    assert counts("SQ01", mine, other, decode(5, cache_before=(0, 5, 5))) == (0, 1, 0)
    assert counts("SQ01", mine, other, note("rollback", n=2), decode(3)) == (1, 0, 0)
    assert counts("SQ01", mine, {"note": {"kind": "gap"}}, other, decode(5, cache_len=(1, 1, 1))) == (0, 0, 1)


def test_sq01_the_pool_grows_by_the_steps_own_growth() -> None:
    rows = {"unit": "rows"}
    mine, other = decode(4, kv_used=5), decode(9, seq_id=1, kv_used=15)
    assert counts("SQ01", mine, other, decode(5, kv_used=16), kv=rows) == (1, 0, 0)
    assert counts("SQ01", mine, other, decode(5, kv_used=19), kv=rows) == (0, 1, 0)
    assert counts("SQ01", mine, other, decode(5, kv_used=19), kv={**rows, "paged": True}) == (1, 0, 0)
    assert counts("SQ01", mine, other, decode(5, kv_used=6), kv=rows) == (1, 0, 0)  # another was released, not noted


def test_an_absent_note_is_told_as_the_reason() -> None:
    absent = note("absent", field="cache_len", why="optimized_out")
    result = verdicts("KV01", absent, decode(4, cache_len=(-1, -1, -1)))
    assert result.verdict == "unknown"
    assert result.why_unknown == "cache_len (optimized_out) absent"


@pytest.mark.parametrize(
    ("code", "events", "run", "why"),
    [
        ("KV04", [note("request", prompt_tokens=5), prefill(5)], {},
         "n_reused in the request note (first step) absent"),
        ("KV05", [record(seq_before=4)], {"loop": "naive"}, "seq_len in the naive loop absent"),
        ("KV06", [decode(4, cache_len=5)], {"layers": [{"kind": "full"}, {"kind": "window", "window": 4}]},
         "cache_len in every window layer absent"),
        ("KV07", [record(phase=3, n_drafted=1, n_accepted=0, n_tokens=2, seq_before=4, seq_len=5)], {},
         "previous cache_len absent"),
        ("KV07", [prefill(5), record(phase=3, n_drafted=1, n_accepted=0, n_tokens=2, seq_len=6, cache_len=6)], {},
         "cache_len in every layer absent"),
        ("KV08", [note("shift", n_discard=2, n_keep=1), decode(4)], {}, "previous seq_len absent"),
        ("KV09", [REQUEST, decode(5)], {}, "a prefill step absent"),
        ("KV09", [REQUEST, prefill(-1), decode(5)], {}, "what was fed of the prompt unknown"),
        ("KV10", [decode(4, cache_len=5)], {"layers": [{"kind": "full"}, {"kind": "recurrent"}]},
         "cache_len in every recurrent or shared layer absent"),
        ("KV11", [decode(4, write_pos=4)], {}, "previous cache_len absent"),
        ("TK02", [record(phase=0)], {}, "phase absent"),
        ("TK03", [record(phase=3, n_drafted=1), decode(6)], {}, "what each step generated unknown"),
        ("TK04", [note("request"), prefill(5, finish=2)], {}, "n_reused in the request note absent"),
        ("TK04", [REQUEST, prefill(-1, seq_len=5), decode(5, finish=2)], {}, "what each step fed and kept unknown"),
        ("SQ01", [decode(4, cache_len=(-1,) * 3), decode(4, seq_id=1), decode(5)], {},
         "previous cache_len of the sequence absent"),
    ],
)  # fmt: skip
def test_what_is_unknown_says_which_value_is_missing(
    code: str, events: list[dict[str, Any]], run: dict[str, Any], why: str
) -> None:
    assert verdicts(code, *events, **run).why_unknown == why


def test_totals_are_judged_without_steps() -> None:
    totals = note("totals", prompt_tokens=2014, n_reused=1990, fed=24, generated=6, rows=2019)
    assert counts("KV09", totals) == (1, 0, 0)
    assert counts("TK04", totals) == (1, 0, 0)
    assert counts("TK04", note("totals", n_reused=1990, fed=24, generated=6, rows=2020)) == (
        1,
        0,
        0,
    )  # the last was fed
    assert counts("TK04", note("totals", n_reused=1990, fed=24, generated=6, rows=2021)) == (0, 1, 0)
    assert counts("KV09", note("totals", prompt_tokens=2014, n_reused=1991, fed=24)) == (0, 1, 0)
    assert counts("KV09", note("totals", prompt_tokens=2014, fed=24)) == (0, 0, 1)
    failure = verdicts("KV09", note("totals", prompt_tokens=9, n_reused=1, fed=9)).failures[0]
    assert failure.message == "KV09 seq 0: 1 reused + 9 fed = 10, the prompt has 9"


def test_verdict_of_a_trace() -> None:
    def verdict(*events: dict[str, Any]) -> str:
        checker = Checker()
        checker.start_run({})
        for event in events:
            checker.step(event)
        return checker.report.verdict

    assert verdict() == "unknown"
    assert verdict(decode(4)) == "pass"
    assert verdict(record(phase=0, n_tokens=-1)) == "unknown"
    assert verdict(record(seq_before=4, seq_len=9)) == "fail"


def test_a_new_run_knows_nothing_of_the_one_before() -> None:
    checker = Checker([RULES["KV04"]])
    for _ in range(2):
        checker.start_run(RUN)
        checker.note(REQUEST["note"])
        checker.step(prefill(5))
    result = checker.report.results["KV04"]
    assert (result.passed, result.failed) == (2, 0)


@pytest.mark.parametrize("facts", [{"layers": "x"}, {"model": []}, {"kv": 3}, {"stop": {"eos": "2"}}, {"layers": [1]},
                                   {"layers": [{"kind": "window"}]}, {"layers": [{"kind": "shared", "owner": 99}]},
                                   {"resolution_ms": "x"}, {"resolution_ms": float("inf")}])  # fmt: skip
def test_strange_run_facts_make_rules_unknown_never_an_error(facts: dict[str, Any]) -> None:
    checker = Checker()
    checker.start_run({**RUN, **facts})
    checker.note({"kind": "request", "seq_id": "zero", "prompt_tokens": "many"})
    checker.note({"kind": "shift"})
    checker.note({})
    checker.step(decode(4))
    assert checker.report.verdict in ("pass", "unknown")
