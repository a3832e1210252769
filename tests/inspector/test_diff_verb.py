"""`stepscope diff` and `stepscope record-set` as their users run them, on the C engine's builds."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inspector import cli
from inspector.binary.compare import compare_binaries
from tests.command_line import STEPSCOPE, fails
from tests.engine.native.conftest import QWEN2, built
from tests.inspector.programs import C
from tests.programs import compiled
from tests.traces.known_pairs import known_pair
from traces import record

PROMPT = "3,17,99,240,5,61,8,301,44,12"

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code and standard output."""

    def stepscope(*words: Any) -> tuple[int, str]:
        code = cli.main([str(word) for word in words])
        return code, capsys.readouterr().out

    return stepscope


def command(engine: Path, *more: str) -> str:
    words = [str(engine), str(QWEN2), "--ids", PROMPT, "--ignore-eos", "--max-new-tokens", "24", *more]
    return shlex.join([*words, "--trace", "{trace}"])


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six runs a side of the C engine at -O0 and at -O2."""
    folder = tmp_path_factory.mktemp("levels") / "set"
    words = ["record-set", "-n", "6", "-o", str(folder), "--base", command(built("O0")), "--new", command(built("O2"))]
    assert cli.main(words) == 0
    return folder


# -- the verdict and its exit code -------------------------------------------------------------------------------------


def test_two_levels_of_optimisation_differ_in_time_alone(levels: Path, run: Run) -> None:
    code, out = run("diff", levels)
    assert code == 0
    first = out.splitlines()[0]
    assert first == "SAME (by tokens, state): tokens same, state same, layers same, time faster"
    assert "engine.flags: -O0 -g → -O2 -g" in out
    assert "slower" not in out
    assert "than the other layers" not in out
    code, out = run("diff", levels, "--fail-on", "time")
    assert (code, out.split()[0]) == (1, "DIFFERS")
    assert run("diff", levels, "--fail-on", "slower")[0] == 0


def test_the_json_has_the_documented_shape(levels: Path, run: Run) -> None:
    code, out = run("diff", levels, "--json")
    said = json.loads(out)
    assert code == 0
    assert list(said) == [
        "verdict", "fail_on", "verdicts", "why", "comparable", "tokens", "layers", "state", "requests", "time", "notes",
        "binary",
    ]  # fmt: skip
    assert said["verdict"] == "same"
    assert said["verdicts"] == {"tokens": "same", "state": "same", "layers": "same", "time": "differs"}
    assert said["tokens"] == {"verdict": "same", "compared": 24, "first_divergence": None}
    assert said["layers"] == {"verdict": "same", "first": None}
    assert said["state"] == {"verdict": "same", "first": None, "differences": [], "rules": []}
    assert said["requests"] == [
        {"seq_id": 0, "prompt_tokens": [10, 10], "evaluated": [10, 10], "reused": [0, 0], "generated": [24, 24],
         "drafted": [None, None], "accepted": [None, None], "finish": ["length", "length"]}
    ]  # fmt: skip
    line = next(t for t in said["time"] if (t["phase"], t["part"], t["layer"]) == ("decode", "total", None))
    assert set(line) == {
        "phase", "part", "layer", "ratio", "low", "high", "runs", "verdict", "within", "needs", "p", "base_ms",
        "new_ms", "raw_ratio",
    }  # fmt: skip
    assert (line["verdict"], line["runs"]) == ("faster", [6, 6])
    assert 0 < line["low"] <= line["ratio"] <= line["high"] < 1
    flags = {"field": "engine.flags", "base": "-O0 -g", "new": "-O2 -g", "forbids": []}
    assert said["comparable"] == [flags]
    assert said["binary"]["probe"] == "native"
    forward = next(f for f in said["binary"]["functions"] if f["name"] == "forward")
    assert all(size > 0 for size in forward["size"])


@pytest.mark.parametrize(
    ("name", "fail_on", "code"),
    [
        ("exact_tie", "tokens", 1),
        ("exact_tie", "state", 0),
        ("one_run_is_noise", "tokens,state", 0),
        ("one_run_is_noise", "tokens,state,time", 3),
        ("repeat_prompt_not_cached", "tokens", 0),
        ("repeat_prompt_not_cached", "state", 1),
        ("ttft_tripled", "slower", 1),
        ("ttft_tripled", "layers", 3),
    ],
)
def test_exit_codes_follow_fail_on(name: str, fail_on: str, code: int, tmp_path: Path, run: Run) -> None:
    base, new = known_pair(name, tmp_path)
    assert run("diff", *base, "--against", *new, "--fail-on", fail_on)[0] == code


def test_the_words_for_a_near_tie(tmp_path: Path, run: Run) -> None:
    base, new = known_pair("exact_tie", tmp_path)
    lines = run("diff", *base, "--against", *new)[1].splitlines()
    assert any(line.startswith("tokens  differs from output 4 of seq 0: a near tie") for line in lines)
    assert "      base  step 5: 2777, margin 0 over 5" in lines
    assert "      new   step 5: 5, margin 0 over 2777" in lines


def test_hostile_text_stays_visible(tmp_path: Path, run: Run) -> None:
    paths = []
    for name, token in (("a", 1), ("b", 2)):
        paths.append(tmp_path / name)
        with record(paths[-1], n_layers=1, engine={"name": f"\x1b[2J{name}"}) as trace:
            trace.step(n_tokens=1, seq_before=0, seq_len=1, cache_len=[1], text="")
            trace.step(token_id=token, n_tokens=0, seq_before=1, seq_len=1, cache_len=[1], text="\x1b]0;x\x07")
    out = run("diff", paths[0], "--against", paths[1])[1]
    assert "\x1b" not in out
    assert "\x07" not in out


# -- planted faults ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "layer"), [("wrong_scale", 1), ("wrong_position", 0)])
def test_a_numeric_error_is_placed_at_its_layer_and_first_step(
    fault: str, layer: int, tmp_path: Path, run: Run
) -> None:
    paths = []
    for name, engine in (("good", built("O0")), ("bad", built("O0", fault))):
        paths.append(tmp_path / f"{name}.steps")
        words = shlex.split(command(engine).replace("{trace}", str(paths[-1])))
        assert os.spawnv(os.P_WAIT, words[0], words) == 0
    said = json.loads(run("diff", paths[0], "--against", paths[1], "--fail-on", "layers", "--json")[1])
    assert said["verdict"] == "differs"
    assert (said["layers"]["first"]["step"], said["layers"]["first"]["layer"]) == (3, layer)


def test_a_slow_layer_is_named(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "set"
    both = ["--base", command(built("O2")), "--new", command(built("O2", "slow_layer"))]
    assert run("record-set", "-n", "8", "-o", folder, *both)[0] == 0
    said = json.loads(run("diff", folder, "--json")[1])
    slow = {t["ratio"]: t["layer"] for t in said["time"] if t["layer"] is not None and t["verdict"] == "slower"}
    assert slow[max(slow)] == 1  # the layer behind it may lose its cache to it
    assert said["verdicts"]["tokens"] == said["verdicts"]["state"] == "same"


# -- record-set --------------------------------------------------------------------------------------------------------


def test_a_set_is_interleaved_and_keeps_its_order(levels: Path) -> None:
    index = json.loads((levels / "set.json").read_text())
    assert [r["side"] for r in index["runs"]] == ["base", "new"] * 6
    assert sorted(p.name for p in levels.iterdir()) == sorted([*(r["trace"] for r in index["runs"]), "set.json"])


@pytest.mark.parametrize("name", ["\0", "\ud83d", "x" * 5000])
def test_a_set_that_names_what_no_file_is_called(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    runs = [{"side": side, "trace": name, "seconds": 1.0} for side in ("base", "new")]
    (tmp_path / "set.json").write_text(json.dumps({"format": "stepscope-set", "version": 1, "runs": runs}))
    assert f"{tmp_path}/" in fails(capsys, "diff", tmp_path)


def test_one_side_alone_and_folders_as_sides(tmp_path: Path, run: Run) -> None:
    script = tmp_path / "engine.py"
    script.write_text(
        "import os, traces\nwith traces.record(os.environ['STEPSCOPE_TRACE'], n_layers=1) as t:\n"
        "    t.step(n_tokens=1, seq_before=0, seq_len=1, cache_len=[1])\n"
    )
    for name in ("a", "b"):
        folder = tmp_path / name
        assert run("record-set", "-n", "2", "-o", folder, "--", sys.executable, script)[0] == 0
        assert len(list(folder.glob("*.steps"))) == 2
    assert run("diff", tmp_path / "a", "--against", tmp_path / "b")[0] == 0


def test_what_was_recorded_stays_when_it_is_stopped(tmp_path: Path) -> None:
    script = tmp_path / "engine.py"
    script.write_text(
        "import os, signal, traces\n"
        "path = os.environ['STEPSCOPE_TRACE']\n"
        "with traces.record(path, n_layers=1) as t:\n"
        "    t.step(n_tokens=1, seq_before=0, seq_len=1, cache_len=[1])\n"
        "if path.endswith('base-3.steps'):\n"
        "    os.kill(os.getppid(), signal.SIGINT)\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    folder = tmp_path / "it's a set"
    words = ["record-set", "-n", "9", "-o", str(folder), "--", sys.executable, str(script)]
    stopped = subprocess.run([*STEPSCOPE, *words], capture_output=True, text=True)
    assert stopped.returncode == 130
    assert stopped.stderr == f"stepscope: {folder}: stopped; the runs that ended stay, and diff takes them\n"
    assert [r["trace"] for r in json.loads((folder / "set.json").read_text())["runs"]] == [
        "base-1.steps",
        "base-2.steps",
    ]


def test_a_failed_warm_up_leaves_the_folder_free(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import os, traces; traces.record(os.environ['STEPSCOPE_TRACE'], n_layers=1); raise SystemExit(3)"
    for _ in range(2):
        assert "ended with exit code 3" in fails(capsys, "record-set", "-o", tmp_path / "set", *failing(code))
    assert list((tmp_path / "set").iterdir()) == []


@pytest.mark.parametrize(("words", "started"), [([], 3), (["--no-warm-up"], 2)])
def test_each_command_runs_once_unrecorded_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, words: list[str], started: int
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "import os, traces; traces.record(os.environ['STEPSCOPE_TRACE'], n_layers=1).close()"
    code += "; open('ran', 'a').write('.')"
    assert run("record-set", "-n", "2", "-o", "set", *words, *failing(code))[0] == 0
    assert Path("ran").read_text() == "." * started
    assert len(list(Path("set").glob("*.steps"))) == 2


def test_stepscope_run_needs_no_placeholder() -> None:
    from inspector.record_set import with_trace

    assert with_trace(["/x/stepscope", "run", "-p", "hi"], "t") == ["/x/stepscope", "run", "-p", "hi", "-o", "t"]
    assert with_trace(["e", "--trace={trace}"], "t") == ["e", "--trace=t"]


def failing(code: str) -> list[str]:
    return ["--", sys.executable, "-c", code]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (failing("import sys; print('loading'); sys.exit('no such model')"), "ended with exit code 1: no such model"),
        (failing("import os; os.kill(os.getpid(), 11)"), "ended by signal 11"),
        (failing("pass"), "left no trace; put {trace} where it takes the trace's path"),
        (failing("open(__import__('os').environ['STEPSCOPE_TRACE'], 'w').write('hello there')"), "warm-up of base"),
        (["--", "/no/such/engine"], "cannot start /no/such/engine: No such file or directory"),
        (["--base", "x {trace}"], "name what to run"),
        (["--base", "x '", "--new", "y"], "No closing quotation"),
        (["--base", "x", "--new", "y", "--", "z"], "either one command after --"),
        (["-n", "0", "--", "true"], "-n takes the number of runs a side"),
        ([], "name what to run"),
    ],
)
def test_a_set_that_cannot_be_recorded(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in fails(capsys, "record-set", "-o", tmp_path / "set", *words)


def test_a_set_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kept").write_text("mine")
    assert "is not empty" in fails(capsys, "record-set", "-o", tmp_path, *failing("pass"))
    assert "is not a folder" in fails(capsys, "record-set", "-o", tmp_path / "kept", *failing("pass"))
    assert (tmp_path / "kept").read_text() == "mine"


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_bad_words_and_files(levels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = levels / "base-1.steps"
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "set.json").write_text("{]")
    (tmp_path / "text").write_text("hello there")
    for words, said in (
        ([trace], "--against"),
        ([tmp_path / "empty"], "--against"),
        ([tmp_path / "empty", "--against", trace], "holds no traces"),
        ([levels, "--against", trace], "holds both sides; give it alone"),
        ([tmp_path / "odd", "--against", trace], "is not JSON"),
        ([trace, "--against", tmp_path / "nowhere"], "nowhere: cannot read"),
        ([trace, "--against", tmp_path / "text"], "text: not a step trace"),
        ([levels, "--fail-on", "speed"], "--fail-on takes tokens"),
        ([levels, "--fail-on", ","], "--fail-on takes tokens"),
        ([levels, "--min-effect", "0"], "--min-effect takes a percentage"),
        ([trace, "--against", trace, "--base-binary", trace], "--base-binary and --new-binary go together"),
        ([trace, "--against", trace, "--base-binary", trace, "--new-binary", trace], "base-1.steps: "),
        ([levels, "--probe", "nobody"], "nobody"),
        ([trace, "--against", trace, "--probe", "native"], "name them with --base-binary and --new-binary"),
    ):
        assert said in fails(capsys, "diff", *words)


# -- binaries ----------------------------------------------------------------------------------------------------------


def test_members_that_moved_and_functions_that_grew(tmp_path: Path) -> None:
    moved = C.replace("    unsigned flag : 3;", "    long long more[2];\n    unsigned flag : 3;")
    moved = moved.replace("    calls++;", "    calls++;\n    if (n > 90) calls = calls * tokens[1] / (n + 7);")
    programs = []
    for name, source in (("old", C), ("new", moved)):
        (tmp_path / name).mkdir()
        programs.append(str(compiled(tmp_path / name, source, "-O0", "-g", "-Wl,--build-id")))
    probe = tmp_path / "mine.ini"
    probe.write_text(
        "[probe]\nname = mine\nengine = mine\n\n[forward]\nfunction = forward\nseq_before = st->seq_len\nn_tokens = n\n"
    )
    seen = compare_binaries(programs[0], programs[1], str(probe))
    assert seen["build_id"][0] != seen["build_id"][1]
    assert [m["field"] for m in seen["offsets"]] == ["seq_before"]
    assert seen["functions"][0]["name"] == "forward"
    assert 0 < seen["functions"][0]["size"][0] < seen["functions"][0]["size"][1]
    assert "-O0" in seen["flags"][0]
    same = compare_binaries(programs[0], programs[0], str(probe))
    assert same["offsets"] == []
