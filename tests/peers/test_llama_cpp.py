"""llama.cpp under gdb, through its Python bindings: what the trace says is what the API returned.

`make test-peers` builds llama-cpp-python with debug information into .venv-peers (minutes) and runs this.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.loop import StopSettings, run_generation
from engine.model import DEMO_MODEL, load_model
from tests.gdb_scripts.running import gdb, prompt
from traces.columnar import check_table
from traces.table import Table

HERE = Path(__file__).parent
PYTHON = HERE.parents[1] / ".venv-peers" / "bin" / "python"
SIX, FOUR = (f"List the first {n} letters of the alphabet" for n in ("six", "four"))
N = 12
N_KEEP = 4  # as in generate.py


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model as a GGUF file."""
    if not PYTHON.exists():
        pytest.fail("no .venv-peers; type: make test-peers", pytrace=False)
    path = tmp_path_factory.mktemp("peers") / "embedded.gguf"
    subprocess.run([PYTHON, HERE / "write_gguf.py", DEMO_MODEL, path], check=True)
    return path


class Recorded:
    """A run under gdb: what the API returned, a request a line, and the trace."""

    def __init__(self, path: Path, model: Path, how: str, texts: list[str], n: int = N) -> None:
        words = [HERE / "generate.py", model, how, n, *(",".join(map(str, prompt(text))) for text in texts)]
        commands = ["stepscope probe llama_cpp", f"stepscope record {path}", "run", "stepscope status"]
        done = gdb(commands, PYTHON, [str(word) for word in words], timeout=600)
        self.said = done.stdout + done.stderr
        assert "exited normally" in done.stdout, self.said
        self.returned = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"prompt"')]
        self.table = Table(path)
        assert self.table.complete
        self.steps = [step for step in self.table.plain(0, self.table.steps) if step is not None]
        self.report = check_table(self.table)

    def of(self, request: int, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(step[name] for name in names) for step in self.steps if step["seq_id"] == request]

    def passed(self) -> set[str]:
        assert self.report.verdict == "pass", [failure.message for failure in self.report.failures()]
        return {code for code, result in self.report.results.items() if result.passed}


def decoded(returned: dict[str, Any]) -> list[tuple[Any, ...]]:
    """(phase, token, fed, position) of the sampled tokens, as the API returned them; the last one was not fed."""
    fed = list(zip(returned["sampled"], returned["positions"], strict=True))[:-1]
    return [("decode", token, 1, position) for token, position in fed]


FIELDS = ("phase", "token_id", "n_tokens", "seq_before")


def test_tokens_and_positions_are_those_of_the_api(tmp_path: Path, model: Path) -> None:
    run = Recorded(tmp_path / "run.steps", model, "requests", [SIX], 64)
    (returned,) = run.returned
    n_prompt = len(returned["prompt"])
    assert run.of(0, *FIELDS) == [("prefill", None, n_prompt, 0), *decoded(returned)]
    lengths = run.of(0, "seq_before", "n_tokens", "seq_len", "cache_before", "cache_len", "kv_used")
    for before, fed, after, rows_before, rows, used in lengths[:-1]:
        assert before == rows_before
        assert before + fed == after == rows == used
    assert run.passed() >= {"KV01", "KV03", "KV04", "KV05", "KV12", "TK01", "TK05", "TM01"}
    assert run.report.results["KV02"].verdict == "unknown"  # one count for all layers
    facts = run.table.runs[0].facts
    assert facts["model"] == {"n_layers": 4, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 1024}
    assert facts["kv"]["capacity"] == 512
    assert facts["clock"] == "debugger"


def test_the_answer_is_the_numpy_engines(tmp_path: Path, model: Path) -> None:
    run = Recorded(tmp_path / "run.steps", model, "requests", [SIX], 64)
    reference = load_model(DEMO_MODEL)
    expected = run_generation(reference, prompt(SIX), stops=StopSettings(reference.defaults.eos, 64)).tokens
    assert run.returned[0]["sampled"] == list(expected)


def test_requests_that_share_a_prefix(tmp_path: Path, model: Path) -> None:
    run = Recorded(tmp_path / "run.steps", model, "requests", [SIX, FOUR, FOUR])
    for request, returned in enumerate(run.returned):
        (phase, token, fed, before), *rest = run.of(request, *FIELDS)
        assert (phase, token, before + fed) == ("prefill", None, len(returned["prompt"]))
        assert rest == decoded(returned)
        assert (before > 0) == (request > 0)  # the rows of the common prefix were kept
    assert run.of(2, "n_tokens")[0] == (1,)  # all but one row of the prompt were there
    assert "KV04" in run.passed()


def test_a_prompt_longer_than_a_batch(tmp_path: Path, model: Path) -> None:
    text = " ".join([SIX] * 20)
    run = Recorded(tmp_path / "run.steps", model, "requests", [text])
    n = len(prompt(text))
    pieces = [min(64, n - at) for at in range(0, n, 64)]
    assert len(pieces) > 2
    assert run.of(0, "phase", "n_tokens")[: len(pieces)] == [("prefill", piece) for piece in pieces]
    assert run.of(0, *FIELDS)[len(pieces) :] == decoded(run.returned[0])
    run.passed()


@pytest.mark.parametrize("how", ["batched", "unified"])
def test_sequences_of_one_batch_are_records_of_their_own(tmp_path: Path, model: Path, how: str) -> None:
    run = Recorded(tmp_path / "run.steps", model, how, [SIX, FOUR])
    for request, returned in enumerate(run.returned):
        steps = run.of(request, *FIELDS)
        assert sum(step[2] for step in steps if step[0] == "prefill") == len(returned["prompt"])
        assert [step for step in steps if step[0] == "decode"] == decoded(returned)
        lengths = run.of(request, "seq_before", "n_tokens", "cache_len")
        assert all(before + fed == after for before, fed, after in lengths if after is not None)
    shared = [set(run.of(request, "forward_id")) for request in (0, 1)]
    assert len(shared[0] & shared[1]) >= N - 1
    run.passed()


def test_a_shift_is_seen(tmp_path: Path, model: Path) -> None:
    run = Recorded(tmp_path / "run.steps", model, "shifted", [SIX])
    assert run.of(0, *FIELDS)[1:] == decoded(run.returned[0])
    notes = [note for _, note in run.table.notes() if note["kind"] == "shift"]
    assert [(n["n_keep"], n["n_discard"]) for n in notes] == [(N_KEEP, N_KEEP)]
    run.passed()


def test_warm_up_forwards_are_not_recorded(tmp_path: Path, model: Path) -> None:
    run = Recorded(tmp_path / "run.steps", model, "warm", [SIX])
    assert run.of(0, *FIELDS)[1:] == decoded(run.returned[0])
    assert run.steps[0]["n_tokens"] == len(run.returned[0]["prompt"])
    assert any("warm-up" in note.get("text", "") for _, note in run.table.notes())


def test_a_cache_of_another_class_is_absent_and_never_wrong(tmp_path: Path) -> None:
    model = tmp_path / "windows.gguf"
    subprocess.run([PYTHON, HERE / "write_gguf.py", DEMO_MODEL, model, "16"], check=True)
    run = Recorded(tmp_path / "run.steps", model, "batched", [SIX])
    assert run.of(0, *FIELDS)[1:] == decoded(run.returned[0])
    assert {step[name] for step in run.steps for name in ("cache_before", "cache_len", "kv_used")} == {None}
    assert "layers" not in run.table.runs[0].facts
    why = {note["field"]: (note["why"], note["text"]) for _, note in run.table.notes() if note["kind"] == "absent"}
    assert why["cache_len"] == ("unreadable", "the object is not exactly a llama_kv_cache")
    assert {"KV03", "KV04"} <= run.passed()
    assert run.report.results["KV01"].verdict == "unknown"
