"""The line between the film and the panels: which panels there are, by their keys, and which one is open."""

from __future__ import annotations

from inspector.tui.lines import DIM, STRONG, Line, clip, length

NAMES = ("text", "layers", "time", "rules", "source")
"""The panels in the order of their keys, 1 to 5"""


def tabs(chosen: str, width: int) -> Line:
    """`1 text [2 layers] 3 time`: the chosen one in brackets."""
    out: Line = []
    for number, name in enumerate(NAMES, 1):
        word = f"{number} {name}"
        out.append((f"[{word}]", STRONG) if name == chosen else (f" {word} ", DIM))
    hint = "z whole screen "
    blank = width - length(out) - len(hint)
    if blank > 0:
        out += [(" " * blank, DIM), (hint, DIM)]
    return clip(out, width)
