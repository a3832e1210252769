"""The rules give the same verdicts, counts and words step by step and over whole columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.traces.judging import by_columns, step_by_step
from tests.traces.traces_by_hypothesis import traces, write
from traces.frames import json_text


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("two") / "a.steps"


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(events=traces(), piece=st.integers(1, 30))
def test_same_verdicts_both_ways(file: Path, events: list[tuple[str, dict[str, Any]]], piece: int) -> None:
    write(file, events)
    one, many = step_by_step(file), by_columns(file, piece)
    for code, result in one["rules"].items():
        assert json_text(many["rules"][code]) == json_text(result), code  # as text: a NaN that was seen equals itself
    assert many["verdict"] == one["verdict"]


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(events=traces(max_events=15), piece=st.integers(1, 30), where=st.data())
def test_same_verdicts_both_ways_on_a_damaged_file(
    file: Path, events: list[tuple[str, dict[str, Any]]], piece: int, where: st.DataObject
) -> None:
    write(file, events, where.draw(st.sampled_from(["step", "interval"])))
    data = bytearray(file.read_bytes())
    run_frame = 16 + int.from_bytes(data[8:12], "little")
    for _ in range(where.draw(st.integers(1, 3))):
        data[where.draw(st.integers(run_frame, len(data) - 1))] ^= 1 << where.draw(st.integers(0, 7))
    file.write_bytes(data)
    assert json_text(by_columns(file, piece)) == json_text(step_by_step(file))
