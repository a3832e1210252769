"""A program or library looked into without running it: identity, functions, and where their variables lie.

    with open_binary("engine") as binary:
        function = binary.functions("forward")[0]
        plan = layout.plan({"seq_before": expressions.parse("st->seq_len")}, binary.scope(function))

`layout.plan` is the very code that runs inside gdb: what resolves here resolves there. Raises BinaryError, one line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gdb_scripts.layout import Type
from inspector.binary.dies import Die, Dwarf
from inspector.binary.elf import (
    BinaryError,
    Damaged,
    Elf,
    NoDebugInfo,
    NotElf,
    Stripped,
    Symbol,
    WrongMachine,
    damage_is_said,
)
from inspector.binary.lines import entry_of, file_of
from inspector.binary.names import last, names_of, plain
from inspector.binary.signatures import Signature, is_named, signature, takes
from inspector.binary.symbols import path_of
from inspector.binary.types import FunctionScope, Types

__all__ = ["Binary", "BinaryError", "Damaged", "Function", "NoDebugInfo", "NotElf", "Parameter", "Stripped",
           "WrongMachine", "damage_is_said", "open_binary"]  # fmt: skip

_DEBUG_FOLDER = "/usr/lib/debug"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function: what it is called, and its type."""

    name: str
    type: Type
    die: Die


@dataclass(frozen=True)
class Function:
    """A function that was emitted. address: of its first instruction, not relocated."""

    name: str
    qualified: str
    address: int
    file: str
    line: int
    die: Die


class Binary:
    """A program or library with debug information."""

    def __init__(self, elf: Elf, debug: Elf) -> None:
        self.path, self.elf = elf.path, elf
        self._debug = debug
        self.dwarf = Dwarf(debug)
        self.types = Types(self.dwarf)
        self._by_address: dict[int, list[str]] | None = None
        self._addresses: dict[str, int] | None = None

    def __enter__(self) -> Binary:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the files back."""
        self.dwarf.close()
        self.elf.close()
        self._debug.close()

    @property
    def build_id(self) -> str:
        """In hexadecimal; empty where the linker wrote none."""
        return self.elf.build_id

    def producer(self, function: Function | None = None) -> str:
        """Compiler and flags (DW_AT_producer) of a function's unit, else of the first unit that says it."""
        if function is not None:
            return function.die.unit.root.text("producer")
        for unit in self.dwarf.units():
            if not unit.is_type_unit and unit.root.has("producer"):
                return unit.root.text("producer")
        return ""

    def functions(self, name: str, file: str | None = None) -> list[Function]:
        """Emitted functions of that qualified name, or that a /regex/ matches; `file`: the end of their source's path.

        As for a breakpoint, overloads all count unless parameters are named, and template arguments are part of a name.
        """
        with damage_is_said(self.path):
            if len(name) > 2 and name.startswith("/") and name.endswith("/"):
                found = self._matching(name[1:-1])
            else:
                found = self._called(signature(name))
            chosen = {f.address: f for f in found if file is None or _ends_with(f.file, file)}
            return [chosen[address] for address in sorted(chosen)]

    def instances(self, name: str) -> list[str]:
        """Qualified names of the emitted instances of a template that is called by its name alone."""
        with damage_is_said(self.path):
            spellings = self.dwarf.instances(last(name)) if "<" not in name else ()
            found = {f.qualified for n in spellings for f in self.named(n)}
            return sorted(q for q in found if q.partition("<")[0] == name)

    def _called(self, wanted: Signature) -> Iterator[Function]:
        name = last(wanted.qualified)
        spellings = {name}
        if "<" in name:
            spellings |= {s for s in self.dwarf.instances(name.partition("<")[0]) if plain(s) == plain(name)}
        for function in (f for n in spellings for f in self.named(n)):
            if is_named(function.qualified, wanted) and takes(self.scope(function).parameters(), wanted):
                yield function

    def named(self, name: str) -> Iterator[Function]:
        """Emitted functions of that name, whatever they are qualified by."""
        told = False
        elsewhere: list[Die] = []
        for unit in self.dwarf.units_mentioning(name):
            for die in names_of(unit).functions(name):
                function = self._function(name, die)
                if function is None:
                    elsewhere.append(die)
                else:
                    told = True
                    yield function
        if not told:
            # link-time optimisation emits a function in a unit of its own, which only refers to the one that names it
            for unit in {u for die in elsewhere for u in self.dwarf.units_referring_to(die)}:
                yield from filter(None, (self._function(name, die) for die in names_of(unit).functions(name)))

    def _function(self, name: str, die: Die) -> Function | None:
        address = entry_of(die)
        if address is None:
            return None
        qualified = names_of(die.unit).qualified(die)
        line = next((d.number("decl_line") for d in die.with_origin() if d.has("decl_line")), 0)
        return Function(name, qualified, address, file_of(die), line or 0, die)

    def functions_called(self, name: str) -> list[Function]:
        """Emitted functions of that unqualified name, instances of a template that has it among them."""
        with damage_is_said(self.path):
            found = {f.address: f for n in self._spellings(name) for f in self.named(n)}
            return [found[address] for address in sorted(found)]

    def is_known(self, name: str) -> bool:
        """Whether the name is known at all: it may only be declared, or inlined wherever it is used."""
        with damage_is_said(self.path):
            return any(names_of(u).functions(last(name)) for u in self.dwarf.units_mentioning(last(name)))

    def scope(self, function: Function) -> FunctionScope:
        """What names mean inside it."""
        return FunctionScope(self.types, self.dwarf, function.die, function.qualified, self._address_of)

    def parameters(self, function: Function) -> list[Parameter]:
        """In order, `this` included."""
        with damage_is_said(self.path):
            return [
                Parameter(die.first_text("name"), self.types.convert(die.first_refer("type")), die)
                for die in self.scope(function).parameters()
            ]

    def function_names(self) -> set[str]:
        """Unqualified names of all functions defined here: from the symbols, else from the debug information."""
        with damage_is_said(self.path):
            symbols = [s.name for s in self._symbols() if s.is_function]
            if symbols and not any(name.startswith("_R") for name in symbols):  # as Rust writes them, hard to read
                return {last(path_of(s)) for s in symbols}
            return {
                last(e.qualified)
                for unit in self.dwarf.units()
                for e in names_of(unit).entries
                if e.tag == _FUNCTION and not e.is_declaration
            }

    def symbols_at(self, address: int) -> list[str]:
        """Names of the symbols there: `forward.constprop.0` tells that arguments are not where they should be."""
        if self._by_address is None:
            self._by_address = {}
            for symbol in self._symbols():
                self._by_address.setdefault(symbol.address, []).append(symbol.name)
        return self._by_address.get(address, [])

    def _address_of(self, symbol: str) -> int | None:
        if self._addresses is None:
            self._addresses = {s.name: s.address for s in self._symbols()}
        return self._addresses.get(symbol)

    def _symbols(self) -> list[Symbol]:
        return self.elf.symbols() if self.elf.has_symbol_table else self._debug.symbols()

    def _spellings(self, name: str) -> set[str]:
        """The name itself and, for a template, every instance."""
        return {name} if "<" in name else {name} | self.dwarf.instances(name)

    def _matching(self, pattern: str) -> Iterator[Function]:
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise BinaryError(f"/{pattern}/ is not a regular expression: {error}") from None
        paths = {path_of(s.name) for s in self._symbols() if s.is_function}
        # symbols are quick to go through, but spell no template arguments
        names = {last(p) for p in paths if wanted.search(p)} or self._names_matching(wanted)
        for name in sorted(names):
            yield from (f for n in self._spellings(name) for f in self.named(n) if wanted.search(f.qualified))

    def _names_matching(self, wanted: re.Pattern[str]) -> set[str]:
        entries = (e for unit in self.dwarf.units() for e in names_of(unit).entries if e.tag == _FUNCTION)
        return {last(e.qualified) for e in entries if wanted.search(e.qualified)}


_FUNCTION = 0x2E


def open_binary(path: str) -> Binary:
    """The binary at `path`, with its debug information, also where that lies in a file of its own.

    Raises NotElf, Damaged, WrongMachine, NoDebugInfo or Stripped.
    """
    elf = Elf(path)
    try:
        if not elf.is_linked:
            raise NotElf(f"{path}: is not linked (an object file or a core dump); give the program or library")
        with damage_is_said(path):
            debug = elf if elf.has(".debug_info") else _separate(elf)
            binary = Binary(elf, debug)
            _expect_units(binary)
            return binary
    except BaseException:
        elf.close()
        raise


def _separate(elf: Elf) -> Elf:
    """The file that holds the debug information of a stripped binary. Raises NoDebugInfo."""
    path, build_id = elf.path, elf.build_id
    places = [os.path.join(_DEBUG_FOLDER, ".build-id", build_id[:2], build_id[2:] + ".debug")] if build_id else []
    link = elf.section(".gnu_debuglink").split(b"\0")[0].decode("utf-8", "replace")
    if link:
        folder = os.path.dirname(os.path.abspath(path))
        places += [os.path.join(folder, link), os.path.join(folder, ".debug", link)]
        places += [os.path.join(_DEBUG_FOLDER + folder, link)]
    for place in places:
        if os.path.isfile(place) and not os.path.samefile(place, path):
            debug = Elf(place)
            if debug.has(".debug_info") and debug.build_id == build_id:
                return debug
            debug.close()
    if elf.has_symbol_table:
        raise NoDebugInfo(f"{path}: has no debug information; compile with -g")
    raise Stripped(
        f"{path}: is stripped; give the file from before strip, or one compiled with -g "
        "(stepscope probe layout freezes its offsets for the stripped twin)"
    )


def _expect_units(binary: Binary) -> None:
    dwarf = binary.dwarf
    if dwarf.units():
        return
    if dwarf.missing:
        some = ", ".join(dwarf.missing[:3]) + (" …" if len(dwarf.missing) > 3 else "")
        raise NoDebugInfo(
            f"{binary.path}: its debug information is split (-gsplit-dwarf) into files that are not there: {some}; "
            f"keep the .dwo files, or pack them beside it: dwp -e {binary.path} -o {binary.path}.dwp"
        )
    raise NoDebugInfo(f"{binary.path}: its debug information is empty; compile with -g")


def _ends_with(path: str, end: str) -> bool:
    return path == end or path.endswith("/" + end.lstrip("/"))
