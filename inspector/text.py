"""Text from traces made safe to show: token text, file names and notes may hold anything, escape sequences included."""

from __future__ import annotations

import unicodedata

# Cc control, Cf format (bidirectional marks reorder a line), Cs half characters, Co private use, Zl/Zp line separators
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "\x1b": "\\e"}


def visible(text: str, keep_newlines: bool = False) -> str:
    """`text` with every character that a terminal would obey, or could not print, written as an escape.

    Half UTF-8 characters (lone surrogates from `surrogateescape`) become \\xNN. With `keep_newlines` line feeds stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _harmless(c) or (keep_newlines and c == "\n") else _escaped(c) for c in text)


def _harmless(c: str) -> bool:
    return c.isprintable() or unicodedata.category(c) not in _UNSAFE


def _escaped(c: str) -> str:
    if c in _SHORT:
        return _SHORT[c]
    code = ord(c)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shortened(text: str, longest: int) -> str:
    """`text`, its middle left out where it is longer: what stands in a message may come from a file."""
    if len(text) <= longest:
        return text
    return f"{text[: longest * 3 // 4]} … {text[-longest // 4 :]}"


def token_text(text: str | None) -> str:
    """A token's text for one cell: escapes visible, blanks at its ends shown as ␣ so that ' b' and 'b' differ."""
    if not text:
        return ""
    body = visible(text)
    inner = body.strip(" ")
    if inner == body:
        return body
    left = len(body) - len(body.lstrip(" "))
    return "␣" * len(body) if not inner else "␣" * left + inner + "␣" * (len(body) - left - len(inner))
