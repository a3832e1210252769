"""The text: what the selected step's sequence generated so far, its token marked, its prompt before it."""

from __future__ import annotations

from inspector.film import Step
from inspector.text import visible
from inspector.tui.lines import DIM, FAIL, MARK, PLAIN, Page, length, plural, wrap
from inspector.tui.pages import Passage

Tag = tuple[str, int | None]
"""(role, step that the text belongs to)"""


def title(passage: Passage, several: bool) -> str:
    """The panel's title. several: there are other sequences too."""
    what = "token ids (no text recorded)" if passage.ids else "text"
    return f"{what} of sequence {passage.seq_id}" if several and passage.seq_id is not None else what


def text(passage: Passage, number: int, step: Step | str, width: int, height: int) -> Page:
    """The passage as lines, its selected token in sight; each line says which cells are which step's."""
    lines = wrap(_parts(passage, number, step), width)
    at = next((i for i, line in enumerate(lines) if any(tag[0] == MARK for _, tag in line)), len(lines) - 1)
    lost = f"text of {plural(passage.lost, 'damaged step')} is missing"
    top = wrap([(lost, FAIL)], width) if passage.lost else []
    room = max(1, height - len(top))
    first = max(0, min(at - (2 * room) // 3, len(lines) - room))
    shown = lines[first : first + room]
    return Page(
        top=top,
        lines=[[(text, tag[0]) for text, tag in line] for line in shown],
        steps=[_ends(line) for line in shown],
    )


def _ends(line: list[tuple[str, Tag]]) -> list[tuple[int, int | None]]:
    ends: list[tuple[int, int | None]] = []
    cell = 0
    for text, (_, step) in line:
        cell += length([(text, PLAIN)])
        ends.append((cell, step))
    return ends


def _parts(passage: Passage, number: int, step: Step | str) -> list[tuple[str, Tag]]:
    parts: list[tuple[str, Tag]] = []
    if passage.clipped_before:
        parts.append(("… ", (DIM, None)))
    if passage.prompt:
        parts.append((_shown(passage.prompt) + "\n", (DIM, None)))
    parts += [(_shown(text), (PLAIN, n)) for n, text in passage.before]
    parts += _selected(passage, number, step)
    parts += [(_shown(text), (PLAIN, n)) for n, text in passage.after]
    if passage.clipped_after:
        parts.append((" …", (DIM, None)))
    return [part for part in parts if part[0]]


def _selected(passage: Passage, number: int, step: Step | str) -> list[tuple[str, Tag]]:
    """The selected token between brackets that its role also sets off: a mark that needs no colour."""
    mark = MARK, number
    if isinstance(step, str):
        return [("[?]", mark)]
    if not passage.selected:
        return [] if step.get("phase") == "prefill" else [("[]", mark)]
    inner = visible(passage.selected.rstrip(" ") if passage.ids else passage.selected)
    after = "\n" if passage.selected.endswith("\n") else " " if passage.ids else ""
    return [(f"[{inner}]", mark), (after, (PLAIN, number))]


def _shown(text: str) -> str:
    return visible(text, keep_newlines=True)
