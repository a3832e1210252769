"""Whatever a user gets wrong ends as one clear line on stderr, exit code 2, and costs nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inspector import cli
from inspector.text import token_text, visible
from tests.command_line import SAMPLE, STEPSCOPE, fails
from traces import frames, record
from traces.table import Table

DEMO = Path(__file__).parents[2] / "engine" / "demo"


@pytest.mark.parametrize("verb", [["show"], ["check"], ["stats"], ["export", "--to", "jsonl"]])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read"),
        (b"", "empty"),
        (b"what is this", "not a step trace"),
        (b"{\"format\": \"pdf\"}\n", "line 1"),
        (b"STEP\x01\x00", "run description"),
    ],
)  # fmt: skip
def test_what_is_no_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: list[str], content: bytes | None, words: str
) -> None:
    path = tmp_path / "x.steps"
    if content is not None:
        path.write_bytes(content)
    line = fails(capsys, *verb, path)
    assert words in line
    assert "x.steps" in line


def test_a_trace_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.steps"
    path.write_bytes(SAMPLE.read_bytes())
    path.chmod(0)
    # whoever may read anything does without that right
    able = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    done = subprocess.run([*able, *STEPSCOPE, "show", str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"stepscope: {path}: cannot read: Permission denied\n"


def test_several_traces_one_of_them_unreadable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["check", str(SAMPLE), str(tmp_path / "missing.steps"), "--select", "KV02"])
    out, err = capsys.readouterr()
    assert code == 2
    assert "2 traces: 1 pass, 1 cannot be read" in out
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--prompt-ids", ""], "empty"),
        (["run", "--prompt-ids", "1", "--system", "x"], "--prompt-ids"),
        (["run", "-p", "a", "--temperature", "1", "--top-p", "0"], "--top-p is 0.0; it is above 0"),
        (["chat", "--min-p", "0.1"], "--min-p says nothing about greedy decoding"),
        # what cannot be is said before the model is looked for
        (["run", "/nowhere", "-p", "a", "--temperature", "1", "--top-k", "-1"], "--top-k is -1"),
        (["run", "-p", "a", "--temperature", "nan"], "temperature"),
        (
            ["run", "-p", "a", "-p", "b", "--loop", "naive"],
            "--loop naive runs one prompt, here are 2; use --loop batched",
        ),
        (["run", "-p", "a", "-p", " "], "prompt is empty"),
        (["run", "-p", "a", "--max-batch", "3"], "goes with batched"),
        (["run", "-p", "a", "--loop", "naive", "--prefill-chunk", "3"], "cached or speculative or batched"),
        (["run", "-p", "a", "--loop", "naive", "--kv-dtype", "int8"], "goes with cached or speculative"),
        (["run", "-p", "a", "--loop", "speculative", "--n-keep", "3"], "goes with cached"),
        (["run", "-p", "a", "--loop", "speculative", "--draft-k", "65"], "--draft-k is 65; it is from 1 to 64"),
        (["run", "-p", "a", "--loop", "speculative", "--draft-k", "30", "--context", "25"], "draft at most 24"),
        (["run", "-p", "a", "--loop", "speculative", "--draft-model", "/nowhere"], "/nowhere"),
        (["run", "-p", "a", "--context", "5"], "the context holds 5"),
        (["run", "-p", "a", "-p", "b", "--context", "5"], "the context holds 5"),
        (["run", "-p", "a", "--context", "30", "--n-keep", "29"], "keep at most 28"),
        (["run", "-p", "a", "--prefill-chunk", "0"], "--prefill-chunk is 0"),
        (["run", "--prompts-file", "/nowhere.txt"], "/nowhere.txt"),
        (["run", "--prompts-file", "/dev/null"], "prompt is empty"),
        (["import", "jsonl", "/nowhere.jsonl"], "/nowhere.jsonl"),
    ],
)
def test_words_that_do_not_go_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[Any], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in fails(capsys, *words)
    assert list(tmp_path.iterdir()) == []


def test_a_prompt_longer_than_the_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    line = fails(capsys, "run", "-p", "a " * 5000, "-o", "a.steps")
    assert "context" in line


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_half_a_model_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: str) -> None:
    for source in DEMO.glob("*.*"):
        if source.name != missing and source.suffix != ".py":
            (tmp_path / source.name).write_bytes(source.read_bytes())
    assert missing in fails(capsys, "run", tmp_path, "-p", "a", "--no-trace")


def test_an_old_trace_survives_a_run_that_cannot_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = tmp_path / "old.steps"
    old.write_bytes(SAMPLE.read_bytes())
    fails(capsys, "run", "/nowhere", "-p", "a", "-o", old)
    assert old.read_bytes() == SAMPLE.read_bytes()


def test_another_kind_of_file_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "thesis.tex"
    other.write_text("years of work")
    assert "not a step trace" in fails(capsys, "run", "-p", "a", "-o", other)
    assert other.read_text() == "years of work"


def test_a_full_disk(capsys: pytest.CaptureFixture[str]) -> None:
    line = fails(capsys, "run", "-p", "a", "-o", "/dev/full")
    assert "No space left" in line


def test_a_newer_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.steps"
    with record(path, n_layers=1, version=9) as trace:
        trace.step(seq_len=1)
    assert "update stepscope" in fails(capsys, "show", path)


def test_hostile_text_is_made_visible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.steps"
    with record(path, n_layers=1, model={"name": "\x1b]0;owned\x07"}) as trace:
        trace.request(prompt="\x1b[2J", prompt_tokens=1, n_reused=0)
        trace.step(n_tokens=1, seq_before=0, seq_len=1, cache_len=[1])
        for text in (b"\x1b[31mred", "a\u202eb".encode(), b"\xe4\xbd", b"\xa0\n"):
            trace.step(token_id=5, seq_before=1, seq_len=2, cache_len=[2], text=text)
        trace.note("message", text="\x1b[2J")
    for verb in ("show", "check", "stats"):
        cli.main([verb, str(path)])
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert "\u202e" not in out
    cli.main(["show", str(path)])
    out = capsys.readouterr().out
    assert "\\e[31mred" in out
    assert "a\\u202eb" in out
    assert "\\xe4\\xbd" in out
    assert "\\xa0\\n" in out


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("", ""),
        ("\x00\x07\x7f\x9b", "\\0\\x07\\x7f\\x9b"),
        ("line\nfeed\r\ttab", "line\\nfeed\\r\\ttab"),
        ("\udce4\udcbd", "\\xe4\\xbd"),
        ("\u200f\u2067\ufeff", "\\u200f\\u2067\\ufeff"),
        ("é中🙂", "é中🙂"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(("text", "cell"), [(" b", "␣b"), ("b", "b"), ("  ", "␣␣"), (" a b ", "␣a b␣"), (None, "")])
def test_blanks_at_a_tokens_ends_are_seen(text: str | None, cell: str) -> None:
    assert token_text(text) == cell


def test_json_lines_are_read_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["export", str(SAMPLE), "--to", "jsonl", "-o", str(tmp_path / "a.jsonl")]) == 0
    capsys.readouterr()
    assert cli.main(["check", str(tmp_path / "a.jsonl"), "--json"]) == 1
    verdicts = json.loads(capsys.readouterr().out)
    assert verdicts["rules"]["KV01"]["failures"][0]["message"] == (
        "KV01 step 8 seq 1: seq_len is 10, layer 0 holds 25 rows"
    )


def test_pipes_and_devices_are_refused_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for words in (["show", pipe], ["check", "/dev/zero"], ["import", "jsonl", pipe], ["import", "jsonl", "/dev/zero"]):
        assert "not a regular file" in fails(capsys, *words)


@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}, {"TERM": "dumb"}])
def test_a_terminal_without_unicode_gets_escapes(environment: dict[str, str]) -> None:
    command = [*STEPSCOPE, "show", str(SAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert (done.returncode, done.stderr) == (0, "")
    assert "prefill" in done.stdout


def test_closed_streams_are_no_error() -> None:
    command = f"{sys.executable} -m inspector.cli show {SAMPLE} >&- 2>&-"
    assert subprocess.run(["bash", "-c", command]).returncode == 0


def test_an_export_never_costs_a_trace_or_another_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, notes = tmp_path / "a.steps", tmp_path / "notes.txt"
    trace.write_bytes(SAMPLE.read_bytes())
    notes.write_text("precious")
    assert "not JSON Lines" in fails(capsys, "export", trace, "--to", "jsonl", "-o", trace)
    assert "not JSON Lines" in fails(capsys, "export", trace, "--to", "jsonl", "-o", notes)
    assert trace.read_bytes() == SAMPLE.read_bytes()
    assert notes.read_text() == "precious"


def test_numbers_that_are_none_in_a_foreign_trace_are_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.steps"
    with record(path, n_layers=1) as trace:
        trace.note("totals", seq_id=0, prefill_ms=1.0)
        trace.step(seq_len=1)
    data = path.read_bytes().replace(b'"prefill_ms":1.0}', b'"prefill_ms":NaN}')
    at = data.index(b"STEP", 4)
    note = data[at + 16 : at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")]
    path.write_bytes(data[:at] + frames.pack(frames.NOTE, 1, note) + data[at + 16 + len(note) :])
    for words in (
        ["export", str(path), "--to", "jsonl"],
        ["stats", str(path), "--json"],
        ["show", str(path), "--json"],
    ):
        assert cli.main(words) == 0
        assert "NaN" not in capsys.readouterr().out


def test_a_prompt_that_is_no_text_is_refused(tmp_path: Path) -> None:
    command = [os.fsencode(sys.executable), b"-m", b"inspector.cli", b"run", b"-p", b"a\xff\xfeb", b"--no-trace"]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"stepscope: the prompt is not UTF-8 text\n"


@pytest.mark.parametrize("verb", [["run", "-p", "hi", "--no-trace"], ["chat", "-o", "talk.steps"]])
def test_a_system_message_that_is_no_text_is_refused(tmp_path: Path, verb: list[str]) -> None:
    words = [os.fsencode(word) for word in (sys.executable, "-m", "inspector.cli", *verb, "--system")]
    done = subprocess.run([*words, b"\xff"], capture_output=True, cwd=tmp_path, input=b"hi\n")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert b"no UTF-8" in done.stderr


def test_ctrl_c_before_a_verb_begins_ends_quietly() -> None:
    code = "import inspector.cli as cli\ndef parser(): raise KeyboardInterrupt\ncli.parser = parser; exit(cli.main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert (done.returncode, done.stderr) == (130, b"")


PRESSED = """
import os, signal, sys
class Press:
    def find_spec(self, name, path=None, target=None):
        if name == "inspector.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
import inspector.__main__
inspector.__main__.program()
"""


def test_ctrl_c_while_the_command_line_is_imported_ends_quietly() -> None:
    done = subprocess.run([sys.executable, "-c", PRESSED], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


LOST = """
import os, signal
from inspector import cli
class Freed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
def main():
    freed = Freed()
    del freed
    return 0
cli.main = main
cli.program()
"""


def test_a_signal_whose_exception_python_loses_is_not_told_as_a_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGTERM, b"", b"")


def test_the_package_is_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "inspector", "rule", "KV01"], capture_output=True, text=True)
    assert (done.returncode, done.stdout[:4]) == (0, "KV01")


def test_a_run_whose_reader_left_was_left_not_wrong(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "inspector", "run", "-p", "Count to ten", "-o", "a.steps"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
    table = Table(tmp_path / "a.steps")
    assert [note["finish"] for _, note in table.notes() if note["kind"] == "finish"] == ["abort"]
    assert table.complete


def test_a_name_that_is_no_text_is_whole_in_json(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    Path(os.fsdecode(folder), "config.json").write_bytes((DEMO / "config.json").read_bytes())
    words = [os.fsencode(sys.executable), b"-m", b"inspector", b"floor", folder, b"--bandwidth", b"10GB", b"--json"]
    done = subprocess.run(words, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert os.fsencode(json.loads(done.stdout)["model"]) == b"caf\xe9"


def test_the_module_as_a_program_has_the_same_errors(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "inspector.cli", "run", "-p", "hi", "/nonexistent"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("stepscope: /nonexistent: no such model; MODEL is a folder, ")
