"""What the documentation says: its fenced blocks, and in them what is typed and what is shown to come of it.

    python -m tests.docs.pages        lists the blocks that are not run, and why

A block is one of these:
- a session: lines that begin with `$ ` are typed into a shell, lines that begin with `(gdb) ` into the gdb that the
  shell is in, and the lines behind each are what it prints. A typed line that ends in a backslash goes on in the next;
  a shell's here-document goes on to its end.
- a file, where `<!-- file: NAME -->` stands above it;
- a picture of something (a format, output, a formula): everything else.

`<!-- not run: WHY -->` above a block says that nobody here can run it; `<!-- needs: PATH: HOW -->` that it is run
where PATH is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "engine/native/README.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
SPOKEN_OF = [*PAGES, *(ROOT / name for name in ("SECURITY.md", "CHANGELOG.md", "traces/FORMAT.md"))]
"""Pages whose sentences name commands: those that are typed, and those that have no session"""
_TYPED = re.compile(r"(\$|\(gdb\)) (.*)")
_MARK = re.compile(r"<!-- (file|not run|needs): (.*?) -->")
_HERE = re.compile(r"<<-?\s*'?(\w+)'?")


class Typed(NamedTuple):
    """One command. `prompt` is `$` or `(gdb)`, `shown` the lines that the page shows of what it prints."""

    where: str
    prompt: str
    text: str
    shown: list[str]


class Block(NamedTuple):
    """A fenced block; `marks` are the comments above it by their first word, `where` is PAGE:LINE."""

    where: str
    language: str
    text: str
    marks: dict[str, str]

    @property
    def why_not_run(self) -> str:
        """Why it cannot be run here; empty where it can."""
        path, _, how = self.marks.get("needs", "").partition(": ")
        if path and not (ROOT / path).exists():
            return f"{path} is not there; {how}"
        return self.marks.get("not run", "")

    def session(self) -> list[Typed]:
        """What is typed in it, in order."""
        page, _, line = self.where.rpartition(":")
        typed: list[Typed] = []
        lines = iter(enumerate(self.text.splitlines(), int(line) + 1))
        for number, text in lines:
            if match := _TYPED.fullmatch(text):
                whole = "\n".join([match[2], *_continued(match[2], lines)])
                typed.append(Typed(f"{page}:{number}", match[1], whole, []))
            elif typed:
                typed[-1].shown.append(text)
        return typed


def _continued(first: str, lines: Iterator[tuple[int, str]]) -> Iterator[str]:
    here = _HERE.search(first)
    if here or first.endswith("\\"):
        for _, text in lines:
            yield text
            if text == here[1] if here else not text.endswith("\\"):
                return


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    found: list[Block] = []
    marks: dict[str, str] = {}
    for token in MarkdownIt().parse(page.read_text()):
        if token.type == "html_block":
            marks.update(_MARK.findall(token.content))
        elif token.type == "fence" and token.map:
            where = f"{page.relative_to(ROOT)}:{token.map[0] + 1}"
            found.append(Block(where, token.info.strip(), token.content, marks))
            marks = {}
        elif token.type == "inline":
            marks = {}
    return found


def inline_code(page: Path) -> list[str]:
    """The code that stands inside a page's sentences and tables."""
    tokens = MarkdownIt().enable("table").parse(page.read_text())
    return [child.content for token in tokens for child in token.children or () if child.type == "code_inline"]


def main() -> None:
    """Print what is not run."""
    for page in PAGES:
        for block in blocks(page):
            if block.why_not_run:
                print(f"not run: {block.where}: {block.why_not_run}")


if __name__ == "__main__":
    main()
