"""`--help` of every verb is a page to work from: what it does, exit codes, and examples that the parser takes; and
shells complete what it names.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspector import cli


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


def complete(tmp_path: Path, *words: str) -> set[str]:
    """What bash offers for the last of these words, in a folder that holds a.steps, notes.txt and runs/."""
    (tmp_path / "runs").mkdir(exist_ok=True)
    (tmp_path / "a.steps").touch()
    (tmp_path / "notes.txt").touch()
    line = " ".join(map(shlex.quote, ("stepscope", *words)))
    script = f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; "$(complete -p stepscope | sed "s/.*-F //; s/ .*//")"'
    asked = f'eval "$STEPSCOPE"; {script}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    completion = subprocess.run(
        [sys.executable, "-m", "inspector.cli", "completion", "bash"], capture_output=True, text=True, check=True
    ).stdout
    done = subprocess.run(
        ["bash", "--norc", "-c", asked],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "STEPSCOPE": completion},
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
        (["check", ""], {"a.steps", "runs"}),
        (["rule", "KV01", "TM"], {"TM01", "TM02"}),
        (["export", "a.steps", "--to", "p"], {"perfetto", "parquet"}),
        (["gdb", "--probe", "n"], {"native"}),
        (["probe", "ver"], {"verify"}),
        (["import", "auto", ""], {"a.steps", "runs"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes(words: list[str], offered: set[str], tmp_path: Path) -> None:
    assert complete(tmp_path, *words) == offered


def test_fish_and_zsh_are_told_the_same_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("fish", "zsh"):
        assert cli.main(["completion", shell]) == 0
        script = capsys.readouterr().out
        assert all(verb in script for verb in cli.VERBS)
