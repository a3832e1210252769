"""The main job as a user does it: record, look, check. Real processes, the embedded model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from tests.command_line import ROOT, STEPSCOPE, stepscope

PROMPT = "List the first six letters of the alphabet"


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("main")
    done = stepscope("run", "-p", PROMPT, "-o", "a.steps", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "a b c d e f\n")
    assert "a.steps" in done.stderr
    return folder / "a.steps"


def test_the_film_has_one_line_a_step(letters: Path) -> None:
    lines = stepscope("show", letters, cwd=letters.parent).stdout.splitlines()
    table = [line.split() for line in lines[3:]]
    assert [row[:2] for row in table] == [["0", "prefill"]] + [[str(i), "decode"] for i in range(1, 8)]
    assert [row[3].strip("␣") for row in table[1:7]] == list("abcdef")
    lengths = [tuple(map(int, row[4:7])) for row in table[1:]]
    prompt = lengths[0][0]
    assert lengths[:6] == [(prompt + i, prompt + i + 1, prompt + i + 1) for i in range(6)]
    assert lengths[6] == (prompt + 6,) * 3
    assert lines[-1].endswith("not fed; finish=eos")


def test_every_rule_passes_or_says_why_not(letters: Path) -> None:
    done = stepscope("check", letters, "--json", cwd=letters.parent)
    assert done.returncode == 0
    verdicts = json.loads(done.stdout)
    assert verdicts["verdict"] == "pass"
    for code, rule in verdicts["rules"].items():
        assert rule["verdict"] == "pass" or (rule["verdict"] == "unknown" and rule["why_unknown"]), code
    assert len(verdicts["rules"]) == 20


def test_show_json_holds_every_field(letters: Path) -> None:
    printed = stepscope("show", letters, "--json", cwd=letters.parent).stdout
    assert printed.count("\n") == 1, "one object a trace, one a line"
    shown = json.loads(printed)
    assert shown["complete"] is True
    assert [s["finish"] for s in shown["steps"]] == [None] * 7 + ["eos"]
    step = shown["steps"][3]
    assert len(step["cache_len"]) == len(step["gemm_ms"]) == len(step["hidden_rms"]) == 4
    assert shown["notes"][1]["kind"] == "request"
    assert shown["notes"][1]["prompt_tokens"] == shown["steps"][0]["n_tokens"]


def test_stats_begin_with_the_rates(letters: Path) -> None:
    text = stepscope("stats", letters, cwd=letters.parent).stdout
    first, second, third = text.splitlines()[:3]
    assert first.startswith("prefill: 25 tok in ")
    assert " | decode: 6 tok in " in first
    assert second.startswith("TTFT ")
    assert third.startswith("ITL p50 ")
    assert "finish: eos" in text
    assert "tracing: " in text
    figures = json.loads(stepscope("stats", letters, "--json", cwd=letters.parent).stdout)
    assert figures["prefill"]["tokens"] == 25
    assert figures["decode"]["tokens"] == 6
    assert figures["forwards"] == 7
    assert figures["tracing_ms"] > 0


def test_max_new_tokens_two(tmp_path: Path) -> None:
    assert stepscope("run", "-p", PROMPT, "--max-new-tokens", "2", "-o", "b.steps", cwd=tmp_path).returncode == 0
    lines = stepscope("show", "b.steps", cwd=tmp_path).stdout.splitlines()
    assert [line.split()[1] for line in lines[3:]] == ["prefill", "decode", "decode"]
    assert lines[-1].endswith("finish=length")


def test_without_o_a_new_file_is_named_on_stderr(tmp_path: Path) -> None:
    for _ in range(2):
        done = stepscope("run", "-p", "List the first two letters of the alphabet", cwd=tmp_path)
        assert done.returncode == 0
    traces = sorted(tmp_path.glob("*.steps"))
    assert len(traces) == 2
    assert any(path.name in done.stderr for path in traces)


def test_the_prompt_from_a_file_stdin_or_ids_is_the_same_run(letters: Path, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text(PROMPT)
    notes = json.loads(stepscope("show", letters, "--json", cwd=tmp_path).stdout)["notes"]
    ids = next(note["prompt_ids"] for note in notes if note["kind"] == "request")
    for words, options in (
        (["--prompt-file", "p.txt"], {}),
        (["--prompt-file", "-"], {"input": PROMPT}),
        (["--prompt-ids", ",".join(map(str, ids))], {}),
    ):
        assert stepscope("run", *words, "--no-trace", cwd=tmp_path, **options).stdout == "a b c d e f\n"


def test_a_seed_repeats_a_sampled_run(tmp_path: Path) -> None:
    words = ["run", "-p", PROMPT, "--temperature", "5", "--max-new-tokens", "12", "--no-trace", "--seed"]
    first, again, other = (stepscope(*words, seed, cwd=tmp_path).stdout for seed in ("7", "7", "8"))
    assert first == again
    assert first != other


def test_ctrl_c_closes_the_trace_and_exits_130(tmp_path: Path) -> None:
    words = ["run", "-p", PROMPT, "--ignore-eos", "--max-new-tokens", "2000", "-o", "c.steps"]
    process = subprocess.Popen(
        [*STEPSCOPE, *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.read(3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in errors
    shown = json.loads(stepscope("show", "c.steps", "--json", cwd=tmp_path).stdout)
    assert shown["complete"]
    assert {"kind": "finish", "seq_id": 0, "finish": "abort"} in [
        {k: v for k, v in note.items() if k != "before_step"} for note in shown["notes"]
    ] or shown["steps"][-1]["finish"] == "abort"
    assert stepscope("check", "c.steps", cwd=tmp_path).returncode == 0


def test_a_cut_off_trace_is_said_so_by_every_verb(letters: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.steps"
    cut.write_bytes(letters.read_bytes()[:-400])
    for verb in ("show", "check", "stats"):
        done = stepscope(verb, cut, cwd=tmp_path)
        assert "cut off: no END frame" in done.stdout
    assert "cut off" in stepscope("export", cut, "--to", "jsonl", cwd=tmp_path).stderr
    assert not json.loads(stepscope("check", cut, "--json", cwd=tmp_path).stdout)["complete"]


def test_check_follow_ends_with_the_trace(tmp_path: Path) -> None:
    writer = """
import sys, time, traces
with traces.record(sys.argv[1], n_layers=1) as trace:
    trace.request(prompt_tokens=1, n_reused=0)
    for i in range(6):
        trace.step(token_id=i or None, n_tokens=1, seq_before=i, seq_len=i + 1, cache_len=[i + 1 + (i == 4)])
        time.sleep(0.1)
"""
    path = tmp_path / "grow.steps"
    process = subprocess.Popen([sys.executable, "-c", writer, str(path)])
    deadline = time.monotonic() + 20
    while not (path.exists() and path.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    done = stepscope("check", path, "--follow", "--select", "KV01", cwd=tmp_path)
    process.wait()
    assert done.returncode == 1
    assert "KV01 step 4 seq 0: seq_len is 5, layer 0 holds 6 rows" in done.stdout


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert stepscope("--version", cwd=tmp_path).stdout == f"stepscope {project['version']}\n"


def test_a_raw_prompt_is_fed_without_the_chat_template(tmp_path: Path) -> None:
    words = ["--raw", "-p", "a b c", "--max-new-tokens", "1", "--repetition-penalty", "1.5", "-o", "a.steps"]
    assert stepscope("run", *words, cwd=tmp_path).returncode == 0
    shown = json.loads(stepscope("show", "a.steps", "--json", cwd=tmp_path).stdout)
    # as the film of the letters has them: a, then b and c with a blank before
    assert [note["prompt_ids"] for note in shown["notes"] if note["kind"] == "request"] == [[64, 317, 302]]
    assert shown["run"]["sampler"] == {"kind": "greedy", "repetition_penalty": 1.5}


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, inspector.cli as c\ntry: c.main(['--help'])\nexcept SystemExit: pass\nprint(sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for heavy in ("numpy", "textual", "tokenizers", "jinja2", "rich"):
        assert f"'{heavy}'" not in done.stdout


def test_nothing_is_coloured_in_a_pipe(letters: Path) -> None:
    for verb in ("show", "check", "stats"):
        assert "\x1b" not in stepscope(verb, letters, cwd=letters.parent).stdout


def test_a_closed_pipe_ends_quietly(letters: Path) -> None:
    command = f"{sys.executable} -m inspector.cli show {letters} --json | head -c 10"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.returncode in (0, 141)


def test_the_readme_example_records_and_passes(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    code = readme.split("```python\n")[1].split("```")[0]
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, env={**os.environ})
    done = stepscope("check", "toy.steps", "--json", cwd=tmp_path)
    assert done.returncode == 0
    verdicts = json.loads(done.stdout)
    passed = {code for code, rule in verdicts["rules"].items() if rule["passed"]}
    assert {"KV01", "KV02", "KV03", "KV04", "KV09", "TK01", "TK03", "TK04"} <= passed
