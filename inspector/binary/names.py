"""Names of a unit: which functions, types and variables it defines, by qualified name as C++ and gdb spell it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from inspector.binary.dies import TAG, Die, Unit, uleb

_TYPES = {TAG[n] for n in ("structure_type", "class_type", "union_type", "enumeration_type", "typedef", "base_type")}
_HOLDERS = {TAG[n] for n in ("namespace", "structure_type", "class_type", "union_type")}
_FUNCTION, _VARIABLE, _NAMESPACE, _MEMBER = (TAG[n] for n in ("subprogram", "variable", "namespace", "member"))
_INTERESTING = _TYPES | {_FUNCTION, _VARIABLE, _NAMESPACE}


class Entry(NamedTuple):
    """Something with a name. offset: of its entry in the unit."""

    tag: int
    qualified: str
    offset: int
    is_declaration: bool


class Names:
    """What one unit declares and defines."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.entries: list[Entry] = []
        self._qualified: dict[int, str] = {}
        self._walk()
        self._by_last: dict[str, list[Entry]] = {}
        for entry in self.entries:
            self._by_last.setdefault(plain(last(entry.qualified)), []).append(entry)

    def functions(self, name: str) -> Iterator[Die]:
        """Definitions of functions whose unqualified name that is."""
        for entry in self._by_last.get(plain(name), ()):
            if entry.tag == _FUNCTION and not entry.is_declaration and last(entry.qualified) == name:
                yield self.unit.die(entry.offset)

    def types(self, qualified: str) -> Iterator[Die]:
        """Types of that qualified name, complete ones first."""
        wanted = plain(qualified)
        found = [
            e for e in self._by_last.get(plain(last(qualified)), ()) if e.tag in _TYPES and plain(e.qualified) == wanted
        ]
        for entry in sorted(found, key=lambda e: e.is_declaration):
            yield self.unit.die(entry.offset)

    def variables(self, qualified: str) -> Iterator[Die]:
        """Variables outside functions of that qualified name, definitions first."""
        return self._of({_VARIABLE, _MEMBER}, qualified)

    def _of(self, tags: set[int], qualified: str) -> Iterator[Die]:
        wanted = plain(qualified)
        found = [e for e in self._by_last.get(plain(last(qualified)), ()) if e.tag in tags]
        for entry in sorted(found, key=lambda e: e.is_declaration):
            if plain(entry.qualified) == wanted:
                yield self.unit.die(entry.offset)

    def qualified(self, die: Die) -> str:
        """The qualified name of one of this unit's entries, or of what it completes."""
        for part in die.with_origin():
            if part.unit is self.unit and self._qualified.get(part.offset):
                return self._qualified[part.offset]
            if part.unit is not self.unit:
                return names_of(part.unit).qualified(part)
        return die.first_text("name")

    def _walk(self) -> None:
        unit = self.unit
        at, prefixes = unit.root.end, [""]
        if not unit.root.has_children:
            return
        unnamed: list[Die] = []
        while at < unit.end and prefixes:
            code, _ = uleb(unit.data, at)
            if not code:
                prefixes.pop()
                at += 1
                continue
            abbreviation = unit.abbreviations[code]
            if abbreviation.tag not in _INTERESTING:
                at = Die(unit, at).next_sibling() if abbreviation.has_children else unit.skip(at)[1]
                continue
            die = Die(unit, at)
            if not die.has("name") and (die.has("specification") or die.has("abstract_origin")):
                unnamed.append(die)
            else:
                self._keep(die, prefixes[-1] + _spelled(die))
            if die.tag in _HOLDERS and die.has_children:
                prefixes.append(prefixes[-1] + _spelled(die) + "::" if _spelled(die) else prefixes[-1])
                at = die.end
            else:
                at = die.next_sibling()
        for die in unnamed:
            self._keep(die, self.qualified(die))

    def _keep(self, die: Die, qualified: str) -> None:
        self._qualified[die.offset] = qualified
        if qualified and die.tag != _NAMESPACE:
            self.entries.append(Entry(die.tag, qualified, die.offset, bool(die.number("declaration"))))


def names_of(unit: Unit) -> Names:
    """The names of a unit, gathered once."""
    known: Names | None = unit.__dict__.get("_names")
    if known is None:
        known = Names(unit)
        unit.__dict__["_names"] = known
    return known


def last(qualified: str) -> str:
    """The name without what it is qualified by; template arguments stay."""
    depth = 0
    for at in range(len(qualified) - 1, 0, -1):
        depth += (qualified[at] == ">") - (qualified[at] == "<")
        if not depth and qualified[at - 1 : at + 1] == "::":
            return qualified[at + 1 :]
    return qualified


def enclosing(qualified: str) -> list[str]:
    """The prefixes under which a name used inside is looked up, innermost first: a::b::f gives a::b::, a::, nothing."""
    out = []
    while qualified:
        name = last(qualified)
        qualified = qualified[: len(qualified) - len(name) - 2] if len(name) < len(qualified) else ""
        out.append(qualified + "::" if qualified else "")
    return out or [""]


def _spelled(die: Die) -> str:
    name = die.text("name")
    return "(anonymous namespace)" if not name and die.tag == _NAMESPACE else name


_WORDS = (("long long unsigned int", "unsigned long long"), ("long unsigned int", "unsigned long"),
          ("short unsigned int", "unsigned short"), ("long long int", "long long"), ("long int", "long"),
          ("short int", "short"))  # fmt: skip


def plain(name: str) -> str:
    """A name as it is compared: compilers spell template arguments in different ways, and names in unnamed namespaces
    are seen from outside."""
    if "<" in name or "(" in name:
        for long, short in _WORDS:
            name = name.replace(long, short)
        name = name.replace("(anonymous namespace)::", "").replace(" ", "")
    return name
