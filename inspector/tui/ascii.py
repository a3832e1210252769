"""Plain ASCII for terminals and fonts that have nothing else: every cell of the screen, frames and bars included."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_SIGNS = str.maketrans(
    {
        "✗": "x", "✓": "+", "→": ">", "…": "~", "–": "-", "Δ": "d", "␣": "_", "◌": "o", "×": "x", "»": ">", "⌨": " ",
        "│": "|", "─": "-", "━": "=", "╸": "-", "╋": "#", "└": "+", "┌": "+", "┐": "+", "┘": "+", "╭": "+", "╮": "+",
        "╰": "+", "╯": "+", "┃": "|", "↑": "^", "↓": "v", "←": "<", "·": ".", "•": "*", "⏎": "<", "␛": "^", "⇥": ">",
        "≠": "#", "△": "^", "▲": "A", "▽": "v", "▼": "V",
    }
)  # fmt: skip


class Ascii(LineFilter):
    """Nothing but ASCII reaches the terminal; each character keeps its cells."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """A line's segments in ASCII."""
        return [
            segment if segment.text.isascii() else Segment(plain(segment.text), segment.style, segment.control)
            for segment in segments
        ]


def plain(text: str) -> str:
    """The text in ASCII, as many cells wide; a character that has no likeness is ?."""
    known = text.translate(_SIGNS)
    if known.isascii():
        return known
    return "".join(c if c.isascii() else _likeness(c) for c in known)


def _likeness(c: str) -> str:
    # blocks and half blocks: scroll bars and the palette's frame are drawn by their colours
    return " " if 0x2580 <= ord(c) <= 0x259F else "?" * cell_len(c)
