"""The file that an adapter writes: opened by the first run, ended by an error of ours, never the end of the user's."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from traces import fields
from traces.adapters.recording import Recording, harmless
from traces.table import Table

FACTS = {"fields": fields.declaration([*fields.REQUIRED, "t_ns"]), "loop": "cached"}


class Adapter:
    def __init__(self, path: Path) -> None:
        self.recording = Recording(path, "step")

    @harmless
    def step(self, **values: Any) -> str:
        self.recording.run(FACTS, 100)
        self.recording.step(150, seq_id=0, phase=1, **values)
        return "written"

    @harmless
    def divide(self, by: int) -> float:
        return 1 / by


def test_a_script_that_never_generates_leaves_the_file_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "run.steps"
    path.write_text("mine")
    Recording(path, "step").close()
    assert path.read_text() == "mine"
    assert "nothing was generated" in caplog.text


def test_times_count_from_where_the_run_began(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "run.steps", "step")
    recording.run(FACTS, 1000)
    assert recording.request(1000, prompt_tokens=3) == 0
    recording.step(1500, seq_id=0, phase=1, n_tokens=3, logit=1.0)
    recording.run(FACTS, 9000)  # the same facts: the same run goes on
    assert recording.request(9000, prompt_tokens=3) == 1
    recording.run({**FACTS, "loop": "naive"}, 9500)
    assert recording.request(9500, prompt_tokens=3) == 0
    recording.close()
    table = Table(tmp_path / "run.steps")
    assert [run.facts["loop"] for run in table.runs] == ["cached", "naive"]
    assert table.complete
    assert [note["t_ns"] for _, note in table.notes()] == [0, 8000, 0]
    (step,) = (s for s in table.plain(0, 1) if s)
    assert step["t_ns"] == 500
    assert "logit" not in step  # the run did not declare it


def test_an_error_of_ours_is_one_warning_and_a_trace_that_was_cut_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    adapter = Adapter(tmp_path / "run.steps")
    with caplog.at_level(logging.WARNING, "stepscope"):
        adapter.recording.run(FACTS, 0)
        adapter.recording.step(1, seq_id=0, phase=1, n_tokens=3)
        assert adapter.divide(0) is None
        assert adapter.divide(0) is None
        assert adapter.divide(1) is None  # the recording is over
        adapter.recording.close()
    assert len(caplog.records) == 1
    assert "ZeroDivisionError" in caplog.text
    table = Table(tmp_path / "run.steps")
    assert table.steps == 1
    assert not table.complete


def test_a_path_that_cannot_be_written_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    adapter = Adapter(tmp_path / "none" / "run.steps")
    assert adapter.step() is None
    assert "none/run.steps" in caplog.text


def test_what_the_users_code_raises_is_not_ours_to_keep(tmp_path: Path) -> None:
    class Interrupted(Adapter):
        @harmless
        def interrupted(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Interrupted(tmp_path / "run.steps").interrupted()
