"""DWARF entries, 4 and 5, read only where they are needed.

pyelftools decodes every entry in full, some 50,000 a second; a C++ engine has millions. Here a unit is only looked into
when its bytes mention the name that is wanted (as an offset into the string table: one search at memory speed), bodies
of functions are stepped over, and what is uninteresting is skipped by size. Split DWARF (-gsplit-dwarf) is followed
into its .dwo files or one .dwp.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from elftools.dwarf.enums import ENUM_DW_AT, ENUM_DW_FORM, ENUM_DW_TAG

from inspector.binary.elf import BinaryError, Damaged, Elf

AT = {name[6:]: code for name, code in ENUM_DW_AT.items() if name.startswith("DW_AT_")}
TAG = {name[7:]: code for name, code in ENUM_DW_TAG.items() if name.startswith("DW_TAG_")}
FORM = {name[8:]: code for name, code in ENUM_DW_FORM.items() if name.startswith("DW_FORM_")}

_FIXED = {"data1": 1, "data2": 2, "data4": 4, "data8": 8, "data16": 16, "flag": 1, "ref1": 1, "ref2": 2, "ref4": 4,
          "ref8": 8, "ref_sig8": 8, "strx1": 1, "strx2": 2, "strx3": 3, "strx4": 4, "addrx1": 1, "addrx2": 2,
          "addrx3": 3, "addrx4": 4, "flag_present": 0, "ref_sup4": 4, "ref_sup8": 8}  # fmt: skip
_OFFSETS = ("strp", "line_strp", "sec_offset", "strp_sup", "GNU_ref_alt", "GNU_strp_alt")
_ULEB = {FORM[n] for n in ("udata", "ref_udata", "strx", "addrx", "loclistx", "rnglistx", "GNU_addr_index",
                           "GNU_str_index")}  # fmt: skip
_BLOCKS = {FORM["block1"]: 1, FORM["block2"]: 2, FORM["block4"]: 4, FORM["block"]: 0, FORM["exprloc"]: 0}
_UNIT_REFS = {FORM[n] for n in ("ref1", "ref2", "ref4", "ref8", "ref_udata")}
_STRX = {FORM[n] for n in ("strx", "strx1", "strx2", "strx3", "strx4", "GNU_str_index")}
_ADDRX = {FORM[n] for n in ("addrx", "addrx1", "addrx2", "addrx3", "addrx4", "GNU_addr_index")}
_ELSEWHERE = {FORM[n] for n in ("strp_sup", "GNU_strp_alt", "GNU_ref_alt", "ref_sup4", "ref_sup8")}
_IMPLICIT, _INDIRECT, _SDATA, _STRING = FORM["implicit_const"], FORM["indirect"], FORM["sdata"], FORM["string"]
_SIBLING, _NAME = AT["sibling"], AT["name"]

Value = int | bytes
SPLIT_UNITS = (4, 5)
_TYPE_UNITS = (2, 6)


class Abbreviation(NamedTuple):
    """How entries of one kind are laid out. fixed: their size in bytes without the code, where it is always the same;
    specs: (attribute, form, size or -1, constant)."""

    tag: int
    has_children: bool
    specs: list[tuple[int, int, int, int]]
    fixed: int


class Sections:
    """The DWARF sections of one file, fetched when they are wanted. suffix: ".dwo" inside split files."""

    def __init__(self, elf: Elf, suffix: str = "") -> None:
        self.elf, self.suffix = elf, suffix

    def __getattr__(self, name: str) -> bytes:
        data = self.elf.section(f".debug_{name}{self.suffix}")
        setattr(self, name, data)
        return data

    info: bytes
    types: bytes
    abbrev: bytes
    str: bytes
    line_str: bytes
    str_offsets: bytes
    addr: bytes
    line: bytes
    ranges: bytes
    rnglists: bytes


class Contribution(NamedTuple):
    """Where a unit's parts begin in a packed (.dwp) file."""

    abbrev: int = 0
    line: int = 0
    str_offsets: int = 0


class Unit:
    """One compilation or type unit: where it lies, and how its entries are to be read."""

    def __init__(self, dwarf: Dwarf, sections: Sections, data: bytes, offset: int) -> None:
        self.dwarf, self.sections, self.data, self.offset = dwarf, sections, data, offset
        self.packed = Contribution()
        self.skeleton: Unit | None = None
        at = offset
        length = int.from_bytes(data[at : at + 4], "little")
        at += 4
        self.offset_size = 4
        if length == 0xFFFFFFFF:
            length = int.from_bytes(data[at : at + 8], "little")
            at, self.offset_size = at + 8, 8
        self.end = at + length
        if self.end > len(data) or length < 7:
            raise Damaged(f"{dwarf.path}: debug information is cut off at byte {offset}; copy the file again")
        self.version = int.from_bytes(data[at : at + 2], "little")
        if not 2 <= self.version <= 5:
            raise BinaryError(f"{dwarf.path}: debug information is DWARF {self.version}; 2 to 5 can be read")
        at = self._read_header(at + 2)
        self.first = at
        self._forms = _sizes(self.version, self.address_size, self.offset_size)
        self._abbreviations: dict[int, Abbreviation] | None = None
        self._root: Die | None = None

    def _read_header(self, at: int) -> int:
        """unit_type as DWARF 5 numbers it: 1 compile, 2 type, 4 skeleton, 5 split compile, 6 split type."""
        data, size = self.data, self.offset_size
        self.dwo_id = self.signature = self.type_offset = 0
        if self.version >= 5:
            self.unit_type, self.address_size = data[at], data[at + 1]
            self.abbrev_offset = int.from_bytes(data[at + 2 : at + 2 + size], "little")
            at += 2 + size
        else:
            self.unit_type = 2 if data is self.sections.__dict__.get("types") else 1
            self.abbrev_offset = int.from_bytes(data[at : at + size], "little")
            self.address_size = data[at + size]
            at += size + 1
        if self.address_size not in (4, 8):
            raise Damaged(f"{self.dwarf.path}: a unit has addresses of {self.address_size} bytes")
        if self.unit_type in _TYPE_UNITS:
            self.signature = int.from_bytes(data[at : at + 8], "little")
            self.type_offset = int.from_bytes(data[at + 8 : at + 8 + size], "little")
            return at + 8 + size
        if self.unit_type in SPLIT_UNITS:
            self.dwo_id = int.from_bytes(data[at : at + 8], "little")
            return at + 8
        return at

    @property
    def is_type_unit(self) -> bool:
        """Whether it holds one type, known by its signature."""
        return self.unit_type in _TYPE_UNITS

    @property
    def abbreviations(self) -> dict[int, Abbreviation]:
        """By code."""
        if self._abbreviations is None:
            at = self.abbrev_offset + self.packed.abbrev
            self._abbreviations = _abbreviations(self.sections.abbrev, at, self._forms)
        return self._abbreviations

    @property
    def root(self) -> Die:
        """The entry of the unit itself."""
        if self._root is None:
            self._root = self.die(self.first)
        return self._root

    def die(self, offset: int) -> Die:
        """The entry at that offset of its section."""
        if not self.first <= offset < self.end:
            raise Damaged(f"{self.dwarf.path}: an entry refers to byte {offset}, outside its unit")
        return Die(self, offset)

    def size_of(self, form: int) -> int:
        """Bytes of a value of that form; -1 where each value tells its own."""
        return self._forms.get(form, -1)

    def skip(self, at: int) -> tuple[Abbreviation | None, int]:
        """The kind of the entry at `at` (None: the end of a list), and where the next begins."""
        code, at = uleb(self.data, at)
        if not code:
            return None, at
        abbreviation = self.abbreviations[code]
        if abbreviation.fixed >= 0:
            return abbreviation, at + abbreviation.fixed
        return abbreviation, self._skip_values(abbreviation, at)

    def _skip_values(self, abbreviation: Abbreviation, at: int) -> int:
        for _, form, size, constant in abbreviation.specs:
            at = at + size if size >= 0 else self.value(form, at, constant)[1]
        return at

    def skip_tree(self, at: int) -> int:
        """Where what follows a list of children begins; `at` is at the first child."""
        depth = 1
        while depth and at < self.end:
            abbreviation, at = self.skip(at)
            if abbreviation is None:
                depth -= 1
            elif abbreviation.has_children:
                depth += 1
        return at

    def value(self, form: int, at: int, constant: int) -> tuple[Value, int]:
        """A value of a form whose size varies, and where the next begins."""
        data = self.data
        if form in _ULEB:
            return uleb(data, at)
        if form in _BLOCKS:
            width = _BLOCKS[form]
            length, at = (int.from_bytes(data[at : at + width], "little"), at + width) if width else uleb(data, at)
            return data[at : at + length], at + length
        if form == _SDATA:
            return sleb(data, at)
        if form == _STRING:
            end = data.index(b"\0", at)
            return data[at:end], end + 1
        if form == _IMPLICIT:
            return constant, at
        if form == _INDIRECT:
            form, at = uleb(data, at)
            size = self.size_of(form)
            if size >= 0:
                return int.from_bytes(data[at : at + size], "little"), at + size
            return self.value(form, at, constant)
        raise Damaged(f"{self.dwarf.path}: an entry has a value of unknown form {form:#x}")

    def string(self, form: int, value: Value) -> str:
        """The text that a value of a string form stands for."""
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if form in _ELSEWHERE:
            raise BinaryError(
                f"{self.dwarf.path}: debug information is shared with another file (dwz); use a binary without it"
            )
        table = self.sections.line_str if form == FORM["line_strp"] else self.sections.str
        if form in _STRX:
            base = self.str_offsets_base + value * self.offset_size
            value = int.from_bytes(self.sections.str_offsets[base : base + self.offset_size], "little")
        if value >= len(table):
            raise Damaged(f"{self.dwarf.path}: a name lies outside the string table")
        return table[value : table.index(b"\0", value)].decode("utf-8", "replace")

    @property
    def str_offsets_base(self) -> int:
        """Where this unit's string offsets begin."""
        given = self.root.number("str_offsets_base")
        if given is not None:
            return given
        # a split unit has none: its own begin behind the table's header, which GNU's DWARF 4 leaves out
        head = 0 if self.version < 5 else 8 if self.offset_size == 4 else 16
        return self.packed.str_offsets + head

    def indexed_address(self, index: int) -> int:
        """An address from the linked file's table."""
        owner = self.skeleton or self
        base = owner.root.number("addr_base")
        if base is None:
            base = owner.root.number("GNU_addr_base") or 0
        at = base + index * self.address_size
        return int.from_bytes(owner.sections.addr[at : at + self.address_size], "little")

    def resolve(self, form: int, value: Value) -> Die | None:
        """The entry that a value of a reference form points to."""
        if not isinstance(value, int) or form in _ELSEWHERE:
            return None
        if form in _UNIT_REFS:
            return self.die(self.offset + value)
        if form == FORM["ref_sig8"]:
            return self.dwarf.type_with_signature(value)
        return self.dwarf.unit_around(self, value).die(value)

    def mentions(self, name: str, places: list[int]) -> bool:
        """Whether its bytes may name `name`, whose offsets in the string table are `places`."""
        raw = name.encode()
        if self.data.find(raw + b"\0", self.first, self.end) >= 0:
            return True
        size = self.offset_size
        if any(self.data.find(p.to_bytes(size, "little"), self.first, self.end) >= 0 for p in places):
            return True
        if self.root.form("name") not in _STRX:
            return False
        base = self.str_offsets_base
        table = self.sections.str_offsets
        head = 4 if size == 4 else 12
        length = int.from_bytes(table[max(0, base - 8) : max(0, base - 8) + 4], "little") - head
        end = base + length if self.version >= 5 and size == 4 and not self.packed.str_offsets else len(table)
        return any(table.find(p.to_bytes(size, "little"), base, end) >= 0 for p in places)


class Die:
    """One entry: its tag and attributes, decoded when they are asked for."""

    __slots__ = ("unit", "offset", "tag", "has_children", "end", "_values")

    def __init__(self, unit: Unit, offset: int) -> None:
        self.unit, self.offset = unit, offset
        code, at = uleb(unit.data, offset)
        abbreviation = unit.abbreviations.get(code)
        if abbreviation is None:
            raise Damaged(f"{unit.dwarf.path}: an entry at byte {offset} is of no known kind")
        self.tag, self.has_children = abbreviation.tag, abbreviation.has_children
        self._values: dict[int, tuple[int, Value]] = {}
        data = unit.data
        for attribute, form, size, constant in abbreviation.specs:
            if form == _INDIRECT:
                form, at = uleb(data, at)
                size = unit.size_of(form)
            if size >= 0:
                self._values[attribute] = (form, int.from_bytes(data[at : at + size], "little") if size else 1)
                at += size
            else:
                value, at = unit.value(form, at, constant)
                self._values[attribute] = (form, value)
        self.end = at

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Die) and (self.unit, self.offset) == (other.unit, other.offset)

    def __hash__(self) -> int:
        return hash((id(self.unit), self.offset))

    def has(self, name: str) -> bool:
        """Whether it has the attribute itself."""
        return AT[name] in self._values

    def form(self, name: str) -> int:
        """The form of an attribute, 0 where it has none."""
        return self._values.get(AT[name], (0, 0))[0]

    def number(self, name: str) -> int | None:
        """A constant, a flag or a section offset."""
        value = self._values.get(AT[name], (0, None))[1]
        return value if isinstance(value, int) else None

    def block(self, name: str) -> bytes | None:
        """A location expression or other block."""
        value = self._values.get(AT[name], (0, None))[1]
        return value if isinstance(value, bytes) else None

    def text(self, name: str) -> str:
        """A string, empty where it has none."""
        form, value = self._values.get(AT[name], (0, b""))
        return self.unit.string(form, value)

    def address(self, name: str) -> int | None:
        """An address of the linked program, not relocated."""
        form, value = self._values.get(AT[name], (0, b""))
        if not isinstance(value, int):
            return None
        return self.unit.indexed_address(value) if form in _ADDRX else value

    def refer(self, name: str) -> Die | None:
        """The entry that an attribute refers to."""
        form, value = self._values.get(AT[name], (0, b""))
        return self.unit.resolve(form, value) if form else None

    def with_origin(self) -> Iterator[Die]:
        """Itself, then the declaration and the abstract entry that it completes."""
        die: Die | None = self
        for _ in range(8):
            if die is None:
                return
            yield die
            die = die.refer("abstract_origin") or die.refer("specification")

    def first_text(self, name: str) -> str:
        """A string of its own, or of what it completes."""
        return next((d.text(name) for d in self.with_origin() if d.has(name)), "")

    def first_refer(self, name: str) -> Die | None:
        """A reference of its own, or of what it completes."""
        return next((d.refer(name) for d in self.with_origin() if d.has(name)), None)

    def children(self) -> Iterator[Die]:
        """Its direct children."""
        if not self.has_children:
            return
        unit, at = self.unit, self.end
        while at < unit.end and unit.data[at]:
            child = Die(unit, at)
            yield child
            at = child.next_sibling()

    def next_sibling(self) -> int:
        """Where the entry behind it and its children begins."""
        if not self.has_children:
            return self.end
        sibling = self._values.get(_SIBLING)
        if sibling is not None and isinstance(sibling[1], int) and sibling[0] in _UNIT_REFS:
            at = self.unit.offset + sibling[1]
            if self.end <= at <= self.unit.end:
                return at
        return self.unit.skip_tree(self.end)


class Dwarf:
    """The debug information of a binary, its split parts included."""

    def __init__(self, elf: Elf) -> None:
        self.path = elf.path
        self.sections = Sections(elf)
        self.missing: list[str] = []
        self._opened: list[Elf] = []
        self._units: list[Unit] | None = None
        self._signatures: dict[int, Unit] | None = None
        self._places: dict[tuple[int, str], list[int]] = {}

    def close(self) -> None:
        """Give back the split files that were opened."""
        for elf in self._opened:
            elf.close()

    def units(self) -> list[Unit]:
        """Every unit; a skeleton is replaced by the split unit it stands for, or left out and told in `missing`."""
        if self._units is None:
            found = list(_units(self, self.sections))
            self._units = []
            for unit in found:
                self._units.extend(self._completed(unit))
        return self._units

    def units_mentioning(self, name: str) -> Iterator[Unit]:
        """Units whose bytes may define or use `name`."""
        for unit in self.units():
            if unit.mentions(name, self._strings(unit.sections, name)):
                yield unit

    def units_referring_to(self, die: Die) -> Iterator[Unit]:
        """Other units of its file whose bytes may refer to an entry."""
        wanted = die.offset.to_bytes(die.unit.offset_size, "little")
        for unit in self.units():
            is_beside = unit is not die.unit and unit.data is die.unit.data
            if is_beside and unit.data.find(wanted, unit.first, unit.end) >= 0:
                yield unit

    def instances(self, name: str) -> set[str]:
        """Every spelling of a template's instances that the string tables hold: `forward<float>` of `forward`."""
        wanted = re.compile(rb"(?<=\0)" + re.escape(name.encode()) + rb"<[^\0]*(?=\0)")
        tables = {id(u.sections): u.sections.str for u in self.units()}
        return {m.group().decode("utf-8", "replace") for t in tables.values() for m in wanted.finditer(t)}

    def unit_around(self, asking: Unit, offset: int) -> Unit:
        """The unit of the same file that holds an entry."""
        for unit in self.units():
            if unit.data is asking.data and unit.offset <= offset < unit.end:
                return unit
        raise Damaged(f"{self.path}: an entry refers to byte {offset}, which is in no unit")

    def type_with_signature(self, signature: int) -> Die | None:
        """The type that a type unit holds."""
        if self._signatures is None:
            self._signatures = {u.signature: u for u in self.units() if u.is_type_unit}
        unit = self._signatures.get(signature)
        return unit.die(unit.offset + unit.type_offset) if unit else None

    def _strings(self, sections: Sections, name: str) -> list[int]:
        """Every offset at which the string table can be read as `name`: linkers let short names end long ones."""
        key = (id(sections), name)
        if key not in self._places:
            table, wanted = sections.str, name.encode() + b"\0"
            found: list[int] = []
            at = table.find(wanted)
            while at >= 0 and len(found) < 1000:
                found.append(at)
                at = table.find(wanted, at + 1)
            self._places[key] = found
        return self._places[key]

    # -- split DWARF -------------------------------------------------------------------------------------------------

    def _completed(self, unit: Unit) -> list[Unit]:
        if unit.is_type_unit:
            return [unit]
        name = unit.root.text("dwo_name") or unit.root.text("GNU_dwo_name")
        if not name:
            return [unit]
        dwo_id = unit.dwo_id or unit.root.number("GNU_dwo_id") or 0
        split = self._from_package(dwo_id) or self._from_dwo(unit, name, dwo_id)
        if not split:
            self.missing.append(name)
        for part in split:
            part.skeleton = unit
        return split

    def _from_dwo(self, skeleton: Unit, name: str, dwo_id: int) -> list[Unit]:
        folder = skeleton.root.text("comp_dir")
        here = os.path.dirname(os.path.abspath(self.path))
        for path in (os.path.join(folder, name), os.path.join(here, name), os.path.join(here, os.path.basename(name))):
            if not os.path.isfile(path):
                continue
            elf = Elf(path)
            self._opened.append(elf)
            units = _split_units(self, Sections(elf, ".dwo"))
            if any(_dwo_id(u) == dwo_id for u in units):
                return units
        return []

    def _from_package(self, dwo_id: int) -> list[Unit]:
        if not hasattr(self, "_package"):
            self._package: Sections | None = None
            path = self.path + ".dwp"
            if os.path.isfile(path):
                elf = Elf(path)
                self._opened.append(elf)
                self._package = Sections(elf, ".dwo")
                self._packed = _index_of_package(elf.section(".debug_cu_index"))
        if self._package is None or dwo_id not in self._packed:
            return []
        row = self._packed[dwo_id]
        unit = Unit(self, self._package, self._package.info, row.get(1, 0))
        unit.packed = Contribution(row.get(3, 0), row.get(4, 0), row.get(6, 0))
        return [unit]


def _dwo_id(unit: Unit) -> int:
    return unit.dwo_id or (0 if unit.is_type_unit else unit.root.number("GNU_dwo_id") or 0)


def _split_units(dwarf: Dwarf, sections: Sections) -> list[Unit]:
    return list(_units(dwarf, sections))


def _units(dwarf: Dwarf, sections: Sections) -> Iterator[Unit]:
    for data in (sections.info, sections.types):
        at = 0
        while at + 11 <= len(data):
            unit = Unit(dwarf, sections, data, at)
            yield unit
            at = unit.end


def _index_of_package(data: bytes) -> dict[int, dict[int, int]]:
    """Unit id -> section number -> offset, from .debug_cu_index."""
    if len(data) < 16:
        return {}
    columns, units, slots = struct.unpack_from("<4xIII", data)
    if 16 + 12 * slots + 4 * columns * (1 + units) > len(data):
        return {}
    ids = struct.unpack_from(f"<{slots}Q", data, 16)
    rows = struct.unpack_from(f"<{slots}I", data, 16 + 8 * slots)
    table = 16 + 12 * slots
    sections = struct.unpack_from(f"<{columns}I", data, table)
    out = {}
    for unit_id, row in zip(ids, rows, strict=True):
        if 0 < row <= units:
            values = struct.unpack_from(f"<{columns}I", data, table + 4 * columns * row)
            out[unit_id] = dict(zip(sections, values, strict=True))
    return out


def _sizes(version: int, address: int, offset: int) -> dict[int, int]:
    """Bytes of each form whose size is known from the unit's head alone."""
    sizes = {FORM[name]: size for name, size in _FIXED.items() if name in FORM}
    sizes.update({FORM[name]: offset for name in _OFFSETS if name in FORM})
    sizes[FORM["addr"]] = address
    sizes[FORM["ref_addr"]] = address if version == 2 else offset
    return sizes


def _abbreviations(data: bytes, at: int, sizes: dict[int, int]) -> dict[int, Abbreviation]:
    found: dict[int, Abbreviation] = {}
    while True:
        code, at = uleb(data, at)
        if not code:
            return found
        tag, at = uleb(data, at)
        has_children, at = bool(data[at]), at + 1
        specs: list[tuple[int, int, int, int]] = []
        while True:
            attribute, at = uleb(data, at)
            form, at = uleb(data, at)
            constant = 0
            if form == _IMPLICIT:
                constant, at = sleb(data, at)
            if not attribute and not form:
                break
            specs.append((attribute, form, sizes.get(form, -1), constant))
        widths = [0 if form == _IMPLICIT else size for _, form, size, _ in specs]
        found[code] = Abbreviation(tag, has_children, specs, -1 if -1 in widths else sum(widths))


def uleb(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128 number, and where the next value begins."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
        if shift > 70:
            raise ValueError("a number of too many bytes")


def sleb(data: bytes, at: int) -> tuple[int, int]:
    """A signed LEB128 number, and where the next value begins."""
    start = at
    value, at = uleb(data, at)
    bits = 7 * (at - start)
    return (value - (1 << bits) if value >> (bits - 1) & 1 else value), at
