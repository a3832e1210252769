"""What goes wrong around the tool: a full disk, folders that take nothing, signals, clocks, and other processes."""

from __future__ import annotations

import contextlib
import os
import pty
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.command_line import ROOT, SAMPLE, STEPSCOPE, stepscope
from tests.fuzz.running import behaves, run
from traces import TraceError, record
from traces.exporters import jsonl
from traces.table import Table
from traces.writer import TraceWriter

RUN = ["run", "-p", "List the first six letters of the alphabet", "-o"]
BEGUN = "import sys; from inspector import cli; sys.argv[0] = 'stepscope'; print('begun', flush=True); cli.program()"
"""The program, which says when Python has begun with it: before, a signal is Python's matter"""
LONG = ["run", "-p", "Count to forty", "--ignore-eos", "--max-new-tokens", "100000", "-o"]


def large(path: Path, steps: int = 3000) -> Path:
    """A sound trace of 200 kB."""
    with record(path, n_layers=4, flush="interval") as trace:
        trace.request(prompt_tokens=1, n_reused=0)
        trace.step(n_tokens=1, seq_before=0, seq_len=1, cache_len=[1] * 4)
        for i in range(1, steps):
            trace.step(token_id=i, n_tokens=1, seq_before=i, seq_len=i + 1, cache_len=[i + 1] * 4, total_ms=1.0)
    return path


# -- a full disk, and folders that take nothing ----------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, dict[str, object]]]:
    """A folder with room for 32 kB, and what a process needs to be given so that it is so: a mounted tmpfs, and for who
    may not mount a limit on the size of files."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", folder], capture_output=True)
    if done.returncode == 0:
        yield folder, {}
        subprocess.run(["umount", "-l", folder], check=True)
    else:
        yield folder, {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (32768, 32768))}


@pytest.mark.parametrize(
    "words", ["run", "import jsonl", "export --to jsonl", "export --to csv", "export --to perfetto", "report"]
)
def test_a_disk_that_fills_up(small_disk: tuple[Path, dict[str, object]], tmp_path: Path, words: str) -> None:
    folder, options = small_disk
    out, source = folder / "out.x", large(tmp_path / "a.steps")
    if words == "run":
        command = [*LONG, str(out)]
    elif words == "import jsonl":
        (tmp_path / "a.jsonl").write_text("\n".join(jsonl.lines(Table(source))) + "\n")
        command = ["import", "jsonl", str(tmp_path / "a.jsonl"), "-o", str(out)]
    else:
        command = [*words.split(), str(source), "-o", str(out)]
    done = stepscope(*command, **options)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"stepscope: {out}: cannot write: ")
    if words == "run":  # what was recorded before is worth keeping
        kept = Table(out)
        assert kept.steps > 50
        assert not kept.complete
    else:
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "words", [["show", SAMPLE], ["stats", SAMPLE, "--json"], ["rule"], ["export", SAMPLE, "--to", "csv"]]
)
def test_standard_output_on_a_full_disk(words: list[object]) -> None:
    with open("/dev/full", "w") as full:
        command = [*STEPSCOPE, *map(str, words)]
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
        assert (done.returncode, done.stderr) == (2, "stepscope: standard output: No space left on device\n")
        assert subprocess.run(command, cwd=ROOT, stdout=full, stderr=full).returncode == 2


@pytest.mark.parametrize(
    "words",
    [
        [*RUN, "a.steps"],
        RUN[:-1],
        ["import", "jsonl", "{jsonl}"],
        ["import", "jsonl", "{jsonl}", "-o", "a.steps"],
        ["export", "{trace}", "--to", "jsonl", "-o", "a.jsonl"],
        ["export", "{trace}", "--to", "parquet", "-o", "fleet"],
        ["report", "{trace}", "-o", "a.html"],
        ["diff", "{trace}", "--against", "{trace}", "--html", "a.html"],
        ["record-set", "-n", "1", "-o", "set", "--", "true"],
        ["probe", "plain", "native", "-o", "hooks.gdb"],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_a_folder_that_nothing_can_be_written_to(tmp_path: Path, words: list[str]) -> None:
    text = tmp_path / "a.jsonl"
    text.write_text("\n".join(jsonl.lines(Table(SAMPLE))) + "\n")
    folder = tmp_path / "kept"
    folder.mkdir(mode=0o555)
    # whoever may write anywhere does without that right
    able = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    command = [*able, *STEPSCOPE, *(word.format(trace=SAMPLE, jsonl=text) for word in words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 2, done
    (line,) = done.stderr.splitlines()
    assert line.startswith("stepscope: ")
    assert line.endswith("Permission denied")
    assert list(folder.iterdir()) == []


# -- signals ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("inputs")
    trace = large(folder / "a.steps", 60_000)
    text = folder / "a.jsonl"
    text.write_text("\n".join(jsonl.lines(Table(trace))) + "\n")
    growing = folder / "growing.steps"
    growing.write_bytes(trace.read_bytes()[:200_000])
    return {"trace": trace, "jsonl": text, "growing": growing}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
@pytest.mark.parametrize(
    "words",
    [
        [*LONG, "{out}"],
        ["import", "jsonl", "{jsonl}", "-o", "{out}"],
        ["export", "{trace}", "--to", "jsonl", "-o", "{out}"],
        ["check", "--follow", "{growing}"],
        ["report", "{trace}", "-o", "{out}"],
    ],
    ids=lambda words: words[0],
)
def test_a_signal_in_any_phase(
    tmp_path: Path, inputs: dict[str, Path], words: list[str], number: signal.Signals
) -> None:
    chance = random.Random(f"{words[0]} {number}")
    out = tmp_path / "out"
    command = [sys.executable, "-c", BEGUN, *(word.format(out=out, **inputs) for word in words)]
    for after in (chance.uniform(0.0, 0.3), chance.uniform(0.3, 1.2)):
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        time.sleep(after)
        process.send_signal(number)
        try:
            _, err = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:  # Python can lose one; who waits sends another
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        # minus: before the program had seen to signals; where one comes inside an exec(), Python itself ends by SIGINT
        assert process.returncode in (0, 1, 3, 128 + number, -number, -signal.SIGINT), err
        assert "Traceback" not in err, err
        assert [path.name for path in tmp_path.iterdir() if path != out] == []
        if words[0] == "run" and out.exists() and out.stat().st_size and process.returncode == 128 + number:
            table = Table(out)
            assert table.complete
            assert [note["finish"] for _, note in table.notes() if note["kind"] == "finish"] == ["abort"]
        out.unlink(missing_ok=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_view_that_is_asked_to_end_gives_the_terminal_back(number: signal.Signals) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execve(sys.executable, [*STEPSCOPE, "view", str(SAMPLE)], {**os.environ, "TERM": "xterm-256color"})
    drawn = b""
    while b"REPLAY" not in drawn:
        drawn += os.read(terminal, 65536)
    os.kill(pid, number)
    with contextlib.suppress(OSError):  # the terminal's end
        while more := os.read(terminal, 65536):
            drawn += more
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 128 + number
    assert b"\x1b[?1049l" in drawn, "the screen that was there before"
    assert b"Traceback" not in drawn


# -- clocks ----------------------------------------------------------------------------------------------------------


def test_a_clock_that_jumps(tmp_path: Path) -> None:
    """A clock set back, and one that leaps a day: the rule says so, and no figure is made of a negative time."""
    path = tmp_path / "a.steps"
    with record(path, n_layers=1) as trace:
        trace.request(prompt_tokens=2, n_reused=0, t_ns=10**9)
        trace.step(n_tokens=2, seq_before=0, seq_len=2, cache_len=[2], t_ns=10**9, total_ms=1.0)
        for i, t_ns in enumerate([2 * 10**9, 10**9, 86_400 * 10**9, 0, 5]):
            trace.step(
                token_id=i, n_tokens=1, seq_before=2 + i, seq_len=3 + i, cache_len=[3 + i], t_ns=t_ns, total_ms=1.0
            )
    checked = run("check", path, "--select", "TM01")
    assert checked.code == 1
    assert checked.out.count(b"TM01 step") == 2
    for verb in (["stats"], ["show"], ["report", "-o", tmp_path / "a.html"], ["export", "--to", "chrome"],
                 ["export", "--to", "perfetto", "-o", tmp_path / "a.pftrace"]):  # fmt: skip
        outcome = run(verb[0], path, *verb[1:])
        behaves(outcome, "a.steps")
        assert outcome.code == 0
    assert b" -" not in run("stats", path).out.replace(b" - ", b"")


# -- other processes -------------------------------------------------------------------------------------------------


@pytest.fixture
def being_written(tmp_path: Path) -> Iterator[Path]:
    """A trace that another process is writing."""
    path = tmp_path / "live.steps"
    with subprocess.Popen([*STEPSCOPE, *LONG, str(path)], cwd=ROOT, stdout=subprocess.DEVNULL) as engine:
        until(lambda: path.exists() and path.stat().st_size > 20_000)
        yield path
        engine.kill()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_second_writer_is_refused(being_written: Path, tmp_path: Path) -> None:
    text = tmp_path / "a.jsonl"
    text.write_text("\n".join(jsonl.lines(Table(SAMPLE))) + "\n")
    before = being_written.stat()
    for words in ([*RUN, being_written], ["import", "jsonl", text, "-o", being_written]):
        outcome = run(*words)
        behaves(outcome, "live.steps")
        assert outcome.code == 2
        assert "another process is writing this trace; choose another name" in outcome.err
    with pytest.raises(TraceError, match="another process is writing"):
        TraceWriter(being_written, {"fields": [["phase", "U8"]]} | Table(SAMPLE).runs[0].facts)
    after = being_written.stat()
    assert after.st_ino == before.st_ino
    assert after.st_size >= before.st_size


def following(path: Path) -> subprocess.Popen[str]:
    """`check --follow`, which has begun to say what it sees."""
    process = subprocess.Popen(
        [*STEPSCOPE, "check", "--follow", "--select", "KV01", str(path)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.parametrize("how", ["replaced", "removed", "truncated", "emptied"])
def test_a_file_that_changes_while_it_is_followed(tmp_path: Path, how: str) -> None:
    path = tmp_path / "live.steps"
    path.write_bytes(SAMPLE.read_bytes()[:-48])  # without its END, with a failing step
    process = following(path)
    if how == "replaced":
        (tmp_path / "new").write_bytes(SAMPLE.read_bytes())
        os.replace(tmp_path / "new", path)
    elif how == "removed":
        path.unlink()
    else:
        os.truncate(path, 1000 if how == "truncated" else 0)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 2
    (line,) = err.splitlines()
    assert line.startswith(f"stepscope: {path}: ")
    assert ("became shorter" if how in ("truncated", "emptied") else "has this name now") in line


LOST = """
import time
from inspector import cli

class Freed:
    def __del__(self):
        print("begun", flush=True)
        time.sleep(1)  # what a signal raises here, Python drops

def main():
    try:
        Freed()
        time.sleep(60)
    except KeyboardInterrupt:
        return 130

cli.main, cli._ASK_AGAIN_S = main, 0.5
cli.program()
"""


def test_an_end_that_got_lost_is_asked_for_again() -> None:
    process = subprocess.Popen([sys.executable, "-c", LOST], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 128 + signal.SIGTERM
