"""What the C engine writes with --trace, and what becomes of it when something goes wrong."""

from __future__ import annotations

import fcntl
import signal
import subprocess
from pathlib import Path

import numpy as np

from tests.command_line import stepscope
from tests.engine.native.conftest import QWEN2, built, generated, rows, run
from traces.columnar import check_table
from traces.fields import ABSENT_I64
from traces.table import Table

TIMES = ("total_ms", "forward_ms", "gemm_ms", "attn_ms", "lm_head_ms")


def test_every_rule_that_can_be_judged_passes(prompt: str, trace: Path) -> None:
    generated(built("O2"), QWEN2, "--ids", prompt, "--ids", "7,8,9", "--max-new-tokens", 12, "--trace", trace)
    results = check_table(Table(trace)).results
    judged = {code for code, result in results.items() if result.applies}
    assert judged == set("KV01 KV02 KV03 KV04 KV05 KV09 KV11 KV12 TK01 TK02 TK03 TK04 TK05 TM01 TM02".split())
    # the engine has no pool to count
    assert {code for code in judged if results[code].verdict != "pass"} == {"KV12"}


def test_the_command_line_agrees(prompt: str, trace: Path) -> None:
    generated(built("O2"), QWEN2, "--ids", prompt, "--max-new-tokens", 4, "--trace", trace)
    assert stepscope("check", trace).returncode == 0


def test_the_run_says_what_ran(prompt: str, trace: Path) -> None:
    generated(built("O2"), QWEN2, "--ids", prompt, "--ids", "7,8", "--max-new-tokens", 3, "--trace", trace)
    table = Table(trace)
    facts = table.runs[0].facts
    assert facts["producer"]["name"] == "stepscope.h"
    assert facts["engine"] == {"name": "stepscope-c", "flags": "-O2 -g"}
    assert facts["model"] == {
        "name": QWEN2.name, "n_layers": 4, "n_heads": 6, "n_kv_heads": 2, "head_dim": 16, "vocab_size": 1024
    }  # fmt: skip
    assert facts["kv"]["capacity"] == 1024
    assert facts["stop"] == {"eos": [1023, 1021], "max_new_tokens": 3, "ignore_eos": False}
    notes = [(step, note["kind"]) for step, note in table.notes()]
    assert notes == [(0, "source"), (0, "request"), (4, "release"), (4, "request"), (8, "release")]
    assert table.notes()[3][1]["prompt_ids"] == [7, 8]
    assert table.runs[0].end_facts is not None
    assert table.runs[0].end_facts["steps"] == 8


def test_a_step_that_feeds_nothing_measures_no_forward(prompt: str, trace: Path) -> None:
    generated(built("O2"), QWEN2, "--ids", prompt, "--max-new-tokens", 2, "--trace", trace)
    prefill, fed, last = rows(trace)
    assert prefill["token_id"] == ABSENT_I64
    assert np.isnan([prefill["margin"], prefill["logit"], prefill["sample_ms"]]).all()
    assert (prefill["pos"], fed["pos"], fed["n_tokens"], last["n_tokens"]) == (0, 26, 1, 0)
    assert all((fed[name] > 0).all() for name in TIMES)
    assert all(np.isnan(last[name]).all() for name in TIMES if name != "total_ms")
    assert (last["write_pos"], last["pos"]) == (-1, -1)


def test_recording_does_not_change_the_answer(prompt: str, trace: Path) -> None:
    words = [QWEN2, "--ids", prompt, "--max-new-tokens", 16]
    assert generated(built("O2"), *words) == generated(built("O2"), *words, "--trace", trace)


def test_ctrl_c_ends_the_request_and_closes_the_trace(prompt: str, trace: Path) -> None:
    command = [built("O0"), QWEN2, "--ids", prompt, "--ids", prompt, "--ignore-eos", "--max-new-tokens", "100000"]
    with subprocess.Popen([*map(str, command), "--trace", str(trace)], stdout=subprocess.PIPE) as engine:
        assert engine.stdout
        engine.stdout.read(8)
        engine.send_signal(signal.SIGINT)
        engine.stdout.read()
        assert engine.wait(60) == 1
    table = Table(trace)
    assert table.complete
    assert 1 < table.steps < 998
    assert [note for _, note in table.notes()][-2:] == [
        {"kind": "finish", "seq_id": 0, "finish": "abort"},
        {"kind": "release", "seq_id": 0},
    ]
    assert check_table(table).verdict == "pass"


def test_what_was_written_survives_kill_9(prompt: str, trace: Path) -> None:
    command = [built("O0"), QWEN2, "--ids", prompt, "--ignore-eos", "--max-new-tokens", "100000", "--trace", trace]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE) as engine:
        assert engine.stdout
        engine.stdout.read(40)
        engine.kill()
    table = Table(trace)
    assert not table.complete
    assert table.steps >= 9
    assert check_table(table).verdict == "pass"


def test_a_file_that_is_no_trace_is_left_alone(prompt: str, trace: Path) -> None:
    trace.write_text("my notes")
    done = run(built("asan"), QWEN2, "--ids", prompt, "--trace", trace)
    assert done.returncode == 2
    assert done.stderr == f"engine: {trace}: exists and is not a step trace: choose another name or remove it\n"
    assert trace.read_text() == "my notes"


def test_a_trace_that_is_being_written_is_left_alone(prompt: str, trace: Path) -> None:
    trace.write_bytes(b"STEP")
    with trace.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        done = run(built("asan"), QWEN2, "--ids", prompt, "--trace", trace)
    assert (done.returncode, trace.read_bytes()) == (2, b"STEP")
    assert "another process is writing this trace" in done.stderr


def test_a_place_that_cannot_be_written_is_named_before_anything_runs(prompt: str, tmp_path: Path) -> None:
    done = run(built("asan"), QWEN2, "--ids", prompt, "--trace", tmp_path / "no" / "run.steps")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no/run.steps: cannot write a trace here: No such file or directory" in done.stderr


def test_a_full_disk_does_not_stop_the_engine(prompt: str, tmp_path: Path) -> None:
    # a limit on the file's size fails a write half way, as a full disk does
    trace = tmp_path / "run.steps"
    words = f"{built('O2')} {QWEN2} --ids {prompt} --ignore-eos --max-new-tokens 64"
    limited = ["sh", "-c", f"trap '' XFSZ; ulimit -f 8; {words} --trace {trace}"]
    done = subprocess.run(limited, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"{trace}: cannot write: File too large" in done.stderr
    assert done.stdout.count(",") == 63
    table = Table(trace)
    assert table.steps > 3
    assert table.torn is None or table.torn[0] == table.torn[1]
