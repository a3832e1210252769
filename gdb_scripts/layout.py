"""From expressions to bytes: where the fields of a hook lie, fetched in few block reads, decoded without a debugger.

`Plan` resolves expressions once against types (from gdb, from DWARF, or frozen in a file). `Snapshot` is one hit: it
reads each neighbourhood of wanted members as one block, and decodes from bytes. What is not there is Absent, with the
reason in one word.
"""

from __future__ import annotations

import struct
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union
from typing import Type as Type_

from gdb_scripts import expressions as ex

NO_SYMBOL, OPTIMIZED_OUT, UNREADABLE, NOT_MEASURED = "no_symbol", "optimized_out", "unreadable", "not_measured"
DEFAULT_CAP = 1024
"""Elements that a length read from the program may ask for; more is taken for garbage."""
_JOIN_BYTES = 256
"""Wanted members that lie closer than this are read as one block: a round trip costs more than bytes do."""
_GATHER_BYTES = 16384
"""What a slice of pointers points to is read as one block if it spans no more than this."""


class Absent(Exception):  # noqa: N818 - a state of a value, not a fault of ours
    """A value that cannot be had. `why` is one of the four words above; the message says more."""

    def __init__(self, why: str, message: str) -> None:
        super().__init__(message)
        self.why = why


class Type:
    """A C or C++ type as far as reading needs it.

    kind: "int", "uint", "bool", "float", "pointer", "reference", "struct", "array" or "other". `target` and `members`
    are asked for lazily: types refer to each other in circles. Members of base classes and anonymous parts are listed
    as the type's own.
    """

    def __init__(
        self,
        kind: str,
        size: int,
        name: str = "",
        target: Optional[Callable[[], "Type"]] = None,
        members: Optional[Callable[[], Dict[str, Tuple[int, "Type"]]]] = None,
    ) -> None:
        self.kind, self.size, self.name = kind, size, name
        self._target, self._members = target, members
        self._known_members: Optional[Dict[str, Tuple[int, "Type"]]] = None

    @property
    def target(self) -> "Type":
        """What a pointer, a reference or an array is of."""
        if self._target is None:
            raise Absent(NO_SYMBOL, "%s points to nothing that is known" % (self.name or "it"))
        return self._target()

    @property
    def members(self) -> Dict[str, Tuple[int, "Type"]]:
        """Offset in bytes and type of each member."""
        if self._known_members is None:
            self._known_members = self._members() if self._members else {}
        return self._known_members


def pointer_to(target: Type, size: int = 8) -> Type:
    """The type of a pointer to `target`."""
    return Type("pointer", size, target.name + " *", lambda: target)


class Variable(NamedTuple):
    """Where a name stands: `address` of a static object, or None for what a frame or a register holds (`key`)."""

    key: str
    type: Type
    address: Optional[int] = None


class Scope:
    """What names mean at a hook; gdb, DWARF and frozen layouts each have theirs. Both raise Absent(NO_SYMBOL)."""

    pointer_size = 8

    def variable(self, name: str) -> Variable:
        """An argument, a local, `this` or a global."""
        raise NotImplementedError

    def type_named(self, name: str) -> Type:
        """The type that a cast names."""
        raise NotImplementedError

    def resolve(self, node: ex.Node) -> "Field":
        """Where an expression's value lies."""
        return resolve(node, self)

    def vtable(self, name: str) -> int:
        """What the first word of an object of that C++ class holds."""
        raise Absent(NO_SYMBOL, "the vtable of %s is not known here" % name)


class Memory:
    """What a hit offers; it raises Absent for what it cannot give. `raw_block` is read_block for code that takes any
    buffer and expects any of `errors`."""

    errors: Tuple[Type_[Exception], ...] = (Absent,)

    @property
    def raw_block(self) -> Callable[[int, int], Any]:
        """See above."""
        return self.read_block

    def read_block(self, address: int, size: int) -> bytes:
        """`size` bytes of the program's memory."""
        raise NotImplementedError

    def read_variable(self, key: str, size: int) -> bytes:
        """The bytes of an argument, local or register."""
        raise NotImplementedError

    def read_scalar(self, key: str, size: int, kind: str) -> Any:
        """The same as a number."""
        return decode(self.read_variable(key, size), kind, size)[0]


# -- resolved expressions --------------------------------------------------------------------------------------------


class Const(NamedTuple):
    """A number known before the program runs."""

    value: int


class Load(NamedTuple):
    """A scalar in memory."""

    space: "Space"
    offset: int
    size: int
    kind: str


class Address(NamedTuple):
    """The address of something."""

    space: "Space"
    offset: int


class Checked(NamedTuple):
    """A pointer that counts only if the word it points to is `expected`: a C++ object of one class."""

    pointer: "Value"
    expected: int
    name: str

    @property
    def word(self) -> Load:
        """The object's first word."""
        return Load(Space("at", self.pointer), 0, 8, "pointer")


class Arithmetic(NamedTuple):
    """Integer arithmetic on the above; "/" is the exact division of a difference of pointers."""

    operator: str
    left: "Value"
    right: "Value"


Value = Union[Const, Load, Address, Checked, Arithmetic]


class Space(NamedTuple):
    """A piece of memory with a base: a variable's own bytes, a static object, or what a pointer value points to."""

    kind: str  # "variable", "static", "at"
    base: Any  # its key, its address, or a Value


class Array(NamedTuple):
    """`length` scalars from `offset` on."""

    space: Space
    offset: int
    size: int
    kind: str
    start: Value
    length: Value


class Gather(NamedTuple):
    """What each of an array's pointers points to: the scalar `offset` bytes behind it."""

    pointers: Array
    offset: int
    size: int
    kind: str


Field = Union[Value, Array, Gather]
"""What a field resolves to"""


class _Place(NamedTuple):
    space: Space
    offset: int
    type: Type


class _Typed(NamedTuple):
    value: Value
    type: Type


_INT = Type("int", 8, "long")
_SCALARS = ("int", "uint", "bool", "float", "pointer")


def resolve(node: ex.Node, scope: Scope) -> Field:
    """Where an expression's value lies. Raises Absent(NO_SYMBOL) naming what is not there."""
    if isinstance(node, ex.Slice):
        return _resolve_slice(node, scope)[0]
    if isinstance(node, ex.Index) and isinstance(node.base, ex.Slice):
        return _resolve_gather(node.base, node.position, scope)
    return _value(_resolve(node, scope))


def _resolve_gather(node: ex.Slice, position: ex.Node, scope: Scope) -> Gather:
    pointers, element = _resolve_slice(node, scope)
    if element.kind != "pointer" or not isinstance(position, ex.Number):
        raise Absent(NO_SYMBOL, "behind a slice of pointers stands a constant position, as in a[:n][0]")
    target = element.target
    if target.kind not in _SCALARS:
        raise Absent(NO_SYMBOL, "%s is not a number" % _kind_of(target))
    return Gather(pointers, position.value * target.size, target.size, target.kind)


def _resolve_slice(node: ex.Slice, scope: Scope) -> Tuple[Array, Type]:
    base = _resolve(node.base, scope)
    start: Value = Const(0) if node.start is None else _value(_resolve(node.start, scope))
    length = _value(_resolve(node.length, scope))
    if base.type.kind == "array" and isinstance(base, _Place):
        element, space, offset = base.type.target, base.space, base.offset
    elif base.type.kind == "pointer":
        element, space, offset = base.type.target, Space("at", _value(base)), 0
    else:
        raise Absent(NO_SYMBOL, "a slice needs a pointer or an array, not %s" % _kind_of(base.type))
    if element.kind not in _SCALARS:
        raise Absent(NO_SYMBOL, "a slice of %s cannot be recorded" % _kind_of(element))
    return Array(space, offset, element.size, element.kind, start, length), element


def _resolve(node: ex.Node, scope: Scope) -> Union[_Place, _Typed]:
    if isinstance(node, ex.Number):
        return _Typed(Const(node.value), _INT)
    if isinstance(node, ex.Register):
        return _Typed(Load(Space("variable", "$" + node.name), 0, scope.pointer_size, "int"), _INT)
    if isinstance(node, ex.Name):
        return _name(node, scope)
    if isinstance(node, ex.Member):
        return _member(_resolve(node.base, scope), node.name)
    if isinstance(node, ex.Index):
        return _index(_resolve(node.base, scope), _value(_resolve(node.position, scope)))
    if isinstance(node, ex.Unary):
        return _unary(node.operator, _resolve(node.operand, scope))
    if isinstance(node, ex.Cast):
        kind = scope.type_named(node.type_name)
        for _ in range(node.stars):
            kind = pointer_to(kind, scope.pointer_size)
        return _Typed(_value(_resolve(node.operand, scope)), kind)
    if isinstance(node, ex.DynamicCast):
        kind = pointer_to(scope.type_named(node.type_name), scope.pointer_size)
        pointer = _value(_resolve(node.operand, scope))
        return _Typed(Checked(pointer, scope.vtable(node.type_name), node.type_name), kind)
    if isinstance(node, ex.Binary):
        return _binary(node.operator, _resolve(node.left, scope), _resolve(node.right, scope))
    raise Absent(NO_SYMBOL, "a slice stands inside an expression; only a whole field may be one")


def _name(node: ex.Name, scope: Scope) -> _Place:
    variable = scope.variable(node.text)
    if variable.address is not None:
        place = _Place(Space("static", variable.address), 0, variable.type)
    else:
        place = _Place(Space("variable", variable.key), 0, variable.type)
    return _through_reference(place)


def _through_reference(place: _Place) -> _Place:
    if place.type.kind != "reference":
        return place
    return _Place(Space("at", Load(place.space, place.offset, place.type.size, "pointer")), 0, place.type.target)


def _member(base: Union[_Place, _Typed], name: str) -> _Place:
    if base.type.kind == "pointer":
        base = _Place(Space("at", _value(base)), 0, base.type.target)
    if not isinstance(base, _Place) or base.type.kind != "struct":
        raise Absent(NO_SYMBOL, "%s has no members, .%s was asked for" % (_kind_of(base.type), name))
    if name not in base.type.members:
        raise Absent(NO_SYMBOL, "%s has no member %s" % (base.type.name or "the struct", name))
    offset, kind = base.type.members[name]
    return _through_reference(_Place(base.space, base.offset + offset, kind))


def _index(base: Union[_Place, _Typed], index: Value) -> _Place:
    if base.type.kind == "array" and isinstance(base, _Place):
        element, space, offset = base.type.target, base.space, base.offset
    elif base.type.kind == "pointer":
        element, space, offset = base.type.target, Space("at", _value(base)), 0
    else:
        raise Absent(NO_SYMBOL, "[ ] needs a pointer or an array, not %s" % _kind_of(base.type))
    if isinstance(index, Const):
        return _through_reference(_Place(space, offset + index.value * element.size, element))
    moved = Arithmetic("+", Address(space, offset), Arithmetic("*", index, Const(element.size)))
    return _through_reference(_Place(Space("at", moved), 0, element))


def _unary(operator: str, operand: Union[_Place, _Typed]) -> Union[_Place, _Typed]:
    if operator == "*":
        return _index(operand, Const(0))
    if operator == "-":
        return _Typed(Arithmetic("-", Const(0), _value(operand)), operand.type)
    if not isinstance(operand, _Place) or operand.space.kind == "variable":
        raise Absent(NO_SYMBOL, "& needs something that lies in memory")
    return _Typed(Address(operand.space, operand.offset), pointer_to(operand.type))


def _binary(operator: str, left: Union[_Place, _Typed], right: Union[_Place, _Typed]) -> _Typed:
    a, b = _value(left), _value(right)
    kind = left.type
    if operator == "-" and left.type.kind == right.type.kind == "pointer":
        if not left.type.target.size:
            raise Absent(NO_SYMBOL, "%s has no size to count in" % _kind_of(left.type.target))
        return _Typed(Arithmetic("/", Arithmetic("-", a, b), Const(left.type.target.size)), _INT)
    if left.type.kind in ("pointer", "array") and operator in "+-":
        b = Arithmetic("*", b, Const(left.type.target.size))
        kind = pointer_to(left.type.target)
    return _Typed(Arithmetic(operator, a, b), kind)


def _value(operand: Union[_Place, _Typed]) -> Value:
    """The scalar that an operand is. An array is the address of its first element, as in C."""
    if isinstance(operand, _Typed):
        return operand.value
    if operand.type.kind == "array":
        return Address(operand.space, operand.offset)
    if operand.type.kind not in _SCALARS or operand.type.size not in (1, 2, 4, 8):
        raise Absent(NO_SYMBOL, "%s is not a number" % _kind_of(operand.type))
    return Load(operand.space, operand.offset, operand.type.size, operand.type.kind)


def _kind_of(kind: Type) -> str:
    return "%s (%s)" % (kind.name, kind.kind) if kind.name else kind.kind


# -- plans and hits --------------------------------------------------------------------------------------------------


class Plan:
    """The fields of one hook, resolved: what to read at a hit.

    fields: name -> Value or Array; `absent`: name -> the Absent that says why a field cannot be read.
    caps: the most elements that a slice may have, by field.
    """

    def __init__(
        self, fields: Dict[str, Field], absent: Dict[str, Absent], caps: Optional[Dict[str, int]] = None
    ) -> None:
        self.fields, self.absent, self.caps = fields, absent, caps or {}
        self.blocks = _blocks(fields)

    def read(self, memory: Memory) -> Tuple[Dict[str, Any], Dict[str, Absent]]:
        """(values, absences) of one hit."""
        snapshot = Snapshot(self, memory)
        values: Dict[str, Any] = {}
        missing: Dict[str, Absent] = {}
        for name, where in self.fields.items():
            try:
                if isinstance(where, Array):
                    values[name] = snapshot.array(where, self.caps.get(name, DEFAULT_CAP))
                elif isinstance(where, Gather):
                    values[name] = snapshot.gather(where, self.caps.get(name, DEFAULT_CAP))
                else:
                    values[name] = snapshot.value(where)
            except Absent as absent:
                missing[name] = absent
        return values, missing


def plan(fields: Dict[str, ex.Node], scope: Scope, caps: Optional[Dict[str, int]] = None) -> Plan:
    """Resolve the fields of a hook; those that cannot be are kept as absent, with the reason."""
    resolved: Dict[str, Field] = {}
    absent: Dict[str, Absent] = {}
    for name, node in fields.items():
        try:
            resolved[name] = scope.resolve(node)
        except Absent as problem:
            absent[name] = problem
    return Plan(resolved, absent, caps)


def _loads(value: Any, found: List[Tuple[Space, int, int]]) -> None:
    """Every scalar of known place that a value depends on."""
    if isinstance(value, Load):
        found.append((value.space, value.offset, value.size))
        _loads(value.space, found)
    elif isinstance(value, (Address, Array)):
        _loads(value.space, found)
        if isinstance(value, Array):
            _loads(value.start, found)
            _loads(value.length, found)
    elif isinstance(value, Gather):
        _loads(value.pointers, found)
    elif isinstance(value, Checked):
        _loads(value.word, found)
    elif isinstance(value, Arithmetic):
        _loads(value.left, found)
        _loads(value.right, found)
    elif isinstance(value, Space) and value.kind == "at":
        _loads(value.base, found)


def _blocks(fields: Dict[str, Field]) -> Dict[Space, List[Tuple[int, int]]]:
    """For each space the byte ranges [start, end) to read at once."""
    found: List[Tuple[Space, int, int]] = []
    for value in fields.values():
        _loads(value, found)
    ranges: Dict[Space, List[Tuple[int, int]]] = {}
    for space, offset, size in sorted(set(found), key=lambda f: (repr(f[0]), f[1])):
        blocks = ranges.setdefault(space, [])
        if blocks and offset - blocks[-1][1] <= _JOIN_BYTES:
            blocks[-1] = (blocks[-1][0], max(blocks[-1][1], offset + size))
        else:
            blocks.append((offset, offset + size))
    return ranges


LETTERS = {("int", 1): "b", ("int", 2): "h", ("int", 4): "i", ("int", 8): "q", ("float", 4): "f", ("float", 8): "d"}
for _size, _letter in ((1, "B"), (2, "H"), (4, "I"), (8, "Q")):
    for _kind in ("uint", "bool", "pointer"):
        LETTERS[_kind, _size] = _letter


def decode(data: bytes, kind: str, size: int, count: int = 1) -> Tuple[Any, ...]:
    """`count` little-endian scalars. Raises Absent(UNREADABLE) for a kind that has no number."""
    letter = LETTERS.get((kind, size))
    if letter is None or len(data) < size * count:
        raise Absent(UNREADABLE, "%d bytes of kind %s" % (size, kind))
    return struct.unpack_from("<%d%s" % (count, letter), data)


def behind(pointers: List[int], gather: Gather, memory: Memory) -> List[Any]:
    """What the pointers of a gather point to; those that lie close together are read as one block. Raises Absent."""
    if not pointers:
        return []
    first, last = min(pointers), max(pointers)
    if not first:
        raise Absent(UNREADABLE, "a null pointer")
    size, kind = gather.size, gather.kind
    if last - first <= _GATHER_BYTES:
        block = memory.read_block(first + gather.offset, last - first + size)
        return [decode(block[p - first : p - first + size], kind, size)[0] for p in pointers]
    blocks = {p: memory.read_block(p + gather.offset, size) for p in set(pointers)}
    return [decode(blocks[p], kind, size)[0] for p in pointers]


_ARITHMETIC: Dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
}


def bounded(number: Any) -> Any:
    """A result that fits into 64 bits; else what it was made of is garbage. Raises Absent."""
    if not -(2**63) <= number < 2**64:
        raise Absent(UNREADABLE, "a result beyond 64 bits")
    return number


class Snapshot:
    """Memory as it is at one hit; every block is read at most once."""

    def __init__(self, plan_: Plan, memory: Memory) -> None:
        self._blocks, self._memory = plan_.blocks, memory
        self._bases: Dict[Space, int] = {}
        self._read: Dict[Tuple[Space, int], bytes] = {}

    def value(self, value: Value) -> Any:
        """The number. Raises Absent."""
        if isinstance(value, Const):
            return value.value
        if isinstance(value, Load):
            return decode(self._bytes(value.space, value.offset, value.size), value.kind, value.size)[0]
        if isinstance(value, Address):
            return self._base(value.space) + value.offset
        if isinstance(value, Checked):
            if self.value(value.word) != value.expected:
                raise Absent(UNREADABLE, "the object is not exactly a %s" % value.name)
            return self.value(value.pointer)
        return bounded(_ARITHMETIC[value.operator](self.value(value.left), self.value(value.right)))

    def array(self, array: Array, cap: int) -> List[Any]:
        """The numbers of a slice. Raises Absent, also for a length that must be garbage."""
        length = self.value(array.length)
        if not 0 <= length <= cap:
            raise Absent(UNREADABLE, "a length of %d is not between 0 and %d" % (length, cap))
        if not length:
            return []
        offset = array.offset + self.value(array.start) * array.size
        if array.space.kind == "variable":
            data = self._memory.read_variable(array.space.base, offset + length * array.size)[offset:]
        else:
            data = self._memory.read_block(self._base(array.space) + offset, length * array.size)
        return list(decode(data, array.kind, array.size, length))

    def gather(self, gather: Gather, cap: int) -> List[Any]:
        """The numbers behind pointers. Raises Absent."""
        return behind(self.array(gather.pointers, cap), gather, self._memory)

    def _base(self, space: Space) -> int:
        if space.kind == "static":
            return int(space.base)
        if space not in self._bases:
            self._bases[space] = self.value(space.base)
        if not self._bases[space]:
            raise Absent(UNREADABLE, "a null pointer")
        return self._bases[space]

    def _bytes(self, space: Space, offset: int, size: int) -> bytes:
        start, end = next(b for b in self._blocks[space] if b[0] <= offset < b[1])
        if (space, start) not in self._read:
            try:
                self._read[space, start] = self._fetch(space, start, end)
            except Absent:
                # a block may reach into memory that is not there though the member is
                return self._fetch(space, offset, offset + size)
        return self._read[space, start][offset - start : offset - start + size]

    def _fetch(self, space: Space, start: int, end: int) -> bytes:
        if space.kind == "variable":
            return self._memory.read_variable(space.base, end)[start:end]
        return self._memory.read_block(self._base(space) + start, end - start)
