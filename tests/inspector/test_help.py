"""`--help` of every verb is a page to work from: what it does, exit codes, and examples that the parser takes; and
shells complete what it names.
"""

from __future__ import annotations

import glob
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from engine.model import DEMO_MODEL
from inspector import cli
from tests.engine.gguf_files import model_as_gguf
from tests.engine.native.conftest import built


def help_of(verb: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.parser().parse_args([verb, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def examples(page: str) -> Iterator[list[str]]:
    """The words behind each `stepscope` in the examples; what stands apart behind an example is a remark."""
    lines = page.partition("\nexamples:\n")[2].partition("\n\n")[0]
    lines = re.sub(r"\\\n\s+", "", lines).replace("--steps -", "--steps=-")
    for line in lines.splitlines():
        command = re.split(r" {4,}", line.strip())[0]
        inner = re.search(r"\$\((.*)\)", command)
        words = shlex.split(inner[1] if inner else command)
        for at in [i for i, word in enumerate(words) if word == "stepscope"][: 1 if "--" in words else None]:
            ends = (i for i in range(at, len(words)) if words[i] in ("|", "&&", ">"))
            yield words[at + 1 : next(ends, len(words))]


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_a_page_with_examples_that_parse(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = help_of(verb, capsys)
    assert page.startswith(f"usage: stepscope {verb}")
    assert "exit codes" in page
    shown = list(examples(page))
    own = [words for words in shown if words[0] == verb]
    assert len(own) >= 2
    for words in shown:
        assert cli.parser().parse_args(words).run


NOT_RUN = {
    "--live": "needs a terminal",
    "--web": "serves until it is stopped",
    "--follow": "waits for more",
    "--attach": "needs a process; and this one would become gdb",
    "--remote": "needs a board",
    "--batch": "this process would become gdb",
    "--record": "this process would become gdb",
    "smollm2": "needs a package of 90 MB",
    "build/a …": "leaves out what is one's own",
}
"""Flags and words of examples that do not run below; tests of their own and the pages' commands have them."""
LLAMA_BENCH = '{"n_prompt":512,"n_gen":0,"samples_ns":[100000000],"model_filename":"m.gguf"}\n'
SERVER_LOG = "\n".join(
    [
        "llama_perf_context_print: prompt eval time = 100.0 ms / 25 tokens (4.0 ms per token, 250.0 tokens per second)",
        "llama_perf_context_print: eval time = 50.00 ms / 5 runs (10.00 ms per token, 100.00 tokens per second)",
        "llama_perf_context_print: total time = 150.00 ms / 30 tokens\n",
    ]
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the examples name."""
    desk = tmp_path_factory.mktemp("desk")
    demo, engine = Path(DEMO_MODEL), built("O2")
    (desk / "models").mkdir()
    for link in ("models/Qwen2.5-0.5B-Instruct", "MODEL", "M"):
        (desk / link).symlink_to(demo)
    for folder in ("build/a", "build/b", "nightly", "yesterday", "today"):
        (desk / folder).mkdir(parents=True)
    for link in ("build/engine", "build/a/engine", "build/b/engine", "engine"):
        (desk / link).symlink_to(engine)
    subprocess.run([engine, demo, "--ids", "1,2,3", "--trace", desk / "a.steps"], check=True, capture_output=True)
    for name in ("old", "new", "old-1", "new-1", "board", "nightly/1", "yesterday/1", "today/1"):
        shutil.copy(desk / "a.steps", desk / f"{name}.steps")
    (desk / "config.json").symlink_to(demo / "config.json")
    model_as_gguf(demo, desk / "model.gguf")
    (desk / "code.txt").write_text("Count to three")
    (desk / "server.log").write_text(SERVER_LOG)
    (desk / "my.log").write_text("tok=64 len=26 1.5 ms\n")
    assert cli.main(["export", str(desk / "a.steps"), "--to", "jsonl", "-o", str(desk / "run.jsonl")]) == 0
    record_set = [sys.executable, "-m", "inspector", "record-set", "-n", "1", "-o", "set"]
    for side in ("base", "new"):
        record_set += [f"--{side}", "build/a/engine M --ids 1,2 --trace {trace}"]
    subprocess.run(record_set, check=True, capture_output=True, cwd=desk)
    assert cli.main(["probe", "draft", str(engine), "-o", str(desk / "mine.ini")]) == 0
    (desk / "run.log").write_text("stepscope [forward] n_tokens=3 seq_before=0\n")
    return desk


@pytest.mark.parametrize("verb", [verb for verb in cli.VERBS if verb != "gdb"])
def test_the_examples_run(
    verb: str, desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk)
    page = help_of(verb, capsys)
    for words in examples(page):
        if any(reason in words for reason in NOT_RUN):
            continue
        typed = [found for word in words for found in _globbed(word, desk)]
        if "-n" in typed:
            typed[typed.index("-n") + 1] = "1"
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(_piped(verb).encode())))
        if "-o" in typed:
            _take_away(desk / typed[typed.index("-o") + 1])
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        code = cli.main(typed)
        assert code in (0, 1, 3), (words, capsys.readouterr().err)


def _take_away(made: Path) -> None:
    if made.is_dir():
        shutil.rmtree(made)
    else:
        made.unlink(missing_ok=True)


def _globbed(word: str, desk: Path) -> list[str]:
    """A word as the shell hands it over: names for `*` (two are enough), the home folder for `~`."""
    word = word.replace("~/", f"{desk}/")
    return sorted(glob.glob(word))[:2] if "*" in word else [word]


def _piped(verb: str) -> str:
    return LLAMA_BENCH if verb == "import" else "Count to three\nName two days\n"


def complete(folder: Path, *words: str) -> set[str]:
    """What bash offers for the last of these words, in a folder that holds a.steps, notes.txt and runs/."""
    (folder / "runs").mkdir()
    (folder / "a.steps").touch()
    (folder / "notes.txt").touch()
    line = " ".join(map(shlex.quote, ("stepscope", *words))) if words[-1] else " ".join(("stepscope", *words))
    asked = f"COMP_LINE={shlex.quote(line)}; COMP_POINT={len(line)}; _python_argcomplete stepscope"
    script = f'eval "$(stepscope completion bash)"; {asked}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=folder,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["che"], {"check"}),
        (["check", "--sel"], {"--select"}),
        (["check", "--select", "TK0"], {"TK01", "TK02", "TK03", "TK04", "TK05"}),
        (["check", ""], {"a.steps", "runs/"}),
        (["diff", "a.steps", "--against", ""], {"a.steps", "runs/"}),
        (["rule", "KV01", "TM"], {"TM01", "TM02"}),
        (["export", "a.steps", "--to", "p"], {"perfetto", "parquet"}),
        (["gdb", "--probe", "n"], {"native"}),
        (["probe", "ver"], {"verify"}),
        (["import", "auto", "n"], {"notes.txt"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes(words: list[str], offered: set[str], tmp_path: Path) -> None:
    assert complete(tmp_path, *words) == offered


def test_tab_completes_in_bash(tmp_path: Path) -> None:
    (tmp_path / "with a blank.steps").touch()
    shell = pexpect.spawn(
        "bash",
        ["--norc", "-i"],
        cwd=str(tmp_path),
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "TERM": "dumb", "PS1": "> "},
        encoding="utf-8",
        timeout=30,
    )
    shell.sendline('eval "$(stepscope completion bash)"; echo rea""dy')
    shell.expect_exact("ready")
    shell.send("stepscope che\tw\t")
    shell.expect_exact("stepscope check with\\ a\\ blank.steps")
    shell.close(force=True)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_have_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    assert "_ARGCOMPLETE_SHELL" in capsys.readouterr().out
