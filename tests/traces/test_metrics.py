"""Figures against arithmetic by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from traces.fields import REQUIRED, declaration
from traces.metrics import floor_of, least_ms, stats
from traces.table import Table
from traces.writer import TraceWriter

TIMES = ("t_ns", "total_ms", "forward_ms", "sample_ms", "gemm_ms", "attn_ms", "lm_head_ms", "n_accepted", "n_drafted",
         "forward_id")  # fmt: skip
RUN: dict[str, Any] = {
    "model": {"n_layers": 2, "n_kv_heads": 2, "head_dim": 8},
    "layers": [{"kind": "full"}] * 2,
    "kv": {"capacity": 100, "dtype": "f16"},
    "clock": "monotonic",
    "fields": declaration([*REQUIRED, *TIMES], {"cache_len": 2, "gemm_ms": 2, "attn_ms": 2}),
}
MS = 1_000_000


def step(**values: Any) -> dict[str, Any]:
    return {"seq_id": 0, "finish": 0, "cache_len": [values.get("seq_len", -1)] * 2, **values}


def figures(tmp_path: Path, steps: list[dict[str, Any]], notes: dict[int, list[dict[str, Any]]], **run: Any) -> Any:
    path = tmp_path / "a.steps"
    with TraceWriter(path, {**RUN, **run}) as writer:
        for i, values in enumerate(steps):
            for note in notes.get(i, []):
                writer.note(**note)
            writer.step(**values)
        for note in notes.get(len(steps), []):
            writer.note(**note)
    return stats(Table(path))


def one_request() -> list[dict[str, Any]]:
    """A prompt of 4 in 20 ms, then tokens at 25, 35, 45 and 65 ms, the end token at 76 ms."""
    steps = [step(phase=1, n_tokens=4, seq_before=0, seq_len=4, t_ns=2 * MS, total_ms=20.0, forward_ms=19.0,
                  gemm_ms=[4.0, 5.0], attn_ms=[1.0, 1.0], lm_head_ms=2.0)]  # fmt: skip
    for i, at in enumerate((25, 35, 45, 65)):
        steps.append(
            step(
                phase=2,
                token_id=i,
                n_tokens=1,
                seq_before=4 + i,
                seq_len=5 + i,
                t_ns=at * MS,
                total_ms=9.0,
                forward_ms=8.0,
                sample_ms=0.5,
                gemm_ms=[1.0, 1.5],
                attn_ms=[0.5, 0.5],
                lm_head_ms=2.0,
            )  # fmt: skip
        )
    steps.append(step(phase=2, token_id=9, n_tokens=0, seq_before=8, seq_len=8, t_ns=76 * MS, total_ms=1.0,
                      sample_ms=0.5, finish=1))  # fmt: skip
    return steps


REQUEST = {"kind": "request", "seq_id": 0, "t_ns": 0, "prompt_tokens": 4, "n_reused": 0}


def test_one_request(tmp_path: Path) -> None:
    f = figures(tmp_path, one_request(), {0: [REQUEST]})
    assert f["prefill"] == {"tokens": 4, "ms": 20.0, "tok_s": 200.0}
    # four tokens fed in 4 x 9 ms and the 1 ms of the step that only sampled
    assert f["decode"] == {"tokens": 4, "ms": 37.0, "tok_s": pytest.approx(4 / 0.037)}
    assert f["ttft_ms"] == 25.0
    # four tokens out, the end token is not one: (65 - 25) / 3
    assert f["tpot_ms"] == pytest.approx(40 / 3)
    # gaps 10, 10, 20: linear interpolation
    assert f["itl_ms"] == pytest.approx({"p50": 10.0, "p90": 18.0, "p99": 19.8, "max": 20.0})
    assert f["whole"]["tokens"] == 4
    assert f["whole"]["ms"] == 77.0
    assert f["finish"] == "eos"
    assert f["forwards"] == 5
    # from 2 to 77 ms, of which 57 in steps; in them 1 + 4 x 0.5 + 0.5 in neither forward nor sampling
    assert f["unaccounted"] == {"between_steps_ms": pytest.approx(18.0), "inside_steps_ms": pytest.approx(3.5)}
    assert f["unaccounted_ms"] == pytest.approx(21.5)
    # 8 rows x 2 layers x (keys and values) x 2 heads x 8 x 2 bytes
    assert f["kv_bytes"] == {"used": 8 * 2 * 2 * 2 * 8 * 2, "reserved": 100 * 2 * 2 * 2 * 8 * 2}
    times = {"gemm_ms": 4.5, "attn_ms": 1.0, "total_ms": 9.0, "floor_ms": None}
    assert f["by_context"][0] == {"context": 5, "steps": 1, **times}
    assert sum(row["steps"] for row in f["by_context"]) == 4
    assert (f["floor"], f["growth"]) == (None, None)


FLOOR = {"bytes_per_token": 2_000_000_000, "kv_bytes_per_row": 100_000, "bandwidth_gb_s": 100.0}


def decode_steps(lengths: range, **values: Any) -> list[dict[str, Any]]:
    """GEMM 20 ms, attention 1 ms and 2 ms more a thousand rows, the whole step 25 ms."""
    return [
        step(phase=2, token_id=1, n_tokens=1, seq_before=n - 1, seq_len=n, t_ns=n * 30 * MS, total_ms=25.0,
             gemm_ms=[9.0, 9.0], lm_head_ms=2.0, attn_ms=[0.5, 0.5 + n / 500], **values)
        for n in lengths
    ]  # fmt: skip


def test_measured_steps_are_held_against_the_floor_of_the_header(tmp_path: Path) -> None:
    f = figures(tmp_path, decode_steps(range(5000, 5001)), {}, floor=FLOOR)
    # 2 GB and 5000 rows of 100 kB at 100 GB/s
    assert f["floor"] == {**FLOOR, "least_ms": 25.0, "measured_ms": 25.0, "share": 1.0}
    assert f["by_context"][0]["floor_ms"] == 25.0


def test_the_slope_of_attention_and_the_flatness_of_gemm(tmp_path: Path) -> None:
    f = figures(tmp_path, decode_steps(range(100, 900, 8)), {})
    assert f["growth"] == {"attn_ms_per_1000_rows": pytest.approx(2.0, rel=1e-3), "gemm_change": pytest.approx(0.0)}


def test_contexts_close_together_have_no_slope(tmp_path: Path) -> None:
    assert figures(tmp_path, decode_steps(range(100, 190)), {})["growth"] is None


@pytest.mark.parametrize(
    ("steps", "floor"),
    [
        (decode_steps(range(10, 12)), {**FLOOR, "bandwidth_gb_s": 0}),
        (decode_steps(range(10, 12)), {**FLOOR, "bytes_per_token": "many"}),
        (decode_steps(range(10, 12)), {"bytes_per_token": 1}),
        (decode_steps(range(10, 12)), "fast"),
        ([{**s, "forward_id": 7} for s in decode_steps(range(10, 12))], FLOOR),
        (one_request()[:1], FLOOR),
    ],
    ids=["no rate", "no number", "half", "no object", "two sequences a forward", "no decode step"],
)
def test_without_what_it_needs_there_is_no_floor(tmp_path: Path, steps: list[dict[str, Any]], floor: Any) -> None:
    assert figures(tmp_path, steps, {}, floor=floor)["floor"] is None


def test_a_debuggers_clock_gives_no_times(tmp_path: Path) -> None:
    f = figures(tmp_path, one_request(), {0: [REQUEST]}, clock="debugger")
    assert f["prefill"] == {"tokens": 4, "ms": None, "tok_s": None}
    assert (f["ttft_ms"], f["tpot_ms"], f["unaccounted_ms"], f["by_context"]) == (None, None, None, [])


def test_without_t_ns_the_steps_own_lengths_are_the_clock(tmp_path: Path) -> None:
    steps = [{k: v for k, v in s.items() if k != "t_ns"} for s in one_request()]
    f = figures(tmp_path, steps, {0: [REQUEST]})
    assert f["ttft_ms"] == 20.0
    assert f["tpot_ms"] == pytest.approx(9.0)


def test_a_forward_shared_by_sequences_counts_once(tmp_path: Path) -> None:
    steps = [
        step(phase=2, seq_id=seq, token_id=1, n_tokens=1, seq_before=3, seq_len=4, t_ns=at * MS, total_ms=10.0,
             forward_ms=9.0, forward_id=at)
        for at in (1, 12)
        for seq in (0, 1)
    ]  # fmt: skip
    f = figures(tmp_path, steps, {})
    assert f["decode"] == {"tokens": 4, "ms": 20.0, "tok_s": 200.0}
    assert f["forwards"] == 2
    assert len(f["requests"]) == 2


def test_verify_steps_send_out_what_they_accept(tmp_path: Path) -> None:
    steps = [
        step(phase=1, n_tokens=2, seq_before=0, seq_len=2, t_ns=0, total_ms=5.0),
        step(phase=3, token_id=1, n_tokens=4, n_drafted=3, n_accepted=2, seq_before=2, seq_len=5, t_ns=10 * MS,
             total_ms=5.0),
        step(phase=3, token_id=1, n_tokens=4, n_drafted=3, n_accepted=0, seq_before=5, seq_len=6, t_ns=20 * MS,
             total_ms=5.0, finish=2),
    ]  # fmt: skip
    f = figures(tmp_path, steps, {0: [REQUEST]})
    assert f["requests"][0]["generated"] == 4
    assert f["tpot_ms"] == pytest.approx(10 / 3)
    assert f["finish"] == "length"


def test_a_finish_note_is_the_reason(tmp_path: Path) -> None:
    f = figures(tmp_path, one_request()[:3], {0: [REQUEST], 3: [{"kind": "finish", "seq_id": 0, "finish": "abort"}]})
    assert f["finish"] == "abort"


def test_totals_of_a_log_without_steps(tmp_path: Path) -> None:
    totals = {"kind": "totals", "seq_id": 35, "prompt_tokens": 2014, "n_reused": 1990, "fed": 24, "prefill_ms": 4731.01,
              "generated": 6, "decode_ms": 1908.02, "rows": 2019}  # fmt: skip
    f = figures(tmp_path, [], {0: [totals]})
    assert f["prefill"] == {"tokens": 24, "ms": 4731.01, "tok_s": pytest.approx(5.0729, abs=1e-4)}
    assert f["decode"]["tokens"] == 5
    assert f["tpot_ms"] == pytest.approx(381.604)


def test_without_a_prompt_or_an_arrival_there_is_no_ttft(tmp_path: Path) -> None:
    seen_late = [step(phase=2, token_id=i, n_tokens=1, total_ms=5.0) for i in range(2)]
    f = figures(tmp_path, seen_late, {})
    assert (f["ttft_ms"], f["tpot_ms"], f["whole"]["ms"]) == (None, 5.0, 10.0)
    timed = [{**s, "t_ns": 7_000_000 + 5_000_000 * i} for i, s in enumerate(seen_late)]
    assert figures(tmp_path, timed, {})["ttft_ms"] is None
    assert figures(tmp_path, timed, {0: [{"kind": "request", "seq_id": 0, "t_ns": 1_000_000}]})["ttft_ms"] == 6.0


def test_drafts_that_only_totals_tell_of(tmp_path: Path) -> None:
    totals = {"kind": "totals", "seq_id": 0, "prompt_tokens": 9, "generated": 20, "n_drafted": 16, "n_accepted": 12}
    f = figures(tmp_path, [], {0: [totals, {**totals, "seq_id": 1, "n_drafted": 4, "n_accepted": 3}]})
    assert f["speculative"] == {"drafted": 20, "accepted": 15, "forwards_a_token": None}


def test_an_empty_trace_has_no_figures(tmp_path: Path) -> None:
    f = figures(tmp_path, [], {})
    assert f["prefill"] == {"tokens": 0, "ms": None, "tok_s": None}
    assert (f["ttft_ms"], f["itl_ms"]["p50"], f["requests"]) == (None, None, [])


def decode(before: int, seq_id: int = 0, **values: Any) -> dict[str, Any]:
    return step(**{"phase": 2, "seq_id": seq_id, "token_id": 1, "n_tokens": 1, "seq_before": before,
                   "seq_len": before + 1, "total_ms": 1.0, **values})  # fmt: skip


def test_the_naive_loop_feeds_one_token_and_computes_the_rest_again(tmp_path: Path) -> None:
    steps = [
        step(phase=1, n_tokens=3, seq_before=0, seq_len=3, total_ms=5.0, cache_len=[0, 0]),
        decode(3, n_tokens=4, total_ms=10.0, cache_len=[0, 0]),
        decode(4, n_tokens=5, total_ms=30.0, cache_len=[0, 0]),
        decode(5, n_tokens=0, seq_len=5, total_ms=0.5, cache_len=[0, 0], finish=1),
    ]
    f = figures(tmp_path, steps, {0: [REQUEST]}, loop="naive", layers=[{"kind": "none"}] * 2)
    assert f["decode"] == {"tokens": 2, "ms": 40.5, "tok_s": pytest.approx(2 / 0.0405)}
    # 3 + 4 rows were there before; 4 x 5 / 2 + 5 x 6 / 2 products
    assert f["naive"] == {"rows": 7, "scores": 25}
    assert [(row["context"], row["recomputed_rows"], row["scores"]) for row in f["by_context"]] == [
        (4, 3, 10),
        (5, 4, 15),
    ]
    assert f["pace"] == {"steps": 1, "first_ms": 10.0, "last_ms": 30.0}
    assert f["kv_bytes"] == {"used": 0, "reserved": 0}


def test_the_pace_is_of_the_first_and_the_last_twenty_steps(tmp_path: Path) -> None:
    f = figures(tmp_path, [decode(i, total_ms=float(i)) for i in range(100)], {})
    assert f["pace"] == {"steps": 20, "first_ms": 9.5, "last_ms": 89.5}
    assert f["naive"] is None and "scores" not in f["by_context"][0]


def test_drafts_save_forwards(tmp_path: Path) -> None:
    steps = [
        step(phase=1, n_tokens=2, seq_before=0, seq_len=2, total_ms=5.0),
        decode(2, phase=3, n_tokens=4, n_drafted=3, n_accepted=2, seq_len=5),
        decode(5, phase=3, n_tokens=4, n_drafted=3, n_accepted=0, seq_len=6),
        decode(6),
        decode(7, n_tokens=0, seq_len=7, finish=2),
    ]
    f = figures(tmp_path, steps, {0: [REQUEST]})
    # three forwards for 3 + 1 + 1 tokens
    assert f["speculative"] == {"drafted": 6, "accepted": 2, "forwards_a_token": pytest.approx(0.6)}


ROW = 2 * 2 * 8 * 2
"""Bytes of a row in RUN: keys and values of two heads of 8 in f16."""


def test_sequences_that_live_at_the_same_time_hold_rows_together(tmp_path: Path) -> None:
    steps = [decode(9), decode(19, seq_id=1), decode(29, seq_id=2), decode(10)]
    release = {"kind": "release", "seq_id": 1}
    # 10, then 30, then 0's 10 and 2's 30, then 11 and 30
    assert figures(tmp_path, steps, {2: [release]})["kv_bytes"]["used"] == 41 * 2 * ROW
    assert figures(tmp_path, steps, {})["kv_bytes"]["used"] == 61 * 2 * ROW


def test_who_finished_without_a_release_holds_nothing_either(tmp_path: Path) -> None:
    steps = [decode(9, finish=1), decode(19, seq_id=1, finish=1)]
    assert figures(tmp_path, steps, {})["kv_bytes"]["used"] == 20 * 2 * ROW


def test_a_window_reserves_no_more_than_it_holds(tmp_path: Path) -> None:
    layers = [{"kind": "window", "window": 16, "slack": 4}, {"kind": "full"}]
    f = figures(tmp_path, [decode(30, cache_len=[16, 31])], {}, layers=layers)
    assert f["kv_bytes"] == {"used": 47 * ROW, "reserved": 120 * ROW}


def test_a_run_may_say_what_a_row_takes(tmp_path: Path) -> None:
    f = figures(tmp_path, [decode(9)], {}, kv={"capacity": 100, "dtype": "int8", "row_bytes": 48})
    assert f["kv_bytes"] == {"used": 10 * 2 * 48, "reserved": 100 * 2 * 48}


def test_the_floor_is_what_the_header_says_it_is() -> None:
    # 20 MB a token and 0.1 MB a row at 10 GB/s: 2 ms, and 0.01 ms more for each row
    floor = {"bytes_per_token": 20_000_000, "kv_bytes_per_row": 100_000, "bandwidth_gb_s": 10.0}
    found = floor_of({"floor": floor})
    assert found is not None and least_ms(found, np.array([0.0, 50.0])).tolist() == [2.0, 2.5]
    for broken in ({}, 3, {**floor, "bandwidth_gb_s": 0}, {**floor, "bytes_per_token": None}):
        assert floor_of({"floor": broken}) is None
