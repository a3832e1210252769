"""Whatever the text is, an import ends in a readable trace or in one clear error."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.traces.importers import test_kestrel, test_llama_cpp, test_ollama, test_vllm
from traces import TraceError
from traces.importers.auto import engines
from traces.importers.log import amount, import_log
from traces.metrics import stats
from traces.table import Table

LOGS = {
    "llama.cpp": test_llama_cpp.SERVER
    + test_llama_cpp.OLD
    + test_llama_cpp.NEW
    + test_llama_cpp.tensors([[5, 1.5, 2.0], [1, 3.0, 4.0]], 8)
    + json.dumps(test_llama_cpp.ANSWER)
    + "\n"
    + json.dumps(test_llama_cpp.RESULTS, indent=1)
    + "\n",
    "kestrel": test_kestrel.SERVER + test_kestrel.single(60) + test_kestrel.STREAM + test_kestrel.FILM,
    "vllm": test_vllm.LOG + json.dumps(test_vllm.result()) + "\n",
    "ollama": test_ollama.BLOCK * 2,
}
NUMBERS = st.sampled_from(["nan", "-inf", "1e999", "-3", "9" * 30, "", "1,5", "0x7", "٣"])  # fmt: skip  # noqa: RUF001


@st.composite
def damaged(draw: st.DrawFn, log: str) -> bytes:
    """The log with lines dropped, doubled and swapped, numbers replaced, and cut anywhere."""
    lines = log.splitlines(keepends=True)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        other = draw(st.integers(0, len(lines) - 1))
        lines[at] = draw(st.sampled_from(["", lines[at] * 2, lines[other], "\x00\x1b[2J\n", "{\n"]))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(lines) - 1))
        words = lines[at].split(" ")
        place = draw(st.integers(0, len(words) - 1))
        words[place] = draw(NUMBERS)
        lines[at] = " ".join(words)
    data = "".join(lines).encode()
    return data[: draw(st.integers(0, len(data)))]


@pytest.mark.parametrize("engine", LOGS)
@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_log_never_ends_in_a_traceback(tmp_path: Path, engine: str, data: st.DataObject) -> None:
    (tmp_path / "a.log").write_bytes(data.draw(damaged(LOGS[engine])))
    try:
        import_log(tmp_path / "a.log", tmp_path / "a.steps", engines()[engine].READER, engine)
    except TraceError:
        return
    table = Table(tmp_path / "a.steps")
    assert table.damage == []
    for _, note in table.notes():
        assert all(finite(value) for value in note.values()), note
    stats(table)


def test_an_engine_s_marks_stand_in_its_log_and_in_no_other() -> None:
    assert {module.NAME for module in engines().values()} == set(LOGS)
    for name, module in engines().items():
        assert module.MARKS
        assert all((mark in log) == (engine == name) for mark in module.MARKS for engine, log in LOGS.items())


def finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


@given(st.floats(0, 1e9).map(lambda x: round(x, 2)))
def test_a_number_in_either_locale(x: float) -> None:
    assert amount(f"{x:.2f}") == amount(f"{x:.2f}".replace(".", ",")) == pytest.approx(x)
    assert math.isnan(amount("1.234,5"))
