"""llama-cpp-python recorded by its adapter: the trace says what it returned, and what the numpy engine does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.model import DEMO_MODEL
from tests.command_line import STEPSCOPE
from tests.gdb_scripts.running import prompt
from tests.peers.recordings import Recordings

HERE = Path(__file__).parent
PYTHON = HERE.parents[1] / ".venv-peers" / "bin" / "python"
SIX, FOUR = ([int(i) for i in prompt(f"List the first {n} letters of the alphabet")] for n in ("six", "four"))
END = 959
LETTERS = [64, 317, 302, 332, 323, 266]  # "a", " b", …


class Returned(Recordings):
    """The embedded model in llama.cpp: what was returned, and the traces."""

    def __init__(self, folder: Path) -> None:
        if not PYTHON.exists():
            pytest.fail("no .venv-peers; type: make test-peers", pytrace=False)
        super().__init__(folder)
        model, asked = folder / "embedded.gguf", folder / "asked.json"
        subprocess.run([PYTHON, HERE / "write_gguf.py", DEMO_MODEL, model], check=True)
        asked.write_text(json.dumps({"prompts": [SIX, FOUR], "end": END, "hint": LETTERS}))
        words = [PYTHON, HERE / "record_llama_cpp.py", model, folder, asked]
        done = subprocess.run(words, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        self.returned, self.said = json.loads(done.stdout), done.stderr

    def requests(self, way: str) -> list[list[dict[str, Any]]]:
        """The steps of each request, in the order they came."""
        table, out = self.table(way), dict[int, list[dict[str, Any]]]()
        assert len(table.runs) == 1
        for step in table.plain(0, table.steps):
            if step is not None:
                out.setdefault(step["seq_id"], []).append(step)
        return list(out.values())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Returned:
    return Returned(tmp_path_factory.mktemp("llama_cpp"))


def test_a_loop_of_ones_own(runs: Returned) -> None:
    (steps,) = runs.requests("loop")
    assert runs.returned["loop"] == [*LETTERS, END]
    assert [s["token_id"] for s in steps] == [None, *LETTERS, END]
    assert [s["n_tokens"] for s in steps] == [len(SIX), 1, 1, 1, 1, 1, 1, 0]
    assert [s["cache_len"] for s in steps] == [25, 26, 27, 28, 29, 30, 31, 31]
    assert steps[-1]["finish"] == "eos"
    assert steps[2]["text"] == " b"
    assert runs.passed("loop") >= {"KV01", "KV03", "KV04", "KV05", "KV09", "TK01", "TK04", "TK05", "TM01", "TM02"}


def test_diff_calls_it_the_same_as_the_numpy_engine(runs: Returned, tmp_path: Path) -> None:
    words = ["run", "--prompt-ids", ",".join(map(str, SIX)), "-o", str(tmp_path / "numpy.steps")]
    subprocess.run([*STEPSCOPE, *words], check=True, capture_output=True)
    words = ["diff", str(tmp_path / "numpy.steps"), "--against", str(runs.folder / "loop.steps"), "--json"]
    done = subprocess.run([*STEPSCOPE, *words], capture_output=True, text=True)
    assert json.loads(done.stdout)["verdicts"]["tokens"] == "same"
    assert json.loads(done.stdout)["verdicts"]["state"] == "same"
    assert done.returncode == 0


def test_completions_end_as_they_say(runs: Returned) -> None:
    short, whole, stopped, streamed = runs.requests("completions")
    texts = ["".join(s["text"] for s in steps[1:]) for steps in (short, whole, stopped, streamed)]
    assert [steps[-1]["finish"] for steps in (short, whole, stopped, streamed)] == ["length", "eos", "stop", "length"]
    assert texts[0] == runs.returned["completions"][0] == "a b c"
    assert texts[1] == runs.returned["completions"][1] + "<|im_end|>"
    assert texts[2] == "a b c"  # the string that stopped it was sampled, and not given out
    assert texts[3] == runs.returned["completions"][3]
    assert whole[0]["seq_before"] == len(SIX) - 1  # all but one row of the prompt were there
    assert runs.passed("completions") >= {"KV01", "KV04", "KV09", "TK02", "TK03", "TK04"}


def test_drafts_from_the_prompt(runs: Returned) -> None:
    (steps,) = runs.requests("lookup")
    verified = [s for s in steps if s["phase"] == "verify"]
    assert sum(s["n_accepted"] for s in verified) > 0
    sampled = [i for s in steps[1:] for i in (s["token_id"], *(s["draft_ids"] or [])[: s["n_accepted"] or 0])]
    text = "".join(s["text"] for s in steps if s["phase"] == "decode" and s["n_tokens"])
    assert sampled[-1] == END
    assert text in runs.returned["lookup"]
    assert steps[-1]["seq_len"] == len(LETTERS) + len(SIX) + len(sampled) - 1
    assert "KV03" in runs.passed("lookup")


def test_an_error_of_the_recording_is_one_line_and_stops_nothing(runs: Returned) -> None:
    assert runs.returned["elsewhere"] == runs.returned["completions"][1]
    assert runs.said.count("stepscope: recording stopped") == 1
