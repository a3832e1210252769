"""What a tracepoint has to collect so that a plan can be decoded from its frames: the plan as lines of gdb actions.

A target that collects follows pointers by itself but knows no lengths: arrays are collected as long as they were at
the hit that was looked at.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Set

from gdb_scripts import layout
from gdb_scripts.layout import NO_SYMBOL, Absent

_TYPES = {
    ("int", 1): "signed char",
    ("int", 2): "short",
    ("int", 4): "int",
    ("int", 8): "long long",
    ("uint", 1): "unsigned char",
    ("uint", 2): "unsigned short",
    ("uint", 4): "unsigned int",
    ("uint", 8): "unsigned long long",
    ("bool", 1): "unsigned char",
    ("pointer", 4): "unsigned int",
    ("pointer", 8): "unsigned long long",
}


class Collection(NamedTuple):
    """lines: the actions. names: variable or register -> the trace state variable that holds it, without $; its
    address for those in by_address."""

    lines: List[str]
    names: Dict[str, str]
    by_address: Set[str]


def collection(
    plan: layout.Plan,
    memory: layout.Memory,
    scalars: Set[str],
    references: Dict[str, str],
    in_registers: Set[str],
    prefix: str,
    also: Sequence[str] = (),
) -> Collection:
    """The actions for a plan, arrays as long as they are in `memory`.

    scalars: variables that are numbers or pointers. references: C++ references, and the register that each lies in,
    empty where it lies in memory. in_registers: structs that lie there, in parts. prefix: of the trace state
    variables' names. also: registers that are wanted besides. Raises Absent for what cannot be collected.
    """
    writer = _Writer(scalars, references, in_registers, prefix)
    for register in also:
        writer.base(layout.Space("variable", register))
    found, _ = plan.read(memory)
    blocks: List[str] = []
    for space, ranges in plan.blocks.items():
        if space.kind != "variable":
            blocks += [_bytes_at(writer.base(space), start, end - start) for start, end in ranges]
        elif not writer.is_value(space):
            blocks += [_bytes_at(writer.base(space), 0, end) for _, end in ranges]
        else:
            writer.base(space)
    for name, field in plan.fields.items():
        if isinstance(field, layout.Gather):
            raise Absent(NO_SYMBOL, "%s is scattered in memory" % name)
        if isinstance(field, layout.Array):
            length = len(found.get(name, ()))
            if not length:
                continue
            start = "(%s + %s * %d)" % (writer.base(field.space), writer.text(field.start), field.stride)
            blocks += [_bytes_at(start, field.offset + far, size) for far, size in field.pieces(length)]
    values = ["teval $%s = %s" % (name, writer.sources[key]) for key, name in writer.names.items()]
    names = ["collect $%s" % name for name in writer.names.values()]
    collected = ["collect %s" % block for block in dict.fromkeys(blocks)]
    return Collection(values + names + collected, writer.names, writer.by_address)


def _bytes_at(base: str, offset: int, size: int) -> str:
    return "*(unsigned char *) (%s + %d)@%d" % (base, offset, size)


class _Writer:
    """Values as C expressions over trace state variables, in which arguments are kept."""

    def __init__(self, scalars: Set[str], references: Dict[str, str], in_registers: Set[str], prefix: str) -> None:
        self._scalars, self._references, self._prefix = scalars, references, prefix
        self._in_registers = in_registers
        self.names: Dict[str, str] = {}
        self.sources: Dict[str, str] = {}
        self.by_address: Set[str] = set()

    def is_value(self, space: layout.Space) -> bool:
        """Whether a variable is one number, or a reference, which is an address; else it is a struct or an array."""
        return str(space.base).startswith("$") or space.base in self._references or space.base in self._scalars

    def base(self, space: layout.Space) -> str:
        """Where a space lies; for a variable that is one number, that number."""
        if space.kind == "static":
            return str(int(space.base))
        if space.kind == "at":
            return self.text(space.base)
        key = space.base
        if key in self._in_registers:
            raise Absent(NO_SYMBOL, "%s lies in registers" % key)
        if key not in self.names:
            self.names[key] = "%s%d" % (self._prefix, len(self.names))
            if key in self._references:
                if not self._references[key]:  # what gdb makes of &reference depends on where it evaluates it
                    raise Absent(NO_SYMBOL, "%s is a reference that lies in memory" % key)
                self.sources[key] = "(unsigned long long) %s" % self._references[key]  # without a cast gdb 13 fails
            elif self.is_value(space):
                self.sources[key] = "(long long) %s" % key
            else:
                self.by_address.add(key)
                self.sources[key] = "(unsigned long long) &%s" % key
        return "$" + self.names[key]

    def text(self, value: layout.Value) -> str:
        """A number as an expression."""
        if isinstance(value, layout.Const):
            return str(value.value)
        if isinstance(value, layout.Load):
            if value.space.kind == "variable" and self.is_value(value.space):
                return self.base(value.space)
            kind = _TYPES.get((value.kind, value.size))
            if kind is None:
                raise Absent(NO_SYMBOL, "a %s of %d bytes leads no further" % (value.kind, value.size))
            return "*(%s *) (%s + %d)" % (kind, self.base(value.space), value.offset)
        if isinstance(value, layout.Address):
            return "(%s + %d)" % (self.base(value.space), value.offset)
        if isinstance(value, layout.Checked):
            return self.text(value.pointer)
        return "(%s %s %s)" % (self.text(value.left), value.operator, self.text(value.right))
