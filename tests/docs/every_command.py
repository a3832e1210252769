"""Every page, typed from its first block to its last into a fresh copy of the repository: `make docs-test`.

One page is one session: what it made above is there below. The copy has the environment that is there already, and is
a git repository of its own.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, Typed, blocks
from tests.docs.terminal import Terminal, differs


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "stepscope"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for environment in (".venv", ".venv-peers"):
        if (ROOT / environment).exists():
            (folder / environment).symlink_to((ROOT / environment).resolve())
    commit = "git init -q && git add . && git -c user.name=docs -c user.email=docs@localhost commit -qm docs"
    subprocess.run(commit, shell=True, cwd=folder, check=True)
    yield folder
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_shown_is_what_comes(page: Path, clone: Path, tmp_path: Path) -> None:
    differences: list[str] = []
    with Terminal(clone, tmp_path) as terminal:
        for block in blocks(page):
            if "file" in block.marks:
                (clone / block.marks["file"]).write_text(block.text)
            elif not block.why_not_run:
                differences += filter(None, (_typed(typed, terminal) for typed in block.session()))
    if differences:
        pytest.fail("\n\n".join(differences), pytrace=False)


def _typed(typed: Typed, terminal: Terminal) -> str:
    """Type it; what is wrong with what came, empty where nothing is."""
    if typed.prompt == "$" and terminal.in_gdb:
        terminal.leave_gdb()
    if (typed.prompt == "(gdb)") != terminal.in_gdb:
        return f"{typed.where}: no gdb is there to type into: {typed.text}"
    said, code = terminal.type(typed.text)
    problem = differs(typed.shown, said) if typed.shown else ""
    if code and not typed.shown:
        problem = "\n".join([f"exit code {code}", *said])
    return f"{typed.where}: {typed.text}\n{problem}" if problem else ""
