"""The source: the file where the hook or the engine's loop stands, its line marked. Read once, shown as text only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inspector.text import visible
from inspector.tui.lines import CODE, DIM, FAIL, MARK, PLAIN, STRONG, TITLE, UNKNOWN, Line, Page, clip, fit, wrap

MOST_BYTES = 4 << 20
TAB = 4
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


@dataclass(frozen=True)
class Place:
    """Where a `source` note points."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Listing:
    """A source file as highlighted lines, or why there are none."""

    path: str
    lines: tuple[Line, ...] = ()
    problem: str = ""


def place_of(note: dict[str, Any]) -> Place | None:
    """The place a note names; None where it names no file."""
    file, line, function = note.get("file"), note.get("line"), note.get("function")
    if not isinstance(file, str) or not file:
        return None
    return Place(file, line if isinstance(line, int) and line > 0 else 0, function if isinstance(function, str) else "")


def mapped(file: str, maps: Sequence[tuple[str, str]]) -> str:
    """The file's path here: the first mapping whose FROM its path begins with puts TO in that place."""
    for old, new in maps:
        stem = old.rstrip("/")
        if file == stem or file.startswith(stem + "/"):
            return new.rstrip("/") + file[len(stem) :]
    return file


def read(file: str, maps: Sequence[tuple[str, str]]) -> Listing:
    """The file on this machine, highlighted."""
    path = mapped(file, maps)
    if not os.path.isabs(path) and not os.path.exists(path) and os.path.exists(os.path.join(_OWN, path)):
        path = os.path.join(_OWN, path)  # the reference engine's loop, wherever this runs
    try:
        if not os.path.isfile(path):
            raise FileNotFoundError(2, "not a file here" if os.path.lexists(path) else "not here")
        with open(path, "rb") as opened:
            data = opened.read(MOST_BYTES + 1)
    except OSError as error:
        return Listing(path, problem=(error.strerror or "cannot be read").lower())
    if len(data) > MOST_BYTES or b"\0" in data:
        return Listing(path, problem="not a source file" if b"\0" in data else f"larger than {MOST_BYTES >> 20} MiB")
    return Listing(path, tuple(_highlighted(path, data.decode("utf-8", "surrogateescape"))))


def _highlighted(path: str, text: str) -> list[Line]:
    from pygments.lexers import get_lexer_for_filename
    from pygments.lexers.special import TextLexer
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_for_filename(path, stripnl=False)
    except ClassNotFound:
        lexer = TextLexer(stripnl=False)
    lines: list[Line] = [[]]
    for kind, value in lexer.get_tokens(text.expandtabs(TAB)):
        role = _role(str(kind))
        first, *rest = value.split("\n")
        lines[-1].append((visible(first), role))
        for piece in rest:
            lines.append([(visible(piece), role)])
    return lines[:-1] if lines[-1] in ([], [("", PLAIN)]) else lines


def _role(kind: str) -> str:
    for prefix, word in (
        ("Token.Comment.Preproc", "keyword"), ("Token.Comment", "comment"), ("Token.Keyword", "keyword"),
        ("Token.Literal.String", "string"), ("Token.Literal.Number", "number"), ("Token.Name.Function", "name"),
        ("Token.Name.Class", "name"), ("Token.Name.Builtin", "name"),
    ):  # fmt: skip
        if kind.startswith(prefix):
            return CODE[word]
    return PLAIN


def source(place: Place | None, listing: Listing | None, width: int) -> Page:
    """The file's lines, numbered; the place's line marked and in sight."""
    if place is None or listing is None:
        words = "this trace has no source note: recording under gdb writes one, other producers may"
        return Page(lines=wrap([(words, DIM)], width))
    where = f"{place.file}:{place.line}" if place.line else place.file
    top = [clip([(visible(where), STRONG), (f"  {visible(place.function)}", TITLE)], width)]
    if listing.problem:
        said = wrap([(f"{visible(listing.path)}: {listing.problem}", FAIL)], width)
        folder = visible(os.path.dirname(place.file) or ".")
        hint = f"say where its sources are on this machine: view --source-map {folder}=DIR"
        return Page(top=top, lines=[*said, *wrap([(hint, UNKNOWN)], width)])
    if listing.path != place.file:
        top.append(clip([(f"read from {visible(listing.path)}", DIM)], width))
    if place.line > len(listing.lines):
        top.append([(f"the file has only {len(listing.lines)} lines: another version of it?", UNKNOWN)])
    size = len(str(len(listing.lines)))
    lines = [clip([_number(i, i == place.line, size), *line], width) for i, line in enumerate(listing.lines, 1)]
    return Page(top=top, lines=lines, cursor=place.line - 1 if 0 < place.line <= len(lines) else None)


def _number(i: int, marked: bool, size: int) -> tuple[str, str]:
    return (">" if marked else " ") + fit(str(i), size, right=True) + "  ", MARK if marked else DIM
