"""`stepscope import`: formats by content, a user's own expressions, bad input, doubts."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inspector import cli
from tests.command_line import STEPSCOPE, fails
from tests.reading import steps
from tests.traces.importers.test_kestrel import FILM
from tests.traces.importers.test_kestrel import SERVER as KESTREL
from tests.traces.importers.test_llama_cpp import NEW, SERVER
from traces.table import Table

BLOCK = NEW.encode()


def imports(*words: Any) -> int:
    return cli.main(["import", *map(str, words)])


@pytest.mark.parametrize("name", ["llama.cpp", "llama_cpp", "LLaMA-cpp", "auto"])
def test_formats_by_name_and_by_content(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (tmp_path / "a.log").write_bytes(BLOCK)
    assert imports(name, tmp_path / "a.log", "-o", tmp_path / "a.steps", "--strict") == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"stepscope: 0 steps and totals of 1 request written to {tmp_path}/a.steps\n")


@pytest.mark.parametrize("name", ["llama.cpp", "auto"])
def test_from_standard_input(tmp_path: Path, name: str) -> None:
    command = [*STEPSCOPE, "import", name, "-", "-o", str(tmp_path / "a.steps")]
    done = subprocess.run(command, input=BLOCK, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert Table(tmp_path / "a.steps").complete


def test_json_lines_by_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"format": "stepscope", "version": 1}\n{"phase": "prefill", "n_tokens": 3}\n'
                                '{"note": {"kind": "end"}}\n')  # fmt: skip
    assert imports("auto", tmp_path / "a", "-o", tmp_path / "a.steps") == 0
    assert steps(tmp_path / "a.steps")[0]["n_tokens"] == 3


def test_strict_says_no_where_a_line_is_doubtful(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_bytes(BLOCK.replace(b"80.00 ms", b"  nan ms"))
    for words, code in ([], 0), (["--strict"], 1):
        assert imports("auto", tmp_path / "a.log", "-o", tmp_path / "a.steps", *words) == code
        assert "1 line was dropped or doubtful" in capsys.readouterr().err
    cli.main(["show", str(tmp_path / "a.steps")])
    assert "line 3: the prompt eval time is nan" in capsys.readouterr().out


PATTERN = r"tok=(?P<token_id>\d+) len=(?P<seq_len>\d+) took (?P<total_us>[\d.,]+)us"


def test_a_user_s_own_expressions(tmp_path: Path) -> None:
    (tmp_path / "my.log").write_text(
        "prompt of 12 tokens, 4 cached\nnoise\ntok=64 len=13 took 1500us\ntok=65 len=14 took 2500,5us\ntok=x\n"
    )
    request = r"prompt of (?P<prompt_tokens>\d+) tokens, (?P<n_reused>\d+) cached"
    words = ["pattern", tmp_path / "my.log", "--regex", PATTERN, "--regex", request, "-o", tmp_path / "my.steps"]
    assert imports(*words, "--set", "n_tokens=1", "--set", "full_layers=2") == 0
    first, second = steps(tmp_path / "my.steps")
    names = ("phase", "token_id", "seq_len", "total_ms", "n_tokens")
    assert [first[name] for name in names] == ["decode", 64, 13, 1.5, 1]
    assert [second[name] for name in names] == ["decode", 65, 14, 2.5005, 1]
    table = Table(tmp_path / "my.steps")
    assert table.notes()[0][1] == {"kind": "request", "seq_id": 0, "prompt_tokens": 12, "n_reused": 4}
    assert table.runs[0].facts["layers"] == [{"kind": "full"}, {"kind": "full"}]


def test_a_clock_with_a_unit_and_a_field_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "my.log").write_text("at 1.5 ms: 64, 11.5 W\nat 3.25 ms: 65, 12 W\n")
    regex = r"at (?P<t_ms>[\d.]+) ms: (?P<token_id>\d+), (?P<power_w>[\d.]+) W"
    assert imports("pattern", tmp_path / "my.log", "--regex", regex, "-o", tmp_path / "my.steps") == 0
    made = steps(tmp_path / "my.steps", "t_ns", "token_id", "power_w")
    assert [tuple(step.values()) for step in made] == [(1_500_000, 64, 11.5), (3_250_000, 65, 12.0)]


def test_values_that_do_not_fit_are_doubts_not_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "my.log").write_text("t=99999999999999999999 l=3\nt=5 l=9999999999999\nt=6 l=-\nt=7 l=4\n")
    words = ["pattern", tmp_path / "my.log", "--regex", r"t=(?P<token_id>\d+) l=(?P<seq_len>\S+)"]
    assert imports(*words, "-o", tmp_path / "my.steps", "--strict") == 1
    assert [(s["token_id"], s["seq_len"]) for s in steps(tmp_path / "my.steps")] == [(6, None), (7, 4)]
    assert "3 lines were dropped or doubtful" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["auto"], "no line says which engine wrote it"),
        (["vllm"], "no line of it is known as vllm's"),
        (["pattern"], "pattern needs --regex"),
        (["pattern", "--regex", "(("], "--regex '(('"),
        (["pattern", "--regex", "a+"], "no named group"),
        (["pattern", "--regex", r"(?P<hidden_rms>\d)"], "an array"),
        (["pattern", "--regex", r"(?P<token_id>\d+)z"], "no line of it matches --regex"),
        (["pattern", "--regex", r"(?P<token_id>\d)", "--set", "n_tokens"], "--set: n_tokens has no value"),
        (["pattern", "--regex", r"(?P<token_id>\d)", "--set", "phase=later"], "--set: phase cannot be 'later'"),
        (["pattern", "--regex", r"(?P<token_id>\d)", "--set", "full_layers=-3"], "full_layers cannot be '-3'"),
        (
            ["pattern", "--regex", r"(?P<token_id>\d)", "--set", "full_layers=99999999"],
            "full_layers cannot be '99999999'",
        ),
        (["auto", "-o", "-"], "not written to standard output"),
        (["vllm", "-o", "nowhere/a.steps"], "nowhere/a.steps: cannot write"),
    ],
)
def test_what_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.log").write_text("nothing of any engine\n")
    assert says in fails(capsys, "import", words[0], "a.log", *words[1:])
    assert [path.name for path in tmp_path.iterdir()] == ["a.log"]


@pytest.mark.parametrize(
    "line",
    [
        "ggml_debug: l_out-99999999 = (f32) ADD() = {8, 5, 1, 1}",
        "ggml_debug: l_out-0 = (f32) ADD() = {8, 99999999999999, 1, 1}",
        "DEC token_id=64 seq_before=25 cache70000=25",
    ],
)
def test_a_number_beyond_measure_is_a_doubt_even_on_the_last_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.log").write_text(f"{line}\n    sum = 1.5\n")
    assert imports("auto", tmp_path / "a.log", "-o", tmp_path / "a.steps", "--strict") == 1
    notes = [note for _, note in Table(tmp_path / "a.steps").notes()]
    assert {note["kind"] for note in notes} == {"message"}
    assert steps(tmp_path / "a.steps") == []


@pytest.mark.parametrize(("name", "other", "requests"), [("llama.cpp", "kestrel", 4), ("kestrel", "llama.cpp", 2)])
def test_the_other_engine_in_a_mixed_log_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, other: str, requests: int
) -> None:
    (tmp_path / "a.log").write_text(SERVER + KESTREL + SERVER)
    assert imports(name, tmp_path / "a.log", "-o", tmp_path / "a.steps", "--strict") == 1
    assert "1 line was dropped" in capsys.readouterr().err
    assert len([note for _, note in Table(tmp_path / "a.steps").notes() if note["kind"] == "totals"]) == requests
    cli.main(["show", str(tmp_path / "a.steps")])
    assert f"{other} printed this: its lines are left out" in capsys.readouterr().out


def test_a_log_of_averages_alone_says_what_came_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text(
        "INFO 09-15 10:00:00 Avg prompt throughput: 12.5 tokens/s, Avg generation throughput: 34.0 tokens/s\n"
    )
    assert imports("auto", tmp_path / "a.log", "-o", tmp_path / "a.steps") == 0
    assert "no steps, but 1 note (`stepscope show` prints them) written to" in capsys.readouterr().err
    cli.main(["show", str(tmp_path / "a.steps")])
    assert "prompt_tok_s=12.5" in capsys.readouterr().out


def test_a_trace_is_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_bytes(BLOCK)
    imports("auto", tmp_path / "a.log", "-o", tmp_path / "a.steps")
    capsys.readouterr()
    assert "is a step trace already" in fails(capsys, "import", "auto", tmp_path / "a.steps")


def test_a_directory_a_pipe_and_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in tmp_path, Path("/dev/zero"):
        assert "not a regular file" in fails(capsys, "import", "llama.cpp", path)
    assert "cannot read" in fails(capsys, "import", "auto", tmp_path / "none")


def test_escape_sequences_of_a_log_never_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_bytes(b"\x9b2J\x1b]0;owned\x07 llama_print_timings: eval time =   nan ms /  3 runs\n")
    imports("auto", tmp_path / "a.log", "-o", tmp_path / "a.steps")
    cli.main(["show", str(tmp_path / "a.steps")])
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert "\x9b" not in out + err


def test_memory_stays_the_same_while_a_log_grows(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom inspector import cli\nassert cli.main(sys.argv[1:]) == 0\n"
        "print(next(line for line in open('/proc/self/status') if 'VmHWM' in line).split()[1])"
    )
    peaks = []
    for times in (20, 2000):
        log = tmp_path / "a.log"
        log.write_text((SERVER + "x" * 2000 + "\n") * times)
        command = [sys.executable, "-c", code, "import", "llama.cpp", str(log), "-o", str(tmp_path / "a.steps")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] < peaks[0] + 8, f"{peaks} MB for 70 kB and 7 MB"


def test_a_text_with_braces_is_no_json(tmp_path: Path) -> None:
    program = "int main() {\n{\n  return 0;\n}\n{\n"
    (tmp_path / "a.log").write_text(program + NEW + program)
    assert imports("auto", tmp_path / "a.log", "-o", tmp_path / "a.steps", "--strict") == 0
    (tmp_path / "b.log").write_text(NEW + json.dumps({"timings": {"prompt_n": 3}}, indent=1)[:-2])
    assert imports("auto", tmp_path / "b.log", "-o", tmp_path / "b.steps", "--strict") == 1
    assert not Table(tmp_path / "b.steps").complete


def test_numbers_beyond_measure_are_doubts(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(
        f"DEC token_id=1 seq_before=99999999999\nDEC token_id=1 seq_before={'9' * 5000}\n{FILM}"
    )
    assert imports("kestrel", tmp_path / "a.log", "-o", tmp_path / "a.steps", "--strict") == 1
    assert [s["token_id"] for s in steps(tmp_path / "a.steps")] == [64, 65, 66, 67]


def test_a_stream_in_place_of_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FILM.encode())))
    assert imports("kestrel", "-", "-o", tmp_path / "a.steps") == 0
    assert len(steps(tmp_path / "a.steps")) == 4
