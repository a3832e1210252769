"""C++ functions told apart as gdb does: `ns::T<long>::forward(int const*) const` against what DWARF says of each.

A name without parameters means every overload; template arguments are part of a name. Types compare without regard to
spelling: `const int *` is `int const*`, `unsigned` is `unsigned int`, a typedef is what it stands for.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from inspector.binary.dies import TAG, Die
from inspector.binary.names import names_of, plain

_TYPEDEF, _CONST, _VOLATILE = TAG["typedef"], TAG["const_type"], TAG["volatile_type"]
_SUFFIXES = {_CONST: " const", _VOLATILE: " volatile", TAG["pointer_type"]: "*", TAG["reference_type"]: "&",
             TAG["rvalue_reference_type"]: "&&"}  # fmt: skip
_DEEPEST = 64


class Signature(NamedTuple):
    """What a name asks for. parameters: None for any."""

    qualified: str
    parameters: tuple[str, ...] | None
    is_const: bool


def signature(name: str) -> Signature:
    """The parts of a function's name as a user writes it."""
    found = re.fullmatch(r"(.+?)\((.*)\)( *const)?", _hidden(name))
    if found is None:
        return Signature(name, None, False)
    qualified, inside, const = found.groups()
    parameters = [_written(_shown(part)) for part in _at_commas(inside)]
    return Signature(_shown(qualified), tuple(p for p in parameters if p and p != "void"), bool(const))


def is_named(qualified: str, wanted: Signature) -> bool:
    """Whether a function's qualified name is the wanted one; who is in an unnamed namespace has to be called so."""
    unnamed = "(anonymous namespace)"
    return plain(f"{qualified}()") == plain(f"{wanted.qualified}()") and (unnamed in qualified) == (
        unnamed in wanted.qualified
    )


def takes(parameters: list[Die], wanted: Signature) -> bool:
    """Whether a function with these parameters, `this` included, is the wanted overload."""
    if wanted.parameters is None:
        return True
    own = [die for die in parameters if die.first_text("name") == "this"]
    others = [die for die in parameters if die.first_text("name") != "this"]
    is_const = any(_spelled(die.first_refer("type"), True).endswith("const*") for die in own)
    if len(others) != len(wanted.parameters) or is_const != wanted.is_const:
        return False
    return all(
        text in (_spelled(die.first_refer("type"), True), _spelled(die.first_refer("type"), False))
        for die, text in zip(others, wanted.parameters, strict=True)
    )


def _spelled(die: Die | None, through_typedefs: bool) -> str:
    """A type as _written gives it; a const that only the function itself sees left out."""
    suffix = ""
    for _ in range(_DEEPEST):
        if die is None:
            break
        if die.tag in _SUFFIXES:
            suffix = _SUFFIXES[die.tag] + suffix
        elif die.tag != _TYPEDEF or not through_typedefs:
            return _compact(names_of(die.unit).qualified(die) + suffix)
        die = die.refer("type")
    return _compact("void" + suffix)


def _written(text: str) -> str:
    """A type as the user writes it: qualifiers behind what they qualify."""
    text = re.sub(r"\b(struct|class|enum|union)\s+", "", text.strip())
    text = re.sub(r"^((?:const|volatile)\s+)+([^*&]+)", lambda m: f"{m.group(2)} {m.group(1)}", text)
    return _compact(re.sub(r"\bunsigned(?!\s+(?:int|char|short|long))", "unsigned int", text))


def _compact(text: str) -> str:
    text = re.sub(r"(\s*(const|volatile))+\s*$", "", text)
    return plain(f"{text}()")[:-2]


def _at_commas(text: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


_WITH_PARENTHESES = {"\0": "(anonymous namespace)", "\1": "operator()"}


def _hidden(name: str) -> str:
    """Without the parentheses that are part of a name."""
    for sign, part in _WITH_PARENTHESES.items():
        name = name.replace(part, sign)
    return name


def _shown(name: str) -> str:
    for sign, part in _WITH_PARENTHESES.items():
        name = name.replace(sign, part)
    return name
