"""Recording: the writer, the three-line API, and what happens when the disk or the caller is at fault."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

import traces
from traces import TraceError
from traces.columnar import check_table
from traces.fields import REQUIRED, FieldError, declaration
from traces.table import Table
from traces.writer import TraceWriter

RUN = {"fields": declaration([*REQUIRED, "text", "draft_ids"], {"cache_len": 2, "draft_ids": 4})}
STEP = {"phase": 2, "seq_id": 0, "token_id": 7, "n_tokens": 1, "seq_before": 1, "seq_len": 2, "cache_len": [2, 2],
        "finish": 0}  # fmt: skip


def test_three_lines_record_a_loop_of_your_own(tmp_path: Path) -> None:
    path = tmp_path / "run.steps"
    with traces.record(path, n_layers=2) as trace:
        trace.request(prompt_tokens=3, n_reused=0)
        trace.step(n_tokens=3, seq_before=0, seq_len=3, cache_len=[3, 3], gemm_ms=[0.5, 0.25])
        trace.step(token_id=9, n_tokens=1, seq_before=3, seq_len=4, cache_len=[4, 4], gemm_ms=[0.5, 0.25], text="hi")
        trace.step(token_id=2, n_tokens=0, seq_before=4, seq_len=4, cache_len=[4, 4], finish="eos")
    table = Table(path)
    steps = [s for s in table.plain(0, 3) if s is not None]
    assert table.complete
    assert [s["phase"] for s in steps] == ["prefill", "decode", "decode"]
    assert [s["finish"] for s in steps] == [None, None, "eos"]
    assert steps[1]["gemm_ms"] == [0.5, 0.25]
    assert steps[1]["text"] == "hi"
    report = check_table(table)
    assert report.verdict == "pass"
    assert report.results["KV01"].passed == 3
    assert report.results["TK04"].passed == 1


def test_an_exception_in_the_loop_leaves_a_finish_note_and_an_end(tmp_path: Path) -> None:
    path = tmp_path / "run.steps"
    with pytest.raises(KeyboardInterrupt), traces.record(path, n_layers=1) as trace:
        trace.request(prompt_tokens=1, n_reused=0)
        trace.step(n_tokens=1, seq_before=0, seq_len=1, cache_len=[1])
        raise KeyboardInterrupt
    table = Table(path)
    assert table.complete
    assert {"kind": "finish", "seq_id": 0, "finish": "abort"} in [note for _, note in table.notes()]


def test_a_recording_without_a_step_is_a_valid_trace(tmp_path: Path) -> None:
    path = tmp_path / "run.steps"
    with traces.record(path, n_layers=1):
        pass
    assert (Table(path).steps, Table(path).complete) == (0, True)


def test_a_field_that_the_first_step_lacked_is_refused_by_name(tmp_path: Path) -> None:
    with traces.record(tmp_path / "a.steps", n_layers=1) as trace:
        trace.step(n_tokens=1, seq_before=0, seq_len=1, cache_len=[1])
        with pytest.raises(FieldError, match="qkv_ms.*fields"):
            trace.step(token_id=1, qkv_ms=0.5)
    with traces.record(tmp_path / "b.steps", n_layers=1, fields=["qkv_ms"]) as trace:
        trace.step(n_tokens=1, seq_before=0, seq_len=1, cache_len=[1])
        trace.step(token_id=1, qkv_ms=[0.5])
    last = Table(tmp_path / "b.steps").plain(1, 2)[0]
    assert last is not None
    assert last["qkv_ms"] == [0.5]
    with traces.record(tmp_path / "c.steps", n_layers=1, fields=["lm_head_ms"]) as trace:
        trace.step(n_tokens=1, seq_before=0, seq_len=1, cache_len=[1], lm_head_ms=0.5)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"cache_len": [1, 2, 3]}, "cache_len takes 2 values, not 3"),
        ({"cache_len": 5}, "cache_len takes 2 values"),
        ({"n_tokens": 2**40}, "n_tokens holds I32"),
        ({"n_tokens": 1.5}, "n_tokens holds I32"),
        ({"n_tokens": "many"}, "n_tokens holds I32"),
        ({"phase": "thinking"}, "phase holds U8"),
        ({"speed": 3}, "does not declare speed"),
        ({"text": 5}, "text"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_nothing_is_written(tmp_path: Path, wrong: dict, words: str) -> None:  # type: ignore[type-arg]
    path = tmp_path / "a.steps"
    with TraceWriter(path, RUN) as writer:
        writer.step(**STEP)
        with pytest.raises((FieldError, TypeError), match=words):
            writer.step(**{**STEP, **wrong})
        writer.step(**STEP)
    assert (Table(path).steps, Table(path).damage) == (2, [])


def test_codes_may_be_names_and_short_drafts_are_filled(tmp_path: Path) -> None:
    path = tmp_path / "a.steps"
    with TraceWriter(path, RUN) as writer:
        writer.step(**{**STEP, "phase": "verify", "finish": "length", "draft_ids": [5, 6]})
    step = Table(path).plain(0, 1)[0]
    assert step is not None
    assert (step["phase"], step["finish"], step["draft_ids"]) == ("verify", "length", [5, 6])


def test_long_text_is_kept_in_a_note(tmp_path: Path) -> None:
    path = tmp_path / "a.steps"
    long = "a token of more than sixteen bytes é"
    with TraceWriter(path, RUN) as writer:
        writer.step(**STEP, text="short")
        writer.step(**STEP, text=long)
        writer.step(**STEP, text=b"ends in\0")
    table = Table(path)
    notes = [note for _, note in table.notes()]
    assert notes == [{"kind": "text", "step": 1, "text": long}, {"kind": "text", "step": 2, "text": "ends in\0"}]


def test_interval_flush_writes_within_the_interval_though_the_engine_stalls(tmp_path: Path) -> None:
    path = tmp_path / "a.steps"
    with TraceWriter(path, RUN, flush="interval", interval_ms=50) as writer:
        for _ in range(3):
            writer.step(**STEP)
        deadline = time.monotonic() + 5
        while Table(path).steps < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert Table(path).steps == 3


def test_only_a_trace_is_replaced(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("precious")
    with pytest.raises(TraceError, match="not a step trace"):
        TraceWriter(other, RUN)
    assert other.read_text() == "precious"
    old = tmp_path / "old.steps"
    TraceWriter(old, RUN).close()
    with TraceWriter(old, RUN) as writer:
        writer.step(**STEP)
    assert Table(old).steps == 1


def test_a_bad_declaration_does_not_cost_the_old_trace(tmp_path: Path) -> None:
    old = tmp_path / "old.steps"
    with TraceWriter(old, RUN) as writer:
        writer.step(**STEP)
    with pytest.raises(FieldError):
        TraceWriter(old, {"fields": [["phase", "U9"]]})
    assert Table(old).steps == 1


def test_a_run_that_lacks_a_required_field_and_a_policy_that_there_is_not_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.steps"
    with pytest.raises(FieldError, match="the run's fields lack seq_id, token_id, n_tokens, seq_before, seq_len"):
        TraceWriter(path, {"fields": [["phase", "U8"]]})
    with pytest.raises(ValueError, match="flush is 'step' or 'interval', not 'never'"):
        TraceWriter(path, RUN, flush="never")
    assert not path.exists()


def test_two_writers_on_one_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.steps"
    with TraceWriter(path, RUN) as writer:
        with pytest.raises(TraceError, match="another process"):
            TraceWriter(path, RUN)
        writer.step(**STEP)
    assert Table(path).steps == 1


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="/dev/full: cannot write: No space left"):
        TraceWriter("/dev/full", RUN)


@pytest.mark.parametrize("where", ["missing/a.steps", "."])
def test_a_path_that_cannot_be_written_is_named(tmp_path: Path, where: str) -> None:
    with pytest.raises(TraceError, match="cannot write a trace here"):
        TraceWriter(tmp_path / where, RUN)
    with pytest.raises(TraceError, match="cannot write a trace here"):
        traces.record(tmp_path / where, n_layers=1)


def test_several_runs_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.steps"
    with TraceWriter(path, RUN) as writer:
        writer.step(**STEP)
        writer.end()
        writer.start_run({"fields": declaration([*REQUIRED])})
        writer.step(**{**STEP, "cache_len": 2})
    table = Table(path)
    assert [run.first_step for run in table.runs] == [0, 1]
    assert [s["cache_len"] for s in table.plain(0, 2) if s] == [[2, 2], 2]
    assert os.path.getsize(path) % 8 == 0


def test_numpy_arrays_and_numbers_are_values_too(tmp_path: Path) -> None:
    path = tmp_path / "a.steps"
    with traces.record(path, n_layers=2) as trace:
        trace.step(token_id=np.int64(5), n_tokens=1, seq_before=1, seq_len=2, cache_len=np.array([2, 2]),
                   gemm_ms=np.array([0.5, 0.25], np.float32))  # fmt: skip
    step = Table(path).plain(0, 1)[0]
    assert step is not None
    assert (step["token_id"], step["cache_len"], step["gemm_ms"]) == (5, [2, 2], [0.5, 0.25])


def test_a_word_that_is_no_finish_is_named(tmp_path: Path) -> None:
    with traces.record(tmp_path / "a.steps", n_layers=1) as trace:
        trace.step(n_tokens=1, seq_len=1)
        with pytest.raises(FieldError, match="finish holds U8; 'done'"):
            trace.step(token_id=1, finish="done")
