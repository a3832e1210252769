"""Addresses and file names of a unit: the small parts of the line and range tables that a hook needs."""

from __future__ import annotations

import os

from inspector.binary.dies import FORM, Die, Unit, uleb

_PATH, _DIRECTORY = 1, 2


def file_of(die: Die) -> str:
    """The source file that declares an entry, empty where it is not said."""
    owner = next((d for d in die.with_origin() if d.has("decl_file")), None)
    if owner is None:
        return ""
    names = file_names(owner.unit.skeleton or owner.unit)
    number = owner.number("decl_file") or 0
    return names.get(number, "")


def file_names(unit: Unit) -> dict[int, str]:
    """The files of a unit's line table, by number."""
    offset = unit.root.number("stmt_list")
    known: dict[int, dict[int, str]] = unit.dwarf.__dict__.setdefault("_file_names", {})
    key = id(unit.sections) ^ (offset or 0)
    if key not in known:
        data = unit.sections.line
        folder = unit.root.text("comp_dir")
        known[key] = {} if offset is None or offset >= len(data) else _files(unit, data, offset, folder)
    return known[key]


def _files(unit: Unit, data: bytes, at: int, folder: str) -> dict[int, str]:
    size = 8 if data[at : at + 4] == b"\xff" * 4 else 4  # an assembler may choose another than the compiler
    at += 4 if size == 4 else 12
    version = int.from_bytes(data[at : at + 2], "little")
    at += 2 + (2 if version >= 5 else 0) + size  # version, address and segment sizes, header length
    at += 5 if version >= 4 else 4
    opcodes = data[at]
    at += opcodes  # the lengths of opcodes 1 to opcodes - 1
    if version < 5:
        return _files_before_5(data, at, folder)
    folders, at = _entries(unit, data, at, size)
    files, _ = _entries(unit, data, at, size)
    places = [f[0] for f in folders] or [folder]
    return {
        number: _joined(folder, places[place] if place < len(places) else "", name)
        for number, (name, place) in enumerate(files)
    }


def _entries(unit: Unit, data: bytes, at: int, offset_size: int) -> tuple[list[tuple[str, int]], int]:
    """(name, number of its folder) of each entry of a table of DWARF 5."""
    count, at = data[at], at + 1
    formats = []
    for _ in range(count):
        content, at = uleb(data, at)
        form, at = uleb(data, at)
        formats.append((content, form))
    entries, at = uleb(data, at)
    found: list[tuple[str, int]] = []
    for _ in range(min(entries, len(data))):
        name, place = "", 0
        for content, form in formats:
            value, at = _value(unit, data, form, at, offset_size)
            if content == _PATH:
                name = unit.string(form, value)
            elif content == _DIRECTORY and isinstance(value, int):
                place = value
        found.append((name, place))
    return found, at


def _value(unit: Unit, data: bytes, form: int, at: int, offset_size: int) -> tuple[int | bytes, int]:
    width = offset_size if form in (FORM["strp"], FORM["line_strp"]) else unit.size_of(form)
    if width >= 0:
        return int.from_bytes(data[at : at + width], "little"), at + width
    if form == FORM["string"]:
        end = data.index(b"\0", at)
        return data[at:end], end + 1
    return uleb(data, at)


def _files_before_5(data: bytes, at: int, folder: str) -> dict[int, str]:
    folders = [folder]
    while data[at]:
        end = data.index(b"\0", at)
        folders.append(data[at:end].decode("utf-8", "replace"))
        at = end + 1
    at += 1
    found: dict[int, str] = {}
    while data[at]:
        end = data.index(b"\0", at)
        place, at_next = uleb(data, end + 1)
        _, at_next = uleb(data, at_next)
        _, at_next = uleb(data, at_next)
        name = data[at:end].decode("utf-8", "replace")
        found[len(found) + 1] = _joined(folder, folders[place] if place < len(folders) else "", name)
        at = at_next
    return found


def _joined(folder: str, place: str, name: str) -> str:
    return os.path.normpath(os.path.join(folder, place, name))


def entry_of(die: Die) -> int | None:
    """Where a function begins, not relocated: low_pc, or the first of its ranges. None where it was not emitted."""
    low = die.address("low_pc")
    if low is None and die.has("ranges"):
        low = _first_range(die)
    tombstones = (0, 1, (1 << 8 * die.unit.address_size) - 1, (1 << 8 * die.unit.address_size) - 2)
    return None if low is None or low in tombstones else low


def _first_range(die: Die) -> int | None:
    unit = die.unit
    offset = die.number("ranges") or 0
    base = (unit.skeleton or unit).root.address("low_pc") or 0
    width = unit.address_size
    if unit.version < 5:
        data = (unit.skeleton or unit).sections.ranges
        offset += (unit.skeleton.root.number("GNU_ranges_base") or 0) if unit.skeleton else 0
        return base + int.from_bytes(data[offset : offset + width], "little")
    data = unit.sections.rnglists
    if die.form("ranges") == FORM["rnglistx"]:
        # the table of offsets stands behind a head of 12 bytes (20 in 64-bit DWARF) where the unit does not say
        table = unit.root.number("rnglists_base") or (12 if unit.offset_size == 4 else 20)
        at = table + offset * unit.offset_size
        offset = table + int.from_bytes(data[at : at + unit.offset_size], "little")
    return _first_of_list(unit, data, offset, base)


def _first_of_list(unit: Unit, data: bytes, at: int, base: int) -> int | None:
    width = unit.address_size
    for _ in range(16):
        kind, at = data[at], at + 1
        if kind in (1, 2, 3):  # base_addressx, startx_endx, startx_length
            index, at = uleb(data, at)
            if kind != 1:
                return unit.indexed_address(index)
            base = unit.indexed_address(index)
        elif kind == 4:  # offset_pair
            return base + uleb(data, at)[0]
        elif kind in (5, 6, 7):  # base_address, start_end, start_length
            address = int.from_bytes(data[at : at + width], "little")
            if kind != 5:
                return address
            base, at = address, at + width
        else:
            return None
    return None
