"""The verb itself in a real terminal (tmux), watching a file that another process writes; and without a terminal."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inspector.cli import main
from tests.command_line import ROOT, STEPSCOPE, stepscope
from tests.inspector.tui.small_traces import letters, run_facts, write_request
from tests.programs import need
from traces.table import Table
from traces.writer import TraceWriter

WRITER = """
import sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.inspector.tui.small_traces import run_facts, write_request, write_step
from traces.writer import TraceWriter
go = Path({go!r})
with TraceWriter({path!r}, run_facts()) as writer:
    write_request(writer)
    for i in range(1, 61):
        write_step(writer, 5, b"w%d " % i, before=24 + i, rows=[23 + i] + [25 + i] * 3 if i == 20 else None)
        while i == 30 and not go.exists():
            time.sleep(0.01)
"""


class Terminal:
    """A tmux session of its own server: keys go in, the screen comes out."""

    def __init__(self, folder: Path, width: int, height: int) -> None:
        need("tmux")
        self._socket = str(folder / "tmux")
        self._run("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), "sh")

    def _run(self, *args: str) -> str:
        done = subprocess.run(["tmux", "-S", self._socket, *args], capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def type(self, line: str) -> None:
        """A line for the shell."""
        self._run("send-keys", "-l", line)
        self._run("send-keys", "Enter")

    def press(self, *keys: str) -> None:
        """Keys by tmux's names."""
        self._run("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        """Another size of the window."""
        self._run("resize-window", "-x", str(width), "-y", str(height))

    def screen(self) -> str:
        """What is on the screen."""
        return self._run("capture-pane", "-p")

    def until(self, true: Callable[[str], bool], seconds: float = 20.0) -> str:
        """Wait until the screen says something; its text."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            screen = self.screen()
            if true(screen):
                return screen
            time.sleep(0.05)
        raise AssertionError("the screen never said it:\n" + self.screen())

    def take_clipboard(self) -> None:
        """Let programs put what they copy (OSC 52) into tmux's own buffer."""
        self._run("set-option", "-s", "set-clipboard", "on")

    def clipboard(self) -> str:
        """What was copied last."""
        return self._run("show-buffer")

    def close(self) -> None:
        """End the session."""
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True, timeout=20)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """80 × 24."""
    found = Terminal(tmp_path, 80, 24)
    yield found
    found.close()


def verb(*args: str) -> str:
    """The shell line that runs `stepscope` from this tree."""
    return shlex.join([*STEPSCOPE, *args])


def cursor(screen: str) -> list[str]:
    """The words of the line that the cursor stands at; none while the screen is being drawn."""
    return next((row for row in screen.splitlines() if row.startswith(">")), ">")[1:].split()


def test_following_a_file_that_another_process_writes(terminal: Terminal, tmp_path: Path) -> None:
    path, go = tmp_path / "grows.steps", tmp_path / "go"
    script = WRITER.format(root=str(ROOT), go=str(go), path=str(path))
    terminal.type(f"cd {shlex.quote(str(ROOT))}")
    terminal.type(verb("view", str(path), "--follow") + "; echo left with $?")
    terminal.until(lambda screen: "WAITING" in screen and "not there yet" in screen)
    with subprocess.Popen([sys.executable, "-c", script]) as writer, contextlib.ExitStack() as last:
        last.callback(go.touch)  # the writer ends, whatever fails here
        wanted = ("31 steps", "✗ 2 failures", "LIVE")
        terminal.until(lambda screen: all(words in screen for words in wanted) and cursor(screen)[:1] == ["30"])
        terminal.press("N")
        screen = terminal.until(lambda screen: "seq_len is 45" in screen and "43 rows" in screen)
        assert cursor(screen)[:2] == ["✗", "20"]
        assert "[w20 ]" in screen and "[4 rules]" in screen
        terminal.press("2")
        terminal.until(lambda screen: "layers of step 20" in screen)
        terminal.press("Escape")
        terminal.press("Up")
        terminal.until(lambda screen: cursor(screen)[:1] == ["19"])
        go.touch()
        screen = terminal.until(lambda screen: "30 new steps below" in screen)
        assert cursor(screen)[:1] == ["19"]
        assert writer.wait(20) == 0
    terminal.until(lambda screen: "ENDED" in screen and "61 steps" in screen)
    terminal.press("f")
    terminal.until(lambda screen: cursor(screen)[:1] == ["60"])
    terminal.resize(40, 12)
    terminal.until(lambda screen: cursor(screen)[:1] == ["60"])
    terminal.press("q")
    terminal.until(lambda screen: "left with 0" in screen)


def test_keys_marks_copies_and_the_shell_between(terminal: Terminal, tmp_path: Path) -> None:
    path = letters(tmp_path / "a.steps", broken=(2,))
    terminal.take_clipboard()
    terminal.type(f"cd {shlex.quote(str(ROOT))}")
    terminal.type(verb("view", str(path)))
    terminal.until(lambda screen: "✗ 2 failures" in screen)
    terminal.press("/", "d", "Enter")
    terminal.until(lambda screen: cursor(screen)[:1] == ["4"])
    terminal.press("m", ":", "2", "Enter")
    terminal.until(lambda screen: cursor(screen)[:2] == ["✗", "2"])
    terminal.press("'")
    terminal.until(lambda screen: cursor(screen)[:1] == ["4"])
    terminal.press("y", "y")
    terminal.until(lambda screen: "copied" in screen)
    assert terminal.clipboard().splitlines()[1].split()[:4] == ["4", "decode", "294", "d"]
    terminal.press("C-z")
    terminal.until(lambda screen: "Stopped" in screen)
    terminal.type("fg")
    terminal.until(lambda screen: cursor(screen)[:1] == ["4"])
    terminal.press("j")
    terminal.until(lambda screen: cursor(screen)[:1] == ["5"])
    terminal.press("q")
    terminal.until(lambda screen: cursor(screen) == [])


def test_x_ends_a_live_run_whose_trace_is_complete(terminal: Terminal, tmp_path: Path) -> None:
    path, prompt = tmp_path / "live.steps", tmp_path / "prompt"
    os.mkfifo(prompt)  # the engine waits for it, so that it can be stopped amid its generation
    terminal.type(f"cd {shlex.quote(str(ROOT))}")
    words = ["--prompt-file", str(prompt), "--ignore-eos", "--max-new-tokens", "100000", "-o", str(path)]
    terminal.type(verb("run", "--live", "--theme", "textual-light", *words) + "; echo left with $?")
    screen = terminal.until(lambda screen: "engine runs as process" in screen)
    engine = int(screen.split("engine runs as process ")[1].split()[0])
    prompt.write_text("List the first six letters of the alphabet")
    while not path.exists() or path.stat().st_size < 10_000:
        time.sleep(0.002)
    os.kill(engine, signal.SIGSTOP)
    terminal.until(lambda screen: "STALLED" in screen)
    terminal.press("x")
    terminal.until(lambda screen: "asked the engine to stop" in screen)
    os.kill(engine, signal.SIGCONT)
    terminal.until(lambda screen: "ENDED" in screen)
    terminal.press("q")
    terminal.until(lambda screen: "left with 130" in screen)
    assert main(["check", str(path)]) == 0
    table = Table(path)
    assert table.complete and table.steps < 100_000
    assert ("finish", "abort") in [(note["kind"], note.get("finish")) for _, note in table.notes()]


def test_a_theme_or_keys_that_cannot_be_used_are_one_line_and_exit_2(terminal: Terminal, tmp_path: Path) -> None:
    path = letters(tmp_path / "a.steps")
    (tmp_path / "stepscope").mkdir()
    (tmp_path / "stepscope" / "keys.toml").write_text('film.down = "no such key"')
    terminal.type(f"cd {shlex.quote(str(ROOT))}; clear")
    terminal.type(verb("view", "--theme", "plaid", str(path)) + "; echo left with $?")
    screen = terminal.until(lambda screen: "left with 2" in screen)
    assert "no theme is called 'plaid'" in screen and "Traceback" not in screen
    terminal.type("clear; export XDG_CONFIG_HOME=" + shlex.quote(str(tmp_path)))
    terminal.type(verb("view", str(path)) + "; echo now left with $?")
    screen = terminal.until(lambda screen: "now left with 2" in screen)
    assert "is no key" in screen and "Traceback" not in screen
    before = path.read_bytes()
    terminal.type("clear")
    terminal.type(verb("run", "--live", "-p", "hello", "-o", str(path)) + "; echo run left with $?")
    screen = terminal.until(lambda screen: "run left with 2" in screen)
    assert "is no key" in screen and "Traceback" not in screen
    assert path.read_bytes() == before  # refused before an engine began


def test_ascii_alone_and_sources_that_were_built_elsewhere(terminal: Terminal, tmp_path: Path) -> None:
    path, sources = tmp_path / "a.steps", tmp_path / "src"
    sources.mkdir()
    (sources / "loop.c").write_text("int n;\nint step(void);\n")
    with TraceWriter(path, run_facts()) as writer:
        writer.note("source", file="/build/loop.c", line=2, function="step")
        write_request(writer)
    terminal.type(f"cd {shlex.quote(str(ROOT))}; clear")
    terminal.type(verb("view", "--ascii", "--source-map", f"/build={sources}", str(path)))
    terminal.until(lambda screen: "no failure" in screen)
    terminal.press("5")
    screen = terminal.until(lambda screen: ">2  int step(void);" in screen)
    assert screen.isascii()
    terminal.press("q")


def test_a_path_that_cannot_be_shown_is_one_line_and_exit_2(terminal: Terminal, tmp_path: Path) -> None:
    missing = tmp_path / "none.steps"
    terminal.type(f"cd {shlex.quote(str(ROOT))}; clear")
    terminal.type(verb("view", str(missing)) + "; echo left with $?")
    screen = terminal.until(lambda screen: "left with 2" in screen)
    assert "No such file" in screen
    assert "Traceback" not in screen


def without_a_terminal(path: Path) -> subprocess.CompletedProcess[str]:
    """`stepscope view` of a trace, its output going into a pipe."""
    return stepscope("view", path, env={**os.environ, "COLUMNS": "80"}, stdin=subprocess.DEVNULL)


def test_without_a_terminal_the_film_is_printed(tmp_path: Path) -> None:
    done = without_a_terminal(letters(tmp_path / "a.steps"))
    assert done.returncode == 0
    assert done.stderr == "stepscope: view needs a terminal; the film was printed instead\n"
    assert "\x1b" not in done.stdout
    assert "<eos>" in done.stdout


def test_a_trace_that_is_not_there_is_all_that_is_said(tmp_path: Path) -> None:
    done = without_a_terminal(tmp_path / "nothere.steps")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"stepscope: {tmp_path}/nothere.steps: cannot read: No such file or directory\n"
