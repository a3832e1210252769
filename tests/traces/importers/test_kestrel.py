"""Kestrel's own lines and answers, and films that people had gdb print."""
# ruff: noqa: E501 - logs are as wide as they are

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.traces.importers.importing import imported, some
from traces.diff import compare

HEAD = """\
  vLLM-Kestrel: a banner
[DEV] device=arm-board arch=arm64 class=embedded model=A Board 5 npu=none recommended_wmode=dual
[SERVE] model=/models/tiny dim=64 layers=3 heads=8 ff=128 vocab=1000 max_seq=512
[TOK] Loaded 990 tokens from vocab.bin (max_len=256)
[TOK] Special tokens: bos=1 eos=2 im_start=3 im_end=2 pad=1
"""
SERVER = (
    HEAD
    + """\
[PREFILL] 53/53 tokens done
[PREFILL-TIMING] n=53 total=600.4ms | GEMM=500.0ms(83.3%) ATTN=70.3ms(11.7%) OTHER=30.1ms( 5.0%)
[PREFILL-KERNELS] QKV=100.0ms(20.0%) O=50.0ms(10.0%) GATEUP=250.0ms(50.0%) DOWN=100.0ms(20.0%)
[L3] skipped: seq=53 < l3-min-seq=128 (KV stays in RAM)
[KV-PREFIX] L3 restored 0 block(s) for 39-token prefix
[KV-PREFIX] reuse 39-token KV prefix, prefill rest
[PREFILL] 16/20 tokens done
[PREFILL-TIMING] n=20 total=200.5ms | GEMM=150.0ms(74.8%) ATTN=30.0ms(15.0%) OTHER=20.5ms(10.2%)
[PREFILL-KERNELS] QKV=50.0ms(33.3%) O=20.0ms(13.3%) GATEUP=50.0ms(33.3%) DOWN=30.0ms(20.0%)
[L3] evicted 12 blocks -> /models/kv (cursor=1.00 MB, seq=59, keep=39, ratio=0.75, packed_now=12, total_packed=12), freed 1.0 MB
"""
)


def test_prefills_of_a_server(tmp_path: Path) -> None:
    got = imported(tmp_path, SERVER, "kestrel")
    first, second = got.steps
    assert some(first, phase="prefill", seq_id=0, n_tokens=53, seq_before=0, seq_len=53, token_id=None)
    assert some(second, phase="prefill", seq_id=1, n_tokens=20, seq_before=39, seq_len=59)
    assert some(first, total_ms=600.4, gemm_ms=500.0, attn_ms=70.3, other_ms=30.1, qkv_ms=100.0, o_ms=50.0)
    assert some(first, gate_up_ms=250.0, down_ms=100.0, lm_head_ms=None)
    assert [some(n, prompt_tokens=59, n_reused=39, fed=20, prefill_ms=200.5) for n in got.totals] == [False, True]
    assert got.verdicts("KV03", "KV04", "KV05", "KV09", "TM02") == ["pass"] * 5
    assert got.verdicts("TK04") == ["unknown"]
    assert some(got.facts["model"], name="tiny", n_layers=3, vocab_size=1000, tokenizer_size=990)
    assert (got.facts["kv"]["capacity"], got.facts["stop"]["eos"]) == (512, [2])
    figures = got.figures
    assert (figures["prefill"]["tokens"], figures["prefill"]["ms"]) == (73, pytest.approx(800.9, abs=1e-3))
    assert (figures["decode"]["tokens"], len(figures["requests"])) == (0, 2)
    assert got.done.doubts == 0


def test_every_prefill_of_two_servers_logs_is_compared(tmp_path: Path) -> None:
    # the second server found one row less in its cache, and its log has no decode steps either
    logs = (SERVER, SERVER.replace("reuse 39-", "reuse 38-").replace("n=20", "n=21"))
    sides = []
    for name, log in zip(("base", "new"), logs, strict=True):
        (tmp_path / name).mkdir()
        sides.append([(name, imported(tmp_path / name, log, "kestrel").table)])
    diff = compare(*sides)
    assert [(a.base and a.base.evaluated, a.new and a.new.evaluated) for a in diff.alignments] == [(53, 53), (20, 21)]
    assert ("n_tokens", 1, 20, 21) in [(d.field, d.step, d.base, d.new) for d in diff.state]
    assert diff.verdicts["state"] == "differs"
    assert diff.verdicts["tokens"] == "cannot-decide"
    assert "no decode steps" in diff.why["tokens"]
    assert imported(tmp_path, SERVER, "kestrel").figures["whole"]["tok_s"] is None


def test_a_lost_token_of_the_prompt_shows(tmp_path: Path) -> None:
    got = imported(tmp_path, SERVER.replace("seq=59", "seq=60"), "kestrel")
    assert got.verdicts("KV03", "KV09") == ["fail", "fail"]


def single(seq: int, total: str = "20.0") -> str:
    return f"[DEC-SINGLE] seq={seq} qkv=4.0 attn=2.0 o=1.0 gu=5.0 down=3.0 lm=2.5 other=2.5 othloop=1.5 total={total}\n"


@pytest.mark.parametrize("first", [54, 53])
def test_decode_lines_after_a_prefill(tmp_path: Path, first: int) -> None:
    # 53 rows of prompt: a first `seq` of 54 counts the step, one of 53 does not
    head = SERVER[: SERVER.index("[KV-PREFIX]")]
    got = imported(tmp_path, head + "".join(single(first + i) for i in range(3)), "kestrel")
    decode = got.steps[1:]
    assert [(s["phase"], s["n_tokens"], s["token_id"]) for s in decode] == [("decode", 1, None)] * 3
    if first == 54:
        assert [(s["seq_before"], s["seq_len"]) for s in decode] == [(53, 54), (54, 55), (55, 56)]
    else:
        assert [(s["seq_before"], s["seq_len"]) for s in decode] == [(53, None), (54, None), (55, None)]
    assert some(
        decode[0], total_ms=20.0, qkv_ms=4.0, attn_ms=2.0, o_ms=1.0, gate_up_ms=5.0, down_ms=3.0, lm_head_ms=2.5
    )
    assert some(decode[0], other_ms=2.5, othloop_ms=1.5)
    assert decode[0]["gemm_ms"] == 13.0  # 4 + 1 + 5 + 3
    assert "fail" not in got.verdicts("KV03", "KV04", "TM02")
    assert got.notes("gap") == []
    assert got.figures["decode"] == {"tokens": 3, "ms": 60.0, "tok_s": 50.0}


def test_decode_lines_alone(tmp_path: Path) -> None:
    got = imported(tmp_path, single(101) + single(102), "kestrel")
    assert [(s["seq_before"], s["seq_len"]) for s in got.steps] == [(None, 101), (101, 102)]


def test_times_that_are_none(tmp_path: Path) -> None:
    got = imported(tmp_path, single(101, "inf") + single(102), "kestrel")
    assert [s["total_ms"] for s in got.steps] == [None, 20.0]
    assert got.doubts[0] == "line 1: total is inf"


def test_a_last_number_that_may_be_cut_is_dropped(tmp_path: Path) -> None:
    got = imported(tmp_path, single(101) + single(102)[:-3], "kestrel")  # total=20 may have been 20.0 or 208.1
    assert [s["seq_len"] for s in got.steps] == [101]
    assert len(got.doubts) == 1
    assert not got.table.complete


STREAM = """\
[STREAM] vqf_load OK (0.00s): dim=64 layers=3 heads=8 kv=2 ffn=128 vocab=1000 max_seq=512
[STREAM] prompt tokens = 12 (--stream-ctx 16)
[STREAM] warmup done in 0.100s (discarded: 1 prefill + 8 decode)
[STREAM] prefill 12 tokens in 0.250s (48 tok/s) [batch]
[STREAM] decode mode: greedy (rep_pen=1.000 win=32)
[STREAM] TOKIDS: 401 t=1 ms=10 rss=4404368kB
 77 t=2 ms=11 rss=4404368kB
 902 t=3 ms=11 rss=4404368kB

[STREAM] decoded 3 tokens, 11 ms/tok (93.75 tok/s)
"""


def test_the_offline_run(tmp_path: Path) -> None:
    got = imported(tmp_path, STREAM, "kestrel")
    assert [(s["phase"], s["token_id"], s["total_ms"]) for s in got.steps] == [
        ("prefill", None, 250.0),
        ("decode", 401, 10.0),
        ("decode", 77, 11.0),
        ("decode", 902, 11.0),
    ]
    assert got.facts["resolution_ms"] == 1.0
    assert got.facts["sampler"] == {"kind": "greedy"}
    assert got.verdicts("KV09", "TK01") == ["pass", "pass"]
    assert got.figures["ttft_ms"] == 250.0


@pytest.mark.parametrize("log", [STREAM, SERVER])
@pytest.mark.parametrize("stamp", ["Sep 15 12:00:00 board kestrel[9]: ", "2026-09-15T12:00:00.123Z "])
def test_a_logger_s_time_stamps_change_nothing(tmp_path: Path, log: str, stamp: str) -> None:
    plain = imported(tmp_path, log, "kestrel")
    stamped = imported(tmp_path, "".join(stamp + line for line in log.splitlines(keepends=True)), "kestrel")
    assert (stamped.steps, stamped.facts) == (plain.steps, plain.facts)
    assert [note for _, note in stamped.table.notes()] == [note for _, note in plain.table.notes()]


FILM = "".join(f"DEC token_id={64 + i} seq_before={25 + i} cache0={25 + i} cache2={25 + i}\n" for i in range(4))


def test_a_film_sees_each_step_s_end_at_the_next_entry(tmp_path: Path) -> None:
    got = imported(tmp_path, "Breakpoint 1, forward ()\n" + FILM, "kestrel")
    assert [(s["token_id"], s["seq_before"], s["seq_len"], s["cache_len"]) for s in got.steps] == [
        (64, 25, 26, [26, None, 26]),
        (65, 26, 27, [27, None, 27]),
        (66, 27, 28, [28, None, 28]),
        (67, 28, None, None),
    ]
    assert got.steps[3]["cache_before"] == [28, None, 28]
    assert got.facts["clock"] == "debugger"
    assert got.verdicts("KV01", "KV03") == ["pass", "pass"]


def test_a_film_of_a_position_that_starts_again_over_old_rows(tmp_path: Path) -> None:
    # the fault itself: the length falls to 0 and 25 rows stay; it must not be taken for a new request
    got = imported(tmp_path, FILM + "DEC token_id=9 seq_before=0 cache0=29 cache2=29\n", "kestrel")
    assert {s["seq_id"] for s in got.steps} == {0}
    assert got.verdicts("KV01", "KV03") == ["fail", "fail"]
    assert got.done.doubts == 0


def test_a_film_whose_rows_fall_too_is_another_request(tmp_path: Path) -> None:
    got = imported(tmp_path, FILM + FILM.replace("seq_before=2", "seq_before=1").replace("=2", "=1"), "kestrel")
    assert [s["seq_id"] for s in got.steps] == [0] * 4 + [1] * 4
    assert "taken for a new request" in got.doubts[0]
    assert "fail" not in got.verdicts("KV01", "KV03", "KV04")


def test_film_and_times_are_one_step(tmp_path: Path) -> None:
    both = "".join(entry + single(26 + i) for i, entry in enumerate(FILM.splitlines(keepends=True)))
    got = imported(tmp_path, both, "kestrel")
    assert [(s["token_id"], s["total_ms"]) for s in got.steps] == [(64, 20.0), (65, 20.0), (66, 20.0), (67, 20.0)]


def test_two_programs_in_one_log(tmp_path: Path) -> None:
    got = imported(tmp_path, SERVER + SERVER.replace("/tiny", "/small"), "kestrel")
    assert [run.facts["model"]["name"] for run in got.table.runs] == ["tiny", "small"]
    assert [s["seq_id"] for s in got.steps] == [0, 1, 0, 1]


def test_a_server_s_answer(tmp_path: Path) -> None:
    answer = {
        "model": "tiny",
        "choices": [{"finish_reason": "stop"}],
        "metrics": {"prompt_tokens": 40, "n_tokens": 5, "ttft_ms": 300.0, "total_ms": 500.0, "prefill_ms": 299.0},
    }
    got = imported(tmp_path, json.dumps(answer), "kestrel")
    assert some(got.totals[0], prompt_tokens=40, generated=5, prefill_ms=299.0, ttft_ms=300.0, total_ms=500.0)
    figures = got.figures
    assert (figures["ttft_ms"], figures["tpot_ms"]) == (300.0, 50.0)  # (500 - 300) / 4
    assert figures["prefill"]["tok_s"] is None  # how many of the 40 were fed is not said
