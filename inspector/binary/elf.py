"""The ELF side of a binary: what machine it is for, its build id, its symbols, and the bytes of its sections.

Headers and notes are read with pyelftools; sections and symbols are taken from the mapped file directly, because every
size in a damaged file has to be checked before it is believed, and a large engine has 100,000 symbols.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple, cast

_COMPRESSED = 0x800
_ZLIB, _ZSTD = 1, 2
_FLAGS_1, _IS_PIE = 0x6FFFFFFB, 0x08000000
_NOBITS = "SHT_NOBITS"
_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64", "EM_386": "i386", "EM_ARM": "arm", "EM_RISCV": "riscv"}
_MOST_EXPANSION = 1100  # deflate cannot do better: a section that claims more is damaged


class BinaryError(Exception):
    """A binary that cannot be used; the message is one line that names the file and what to do."""


class NotElf(BinaryError):  # noqa: N818 - what it is, as users read it
    """Not an ELF program or library."""


class Damaged(BinaryError):  # noqa: N818
    """An ELF file that is cut off, or holds what cannot be."""


class NoDebugInfo(BinaryError):  # noqa: N818
    """Nothing says where variables and members lie."""


class Stripped(NoDebugInfo):
    """Debug information and symbols were removed."""


class WrongMachine(BinaryError):  # noqa: N818
    """For a machine that cannot be served here."""


class Symbol(NamedTuple):
    """A function or object that the symbol table names; `address` is not relocated."""

    name: str
    address: int
    size: int
    is_function: bool


class _Section(NamedTuple):
    offset: int
    size: int
    address: int
    flags: int
    kind: str
    link: int


class Elf:
    """An ELF file, mapped. Raises BinaryError; close it, or use it with `with`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._bytes: dict[str, bytes] = {}
        self._symbols: list[Symbol] | None = None
        self._map = _mapped(path)
        try:
            with damage_is_said(path):
                self._read_headers()
        except BaseException:
            self._map.close()
            raise

    def close(self) -> None:
        """Give the file back."""
        self._map.close()

    def __enter__(self) -> Elf:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_headers(self) -> None:
        from elftools.elf.elffile import ELFFile

        elf = ELFFile(cast("IO[bytes]", self._map))
        self.bits = elf.elfclass
        self.machine = _MACHINES.get(elf["e_machine"], str(elf["e_machine"]))
        self.is_linked = elf["e_type"] in ("ET_EXEC", "ET_DYN")
        self.is_relocated = elf["e_type"] == "ET_DYN"  # its addresses count from where it was loaded
        if not elf.little_endian:
            raise WrongMachine(f"{self.path}: is big-endian ({self.machine}); only little-endian programs can be read")
        if elf["e_shoff"] and elf["e_shoff"] + elf["e_shnum"] * elf["e_shentsize"] > len(self._map):
            raise Damaged(f"{self.path}: is cut off: its section table lies behind its end; copy it again")
        self._sections: dict[str, _Section] = {}
        self._by_index: list[_Section] = []
        for section in elf.iter_sections():
            header = section.header
            entry = _Section(header.sh_offset, header.sh_size, header.sh_addr, header.sh_flags,
                             str(header.sh_type), header.sh_link)  # fmt: skip
            self._by_index.append(entry)
            self._sections.setdefault(section.name, entry)
        self.build_id = self._read_build_id()

    def has(self, name: str) -> bool:
        """Whether there is such a section, or its old compressed form, with bytes in the file."""
        return any(n in self._sections and self._sections[n].kind != _NOBITS for n in (name, _old_name(name)))

    def address_of(self, name: str) -> int:
        """Where a section is linked to lie; 0 where there is none."""
        return self._sections[name].address if name in self._sections else 0

    def section(self, name: str) -> bytes:
        """A section's bytes, decompressed; empty where there is none. Raises Damaged."""
        if name not in self._bytes:
            self._bytes[name] = self._read(name)
        return self._bytes[name]

    def symbols(self) -> list[Symbol]:
        """Functions and objects defined here, from .symtab, else from .dynsym."""
        if self._symbols is None:
            with damage_is_said(self.path):
                table = ".symtab" if ".symtab" in self._sections else ".dynsym"
                self._symbols = list(self._read_symbols(table)) if table in self._sections else []
        return self._symbols

    @property
    def has_symbol_table(self) -> bool:
        """Whether the full symbol table is there: `strip` removes it."""
        return self.has(".symtab")

    @property
    def is_library(self) -> bool:
        """Whether it is loaded by a program, not started itself."""
        if not self.is_relocated or self.has(".interp"):
            return False
        entry = struct.Struct("<qQ" if self.bits == 64 else "<iI")
        data = self.section(".dynamic")
        flags = [v for tag, v in entry.iter_unpack(data[: len(data) - len(data) % entry.size]) if tag == _FLAGS_1]
        return not any(v & _IS_PIE for v in flags)  # a static program may be position-independent too

    def _read(self, name: str) -> bytes:
        if name in self._sections:
            section = self._sections[name]
            if section.kind == _NOBITS:
                return b""
            data = self._raw(section, name)
            return self._decompressed(data, name) if section.flags & _COMPRESSED else data
        if _old_name(name) in self._sections:
            data = self._raw(self._sections[_old_name(name)], name)
            if data[:4] != b"ZLIB" or len(data) < 12:
                raise Damaged(f"{self.path}: section {_old_name(name)} is not compressed as its name says")
            return self._inflated(data[12:], int.from_bytes(data[4:12], "big"), name)
        return b""

    def _raw(self, section: _Section, name: str) -> bytes:
        if section.offset + section.size > len(self._map):
            raise Damaged(f"{self.path}: is cut off: section {name} ends behind the file; copy it again")
        return self._map[section.offset : section.offset + section.size]

    def _decompressed(self, data: bytes, name: str) -> bytes:
        head = struct.Struct("<IIQQ" if self.bits == 64 else "<III")
        if len(data) < head.size:
            raise Damaged(f"{self.path}: section {name} is too short to be compressed, as it says")
        kind, *_, size, _ = head.unpack_from(data)
        if kind == _ZSTD:
            raise NoDebugInfo(
                f"{self.path}: debug information is compressed with zstd, which cannot be read here; "
                f"type: objcopy --decompress-debug-sections {self.path}"
            )
        if kind != _ZLIB:
            raise Damaged(f"{self.path}: section {name} is compressed in an unknown way ({kind})")
        return self._inflated(data[head.size :], size, name)

    def _inflated(self, data: bytes, size: int, name: str) -> bytes:
        if size > len(data) * _MOST_EXPANSION + 64:
            raise Damaged(f"{self.path}: section {name} claims to grow to {size} bytes, which cannot be")
        try:
            out = zlib.decompressobj().decompress(data, size or 1)
        except zlib.error as error:
            raise Damaged(f"{self.path}: section {name} cannot be decompressed: {error}") from None
        if len(out) != size:
            raise Damaged(f"{self.path}: section {name} has {len(out)} bytes, not the {size} it claims")
        return out

    def _read_symbols(self, table: str) -> Iterator[Symbol]:
        section = self._sections[table]
        if section.link >= len(self._by_index):
            raise Damaged(f"{self.path}: {table} has no names")
        names = self._raw(self._by_index[section.link], "of the symbols' names")
        data = self._raw(section, table)
        entry = struct.Struct("<IBBHQQ" if self.bits == 64 else "<IIIBBH")
        for fields in entry.iter_unpack(data[: len(data) - len(data) % entry.size]):
            if self.bits == 64:
                name, info, _, index, value, size = fields
            else:
                name, value, size, info, _, index = fields
            if index and (info & 15) in (1, 2):
                end = names.find(b"\0", name)
                yield Symbol(names[name:end].decode("utf-8", "replace"), value, size, (info & 15) == 2)

    def _read_build_id(self) -> str:
        """In hexadecimal; empty where the linker wrote none."""
        for name, section in self._sections.items():
            if section.kind != "SHT_NOTE" and not name.startswith(".note"):
                continue
            data, at = self._raw(section, name), 0
            while at + 12 <= len(data):
                name_size, size, kind = struct.unpack_from("<III", data, at)
                begin = at + 12 + (name_size + 3 & ~3)
                if kind == 3 and data[at + 12 : at + 16] == b"GNU\0":
                    return data[begin : begin + size].hex()
                at = begin + (size + 3 & ~3)
        return ""


def _old_name(name: str) -> str:
    return ".z" + name[1:]


def _mapped(path: str) -> mmap.mmap:
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):  # opening a pipe would wait for a writer
            what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            raise NotElf(f"{path}: cannot read: it is {what}")
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise BinaryError(f"{path}: cannot read: {error.strerror}") from None
    try:
        with file:
            start = file.read(20)
            if start[:4] != b"\x7fELF":
                what = "is empty" if not start else "a script; give the program it starts" if start[:2] == b"#!" else ""
                raise NotElf(f"{path}: is not an ELF program or library{': ' * bool(what)}{what}")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise BinaryError(f"{path}: cannot read: {error.strerror}") from None


@contextmanager
def damage_is_said(path: str) -> Iterator[None]:
    """Whatever a parser meets in a damaged file ends as one line: bits can be flipped anywhere, and so can it fail."""
    try:
        yield
    except (BinaryError, OSError, KeyboardInterrupt):
        raise
    except RecursionError:
        raise Damaged(f"{path}: is damaged: its types contain themselves") from None
    except Exception as error:  # noqa: BLE001
        raise Damaged(
            f"{path}: is damaged: its headers or debug information contradict each other; copy it again"
        ) from error
