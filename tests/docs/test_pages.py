"""What can be said of the pages without running them; `make docs-test` runs them."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import shlex
from pathlib import Path

import pytest

from inspector import cli
from tests.docs.pages import PAGES, ROOT, blocks, inline_code
from tests.docs.terminal import differs
from traces.rules import RULES

PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
TOLD_APART = ("python", "sql", "ini", "c")
IN_GDB = set(re.findall(r"[a-z-]+", (ROOT / "gdb_scripts" / "commands.py").read_text().splitlines()[0]))
"""The module's first line lists the commands of gdb"""


@functools.cache
def options(*verb: str) -> set[str]:
    """The options that `stepscope VERB --help` lists."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        cli.main([*verb, "--help"])
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", told.getvalue()))


def commands(page: Path) -> list[str]:
    """What the page types or mentions, one command each."""
    typed = [t.text for block in blocks(page) for t in block.session() if t.prompt == "$"]
    joined = [text.replace("\\\n", " ") for text in typed] + inline_code(page)
    return [part.strip() for text in joined for part in re.split(r"[|;&]| -- |\$\(|\n", text)]


@PAGE
def test_every_verb_and_option_exists(page: Path) -> None:
    for command in commands(page):
        words = shlex.split(command.replace("…", ""), comments=True) if command.startswith("stepscope ") else []
        if len(words) < 2 or not words[1].islower():
            continue  # VERB
        assert words[1] in (*cli.VERBS, *IN_GDB), command
        if words[1] not in cli.VERBS:
            continue
        verb = words[1:3] if words[1] == "probe" and len(words) > 2 and words[2].isalpha() else words[1:2]
        for option in (word.split("=")[0] for word in words[2:] if re.match(r"--?[a-z]", word)):
            assert option in options(*verb), command


@PAGE
def test_every_make_target_exists(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in commands(page):
        if match := re.match(r"make ([a-z][\w-]*)$", command):
            assert re.search(rf"^{match[1]}:", makefile, re.MULTILINE), command


@PAGE
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@PAGE
def test_a_block_is_a_session_or_a_file_or_says_why_not(page: Path) -> None:
    for block in blocks(page):
        if block.language in TOLD_APART:
            assert block.marks, f"{block.where}: a program that nobody runs: name its file, or say why not"
        elif not block.session():
            lines = block.text.splitlines()
            assert not any(re.match(r"(stepscope|make|gdb|pip|python|for) ", line) for line in lines), block.where


def test_what_is_shown_is_compared_as_contributing_says() -> None:
    assert not differs(["step  3", "…", "took 1.25 ms, 8 rows"], ["step 3", "", "a", "b", "took 37 ms,  8 rows"])
    assert not differs(["a … b"], ["a whatever b"])
    assert not differs(["decode 1,234.5 tok/s"], ["decode 9.75 tok/s"])
    assert differs(["8 rows"], ["9 rows"])
    assert differs(["8 rows"], ["8 rows", "more"])
    assert differs(["stepscope 0.1.0"], ["stepscope 0.2.0"])


def test_the_page_about_the_rules_has_them_all_as_they_are() -> None:
    page = (ROOT / "docs" / "rules.md").read_text()
    sections = dict(re.findall(r"^### (\w+): (.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))
    assert list(sections) == list(RULES)
    for code, rule in RULES.items():
        for words in (rule.name, rule.statement, ", ".join(rule.needs), rule.fault, f"check --select {code} "):
            assert words in sections[code], f"{code}: {words}"


def test_the_chinese_page_types_what_the_english_ones_type() -> None:
    english = [block.text for name in ("boards.md", "gdb.md") for block in blocks(ROOT / "docs" / name)]
    for block in blocks(ROOT / "docs" / "zh" / "board.md"):
        assert block.text in english or "apt-get" in block.text, block.where
