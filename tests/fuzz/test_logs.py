"""Logs of engines and what a gdb without Python printed, with anything in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mutations import changed_json, changed_lines, json_text
from tests.fuzz.running import FUZZ, behaves, explore, run
from tests.traces.importers.test_any_text import LOGS
from traces.table import Table

PRINTED = """\
the engine's own line
stepscope [request] seq_id=0 prompt_tokens=3 n_reused=0 max_new_tokens=4 prompt_ids={1, 2, 3}
stepscope [facts] n_layers=2 n_heads=2 n_kv_heads=1 head_dim=32 vocab_size=1024 capacity=64 eos={959, 957}
stepscope [forward] seq_id=0 token_id=1 n_tokens=3 seq_before=0 cache_before={0, 0} after.write_pos=0
64stepscope [forward] seq_id=0 token_id=64 n_tokens=1 seq_before=3 cache_before={3, 3} after.hidden_rms={1.5, 2}
stepscope [forward] seq_id=0 token_id=65 n_tokens=1 seq_before=4 cache_before={4, 4} after.hidden_rms={1.5, 2}
stepscope [finish] seq_id=0 token_id=66 finish=2 seq_before=5 cache_before={5, 5}
[Inferior 1 (process 7) exited normally]
"""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.steps"


@pytest.mark.parametrize("engine", LOGS)
def test_changed_logs(engine: str, tmp_path: Path, out: Path) -> None:
    path = tmp_path / "changed.log"
    log = LOGS[engine]
    objects = [json.loads(line) for line in log.splitlines() if line.startswith("{") and line.endswith("}")]

    @settings(FUZZ, max_examples=30)
    @given(st.data())
    def ends_well(data: st.DataObject) -> None:
        if objects and data.draw(st.booleans()):
            values = [data.draw(changed_json(value)) for value in objects]
            path.write_bytes(b"\n".join(map(json_text, values)) + b"\n")
        else:
            path.write_bytes(data.draw(changed_lines(log)))
        out.unlink(missing_ok=True)
        behaves(run("import", data.draw(st.sampled_from(["auto", engine])), path, "-o", out), "changed.log")
        if out.exists():
            for verb in ("show", "check", "stats"):
                behaves(run(verb, out), "out.steps")

    explore(ends_well)


def test_changed_lines_of_gdb(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "changed.log"

    @settings(FUZZ, max_examples=30)
    @given(changed_lines(PRINTED))
    def ends_well(text: bytes) -> None:
        path.write_bytes(text)
        out.unlink(missing_ok=True)
        behaves(run("import", "gdb", path, "--probe", "native", "-o", out), "changed.log")
        if out.exists():
            behaves(run("check", out, "--json"), "out.steps")

    explore(ends_well)


def test_a_float_beyond_its_field_costs_that_field(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "large.log"
    path.write_text(PRINTED.replace("{1.5, 2}", "{1e40, 2}", 1))  # the largest F32 is 3.4e38
    assert run("import", "gdb", path, "--probe", "native", "-o", out).code == 0
    steps = [step for step in Table(out).plain(0, 4) if step is not None]
    # what stands behind a forward is read at the next one's entry
    assert [step["hidden_rms"] for step in steps[:2]] == [None, [1.5, 2]]
