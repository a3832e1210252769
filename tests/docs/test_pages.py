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
from inspector.commands import export, import_
from tests.docs.pages import PAGES, ROOT, SPOKEN_OF, blocks, inline_code
from tests.docs.terminal import differs
from traces.rules import RULES

PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
ANY_PAGE = pytest.mark.parametrize("page", SPOKEN_OF, ids=lambda page: str(page.relative_to(ROOT)))
TOLD_APART = ("python", "sql", "ini", "c")
IN_GDB = set(re.findall(r"stepscope ([a-z|-]+)`", (ROOT / "gdb_scripts" / "commands.py").read_text())[0].split("|"))
"""The module's first line lists the commands of gdb: probe|record|…"""


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


@ANY_PAGE
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


@ANY_PAGE
def test_every_make_target_exists(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in commands(page):
        if match := re.match(r"make ([a-z][\w-]*)$", command):
            assert re.search(rf"^{match[1]}:", makefile, re.MULTILINE), command


@ANY_PAGE
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


def rows(page: Path) -> str:
    """The first cells of a page's tables."""
    return "\n".join(re.findall(r"^\| (`.*?) \|", page.read_text(), re.MULTILINE))


def test_the_tables_that_list_everything_do() -> None:
    readme, gdb, exports = (rows(ROOT / name) for name in ("README.md", "docs/gdb.md", "docs/exports.md"))
    told = {"completion"}  # behind the table, in a sentence
    assert [verb for verb in cli.VERBS if f"`stepscope {verb}" not in readme and verb not in told] == []
    assert [name for name in sorted(IN_GDB) if f"`stepscope {name}" not in gdb] == []
    assert exports.replace("`", "").split() == sorted(export.TARGETS, key=exports.index)
    engines = (ROOT / "docs" / "engines.md").read_text()
    assert [name for name in import_.FORMATS if f"`{name}`" not in engines] == []


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
    boards, gdb, chinese = (
        [block.text for block in blocks(ROOT / "docs" / name)] for name in ("boards.md", "gdb.md", "zh/board.md")
    )
    assert [text for text in boards if text not in chinese] == []
    assert [text for text in chinese if text not in (*boards, *gdb) and "apt-get" not in text] == []
