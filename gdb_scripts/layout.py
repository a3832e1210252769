"""From expressions to bytes: where the fields of a hook lie, fetched in few block reads, decoded without a debugger.

`plan` resolves expressions once against types (from gdb, from DWARF, or frozen in a file) and puts the reads in the
order in which they depend on each other; a hit is then one walk along them. Each neighbourhood of wanted members is one
block, decoded from bytes. What is not there is Absent, with the reason in one word.
"""

from __future__ import annotations

import functools
import operator
import struct
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union
from typing import Type as Type_

from gdb_scripts import expressions as ex

NO_SYMBOL, OPTIMIZED_OUT, UNREADABLE, NOT_MEASURED = "no_symbol", "optimized_out", "unreadable", "not_measured"
DEFAULT_CAP = 1024
"""Elements that a length read from the program may ask for; more is taken for garbage."""
_JOIN_BYTES = 256
"""Wanted members that lie closer than this are read as one block: a round trip costs more than bytes do."""
_GATHER_BYTES = 16384
"""What a slice of pointers points to, or the members of a slice of structs, are read as one block if they span no more
than this."""


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
    """What a hit offers; it raises one of `errors` for what it cannot give."""

    errors: Tuple[Type_[Exception], ...] = (Absent,)

    read_block: Callable[[int, int], Any]
    """read_block(address, size): so many bytes of the program's memory, any buffer. An attribute, so that a debugger's
    own function can stand here: a hit has no time for a call more."""

    def read_variable(self, key: str, size: int) -> bytes:
        """The bytes of an argument, local or register."""
        raise NotImplementedError

    def read_scalar(self, key: str, size: int, kind: str) -> Any:
        """The same as a number."""
        return decode(self.read_variable(key, size), kind, size)[0]

    def read_scalars(self, wanted: "Tuple[Load, ...]") -> Sequence[Any]:
        """Several of them."""
        return [self.read_scalar(load.space.base, load.size, load.kind) for load in wanted]


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
    """`length` scalars from `offset` on, each `stride` bytes behind the last; a member of structs is further apart than
    its size."""

    space: Space
    offset: int
    size: int
    kind: str
    start: Value
    length: Value
    stride: int

    def pieces(self, n: int) -> List[Tuple[int, int]]:
        """What is read for n numbers: offset from the first and size in bytes of each block."""
        span = (n - 1) * self.stride + self.size
        if self.stride == self.size or span <= _GATHER_BYTES:
            return [(0, span)]
        return [(i * self.stride, self.size) for i in range(n)]


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
LETTERS = {("int", 1): "b", ("int", 2): "h", ("int", 4): "i", ("int", 8): "q", ("float", 4): "f", ("float", 8): "d"}
for _size, _letter in ((1, "B"), (2, "H"), (4, "I"), (8, "Q")):
    for _kind in ("uint", "bool", "pointer"):
        LETTERS[_kind, _size] = _letter
"""How a number of a kind and size is unpacked; of others nothing can be recorded."""


def resolve(node: ex.Node, scope: Scope) -> Field:
    """Where an expression's value lies. Raises Absent(NO_SYMBOL) naming what is not there."""
    if isinstance(node, ex.Slice):
        array, element = _resolve_slice(node, scope)
        if (element.kind, element.size) not in LETTERS:
            raise Absent(NO_SYMBOL, "a slice of %s cannot be recorded%s" % (_kind_of(element), _which_member(element)))
        return array
    if isinstance(node, ex.Index) and isinstance(node.base, ex.Slice):
        return _resolve_gather(node.base, node.position, scope)
    return _value(_resolve(node, scope))


def _resolve_gather(node: ex.Slice, position: ex.Node, scope: Scope) -> Gather:
    pointers, element = _resolve_slice(node, scope)
    if element.kind != "pointer" or isinstance(pointers, Gather) or not isinstance(position, ex.Number):
        raise Absent(NO_SYMBOL, "behind a slice of pointers stands a constant position, as in a[:n][0]")
    target = element.target
    if (target.kind, target.size) not in LETTERS:
        raise Absent(NO_SYMBOL, "%s is not a number" % _kind_of(target))
    return Gather(pointers, position.value * target.size, target.size, target.kind)


def _resolve_slice(node: ex.Slice, scope: Scope) -> Tuple[Union[Array, Gather], Type]:
    """The slice, and the type of what is read of each element."""
    base = _resolve(node.base, scope)
    start: Value = Const(0) if node.start is None else _value(_resolve(node.start, scope))
    length = _value(_resolve(node.length, scope))
    if base.type.kind == "array" and isinstance(base, _Place):
        element, space, offset = base.type.target, base.space, base.offset
    elif base.type.kind == "pointer":
        element, space, offset = base.type.target, Space("at", _value(base)), 0
    else:
        raise Absent(NO_SYMBOL, "a slice needs a pointer or an array, not %s" % _kind_of(base.type))
    pointers, stride = None, element.size
    for member in node.members:
        if element.kind == "pointer":
            if pointers is not None:
                raise Absent(NO_SYMBOL, "behind a slice, members go through one pointer at most")
            pointers = Array(space, offset, element.size, "pointer", start, length, stride)
            element, offset = element.target, 0
        place = _member(_Place(space, offset, element), member.lstrip("->."))
        if place.space is not space:
            raise Absent(NO_SYMBOL, "behind a slice, %s is a reference" % member.lstrip("->."))
        offset, element = place.offset, place.type
    if pointers is not None:
        return Gather(pointers, offset, element.size, element.kind), element
    return Array(space, offset, element.size, element.kind, start, length, stride), element


def _which_member(kind: Type) -> str:
    numbers = [name for name, (_, member) in kind.members.items() if (member.kind, member.size) in LETTERS]
    return "; a member of each can, as in [:n].%s" % numbers[0] if numbers else ""


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
    raise Absent(NO_SYMBOL, "a slice stands inside an expression; only members of its elements may come behind it")


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


def _unary(sign: str, operand: Union[_Place, _Typed]) -> Union[_Place, _Typed]:
    if sign == "*":
        return _index(operand, Const(0))
    if sign == "-":
        return _Typed(Arithmetic("-", Const(0), _value(operand)), operand.type)
    if not isinstance(operand, _Place) or operand.space.kind == "variable":
        raise Absent(NO_SYMBOL, "& needs something that lies in memory")
    return _Typed(Address(operand.space, operand.offset), pointer_to(operand.type))


def _binary(sign: str, left: Union[_Place, _Typed], right: Union[_Place, _Typed]) -> _Typed:
    a, b = _value(left), _value(right)
    kind = left.type
    if sign == "-" and left.type.kind == right.type.kind == "pointer":
        if not left.type.target.size:
            raise Absent(NO_SYMBOL, "%s has no size to count in" % _kind_of(left.type.target))
        return _Typed(Arithmetic("/", Arithmetic("-", a, b), Const(left.type.target.size)), _INT)
    if left.type.kind in ("pointer", "array") and sign in "+-":
        b = Arithmetic("*", b, Const(left.type.target.size))
        kind = pointer_to(left.type.target)
    return _Typed(Arithmetic(sign, a, b), kind)


def _value(operand: Union[_Place, _Typed]) -> Value:
    """The scalar that an operand is. An array is the address of its first element, as in C."""
    if isinstance(operand, _Typed):
        return operand.value
    if operand.type.kind == "array":
        return Address(operand.space, operand.offset)
    if (operand.type.kind, operand.type.size) not in LETTERS:
        raise Absent(NO_SYMBOL, "%s is not a number" % _kind_of(operand.type))
    return Load(operand.space, operand.offset, operand.type.size, operand.type.kind)


def _kind_of(kind: Type) -> str:
    return "%s (%s)" % (kind.name, kind.kind) if kind.name else kind.kind


# -- plans and hits --------------------------------------------------------------------------------------------------

Read = Callable[[List[Any], Memory], Sequence[Any]]
"""One read of a hit: takes the numbers read before it, gives more of them. What is not there stands there as Absent."""
_FAILURES: Tuple[Type_[Exception], ...] = (TypeError, struct.error)
"""How a read fails besides what memory raises: a number that it takes is Absent, or fewer bytes came than it needs"""


class Plan:
    """The fields of one hook, resolved: what to read at a hit.

    fields: name -> Value, Array or Gather; absent: name -> the Absent that says why a field cannot be read.
    caps: the most elements that a slice may have, by field. blocks: for each space the byte ranges read at once.
    places: name -> where the field stands among the numbers that `numbers` gives.
    """

    def __init__(
        self, fields: Dict[str, Field], absent: Dict[str, Absent], caps: Optional[Dict[str, int]] = None
    ) -> None:
        self.fields, self.absent, self.caps = fields, absent, caps or {}
        self.blocks = _blocks(fields)
        order = _Order(self)
        self.places = {name: order.field(name, field) for name, field in fields.items()}
        self._constants, self._reads, self._behind = order.constants, order.reads, order.behind

    def read(self, memory: Memory) -> Tuple[Dict[str, Any], Dict[str, Absent]]:
        """(values, absences) of one hit."""
        numbers, _ = self.numbers(memory)
        found = {name: numbers[place] for name, place in self.places.items()}
        missing = {name: value for name, value in found.items() if isinstance(value, Absent)}
        return {name: value for name, value in found.items() if name not in missing}, missing

    def numbers(self, memory: Memory) -> Tuple[List[Any], bool]:
        """All that is read at one hit, and whether all of it was there."""
        known = self._constants.copy()
        complete = True
        for read in self._reads:
            try:
                known += read(known, memory)
            except _FAILURES + memory.errors as problem:
                complete = False
                known += self._instead(read, known, memory, problem)
        return known, complete

    def _instead(self, read: Read, known: List[Any], memory: Memory, problem: Exception) -> List[Any]:
        """What a read gives that failed: a block may reach into memory that is not there though a member is."""
        about = self._behind[read]
        for place in about.needs:
            if isinstance(known[place], Absent):
                return [known[place]] * about.size
        if isinstance(problem, TypeError):
            raise problem
        found: List[Any] = []
        for member in about.members:
            try:
                found += member(known, memory)
            except _FAILURES + memory.errors as its_own:
                found.append(_absent(its_own))
        return found or [_absent(problem)] * about.size


def _absent(problem: Exception) -> Absent:
    return problem if isinstance(problem, Absent) else Absent(UNREADABLE, str(problem))


class _About(NamedTuple):
    """A read: the places of the numbers that it takes, how many it gives, and a block's members each on its own."""

    needs: Tuple[int, ...]
    size: int
    members: Sequence[Read]


class _Order:
    """A plan's reads, in order; the numbers known beforehand stand before what they give."""

    def __init__(self, plan_: Plan) -> None:
        self._plan = plan_
        self.constants: List[Any] = []
        self.reads: List[Read] = []
        self.behind: Dict[Read, _About] = {}
        self._places: Dict[Any, int] = {}
        self._loads: Dict[Tuple[Space, int], List[Load]] = {}
        parts = [part for field in plan_.fields.values() for part in _within(field)]
        known: Dict[Any, Any] = {part: part.value for part in parts if isinstance(part, Const)}
        known.update({part: int(part.base) for part in parts if isinstance(part, Space) and part.kind == "static"})
        for constant, number in known.items():
            self._places[constant] = len(self.constants)
            self.constants.append(number)
        self._n = len(self.constants)
        for load in sorted({part for part in parts if isinstance(part, Load)}, key=lambda load: load.offset):
            self._loads.setdefault((load.space, self._block(load)[0]), []).append(load)
        self._scalars()

    def _scalars(self) -> None:
        """The variables that are one number, all in one read: a debugger has them by name."""
        loads = [group[0] for (space, _), group in self._loads.items() if space.kind == "variable" and len(group) == 1]
        wanted = tuple(load for load in loads if not load.offset)
        if wanted:
            each = [functools.partial(_scalar_read, (load,)) for load in wanted]
            self._add(wanted, functools.partial(_scalar_read, wanted), members=each)

    def field(self, name: str, field: Field) -> int:
        """The place of a field's value."""
        if isinstance(field, Array):
            return self._array(name, field)
        if isinstance(field, Gather):
            at, gather = self._array(name, field.pointers), field
            return self._add([(name, field)], lambda known, memory: (behind(known[at], gather, memory),), at)
        return self._value(field)

    def _add(self, keys: Sequence[Any], read: Read, *needs: int, members: Sequence[Read] = ()) -> int:
        place = self._n
        self._n += len(keys)
        self._places.update((key, place + i) for i, key in enumerate(keys))
        self.reads.append(read)
        self.behind[read] = _About(needs, len(keys), members)
        return place

    def _value(self, value: Value) -> int:
        if value in self._places:
            return self._places[value]
        if isinstance(value, Load):
            self._block_of(value)
            return self._places[value]
        if isinstance(value, Address):
            base, offset = self._base(value.space), value.offset
            return self._add([value], lambda known, memory: ((known[base] or _null()) + offset,), base)
        if isinstance(value, Checked):
            return self._checked(value)
        assert isinstance(value, Arithmetic)
        calculate, left, right = _ARITHMETIC[value.operator], self._value(value.left), self._value(value.right)
        return self._add([value], lambda known, memory: (bounded(calculate(known[left], known[right])),), left, right)

    def _checked(self, checked: Checked) -> int:
        pointer, word = self._value(checked.pointer), self._value(checked.word)

        def read(known: List[Any], memory: Memory) -> Sequence[Any]:
            if known[word] - checked.expected:
                raise Absent(UNREADABLE, "the object is not exactly a %s" % checked.name)
            return (known[pointer],)

        return self._add([checked], read, word, pointer)

    def _base(self, space: Space) -> int:
        return self._places[space] if space.kind == "static" else self._value(space.base)

    def _block(self, load: Load) -> Tuple[int, int]:
        return next(b for b in self._plan.blocks[load.space] if b[0] <= load.offset < b[1])

    def _block_of(self, load: Load) -> None:
        """Read a block; members that overlap others, as in a union, are left to another read."""
        loads = [load]
        for other in self._loads[load.space, self._block(load)[0]]:
            apart = all(other.offset >= o.offset + o.size or o.offset >= other.offset + other.size for o in loads)
            if apart and other not in self._places:
                loads.append(other)
        loads.sort(key=lambda one: one.offset)
        if load.space.kind == "variable":
            self._variable(loads)
        else:
            base = self._base(load.space)
            members = [_block_read(base, [one]) for one in loads]
            self._add(loads, _block_read(base, loads) if len(loads) > 1 else members[0], base, members=members)

    def _variable(self, loads: List[Load]) -> None:
        key, end, unpack = loads[0].space.base, loads[-1].offset + loads[-1].size, _members(loads, 0)
        self._add(loads, lambda known, memory: unpack(memory.read_variable(key, end)))

    def _array(self, name: str, array: Array) -> int:
        length, start, cap = self._value(array.length), self._value(array.start), self._plan.caps.get(name, DEFAULT_CAP)
        offset, size, stride, letter = array.offset, array.size, array.stride, LETTERS[array.kind, array.size]
        key = array.space.base if array.space.kind == "variable" else None
        base = self._base(array.space) if key is None else length

        def read(known: List[Any], memory: Memory) -> Sequence[Any]:
            n = known[length]
            if not 0 <= n <= cap:
                raise Absent(UNREADABLE, "a length of %d is not between 0 and %d" % (n, cap))
            if not n:
                return ((),)
            at, pieces = offset + known[start] * stride, array.pieces(n)
            if key is not None:
                end = at + (n - 1) * stride + size
                return (_unpacker(n, letter, stride - size)(memory.read_variable(key, end)[at:]),)
            first = (known[base] or _null()) + at
            if len(pieces) == 1:
                return (_unpacker(n, letter, stride - size)(memory.read_block(first, pieces[0][1])),)
            one = _unpacker(1, letter, 0)
            return (tuple(one(memory.read_block(first + far, width))[0] for far, width in pieces),)

        return self._add([(name, array)], read, length, start, base)


def _scalar_read(wanted: Tuple[Load, ...], known: List[Any], memory: Memory) -> Sequence[Any]:
    return memory.read_scalars(wanted)


def _block_read(base: int, loads: List[Load]) -> Read:
    first, size = loads[0].offset, loads[-1].offset + loads[-1].size - loads[0].offset
    unpack = _members(loads, first)
    return lambda known, memory: unpack(memory.read_block((known[base] or _null()) + first, size))


def _null() -> int:
    raise Absent(UNREADABLE, "a null pointer")


def _members(loads: List[Load], at: int) -> Callable[[Any], Tuple[Any, ...]]:
    """The function that decodes members out of the bytes from `at` on."""
    pattern = "<"
    for load in loads:
        pattern += "%dx%s" % (load.offset - at, LETTERS[load.kind, load.size])
        at = load.offset + load.size
    return struct.Struct(pattern).unpack


@functools.lru_cache(maxsize=None)
def _unpacker(n: int, letter: str, gap: int) -> Callable[[Any], Tuple[Any, ...]]:
    """The function that decodes n numbers, with `gap` bytes between each and the next."""
    return struct.Struct("<" + ("%s%dx" % (letter, gap) * (n - 1) + letter if gap else "%d%s" % (n, letter))).unpack


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


def _within(value: Any) -> Iterator[Any]:
    """A value, and all that it depends on."""
    yield value
    for part in (value.word,) if isinstance(value, Checked) else value:
        if isinstance(part, tuple):
            yield from _within(part)


def _blocks(fields: Dict[str, Field]) -> Dict[Space, List[Tuple[int, int]]]:
    """For each space the byte ranges [start, end) to read at once."""
    found = {part for field in fields.values() for part in _within(field) if isinstance(part, Load)}
    ranges: Dict[Space, List[Tuple[int, int]]] = {}
    for load in sorted(found, key=lambda f: (repr(f.space), f.offset)):
        blocks, end = ranges.setdefault(load.space, []), load.offset + load.size
        if blocks and load.offset - blocks[-1][1] <= _JOIN_BYTES:
            blocks[-1] = (blocks[-1][0], max(blocks[-1][1], end))
        else:
            blocks.append((load.offset, end))
    return ranges


def decode(data: bytes, kind: str, size: int, count: int = 1) -> Tuple[Any, ...]:
    """`count` little-endian scalars. Raises Absent(UNREADABLE) for a kind that has no number."""
    letter = LETTERS.get((kind, size))
    if letter is None or len(data) < size * count:
        raise Absent(UNREADABLE, "%d bytes of kind %s" % (size, kind))
    return struct.unpack_from("<%d%s" % (count, letter), data)


def behind(pointers: Sequence[int], gather: Gather, memory: Memory) -> Tuple[Any, ...]:
    """What the pointers of a gather point to; those that lie close together are read as one block. Raises as memory
    does."""
    if not pointers:
        return ()
    first, last = min(pointers) or _null(), max(pointers)
    size, one = gather.size, struct.Struct("<" + LETTERS[gather.kind, gather.size])
    if last - first <= _GATHER_BYTES:
        block = memory.read_block(first + gather.offset, last - first + size)
        return tuple(one.unpack_from(block, p - first)[0] for p in pointers)
    behind_each = {p: one.unpack(memory.read_block(p + gather.offset, size))[0] for p in set(pointers)}
    return tuple(behind_each[p] for p in pointers)


_ARITHMETIC: Dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
}


def bounded(number: Any) -> Any:
    """A result that fits into 64 bits; else what it was made of is garbage. Raises Absent."""
    if not -(2**63) <= number < 2**64:
        raise Absent(UNREADABLE, "a result beyond 64 bits")
    return number
