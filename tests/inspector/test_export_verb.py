"""`stepscope export`: files that appear whole or not at all, and replace only what is an older export."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inspector import cli
from tests.command_line import SAMPLE, fails
from traces import record

TARGETS = ("jsonl", "perfetto", "chrome", "csv", "parquet")


def exports(*words: Any) -> int:
    return cli.main(["export", *map(str, words)])


@pytest.mark.parametrize("target", TARGETS)
def test_an_older_export_is_replaced_and_nothing_is_left_over(tmp_path: Path, target: str) -> None:
    for _ in range(2):
        assert exports(SAMPLE, "--to", target, "-o", tmp_path / "out") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("target", TARGETS)
def test_somebody_s_work_is_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str) -> None:
    other = tmp_path / "thesis.tex"
    other.write_text("\n\\documentclass{article}")
    assert "exists and is" in fails(capsys, "export", SAMPLE, "--to", target, "-o", other)
    assert other.read_text() == "\n\\documentclass{article}"
    trace = tmp_path / "a.steps"
    trace.write_bytes(SAMPLE.read_bytes())
    assert "exists and is" in fails(capsys, "export", trace, "--to", target, "-o", trace)
    assert trace.read_bytes() == SAMPLE.read_bytes()


@pytest.mark.parametrize("target", ["perfetto", "chrome"])
def test_an_export_that_fails_leaves_the_older_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    out = tmp_path / "out"
    exports(SAMPLE, "--to", target, "-o", out)
    before = out.read_bytes()
    with record(tmp_path / "a.steps", clock="none") as trace:
        trace.step(seq_len=1, t_ns=None)
    capsys.readouterr()
    assert "neither t_ns nor total_ms" in fails(capsys, "export", tmp_path / "a.steps", "--to", target, "-o", out)
    assert out.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.steps", "out"]


def test_a_part_of_the_steps(tmp_path: Path) -> None:
    assert exports(SAMPLE, "--to", "csv", "--steps", "-3:", "-o", tmp_path / "a.csv") == 0
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--to", "parquet"], "name it with -o"),
        (["--to", "jsonl", "--steps", "0:3"], "--steps is not for jsonl"),
        (["--to", "parquet", "--steps", "99:", "-o", "fleet"], "no steps"),
        (["--to", "csv", "-o", "nowhere/a.csv"], "nowhere/a.csv: cannot write: No such file or directory"),
        (["--to", "perfetto", "-o", "nowhere/a.pf"], "nowhere/a.pf: cannot write: No such file or directory"),
        (["--to", "csv", "-o", "/dev/full"], "/dev/full: cannot write: No space left on device"),
        (["--to", "perfetto", "-o", "/dev/full"], "/dev/full: cannot write: No space left on device"),
        (["--to", "pdf"], "is not one of"),
    ],
)
def test_words_that_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in fails(capsys, "export", SAMPLE, *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("target", "package"), [("perfetto", "perfetto"), ("parquet", "pyarrow")])
def test_an_extra_that_is_not_installed_is_named(tmp_path: Path, target: str, package: str) -> None:
    hidden = (
        "import sys, importlib.abc\n"
        "class Hide(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name.split('.')[0] == {package!r}: raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hide())\n"
        "from inspector import cli; sys.exit(cli.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", hidden, "export", str(SAMPLE), "--to", target, "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"stepscope: --to {target} needs {package}; type: pip install 'stepscope[{target}]'\n"


def test_a_closed_pipe_and_a_binary_pipe(tmp_path: Path) -> None:
    command = f"{sys.executable} -m inspector.cli export {SAMPLE} --to"
    piped = subprocess.run(f"{command} perfetto | wc -c", shell=True, capture_output=True, text=True)
    assert int(piped.stdout) > 1000
    closed = subprocess.run(f"{command} csv | head -1", shell=True, capture_output=True, text=True)
    assert (closed.stdout[:9], closed.stderr) == ("run,step,", "")
