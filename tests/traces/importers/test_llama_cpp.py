"""llama.cpp's logs, server answers, benches and tensor dumps."""
# ruff: noqa: E501 - logs are as wide as they are

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.traces.importers.importing import imported, some
from traces.diff import compare
from traces.table import Table

SERVER = """\
build: 4711 (0a1b2c3d) with cc (Debian 12.2.0) 12.2.0 for x86_64-linux-gnu
0.00.031.000 I srv    load_model: loading model '/models/tiny.gguf'
0.00.200.000 I print_info: n_layer          = 24
0.00.200.001 I print_info: n_vocab          = 32000
0.00.210.000 I srv    load_model: initializing, n_slots = 2, n_ctx_slot = 512, kv_unified = 'true'
0.01.000.000 I slot launch_slot_: id  0 | task 0 | processing task, is_child = 0
0.01.500.000 I slot launch_slot_: id  1 | task 1 | processing task, is_child = 0
0.02.000.000 I slot print_timing: id  1 | task 1 | prompt eval time =     100.00 ms /    10 tokens (   10.00 ms per token,   100.00 tokens per second)
0.02.000.001 I slot print_timing: id  1 | task 1 |        eval time =     150.00 ms /     4 tokens (   50.00 ms per token,    26.67 tokens per second)
0.02.000.002 I slot print_timing: id  1 | task 1 |       total time =     250.00 ms /    14 tokens
0.02.000.003 I slot      release: id  1 | task 1 | stop processing: n_tokens = 43, truncated = 0
0.03.000.000 I slot print_timing: id  0 | task 0 | prompt eval time =     200.00 ms /    20 tokens (   10.00 ms per token,   100.00 tokens per second)
0.03.000.001 I slot print_timing: id  0 | task 0 |        eval time =       0.00 ms /     1 tokens (    0.00 ms per token,     0.00 tokens per second)
0.03.000.003 I slot      release: id  0 | task 0 | stop processing: n_tokens = 20, truncated = 0
"""


def test_a_server_s_requests(tmp_path: Path) -> None:
    # task 1: 43 rows = reused + 10 evaluated + 4 generated - 1, so 30 reused of a prompt of 40
    got = imported(tmp_path, SERVER, "llama.cpp")
    first, second = got.totals
    assert some(first, seq_id=1, prompt_tokens=40, n_reused=30, fed=10, prefill_ms=100.0, generated=4, decode_ms=150.0)
    assert some(first, rows=43, printed_ms_per_token=50.0, derived=["n_reused", "prompt_tokens"])
    # a single token's 0.00 ms was not measured
    assert some(second, seq_id=0, prompt_tokens=20, n_reused=0, fed=20, prefill_ms=200.0, generated=1, decode_ms=None)
    assert [note["t_ns"] for note in got.notes("request")] == [1_500_000_000, 1_000_000_000]
    assert (got.done.steps, got.done.doubts, got.table.complete) == (0, 0, True)
    assert got.verdicts("KV09", "TK04") == ["pass", "pass"]
    assert got.facts["model"] == {"name": "tiny.gguf", "n_layers": 24, "vocab_size": 32000}
    assert got.facts["engine"]["build_id"] == "4711"
    assert got.facts["kv"]["capacity"] == 512
    figures = got.figures
    assert (figures["prefill"]["tokens"], figures["prefill"]["ms"], figures["prefill"]["tok_s"]) == (30, 300.0, 100.0)
    assert (figures["decode"]["tokens"], figures["decode"]["tok_s"]) == (3, pytest.approx(20.0))
    assert figures["requests"][0]["tpot_ms"] == 50.0
    assert figures["requests"][1]["tpot_ms"] is None


def test_lengths_that_newer_servers_print_are_taken_not_worked_out(tmp_path: Path) -> None:
    log = """\
slot launch_slot_: id  0 | task 7 | processing task
slot update_slots: id  0 | task 7 | new prompt, n_ctx_slot = 512, n_keep = 0, task.n_tokens = 41
slot update_slots: id  0 | task 7 | n_tokens = 30, memory_seq_rm [30, end)
slot update_slots: id  0 | task 7 | prompt processing progress, n_tokens = 40, batch.n_tokens = 10, progress = 1.0
slot print_timing: id  0 | task 7 |
prompt eval time =     100.00 ms /    10 tokens (   10.00 ms per token,   100.00 tokens per second)
       eval time =     150.00 ms /     4 tokens (   37.50 ms per token,    26.67 tokens per second)
      total time =     250.00 ms /    14 tokens
draft acceptance rate = 0.66667 (    2 accepted /     3 generated)
slot      release: id  0 | task 7 | stop processing: n_tokens = 43, truncated = 0
"""
    got = imported(tmp_path, log, "llama.cpp")
    (totals,) = got.totals
    assert some(totals, prompt_tokens=41, n_reused=30, fed=10, n_accepted=2, n_drafted=3, derived=None)
    assert got.verdicts("KV09") == ["fail"]  # 30 + 10 are not 41: a token of the prompt was lost


def test_a_context_shift_leaves_the_reused_prefix_unknown(tmp_path: Path) -> None:
    got = imported(
        tmp_path, SERVER.replace("n_tokens = 43, truncated = 0", "n_tokens = 43, truncated = 1"), "llama.cpp"
    )
    assert some(got.totals[0], n_reused=None, prompt_tokens=None, truncated=True)


def test_a_restarted_server_is_another_run(tmp_path: Path) -> None:
    got = imported(tmp_path, SERVER + SERVER.replace("tiny", "small"), "llama.cpp")
    assert [run.facts["model"]["name"] for run in got.table.runs] == ["tiny.gguf", "small.gguf"]
    assert len(got.totals) == 4
    assert got.done.doubts == 0
    assert got.figures["runs"] == 2


def test_a_log_that_breaks_off(tmp_path: Path) -> None:
    got = imported(tmp_path, SERVER[: SERVER.index("       0.00 ms /")], "llama.cpp")
    assert not got.table.complete
    assert got.doubts == ["line 13: task 0 has no release line: the log breaks off there"]
    assert some(got.totals[1], seq_id=0, fed=20, prefill_ms=200.0, generated=None, rows=None, prompt_tokens=None)


OLD = """\
main: build = 901 (d5512b7)
llama_print_timings:        load time =   435.83 ms
llama_print_timings:      sample time =    33.02 ms /    64 runs   (    0.52 ms per token,  1938.34 tokens per second)
llama_print_timings: prompt eval time =   960.00 ms /     8 tokens (  120.00 ms per token,     8.33 tokens per second)
llama_print_timings:        eval time =  6300.00 ms /    63 runs   (  100.00 ms per token,    10.00 tokens per second)
llama_print_timings:       total time =  7400.00 ms
"""
NEW = """\
llama_perf_sampler_print:    sampling time =       1.34 ms /    40 runs   (    0.03 ms per token, 29850.75 tokens per second)
llama_perf_context_print:        load time =      45.30 ms
llama_perf_context_print: prompt eval time =      80.00 ms /     8 tokens (   10.00 ms per token,   100.00 tokens per second)
llama_perf_context_print:        eval time =     620.00 ms /    31 runs   (   20.00 ms per token,    50.00 tokens per second)
llama_perf_context_print:       total time =     750.00 ms /    39 tokens
"""


def test_perf_blocks_of_both_spellings(tmp_path: Path) -> None:
    got = imported(tmp_path, OLD + NEW + NEW, "llama.cpp")
    assert [note["seq_id"] for note in got.totals] == [0, 1, 2]
    assert some(got.totals[0], fed=8, prefill_ms=960.0, decoded=63, generated=64, decode_ms=6300.0, derived=None)
    assert some(got.totals[1], fed=8, prefill_ms=80.0, decoded=31, generated=32, decode_ms=620.0, derived=["generated"])
    assert some(got.totals[1], prompt_tokens=None, n_reused=None)
    assert got.done.doubts == 0
    # as printed: 6300 / 63 = 100 ms; 31 runs in 620 ms
    assert [r["tpot_ms"] for r in got.figures["requests"]] == [100.0, 20.0, 20.0]
    assert got.figures["decode"]["tokens"] == 63 + 31 + 31


def test_a_prefix_that_the_python_binding_found_again(tmp_path: Path) -> None:
    got = imported(
        tmp_path, "Llama.generate: 12 prefix-match hit, remaining 8 prompt tokens to eval\n" + NEW, "llama.cpp"
    )
    assert some(got.totals[0], n_reused=12, fed=8, prompt_tokens=20)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            "prompt eval time =       0.00 ms /     8 tokens (    0.00 ms per token,      inf tokens per second)",
            "8 in 0.00 ms",
        ),
        (
            "prompt eval time =        nan ms /     8 tokens (     nan ms per token,      nan tokens per second)",
            "is nan",
        ),
    ],
)
def test_times_that_are_none_are_left_out_and_said(tmp_path: Path, line: str, why: str) -> None:
    lines = NEW.splitlines()
    lines[2] = "llama_perf_context_print: " + line
    got = imported(tmp_path, "\n".join(lines) + "\n", "llama.cpp")
    assert some(got.totals[0], fed=8, prefill_ms=None, decode_ms=620.0)
    assert len(got.doubts) == 1
    assert why in got.doubts[0]
    assert got.figures["prefill"]["tok_s"] is None


def test_one_run_at_no_time_is_the_print_s_own_guard(tmp_path: Path) -> None:
    text = NEW.replace(
        "     620.00 ms /    31 runs   (   20.00 ms per token,    50.00",
        "       0.00 ms /     1 runs   (    0.00 ms per token,     0.00",
    )
    got = imported(tmp_path, text, "llama.cpp")
    assert some(got.totals[0], decoded=0, decode_ms=None, generated=None)
    assert got.done.doubts == 0


@pytest.mark.parametrize("change", ["colour", "crlf", "comma", "utf-16", "stamps"])
def test_the_same_log_in_other_clothes(tmp_path: Path, change: str) -> None:
    log: str | bytes = NEW
    if change == "colour":
        log = "".join(f"\x1b[36m{line}\x1b[0m\n" for line in NEW.splitlines())
    elif change == "crlf":
        log = NEW.replace("\n", "\r\n").encode()
    elif change == "comma":
        log = NEW.replace(".00 ms", ",00 ms")
    elif change == "utf-16":
        log = NEW.encode("utf-16")
    else:
        log = "".join(f"Nov 29 22:30:0{i} host llama[77]: {line}\n" for i, line in enumerate(NEW.splitlines()))
    got = imported(tmp_path, log, "llama.cpp")
    assert some(got.totals[0], fed=8, prefill_ms=80.0, decoded=31, decode_ms=620.0)
    assert got.done.doubts == 0


def test_speculation_counts_what_the_loop_says_not_the_target_s_block(tmp_path: Path) -> None:
    log = f"""\
encoded    8 tokens in    0.080 seconds, speed:  100.000 t/s
decoded   33 tokens in    0.640 seconds, speed:   51.562 t/s

n_draft   = 4
n_predict = 33
n_drafted = 40
n_accept  = 22
accept    = 55.000%

draft:

{NEW}
target:

{NEW}"""
    got = imported(tmp_path, log, "llama.cpp")
    (totals,) = got.totals
    assert some(totals, fed=8, prefill_ms=80.0, generated=33, decode_ms=640.0, n_drafted=40, n_accepted=22)
    assert [note["text"].split(":")[0] for note in got.notes("message")] == [
        "draft model",
        "target model, verifying counted as prompt",
    ]


def test_a_block_cut_by_another_is_doubted(tmp_path: Path) -> None:
    half = "".join(NEW.splitlines(keepends=True)[:3])
    got = imported(tmp_path, half + NEW, "llama.cpp")
    assert [note.get("decode_ms") for note in got.totals] == [None, 620.0]
    assert len(got.doubts) == 1


ANSWER = {
    "model": "/models/tiny.gguf",
    "choices": [{"finish_reason": "length", "message": {"content": "a { b"}}],
    "usage": {"prompt_tokens": 40, "completion_tokens": 4},
    "timings": {"cache_n": 30, "prompt_n": 10, "prompt_ms": 100.0, "predicted_n": 4, "predicted_ms": 150.0},
}


@pytest.mark.parametrize("form", ["line", "laid out", "stream", "array"])
def test_a_server_s_answer(tmp_path: Path, form: str) -> None:
    text = {
        "line": json.dumps(ANSWER),
        "laid out": json.dumps(ANSWER, indent=2),
        "stream": 'data: {"choices": [{"delta": {"content": "x"}}]}\n\ndata: '
        + json.dumps(ANSWER)
        + "\n\ndata: [DONE]\n",
        "array": json.dumps([ANSWER]),
    }[form]
    got = imported(tmp_path, text, "llama.cpp")
    (totals,) = got.totals
    assert some(totals, prompt_tokens=40, n_reused=30, fed=10, prefill_ms=100.0, generated=4, decode_ms=150.0)
    assert totals["finish"] == "length"
    assert got.facts["model"]["name"] == "tiny.gguf"
    assert got.verdicts("KV09") == ["pass"]
    assert got.done.doubts == 0


def bench(prompt: int, gen: int, samples: list[int]) -> dict[str, object]:
    return {
        "build_commit": "abc1234",
        "build_number": 5163,
        "cpu_info": "a cpu",
        "model_filename": "models/tiny.gguf",
        "n_threads": 4,
        "n_prompt": prompt,
        "n_gen": gen,
        "n_depth": 0,
        "avg_ns": sum(samples) // len(samples),
        "samples_ns": samples,
    }


RESULTS = [bench(512, 0, [70_000_000, 72_000_000]), bench(0, 128, [1_000_000_000, 1_100_000_000])]


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_each_repetition_of_a_bench_is_a_run(tmp_path: Path, form: str) -> None:
    rows = [json.dumps(result) for result in RESULTS]
    text = json.dumps(RESULTS, indent=2) if form == "json" else "\n".join(rows)
    got = imported(tmp_path, "ggml_cuda_init: no devices\n" + text + "\n", "llama.cpp")
    assert len(got.table.runs) == 2
    assert [(n["seq_id"], n.get("prefill_ms"), n.get("decode_ms")) for n in got.totals] == [
        (0, 70.0, None),
        (1, None, 1000.0),
        (0, 72.0, None),
        (1, None, 1100.0),
    ]
    assert got.totals[1]["decoded"] == 128  # llama-bench samples nothing: 128 forwards
    assert some(got.facts["engine"], build_id="5163", commit="abc1234")
    assert got.facts["host"]["threads"] == 4
    assert got.verdicts("KV09") == ["pass"]  # the tests without a prompt have none to account for


def test_a_bench_s_csv_has_the_mean_only(tmp_path: Path) -> None:
    head = "build_commit,build_number,cpu_info,model_filename,n_threads,n_prompt,n_gen,n_depth,test_time,avg_ns,stddev_ns,avg_ts,stddev_ts"
    row = '"abc1234","5163","a ""cpu"", 4 cores","models/tiny.gguf","4","512","0","0","2026-01-01T00:00:00Z","71000000","1","2","3"'
    got = imported(tmp_path, f"{head}\n{row}\n{row[:60]}\n", "llama.cpp")
    assert [note["prefill_ms"] for note in got.totals] == [71.0]
    assert "the mean of the repetitions" in got.notes("message")[0]["text"]
    assert len(got.doubts) == 1


def test_prompt_and_generation_together_have_one_time(tmp_path: Path) -> None:
    got = imported(tmp_path, json.dumps(bench(512, 128, [1_500_000_000])), "llama.cpp")
    assert some(got.totals[0], total_ms=1500.0, prefill_ms=None, decode_ms=None)


def tensors(forward: list[list[float]], width: int) -> str:
    out = []
    for n_tokens, *sums in forward:
        for layer, total in enumerate(sums):
            out.append(
                f"common_debug_cb_eval:                   norm-{layer} = (f32)   RMS_NORM(a{{8, 5, 1, 1}}, }}) = {{8, 5, 1, 1}}"
            )
            out.append(
                "    [\n        [\n            [      0.1000,       0.2000  ],\n        ],\n    ]\n    sum = 9.000000"
            )
            rows = int(n_tokens) if layer + 1 < len(sums) else 1
            out.append(
                f"common_debug_cb_eval:                  l_out-{layer} = (f32)        ADD(x{{{width}, 5, 1, 1}}, y{{1}}}}) = {{{width}, {rows}, 1, 1}}"
            )
            out.append(f"    sum = {total:.6f}")
    return "\n".join(out) + "\n"


def test_sums_of_the_layers_are_fingerprints(tmp_path: Path) -> None:
    got = imported(tmp_path, tensors([[5, 1.5, -2.25], [1, 3.0, 4.0]], 8) + NEW, "llama.cpp")
    assert [(s["phase"], s["n_tokens"], s["hidden_sum"]) for s in got.steps] == [
        ("prefill", 5, [1.5, -2.25]),
        ("decode", 1, [3.0, 4.0]),
    ]
    assert all(step["seq_len"] is None and step["token_id"] is None for step in got.steps)
    assert got.totals == []  # printing every tensor takes most of the time
    assert got.facts["model"]["n_layers"] == 2


@pytest.mark.parametrize(
    ("step", "layer", "base", "new"),
    # layer 1 all but cancels: 0.0001 of its sum is nothing beside layer 0's 1.5, a tenth of layer 2's is a fault
    [(None, None, 0.0010, 0.0011), (0, 2, 40.0, 44.0), (1, 0, 3.0, 3.3)],
)
def test_two_builds_dumps_name_the_first_layer_whose_sum_differs(
    tmp_path: Path, step: int | None, layer: int | None, base: float, new: float
) -> None:
    sides = []
    for name, value in (("base", base), ("new", new)):
        (tmp_path / name).mkdir()
        prefill = [1.5, value if layer is None else 0.001, value if layer == 2 else 40.0]
        log = tensors([[5, *prefill], [1, value if layer == 0 else 3.0, 2.0, 9.0]], 8)
        sides.append([(name, imported(tmp_path / name, log, "llama.cpp").table)])
    diff = compare(*sides)
    assert diff.verdicts["tokens"] == "cannot-decide"
    assert diff.verdicts["layers"] == ("same" if step is None else "differs")
    found = diff.layer and (diff.layer.field, diff.layer.step, diff.layer.layer, diff.layer.base, diff.layer.new)
    assert found == (None if step is None else ("hidden_sum", step, layer, base, new))


def test_a_sum_that_is_no_number_is_named(tmp_path: Path) -> None:
    got = imported(tmp_path, tensors([[5, 1.5, float("nan")]], 8), "llama.cpp")
    assert "the sum of l_out-1 is nan" in got.doubts[0]
    assert got.steps[0]["hidden_sum"] == [1.5, None]


def test_a_last_number_that_may_be_cut_is_dropped(tmp_path: Path) -> None:
    cut = imported(tmp_path, SERVER[: SERVER.index("3, truncated = 0")], "llama.cpp")  # n_tokens = 4, not 43
    assert [note.get("rows") for note in cut.totals] == [None]
    assert "may be cut" in cut.doubts[0]
    whole = imported(tmp_path, SERVER.rstrip(), "llama.cpp")
    assert ([note["rows"] for note in whole.totals], whole.done.doubts) == ([43, 20], 0)
    dump = imported(tmp_path, tensors([[5, 1.5, -2.25]], 8)[:-4], "llama.cpp")
    assert dump.steps[0]["hidden_sum"] == [1.5]


def test_the_trace_is_valid_after_every_cut(tmp_path: Path) -> None:
    text = (SERVER + NEW).encode()
    for cut in range(len(SERVER) // 2, len(text), 97):
        (tmp_path / "a.steps").unlink(missing_ok=True)
        got = imported(tmp_path, text[:cut], "llama.cpp")
        assert Table(tmp_path / "a.steps").damage == []
        for totals in got.totals:
            assert totals["seq_id"] in (0, 1)
