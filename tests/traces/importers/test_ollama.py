"""Ollama's printed block and API objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.traces.importers.importing import imported, some
from traces.importers.ollama import duration_ms

BLOCK = """\
HTTP is a protocol.

total duration:       753.50525ms
load duration:        1.031375ms
prompt eval count:    36 token(s)
prompt eval duration: 72ms
prompt eval rate:     500.00 tokens/s
eval count:           34 token(s)
eval duration:        660ms
eval rate:            51.52 tokens/s
"""


def test_the_verbose_block(tmp_path: Path) -> None:
    got = imported(tmp_path, BLOCK + "\n>>> \n" + BLOCK, "ollama")
    assert [note["seq_id"] for note in got.totals] == [0, 1]
    assert some(got.totals[0], prompt_tokens=36, fed=36, n_reused=None, prefill_ms=72.0, generated=34, decode_ms=660.0)
    assert some(got.totals[0], total_ms=753.50525, load_ms=1.031375)
    figures = got.figures
    assert figures["prefill"]["tok_s"] == 500.0
    assert figures["tpot_ms"] == 20.0  # 660 / 33 gaps
    assert got.verdicts("KV09") == ["unknown"]
    assert got.done.doubts == 0


def test_a_block_that_breaks_off(tmp_path: Path) -> None:
    got = imported(tmp_path, BLOCK[: BLOCK.index("eval count:           34")], "ollama")
    assert some(got.totals[0], prompt_tokens=36, prefill_ms=72.0, generated=None, decode_ms=None)
    assert len(got.doubts) == 1
    assert not got.table.complete


def test_times_that_are_none_are_left_out_and_said(tmp_path: Path) -> None:
    got = imported(tmp_path, BLOCK.replace("660ms", "soon"), "ollama")
    assert some(got.totals[0], prefill_ms=72.0, generated=34, decode_ms=None)
    assert [doubt.partition(": ")[2] for doubt in got.doubts] == ["the eval duration is soon"]


def test_the_last_object_of_a_stream(tmp_path: Path) -> None:
    stamp = {"model": "tiny:1b", "created_at": "2026-01-01T00:00:00Z"}
    last = {
        **stamp,
        "response": "",
        "done": True,
        "done_reason": "length",
        "total_duration": 800_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": 26,
        "prompt_eval_duration": 130_000_000,
        "eval_count": 11,
        "eval_duration": 500_000_000,
    }
    stream = [{**stamp, "response": "a", "done": False}, {**stamp, "response": "b", "done": False}, last]
    got = imported(tmp_path, "\n".join(map(json.dumps, stream)), "ollama")
    assert some(got.totals[0], prompt_tokens=26, prefill_ms=130.0, generated=11, decode_ms=500.0, finish="length")
    assert got.facts["model"]["name"] == "tiny:1b"
    assert got.figures["tpot_ms"] == 50.0


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("6m26.896337583s", 386_896.337583),
        ("1h0m0s", 3_600_000.0),
        ("75.311ms", 75.311),
        ("12.5µs", 0.0125),
        ("900ns", 0.0009),
        ("0s", 0.0),
        ("five", None),
        ("12", None),
        ("3s later", None),
    ],
)
def test_durations_as_go_prints_them(text: str, ms: float | None) -> None:
    assert duration_ms(text) == (None if ms is None else pytest.approx(ms))
