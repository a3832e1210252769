"""The qualified name of the function that a symbol stands for, as C++ and Rust write it, without its parameters.

The Itanium C++ ABI (its chapter 5, Mangling) spells `ns::Model<float>::forward(int)` as _ZN2ns5ModelIfE7forwardEi: each
part of the name behind its length, and behind a part its template arguments, I…E, which are left out here.
"""

from __future__ import annotations

import re

_SUFFIX = re.compile(r"\.(?:constprop|isra|part|cold|lto_priv|clone|llvm|localalias)\b.*")
_RUST_HASH = re.compile(r"h[0-9a-f]{16}")
"""The last part of a Rust symbol that is written as one of C++"""
_NAMED = re.compile(r"[1-9][0-9]{0,3}")
"""A length: more digits than a name has letters are none"""
_VALUE = re.compile(r"n?[0-9]*E")
_ARGUMENT = re.compile(
    r"(?P<opens>LN|L_Z|[INJXFZ]|Ul|D[tT])|(?P<closes>E)|L(?P<named>(?=[1-9]))"
    r"|L[a-z]n?[0-9a-f]*E|S(?:[0-9A-Z]*_|[tabsiod])|T[0-9]*_|A[0-9]*_|D[Fv][0-9]+[_xb]|D.|[a-zA-Z_0]"
)
"""What template arguments are made of, but for names: of an enumeration (L, its name, a number, E), literals, back
references, bounds, sizes of floats and vectors, the rest"""


def path_of(symbol: str) -> str:
    """The qualified name in a C++ symbol; what is of the standard library, or written otherwise, as it is. Clones count
    as what they are of."""
    symbol = _SUFFIX.sub("", symbol)
    found = re.match(r"_Z(N[rVK]*[RO]?)?", symbol)
    if found is None:
        return symbol
    is_nested, at = found.group(1) is not None, found.end()
    parts: list[str] = []
    while at < len(symbol):
        at += symbol[at] == "L"  # of this file alone
        length = _NAMED.match(symbol, at)
        if length is not None and (is_nested or not parts):
            at = _behind_name(symbol, at)
            parts.append(symbol[length.end() : at])
        elif symbol[at : at + 1] == "I" and parts:
            at = _behind_arguments(symbol, at)
        elif symbol.startswith("cl", at) and is_nested:
            at, parts = at + 2, [*parts, "operator()"]
        else:
            break
    if is_nested and _RUST_HASH.fullmatch(parts[-1] if parts else ""):
        parts.pop()
    return "::".join("(anonymous namespace)" if p == "_GLOBAL__N_1" else p for p in parts) or symbol


def _behind_arguments(symbol: str, at: int) -> int:
    """Where template arguments that begin at a place are over; the symbol's end where they never are."""
    depth, literals = 0, [0]  # at which depths the name of an enumeration ends, behind which its number comes
    while at < len(symbol):
        if _NAMED.match(symbol, at):
            at = _behind_name(symbol, at)
            continue
        found = _ARGUMENT.match(symbol, at)
        if found is None:
            return len(symbol)
        at = found.end()
        if found.group("opens"):
            depth += 1
            literals += [depth] if found.group() == "LN" else []
        elif found.group("named") is not None:
            at = _behind_value(symbol, _behind_name(symbol, at))
        elif found.group("closes"):
            if literals[-1] == depth:
                at = _behind_value(symbol, at)
                literals.pop()
            depth -= 1
        if not depth:
            return at
    return len(symbol)


def _behind_name(symbol: str, at: int) -> int:
    length = _NAMED.match(symbol, at)
    return len(symbol) if length is None else length.end() + int(length.group())


def _behind_value(symbol: str, at: int) -> int:
    value = _VALUE.match(symbol, at)
    return len(symbol) if value is None else value.end()
