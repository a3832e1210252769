"""Many traces in one command: a folder is searched, each failing trace has its line, all have one, and what cannot be
read does not stop the rest.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from inspector import cli
from tests.command_line import SAMPLE
from traces.writer import TraceWriter

FIELDS = [["phase", "U8"], ["seq_id", "I32"], ["token_id", "I64"], ["n_tokens", "I32"], ["seq_before", "I32"],
          ["seq_len", "I32"], ["cache_len", "I32"], ["finish", "U8"], ["t_ns", "U64"], ["total_ms", "F32"]]  # fmt: skip


def good(path: Path, decode_ms: float, build: str = "one", flags: str | None = None, loop: str = "cached") -> None:
    """A prompt of 4 tokens and 5 decode steps of decode_ms each."""
    facts = {
        "model": {"name": "toy", "n_layers": 1},
        "layers": [{"kind": "full"}],
        "engine": {"name": "e", "build_id": build, "flags": flags},
        "loop": loop,
        "clock": "monotonic",
        "fields": FIELDS,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with TraceWriter(path, facts) as trace:
        trace.note("request", seq_id=0, prompt_tokens=4, n_reused=0, t_ns=0)
        trace.step(phase=1, seq_id=0, n_tokens=4, seq_before=0, seq_len=4, cache_len=4, t_ns=0, total_ms=1.0)
        for i in range(5):
            began = 1_000_000 + round(i * decode_ms * 1e6)
            trace.step(phase=2, seq_id=0, token_id=7, n_tokens=1, seq_before=4 + i, seq_len=5 + i, cache_len=5 + i,
                       t_ns=began, total_ms=decode_ms)  # fmt: skip


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """20 good traces (some in a folder below) of two builds, one that breaks rules, one cut off, one of noise."""
    folder = tmp_path / "fleet"
    for i in range(20):
        good(folder / ("old" if i < 5 else ".") / f"t{i:02}.steps", 2.0 + i % 5, "old" if i < 5 else "new")
    shutil.copy(SAMPLE, folder / "u-broken.steps")
    whole = (folder / "t05.steps").read_bytes()
    (folder / "v-cut.steps").write_bytes(whole[:-40])
    (folder / "w-noise.steps").write_bytes(b"noise" * 100)
    (folder / "readme.txt").write_text("no trace")
    return folder


def test_a_folder_is_checked_with_a_line_for_each_that_fails(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(fleet)]) == 2
    out, err = capsys.readouterr()
    failed, summary = out.splitlines()
    assert failed.startswith(f"{fleet}/u-broken.steps: FAIL  KV01 at 6,")
    assert "first: KV01 step 8 seq 1: seq_len is 10, layer 0 holds 25 rows" in failed
    assert summary.startswith("23 traces: 21 pass, 1 fail (KV01 in 1")
    assert summary.endswith("1 cannot be read; 1 cut off or damaged")
    assert err.count("\n") == 1
    assert "w-noise.steps: not a step trace" in err


def test_the_exit_code_is_that_of_the_worst(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (fleet / "w-noise.steps").unlink()
    assert cli.main(["check", str(fleet)]) == 1
    (fleet / "u-broken.steps").unlink()
    assert cli.main(["check", str(fleet)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "21 traces: 21 pass; 1 cut off or damaged"


def test_json_is_an_object_a_trace(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("check", "stats"):
        assert cli.main([verb, str(fleet), "--json"]) == 2
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len({one["trace"] for one in told}) == 22


def test_all_tells_each_trace_in_full(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["check", str(fleet), "--all", "--select", "KV01"])
    out = capsys.readouterr().out
    assert out.count(": PASS  (") == 21
    assert out.count("KV01 step") == 6


def test_stats_are_medians_for_each_build(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["stats", str(fleet / "old"), str(fleet / "t05.steps"), str(fleet / "t06.steps")]) == 0
    head, new, old, summary = capsys.readouterr().out.splitlines()
    assert re.split("  +", head.strip())[3:5] == ["TTFT ms", "TPOT ms"]
    # steps of 2, 3, 4, 5 and 6 ms: the median is 4; of 2 and 3 ms 2.5. The prefill took 1 ms before each
    assert (old.split()[0], old.split()[3:5]) == ("5", ["1.00", "4.00"])
    assert (new.split()[0], new.split()[3:5]) == ("2", ["1.00", "2.50"])
    assert "build old" in old
    assert "build new" in new
    assert summary == "7 traces"


def test_stats_keep_flags_and_loops_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good(tmp_path / "a.steps", 8.0, flags="-O0")
    good(tmp_path / "b.steps", 2.0, flags="-O2")
    good(tmp_path / "c.steps", 4.0, flags="-O2", loop="naive")
    assert cli.main(["stats", str(tmp_path)]) == 0
    _, *lines, _ = capsys.readouterr().out.splitlines()
    assert [(line.split()[4], line.partition("e build one")[2]) for line in lines] == [
        ("8.00", " | -O0"), ("2.00", " | -O2"), ("4.00", " | -O2 | naive"),
    ]  # fmt: skip


def test_a_folder_without_traces_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(tmp_path)]) == 2
    assert "holds no traces (*.steps)" in capsys.readouterr().err


def test_diff_leaves_out_what_cannot_be_read(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (fleet / "old" / "x.steps").write_bytes(b"noise")
    assert cli.main(["diff", str(fleet / "old"), "--against", str(fleet / "t05.steps")]) == 2
    out, err = capsys.readouterr()
    assert out.startswith("SAME (by tokens, state)")
    assert "x.steps: not a step trace" in err
    assert err.rstrip().endswith("left out")
