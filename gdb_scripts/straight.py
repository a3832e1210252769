"""A plan as one straight-line Python function: what a hit costs is then the reads themselves and an unpack each.

Anything unusual (a null pointer, memory that is not there, a length out of range) raises Absent, and the plan is read
field by field instead, which says what is missing and why.
"""

from __future__ import annotations

import struct
from typing import Any, Callable, Dict, List, Optional, Tuple

from gdb_scripts import layout
from gdb_scripts.layout import UNREADABLE, Absent, Memory

Reader = Callable[[Memory], Any]


class _NotStraight(Exception):  # noqa: N818 - an answer, not a fault
    """Something that is better read field by field."""


def compiled(plan: layout.Plan, groups: Tuple[str, ...]) -> Optional[Reader]:
    """A function that reads all fields at one hit: a dict a group, fields named "group.field" in the plan. It raises
    Absent where one of them is not there. None for a plan that cannot be read this way."""
    try:
        return _Emitter(plan).function(groups)
    except _NotStraight:
        return None


def _raise(problem: str) -> None:
    raise Absent(UNREADABLE, problem)


class _Unpackers(Dict[int, Callable[[bytes], Tuple[Any, ...]]]):
    """For arrays of one kind: length -> the function that unpacks them."""

    def __init__(self, letter: str) -> None:
        super().__init__()
        self._letter = letter

    def __missing__(self, n: int) -> Callable[[bytes], Tuple[Any, ...]]:
        self[n] = struct.Struct("<%d%s" % (n, self._letter)).unpack
        return self[n]


class _Emitter:
    """Lines of Python, in the order in which values depend on each other."""

    def __init__(self, plan: layout.Plan) -> None:
        self._plan = plan
        self._lines: List[str] = []
        self._constants: Dict[str, Any] = {"absent": _raise, "bounded": layout.bounded}
        self._known: Dict[Any, str] = {}
        self._loads: Dict[Tuple[layout.Space, int], List[layout.Load]] = {}
        for field in plan.fields.values():
            self._collect(field)

    def function(self, groups: Tuple[str, ...]) -> Reader:
        """The plan's fields in the order given."""
        out: Dict[str, List[str]] = {group: [] for group in groups}
        for name, field in self._plan.fields.items():
            group, _, key = name.partition(".")
            out[group].append("%r: %s" % (key, self._field(name, field)))
        lines = ["def read(memory):", "    block, scalar = memory.raw_block, memory.read_scalar"]
        lines += ["    " + line for line in self._lines]
        lines.append("    return (%s,)" % ", ".join("{%s}" % ", ".join(out[group]) for group in groups))
        exec(compile("\n".join(lines), "<plan>", "exec"), self._constants)
        read: Reader = self._constants["read"]
        return read

    def _field(self, name: str, field: layout.Field) -> str:
        if isinstance(field, layout.Array):
            return self._array(name, field)
        if isinstance(field, layout.Gather):
            self._constants.update(behind=layout.behind)
            gather = "u%d" % len(self._constants)
            self._constants[gather] = field
            return self._name((name, field), "behind(%s, %s, memory)" % (self._array(name, field.pointers), gather))
        return self._value(field)

    def _collect(self, value: Any) -> None:
        """Which scalars lie in which block."""
        if isinstance(value, layout.Load):
            start, _ = self._block_of(value)
            loads = self._loads.setdefault((value.space, start), [])
            if value not in loads:
                loads.append(value)
        if isinstance(value, layout.Checked):
            self._collect(value.word)
        if isinstance(value, layout.Const) or isinstance(value, layout.Space) and value.kind != "at":
            return
        for part in value:
            if isinstance(part, tuple):
                self._collect(part)

    def _block_of(self, load: layout.Load) -> Tuple[int, int]:
        return next(b for b in self._plan.blocks[load.space] if b[0] <= load.offset < b[1])

    def _name(self, key: Any, text: str) -> str:
        name = self._known[key] = "v%d" % len(self._known)
        self._lines.append("%s = %s" % (name, text))
        return name

    def _value(self, value: Any) -> str:
        if isinstance(value, layout.Const):
            return repr(value.value)
        if value in self._known:
            return self._known[value]
        if isinstance(value, layout.Load):
            return self._load(value)
        if isinstance(value, layout.Address):
            return self._name(value, "%s + %d" % (self._base(value.space), value.offset))
        if isinstance(value, layout.Checked):
            word = self._value(value.word)
            self._lines.append("if %s != %d: absent('another class')" % (word, value.expected))
            return self._name(value, self._value(value.pointer))
        left, right = self._value(value.left), self._value(value.right)
        operator = "//" if value.operator == "/" else value.operator
        return self._name(value, "bounded(%s %s %s)" % (left, operator, right))

    def _base(self, space: layout.Space) -> str:
        if space.kind == "static":
            return repr(int(space.base))
        if space not in self._known:
            base = self._value(space.base)
            self._known[space] = base
            self._lines.append("if not %s: absent('a null pointer')" % base)
        return self._known[space]

    def _load(self, load: layout.Load) -> str:
        start, end = self._block_of(load)
        loads = sorted(self._loads[load.space, start], key=lambda other: other.offset)
        if load.space.kind == "variable" and len(loads) == 1 and load.offset == 0:
            return self._name(load, "scalar(%r, %d, %r)" % (load.space.base, load.size, load.kind))
        if load.space.kind == "variable":
            data = "memory.read_variable(%r, %d)" % (load.space.base, end)
            start = 0
        else:
            data = "block(%s + %d, %d)" % (self._base(load.space), start, end - start)
        names, pattern, at = [], "<", start
        for other in loads:
            if other.offset < at:
                raise _NotStraight("members that overlap")
            names.append("v%d" % len(self._known))
            self._known[other] = names[-1]
            pattern += "%dx%s" % (other.offset - at, self._letter(other.kind, other.size))
            at = other.offset + other.size
        unpack = "u%d" % len(self._constants)
        self._constants[unpack] = struct.Struct(pattern).unpack
        self._lines.append("%s, = %s(%s)" % (", ".join(names), unpack, data))
        return self._known[load]

    def _array(self, name: str, array: layout.Array) -> str:
        n = self._value(array.length)
        cap = self._plan.caps.get(name, layout.DEFAULT_CAP)
        self._lines.append("if not 0 <= %s <= %d: absent('a length')" % (n, cap))
        unpackers = "u%d" % len(self._constants)
        self._constants[unpackers] = _Unpackers(self._letter(array.kind, array.size))
        if array.space.kind == "variable":
            raise _NotStraight("an array inside a variable")
        offset = str(array.offset)
        if array.start != layout.Const(0):
            offset = "%s + %s * %d" % (offset, self._value(array.start), array.size)
        text = "block(%s + %s, %s * %d)" % (self._base(array.space), offset, n, array.size)
        return self._name((name, array), "list(%s[%s](%s)) if %s else []" % (unpackers, n, text, n))

    @staticmethod
    def _letter(kind: str, size: int) -> str:
        letter = layout.LETTERS.get((kind, size))
        if letter is None:
            raise _NotStraight("a number of %d bytes of kind %s" % (size, kind))
        return letter
