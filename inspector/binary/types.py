"""Types and variables of a function as `layout` wants them, from DWARF: expressions resolve here as they do in gdb."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gdb_scripts.layout import NO_SYMBOL, OPTIMIZED_OUT, Absent, Scope, Type, Variable
from inspector.binary.dies import TAG, Die, Dwarf, Unit, uleb
from inspector.binary.names import enclosing, last, names_of, plain

_TRANSPARENT = {TAG[n] for n in ("typedef", "const_type", "volatile_type", "restrict_type", "atomic_type")}
_STRUCTS = {TAG[n] for n in ("structure_type", "class_type", "union_type")}
_REFERENCES = {TAG["reference_type"], TAG["rvalue_reference_type"]}
_POINTER, _ARRAY, _ENUM, _BASE = (TAG[n] for n in ("pointer_type", "array_type", "enumeration_type", "base_type"))
_MEMBER, _INHERITANCE, _SUBRANGE = TAG["member"], TAG["inheritance"], TAG["subrange_type"]
_PARAMETER, _VARIABLE, _ENUMERATOR = TAG["formal_parameter"], TAG["variable"], TAG["enumerator"]
_ENCODINGS = {2: "bool", 4: "float", 5: "int", 6: "int", 7: "uint", 8: "uint", 0x10: "uint"}
_BUILT_IN = {"char": ("int", 1), "signed char": ("int", 1), "unsigned char": ("uint", 1), "short": ("int", 2),
             "unsigned short": ("uint", 2), "int": ("int", 4), "unsigned": ("uint", 4), "unsigned int": ("uint", 4),
             "long": ("int", 8), "unsigned long": ("uint", 8), "float": ("float", 4), "double": ("float", 8),
             "long long": ("int", 8), "unsigned long long": ("uint", 8)}  # fmt: skip
_C_PLUS_PLUS = {0x04, 0x1A, 0x21, 0x2B, 0x3A}
_DEEPEST = 64
_OP_ADDR, _OP_PLUS_UCONST, _OP_ADDRX, _OP_GNU_ADDR_INDEX = 0x03, 0x23, 0xA1, 0xFB
_OP_TLS = (0x9B, 0xE0)
_VOID = Type("other", 0, "void")


class Types:
    """The types of a binary, converted once each."""

    def __init__(self, dwarf: Dwarf) -> None:
        self._dwarf = dwarf
        self._known: dict[Die, Type] = {}
        self._named: dict[str, Die | None] = {}

    def convert(self, die: Die | None) -> Type:
        """A type's entry as layout needs it; None is void."""
        given, die = die, stripped(die)
        if die is None:
            return _VOID
        if die.tag in _STRUCTS and not die.has("name"):
            return self._struct(die, self.spelled(given))  # known by its typedef alone
        if die not in self._known:
            self._known[die] = self._converted(die)
        return self._known[die]

    def named(self, qualified: str, near: Unit | None = None) -> Die | None:
        """The complete type of that qualified name, from the unit `near` if it has one, else from anywhere."""
        if near is not None:
            for die in names_of(near).types(qualified):
                if not die.number("declaration"):
                    return die
        if qualified not in self._named:
            self._named[qualified] = self._search(qualified)
        return self._named[qualified]

    def _search(self, qualified: str) -> Die | None:
        for spelling in self._spellings(last(qualified)):
            for unit in self._dwarf.units_mentioning(spelling):
                for die in names_of(unit).types(qualified):
                    if not die.number("declaration"):
                        return die
        return None

    def _spellings(self, name: str) -> set[str]:
        if "<" not in name:
            return {name}
        return {s for s in self._dwarf.instances(name[: name.index("<")]) if plain(s) == plain(name)} or {name}

    def _converted(self, die: Die) -> Type:
        tag = die.tag
        size = die.number("byte_size") or 0
        name = self.spelled(die)
        if tag == _BASE:
            return Type(_ENCODINGS.get(die.number("encoding") or 0, "other"), size, name)
        if tag == _ENUM:
            return Type(self._kind_of_enum(die), size or self.convert(die.refer("type")).size, name)
        if tag == _POINTER or tag in _REFERENCES:
            kind = "pointer" if tag == _POINTER else "reference"
            return Type(kind, size or die.unit.address_size, name, lambda: self.convert(die.refer("type")))
        if tag == _ARRAY:
            return self._array(die, name)
        if tag in _STRUCTS:
            return self._struct(die, name)
        return Type("other", size, name)

    def _struct(self, die: Die, name: str) -> Type:
        complete = die
        if die.number("declaration"):
            found = self.named(names_of(die.unit).qualified(die), die.unit)
            if found is None:
                return Type("struct", 0, name, members=lambda: _unknown(name))
            complete = found
        return Type("struct", complete.number("byte_size") or 0, name, members=lambda: self._members(complete, ()))

    def _members(self, die: Die, inside: tuple[Die, ...]) -> dict[str, tuple[int, Type]]:
        """Members with their offsets; those of bases and of anonymous parts count as the type's own."""
        found: dict[str, tuple[int, Type]] = {}
        if die in inside:
            raise RecursionError
        for child in die.children():
            if child.tag not in (_MEMBER, _INHERITANCE) or child.has("bit_size"):
                continue
            offset = _offset_of(child)
            if offset is None or child.number("external") or child.number("declaration"):
                continue
            part = stripped(child.refer("type"))
            if child.tag == _INHERITANCE or not child.has("name"):
                if part is not None and part.tag in _STRUCTS:
                    whole = self.complete(part)
                    for name, (inner, kind) in self._members(whole, (*inside, die)).items() if whole else ():
                        found.setdefault(name, (offset + inner, kind))
            else:
                found[child.text("name")] = (offset, self.convert(part))
        return found

    def complete(self, die: Die | None) -> Die | None:
        """A struct's definition, where `die` may only declare it or be a typedef of it."""
        die = stripped(die)
        if die is None or not die.number("declaration"):
            return die
        return self.named(names_of(die.unit).qualified(die), die.unit)

    def _array(self, die: Die, name: str) -> Type:
        lengths = [_length_of(c) for c in die.children() if c.tag == _SUBRANGE] or [0]
        element = self.convert(die.refer("type"))
        for length in reversed(lengths):
            element = _array_of(element, length)
        return Type("array", die.number("byte_size") or element.size, name or element.name, lambda: element.target)

    def _kind_of_enum(self, die: Die) -> str:
        under = die.refer("type")
        if under is not None:
            return self.convert(under).kind
        if die.number("encoding") is not None:
            return _ENCODINGS.get(die.number("encoding") or 0, "uint")
        values = (c.number("const_value") or 0 for c in die.children() if c.tag == _ENUMERATOR)
        return "int" if any(v < 0 for v in values) else "uint"

    def spelled(self, die: Die | None) -> str:
        """A type's name for people."""
        depth, suffix = 0, ""
        while die is not None and depth < _DEEPEST:
            depth += 1
            if die.has("name"):
                prefix = "struct " if die.tag in _STRUCTS and not is_cpp(die.unit) else ""
                return prefix + names_of(die.unit).qualified(die) + suffix
            if die.tag == _POINTER or die.tag in _REFERENCES:
                suffix = (" *" if die.tag == _POINTER else " &") + suffix
            elif die.tag == _ARRAY:
                suffix = "".join(f"[{_length_of(c)}]" for c in die.children() if c.tag == _SUBRANGE) + suffix
            elif die.tag not in _TRANSPARENT:
                return {_ENUM: "enum"}.get(die.tag, "struct" if die.tag in _STRUCTS else "a type") + suffix
            die = die.refer("type")
        return "void" + suffix


def stripped(die: Die | None) -> Die | None:
    """The type behind typedefs and qualifiers. None is void."""
    for _ in range(_DEEPEST):
        if die is None:
            return None
        if die.tag in _TRANSPARENT:
            die = die.refer("type")
        elif die.has("signature"):  # it stands for a type that has a unit of its own
            return die.refer("signature") or die
        else:
            return die
    raise RecursionError


def enumerators(die: Die | None) -> dict[str, int]:
    """The names and values of an enumeration; empty for another type."""
    die = stripped(die)
    if die is None or die.tag != _ENUM:
        return {}
    return {c.text("name"): c.number("const_value") or 0 for c in die.children() if c.tag == _ENUMERATOR}


class FunctionScope(Scope):
    """What names mean inside a function. Raises Absent."""

    def __init__(
        self, types: Types, dwarf: Dwarf, function: Die, qualified: str, symbol: Callable[[str], int | None]
    ) -> None:
        self._types, self._dwarf, self._function, self._qualified = types, dwarf, function, qualified
        self._symbol = symbol
        self.pointer_size = function.unit.address_size

    def variable(self, name: str) -> Variable:
        local = next((d for d in self._locals() if d.first_text("name") == name), None)
        if local is not None:
            return self._frame_variable(name, local)
        for place in self._globals(name):
            return place
        raise Absent(NO_SYMBOL, f"no symbol {name} here")

    def type_named(self, name: str) -> Type:
        for prefix in enclosing(self._qualified):
            die = self._types.named(prefix + name, self._function.unit)
            if die is not None:
                return self._types.convert(die)
        if name in _BUILT_IN:
            return Type(*_BUILT_IN[name], name)
        raise Absent(NO_SYMBOL, f"no type {name} here")

    def vtable(self, name: str) -> int:
        parts = name.split("::")
        mangled = "".join(f"{len(p)}{p}" for p in parts)
        address = self._symbol(f"_ZTVN{mangled}E" if len(parts) > 1 else f"_ZTV{mangled}")
        if address is None:
            raise Absent(NO_SYMBOL, f"the vtable of {name} is not in this binary; name the class in full")
        return address + 2 * self.pointer_size  # behind the offset to the top and the type's information

    def parameters(self) -> list[Die]:
        """The function's parameters, in order, `this` included."""
        return [d for d in self._locals() if d.tag == _PARAMETER]

    def _locals(self) -> Iterator[Die]:
        return (d for d in self._function.children() if d.tag in (_PARAMETER, _VARIABLE))

    def _frame_variable(self, name: str, die: Die) -> Variable:
        kind = self._types.convert(die.first_refer("type"))
        address = _static_address(die)
        if address is not None:
            return Variable(name, kind, address)
        if die.has("const_value"):
            raise Absent(NO_SYMBOL, f"{name} has no address: it is a constant here")
        if not die.has("location"):
            raise Absent(OPTIMIZED_OUT, f"{name} is optimized out")
        return Variable(name, kind)

    def _globals(self, name: str) -> Iterator[Variable]:
        for prefix in enclosing(self._qualified):
            if prefix and self._types.named(prefix[:-2], self._function.unit) is not None:
                continue  # gdb does not look for static members there either: it wants their full name
            for unit in self._units_for(last(name)):
                for die in names_of(unit).variables(prefix + name):
                    address = _static_address(die)
                    if address is not None or die.has("location"):  # without an address, one that lies in pieces
                        yield Variable(name, self._types.convert(die.first_refer("type")), address)

    def _units_for(self, name: str) -> Iterator[Unit]:
        yield self._function.unit
        beside: list[Die] = []
        for unit in self._dwarf.units_mentioning(name):
            beside += names_of(unit).variables(name)
            yield unit
        for die in beside:  # link-time optimisation keeps addresses apart from names
            yield from self._dwarf.units_referring_to(die)


def _static_address(die: Die) -> int | None:
    """Where an object that is not in a frame lies; None where it is in one, or was taken apart and lies in pieces.
    Raises Absent for a thread's own."""
    block = die.block("location")
    if not block:
        return None
    if block[-1] in _OP_TLS:
        raise Absent(NO_SYMBOL, f"{die.first_text('name')} is thread-local: its address is another in each thread")
    if block[0] == _OP_ADDR and len(block) == 1 + die.unit.address_size:
        return int.from_bytes(block[1:], "little")
    if block[0] in (_OP_ADDRX, _OP_GNU_ADDR_INDEX):
        index, end = uleb(block, 1)
        return die.unit.indexed_address(index) if end == len(block) else None
    return None


def _offset_of(member: Die) -> int | None:
    """A member's offset; None where it is only known at run time (a virtual base)."""
    if not member.has("data_member_location"):
        # members of a union have none; DWARF 4 static members have none either and are told apart by `external`
        return 0
    block = member.block("data_member_location")
    if block is None:
        return member.number("data_member_location")
    return uleb(block, 1)[0] if block[:1] == bytes([_OP_PLUS_UCONST]) else None


def _length_of(subrange: Die) -> int:
    count = subrange.number("count")
    if count is not None:
        return count
    upper = subrange.number("upper_bound")
    # an array without a length has none, or -1 in the width of an address
    return 0 if upper is None or not 0 <= upper < 1 << 40 else upper + 1


def _array_of(element: Type, length: int) -> Type:
    return Type("array", element.size * length, f"{element.name}[{length}]", lambda: element)


def _unknown(name: str) -> dict[str, tuple[int, Type]]:
    raise Absent(NO_SYMBOL, f"{name} is only declared in this binary; nothing says what its members are")


def is_cpp(unit: Unit) -> bool:
    """Whether it was compiled from C++."""
    return unit.root.number("language") in _C_PLUS_PLUS
