"""Frozen layouts: where a probe's fields lie in one build, so that its stripped twin can be recorded.

`stepscope probe layout` resolves every expression of a probe against the unstripped binary and writes the result, with
each function's address and its arguments' registers, to a file. The build id says which binaries it fits. No debugger
in here: this module reads and writes that file.

    {"format": "stepscope-layout", "version": 1, "build_id": "b196…", "machine": "x86_64", "binary": "engine-O2",
     "text": 9120, "relocated": true, "library": false, "engine": {…}, "probe": "[probe]\\nname = native\\n…",
     "hooks": [{"section": "forward", "function": "forward", "address": 13872, "file": "…", "line": 312,
                "fields": {"reads.seq_before": ["load", ["at", ["load", ["variable", "$rdi"], 0, 8, "pointer"]], …]},
                "absent": {"after.logit": ["no_symbol", "…"]}}]}
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, NamedTuple, Optional

from gdb_scripts import expressions as ex
from gdb_scripts import layout, probe
from gdb_scripts.layout import Absent, Address, Arithmetic, Array, Checked, Const, Field, Gather, Load, Scope, Space
from traces.frames import bounded_int

FORMAT, VERSION = "stepscope-layout", 1
_DEEPEST = 150
_LONGEST_FILE = 16 << 20
_KINDS = ("int", "uint", "bool", "float", "pointer")


class FrozenHook(NamedTuple):
    """A hook at one function. address: of its first instruction, as linked; there the arguments' registers hold."""

    hook: probe.Hook
    function: str
    address: int
    file: str
    line: int
    fields: Dict[ex.Node, Field]
    absent: Dict[ex.Node, Absent]


class Layout(NamedTuple):
    """A probe frozen for one build. text: where .text is linked; relocated: whether it may be loaded elsewhere;
    library: whether a program loads it."""

    path: str
    probe: probe.Probe
    build_id: str
    machine: str
    binary: str
    text: int
    relocated: bool
    library: bool
    engine: Dict[str, Any]
    hooks: List[FrozenHook]


class FrozenScope(Scope):
    """What the expressions of one frozen hook resolve to in a program loaded `base` bytes from where it was linked."""

    def __init__(self, hook: FrozenHook, base: int) -> None:
        self._hook, self._base = hook, base
        self.symbols: Dict[str, Any] = {}

    def resolve(self, node: ex.Node) -> Field:
        if node in self._hook.absent:
            raise self._hook.absent[node]
        if node not in self._hook.fields:
            raise Absent(layout.NO_SYMBOL, "it is not in the frozen layout")
        field: Field = _moved(self._hook.fields[node], self._base)
        return field


def is_layout(name: str) -> bool:
    """Whether a probe's name is a frozen layout's file."""
    return name.endswith(".json")


def load(path: str) -> Layout:
    """The frozen layout in a file. Raises probe.ProbeError."""
    text = probe.text_of(path, _LONGEST_FILE)
    try:
        data = json.loads(text, parse_int=bounded_int)
    except (ValueError, RecursionError):
        raise probe.ProbeError("%s: is not JSON; stepscope probe layout writes such a file" % path) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise probe.ProbeError("%s: is not a frozen layout; stepscope probe layout writes one" % path)
    if data.get("version") != VERSION:
        raise probe.ProbeError(
            "%s: is of version %.40s, this stepscope reads %d; write it again with stepscope probe layout"
            % (path, json.dumps(data.get("version")), VERSION)
        )
    try:
        return _read(path, data)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, probe.ProbeError):
            raise
        raise probe.ProbeError(
            "%s: is damaged: %s; write it again with stepscope probe layout" % (path, _what_is_wrong(error))
        ) from None


def _what_is_wrong(error: Exception) -> str:
    if isinstance(error, KeyError):
        return "%s is missing" % error.args[0]
    return str(error) if type(error) is ValueError else "an entry is of another kind than it has to be"


def _read(path: str, data: Dict[str, Any]) -> Layout:
    spec = probe.read(str(data["probe"]), path)
    return Layout(
        path,
        spec,
        str(data["build_id"]),
        str(data["machine"]),
        str(data["binary"]),
        _number(data["text"]),
        bool(data["relocated"]),
        bool(data["library"]),
        dict(data.get("engine") or {}),
        [_read_hook(spec, hook) for hook in data["hooks"]],
    )


def _read_hook(spec: probe.Probe, data: Dict[str, Any]) -> FrozenHook:
    hook = {h.section: h for h in spec.hooks}[data["section"]]
    named = probe.expressions_of(hook, spec.facts)
    return FrozenHook(
        hook,
        str(data["function"]),
        _number(data["address"]),
        str(data.get("file") or ""),
        _number(data.get("line") or 0),
        {named[name]: field_from(tree) for name, tree in data["fields"].items()},
        {named[name]: Absent(str(why), str(text)) for name, (why, text) in data["absent"].items()},
    )


# -- fields as JSON ----------------------------------------------------------------------------------------------------


def as_json(field: Any) -> Any:
    """A resolved field as nested lists, each with its kind first."""
    if isinstance(field, Const):
        return field.value
    if isinstance(field, Load):
        return ["load", as_json(field.space), field.offset, field.size, field.kind]
    if isinstance(field, Address):
        return ["address", as_json(field.space), field.offset]
    if isinstance(field, Checked):
        return ["checked", as_json(field.pointer), field.expected, field.name]
    if isinstance(field, Arithmetic):
        return [field.operator, as_json(field.left), as_json(field.right)]
    if isinstance(field, Space):
        return [field.kind, as_json(field.base) if field.kind == "at" else field.base]
    if isinstance(field, Array):
        ends = [as_json(field.start), as_json(field.length)]
        stride = [field.stride] if field.stride != field.size else []
        return ["array", as_json(field.space), field.offset, field.size, field.kind, *ends, *stride]
    return ["gather", as_json(field.pointers), field.offset, field.size, field.kind]


def field_from(tree: Any, depth: int = 0) -> Any:
    """The field that as_json wrote. Raises ValueError, TypeError or IndexError for what it did not."""
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    if isinstance(tree, (int, float)):
        return Const(_number(tree))
    kind = tree[0]
    if kind == "load":
        _, space, offset, size, scalar = tree
        return Load(_space_from(space, depth), _number(offset), _width(size), _scalar(scalar))
    if kind == "address":
        return Address(_space_from(tree[1], depth), _number(tree[2]))
    if kind == "checked":
        return Checked(field_from(tree[1], depth + 1), _number(tree[2]), str(tree[3]))
    if kind == "/" and tree[2] in (0, False):
        raise ValueError("a division by zero")
    if kind in ("+", "-", "*", "/"):
        return Arithmetic(kind, field_from(tree[1], depth + 1), field_from(tree[2], depth + 1))
    if kind == "array":
        _, space, offset, size, scalar, start, length, *apart = tree
        place, first, n = _space_from(space, depth), field_from(start, depth + 1), field_from(length, depth + 1)
        return Array(place, _number(offset), _width(size), _scalar(scalar), first, n, _stride(apart, _width(size)))
    if kind == "gather":
        return Gather(field_from(tree[1], depth + 1), _number(tree[2]), _width(tree[3]), _scalar(tree[4]))
    raise ValueError("%.40r is no kind of field" % (kind,))


def _space_from(tree: Any, depth: int) -> Space:
    kind, base = tree
    if kind == "at":
        return Space("at", field_from(base, depth + 1))
    if kind == "static":
        return Space("static", _number(base))
    if kind == "variable" and str(base).startswith("$"):
        return Space("variable", str(base))
    raise ValueError("%.40r is no place" % (tree,))


def _number(value: Any) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**64:
        raise ValueError("%.40r is no whole number of 64 bits" % (value,))
    return value


def _width(size: Any) -> int:
    if _number(size) not in (1, 2, 4, 8):
        raise ValueError("%r is no size of a number" % (size,))
    return _number(size)


def _stride(apart: List[Any], size: int) -> int:
    """Bytes from a number to the next, where a layout says so."""
    if not apart:
        return size
    (stride,) = apart
    if not size <= _number(stride) < 2**31:
        raise ValueError("%r is no distance of numbers of %d bytes" % (stride, size))
    return _number(stride)


def _scalar(kind: Any) -> str:
    if kind not in _KINDS:
        raise ValueError("%.40r is no kind of number" % (kind,))
    return str(kind)


def _moved(field: Any, base: int) -> Any:
    """The field with its static addresses where the program was loaded."""
    if not base:
        return field
    if isinstance(field, Space):
        if field.kind == "static":
            return Space("static", field.base + base)
        return Space("at", _moved(field.base, base)) if field.kind == "at" else field
    if isinstance(field, Checked):
        return Checked(_moved(field.pointer, base), field.expected + base, field.name)
    if isinstance(field, (Load, Address, Array, Arithmetic, Gather)):
        return type(field)(*[_moved(part, base) for part in field])
    return field


def replace_variables(field: Any, places: Dict[str, Optional[str]]) -> Any:
    """The field with each variable's name replaced by the register that holds it. Raises KeyError for one without."""
    if isinstance(field, Space):
        if field.kind == "at":
            return Space("at", replace_variables(field.base, places))
        if field.kind == "variable" and not field.base.startswith("$"):
            return Space("variable", places[field.base])
        return field
    if isinstance(field, (Load, Address, Array, Arithmetic, Gather, Checked)):
        return type(field)(*[replace_variables(part, places) for part in field])
    return field
