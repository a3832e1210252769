"""transformers recorded by its adapter: the trace says what generate returned, and what the numpy engine does.

`make test-peers` puts torch and transformers into .venv-transformers and runs this.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.model import DEMO_MODEL, load_model
from tests.command_line import STEPSCOPE
from tests.engine.conftest import ORACLE
from tests.gdb_scripts.running import prompt
from tests.peers.recordings import Recordings
from traces.columnar import check_table
from traces.table import Table

HERE = Path(__file__).parent
PYTHON = HERE.parents[1] / ".venv-transformers" / "bin" / "python"
SIX, FOUR = ([int(i) for i in prompt(f"List the first {n} letters of the alphabet")] for n in ("six", "four"))
LONG = FOUR + SIX
END = 959
N = 12
WAYS = (
    "plain static naive chunked lookup assisted batch static_batch sampled stop_string turns beams broken elsewhere "
    "compiled"
).split()
KV = {"KV01", "KV02", "KV03", "KV04"}


def record(
    model: Path, folder: Path, prompts: list[list[int]], ways: list[str], n: int = N
) -> tuple[dict[str, Any], str]:
    """What each way returned, and what the run said on stderr."""
    if not PYTHON.exists():
        pytest.fail("no .venv-transformers; type: make test-peers", pytrace=False)
    asked = folder / "asked.json"
    asked.write_text(json.dumps({"prompts": prompts, "ways": ways, "n": n}))
    words = [PYTHON, HERE / "record_transformers.py", model, folder, asked]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


class Returned(Recordings):
    """The embedded model, generating in each of the ways."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.returned, self.said = record(DEMO_MODEL, folder, [SIX, LONG], WAYS)

    def steps(self, way: str, seq_id: int = 0) -> list[dict[str, Any]]:
        table = self.table(way)
        return [s for s in table.plain(0, table.steps) if s is not None and s["seq_id"] == seq_id]

    def tokens(self, way: str, seq_id: int = 0) -> list[int]:
        """The ids of a sequence as the trace has them, accepted drafts too."""
        out: list[int] = []
        for step in self.steps(way, seq_id):
            if step["token_id"] is not None:
                out += [step["token_id"], *(step.get("draft_ids") or [])[: step.get("n_accepted") or 0]]
        return out


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Returned:
    return Returned(tmp_path_factory.mktemp("transformers"))


@pytest.mark.parametrize("way", ["plain", "static", "naive", "chunked", "lookup", "assisted"])
def test_the_tokens_are_those_that_generate_returned(runs: Returned, way: str) -> None:
    (returned,) = runs.returned[way]
    assert runs.tokens(way) == returned[len(SIX) :]
    assert returned[-1] == END
    assert runs.steps(way)[-1]["finish"] == "eos"
    assert runs.steps(way)[-1]["n_tokens"] == 0  # generate stops before it would feed the end
    assert runs.passed(way) >= {"KV03", "KV04", "KV09", "TK01", "TK02", "TK03", "TM01", "TM02"}
    assert way == "naive" or runs.passed(way) >= KV | {"TK04"}
    (request,) = (note for _, note in runs.table(way).notes() if note["kind"] == "request")
    assert (request["prompt_ids"], request["n_reused"], request["max_new_tokens"]) == (SIX, 0, N)
    assert runs.steps("plain")[2]["text"] == " b"


def test_rows_of_every_layer_and_where_the_time_went(runs: Returned) -> None:
    prefill, first, *_ = runs.steps("plain")
    assert (prefill["n_tokens"], prefill["cache_len"]) == (len(SIX), [len(SIX)] * 4)
    assert (first["seq_before"], first["seq_len"], first["cache_len"]) == (len(SIX), len(SIX) + 1, [len(SIX) + 1] * 4)
    for step in (prefill, first):
        assert all(value > 0 for name in ("gemm_ms", "attn_ms", "hidden_rms") for value in step[name])
        inside = sum(step["gemm_ms"]) + sum(step["attn_ms"]) + step["lm_head_ms"]
        assert 0 < inside <= step["forward_ms"] <= step["total_ms"]
    assert runs.table("static").runs[0].facts["kv"]["capacity"] >= len(SIX) + N - 1
    assert "KV05" in runs.passed("static")


def test_a_prompt_in_pieces(runs: Returned) -> None:
    pieces = [s["n_tokens"] for s in runs.steps("chunked") if s["phase"] == "prefill"]
    assert pieces == [7, 7, 7, len(SIX) - 21]


def test_the_model_as_its_own_draft_is_always_right(runs: Returned) -> None:
    verified = [s for s in runs.steps("assisted") if s["phase"] == "verify"]
    assert verified
    assert "KV07" in runs.passed("assisted")
    assert len(runs.steps("assisted")) < len(runs.steps("plain"))
    assert runs.table("assisted").runs[0].facts["draft"]["kind"] == "model"


@pytest.mark.parametrize("way", ["batch", "static_batch"])
def test_sequences_of_a_padded_batch_end_each_for_itself(runs: Returned, way: str) -> None:
    width = max(len(SIX), len(LONG))
    for seq_id, ids in enumerate((SIX, LONG)):
        generated = runs.returned[way][seq_id][width:]
        end = generated.index(END) + 1 if END in generated else N
        assert runs.tokens(way, seq_id) == generated[:end]
        steps = runs.steps(way, seq_id)
        assert (steps[0]["n_tokens"], steps[0]["cache_len"]) == (len(ids), [len(ids)] * 4)
        assert steps[-1]["finish"] == ("eos" if END in generated else "length")
    shared = [{s["forward_id"] for s in runs.steps(way, i) if s["n_tokens"]} for i in (0, 1)]
    assert len(shared[0] & shared[1]) > 4
    assert runs.passed(way) >= KV | {"KV09", "TK02", "TK03", "TK04", "SQ01"}


def test_a_stop_string_in_a_batch(runs: Returned) -> None:
    last = runs.steps("stop_string", 0)[-1]
    assert last["finish"] == "stop"
    assert last["text"] == " c"
    runs.passed("stop_string")


def test_sampled_sequences_of_one_prompt(runs: Returned) -> None:
    for seq_id, returned in enumerate(runs.returned["sampled"]):
        tokens = runs.tokens("sampled", seq_id)
        assert tokens == returned[len(SIX) :][: len(tokens)]
    assert runs.table("sampled").runs[0].facts["sampler"]["temperature"] == 0.9
    runs.passed("sampled")


def test_a_second_turn_on_the_first_ones_cache(runs: Returned) -> None:
    requests = [note for _, note in runs.table("turns").notes() if note["kind"] == "request"]
    first, second = runs.returned["turns"]
    assert [r["n_reused"] for r in requests] == [0, len(first) - 1]
    assert requests[1]["prompt_tokens"] == len(first) + len(LONG)
    seq_id = requests[1]["seq_id"]
    tokens = [s["token_id"] for s in runs.steps("turns", seq_id) if s["token_id"] is not None]
    assert second[len(first) + len(LONG) :] == tokens[-(len(second) - len(first) - len(LONG)) :]
    assert "KV09" in runs.passed("turns")


def test_beams_are_left_out_and_said_to_be(runs: Returned) -> None:
    assert runs.said.count("beam search") == 1
    assert runs.tokens("beams") == runs.returned["plain"][0][len(SIX) :]


def test_ctrl_c_ends_the_trace_properly(runs: Returned) -> None:
    table = runs.table("broken")
    assert table.complete
    assert {"kind": "finish", "seq_id": 0, "finish": "abort"}.items() <= list(table.notes())[-1][1].items()
    assert runs.tokens("broken") == runs.tokens("plain")[:3]
    runs.passed("broken")


def test_an_error_of_the_recording_is_one_line_and_stops_nothing(runs: Returned) -> None:
    assert runs.returned["elsewhere"] == runs.returned["plain"]
    lines = [line for line in runs.said.splitlines() if line.startswith("stepscope: recording stopped")]
    assert len(lines) == 1
    assert "none/x.steps" in lines[0]


def test_compiled_code_is_left_as_it_is(runs: Returned) -> None:
    assert runs.returned["compiled"] == runs.returned["plain"]
    assert runs.said.count("compiled code is not seen into") == 1
    assert [(s["phase"], s["n_tokens"]) for s in runs.steps("compiled")] == [("prefill", len(SIX))]
    assert any(note["kind"] == "gap" for _, note in runs.table("compiled").notes())


def numpy_run(model: Path, ids: list[int], path: Path) -> None:
    words = ["run", str(model), "--prompt-ids", ",".join(map(str, ids)), "--max-new-tokens", str(N)]
    subprocess.run([*STEPSCOPE, *words, "--temperature", "0", "-o", str(path)], check=True, capture_output=True)


@pytest.mark.parametrize(
    "name", ["demo", "tiny-qwen3-f32-tied", "tiny-qwen2-bf16-tied", "tiny-llama-f32-untied-sharded"]
)
def test_diff_calls_it_the_same_as_the_numpy_engine(tmp_path: Path, name: str) -> None:
    model = DEMO_MODEL if name == "demo" else ORACLE / name
    ids = SIX
    if name != "demo":
        described = json.loads((ORACLE / f"{name}.expected.json").read_text())
        ids = next(run["prompt"] for run in described["runs"] if run["compute_dtype"] == "float32")
    record(model, tmp_path, [ids], ["plain", "static"])
    numpy_run(model, ids, tmp_path / "numpy.steps")
    for way in ("plain", "static"):
        words = ["diff", str(tmp_path / "numpy.steps"), "--against", str(tmp_path / f"{way}.steps"), "--json"]
        done = subprocess.run([*STEPSCOPE, *words], capture_output=True, text=True)
        answer = json.loads(done.stdout)
        assert done.returncode == 0, answer
        assert answer["verdict"] == "same"
        verdicts = {part: answer["verdicts"][part] for part in ("tokens", "state", "layers")}
        assert verdicts == {"tokens": "same", "state": "same", "layers": "same"}
        assert answer["tokens"]["compared"] > 1


def test_window_layers_hold_what_they_say(tmp_path: Path) -> None:
    (folder,) = ORACLE.glob("tiny-mistral-f16-window")
    config = load_model(folder).config
    window = next(w for w in config.layer_windows if w is not None)
    record(folder, tmp_path, [[5, 6, 7] * 3], ["plain", "static"], n=window + 4)
    for way in ("plain", "static"):
        table = Table(tmp_path / f"{way}.steps")
        assert {"kind": "window", "window": window - 1, "slack": 1} in table.runs[0].facts["layers"]
        result = check_table(table).results["KV06"]
        assert result.verdict == "pass", result
        assert result.passed
