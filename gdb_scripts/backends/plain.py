"""The `plain` back-end: a command file for a gdb that has no Python, and the way back from what it prints.

    stepscope probe plain native -o hooks.gdb
    gdb -nx -batch -x hooks.gdb -ex run --args PROGRAM ARGS > run.log
    stepscope import gdb run.log --probe native -o run.steps

Each hook prints one line, `stepscope [forward] thread=1 token_id=64 ... cache_before={26, 26, 26}`, wherever it lands
in the program's own output. A field behind a null pointer is left out. A gdb without Python cannot catch an error: an
expression that does not resolve, or a pointer that is garbage, stops the program with gdb's message.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, Iterator, List, Optional

from gdb_scripts import expressions as ex
from gdb_scripts.hits import Hit
from gdb_scripts.layout import DEFAULT_CAP, NOT_MEASURED, UNREADABLE, Absent
from gdb_scripts.probe import Hook, Probe, ProbeError, expressions_of, written
from gdb_scripts.session import Session
from traces import fields

_SETTINGS = (
    "pagination off",
    "confirm off",
    "breakpoint pending on",
    "width 0",
    "print elements 0",
    "print repeats 0",
    "print address off",
)
_CASTS_AS_IN_C = "set language c++"
"""At a stop in a Rust function gdb reads Rust, in which a cast is written otherwise"""
_LINE = re.compile(r"stepscope \[([^\]]+)\]((?: [\w.]+=(?:\{[^}]*\}|[^\s{]+))*)")
_PAIR = re.compile(r" ([\w.]+)=(\{[^}]*\}|[^\s{]+)")
_ENDED = re.compile(r"\[Inferior \d+ \(process \d+\) exited (normally|with code)")
_KILLED = re.compile(r"Program terminated with signal|\[Inferior \d+ \(process \d+\) killed\]")


# -- the command file ------------------------------------------------------------------------------------------------


def script(probe: Probe) -> str:
    """The commands for gdb. Raises ProbeError for what plain gdb cannot read."""
    lines = ["# stepscope: hooks of the probe %s, for a gdb without Python" % probe.name]
    lines += ["set " + setting for setting in _SETTINGS]
    if any("::" in hook.function for hook in probe.hooks):
        lines += [_CASTS_AS_IN_C]
    lines += ["set $stepscope_facts = 0"]
    for hook in probe.hooks:
        lines += ["", *_hook_lines(probe, hook)]
    return "\n".join(lines) + "\n"


def _hook_lines(probe: Probe, hook: Hook) -> List[str]:
    where = "%s: [%s] " % (probe.path, hook.section)
    if hook.pattern is not None:
        raise ProbeError(where + "function: a gdb without Python takes a name, not a pattern")
    if "slot" in hook.conditions:
        raise ProbeError(where + "slot: several sequences a forward need a gdb with Python")
    source = "-source %s " % hook.file if hook.file else ""
    lines = ["break %s-qualified -function %s" % (source, hook.function), "commands", "silent"]
    if hook.event == "forward" and probe.facts:
        lines += ["if $stepscope_facts == 0", "set $stepscope_facts = 1"]
        lines += _printed(probe, hook, "facts", {"facts." + name: node for name, node in probe.facts.items()})
        lines += ["end"]
    lines += _printed(probe, hook, hook.section, expressions_of(hook, {}))
    return [*lines, "continue", "end"]


def _printed(probe: Probe, hook: Hook, heading: str, wanted: Dict[str, ex.Node]) -> List[str]:
    """One line of output with those of the wanted fields (as group.field) that no null pointer keeps from being read.
    Raises ProbeError."""
    lines = ['printf "stepscope [%s]"' % heading]
    if heading != "facts":
        lines += ['printf " thread=%d", $_thread']
    for name, node in wanted.items():
        group, _, field = name.partition(".")
        key = field if group in ("reads", "facts") else name
        try:
            pointers, ways = list(dict.fromkeys(_pointers(node))), _ways(key, field, node, hook.caps)
        except ProbeError as problem:
            section, written_key, _ = written(probe, hook, name)
            raise ProbeError("%s: [%s] %s: %s" % (probe.path, section, written_key, problem)) from None
        guards = ["if %s != 0" % pointer for pointer in pointers]
        lines += [*guards, *ways, *["end"] * len(guards)]
    return [*lines, 'printf "\\n"']


def _ways(key: str, field: str, node: ex.Node, caps: Dict[str, int]) -> List[str]:
    """Commands that print one field."""
    if isinstance(node, ex.Slice):
        start = "0" if node.start is None else _text(node.start)
        base, length, cap = _text(node.base), _text(node.length), caps.get(field, DEFAULT_CAP)
        return [
            "if %s > 0 && %s <= %d" % (length, length, cap),
            'printf " %s="' % key,
            *(_each(node, start, length) if node.members else ["output %s[%s]@(int) (%s)" % (base, start, length)]),
            "end",
        ]
    known = fields.FIELDS.get(field)
    is_time = key.startswith("sums.") or (known is not None and known.dtype == "F32")
    form, cast = ("%.17g", "double") if is_time else ("%lld", "long long")
    return ['printf " %s=%s", (%s) (%s)' % (key, form, cast, _text(node))]


def _each(node: ex.Slice, start: str, length: str) -> List[str]:
    """Commands that print a member of each element, as gdb prints an array. Raises ProbeError."""
    if any(member.startswith("->") for member in node.members):
        raise ProbeError("what lies behind each pointer of a slice needs a gdb with Python")
    element = "%s[(%s) + $stepscope_i]%s" % (_text(node.base), start, "".join(node.members))
    return [
        'printf "{"',
        "set $stepscope_i = 0",
        "while $stepscope_i < %s" % length,
        "if $stepscope_i > 0",
        'printf ", "',
        "end",
        "output %s" % element,
        "set $stepscope_i = $stepscope_i + 1",
        "end",
        'printf "}"',
    ]


def _pointers(node: ex.Node) -> Iterator[str]:
    """What an expression goes through, outermost first: each must not be null before the next is read."""
    for part in ex.parts(node):
        yield from _pointers(part)
    if isinstance(node, ex.Member) and node.arrow or isinstance(node, (ex.Index, ex.Slice)):
        yield _text(node.base)
    elif isinstance(node, ex.Unary) and node.operator == "*":
        yield _text(node.operand)


def _text(node: ex.Node) -> str:
    """The expression in C. Raises ProbeError for what gdb itself cannot say."""
    if isinstance(node, ex.Number):
        return str(node.value)
    if isinstance(node, ex.Name):
        return node.text
    if isinstance(node, ex.Register):
        return "$" + node.name
    if isinstance(node, ex.Member):
        return "%s%s%s" % (_text(node.base), "->" if node.arrow else ".", node.name)
    if isinstance(node, ex.Index):
        return "%s[%s]" % (_text(node.base), _text(node.position))
    if isinstance(node, ex.Unary):
        return "(%s%s)" % (node.operator, _text(node.operand))
    if isinstance(node, ex.Cast):
        return "((%s %s) %s)" % (node.type_name, "*" * node.stars, _text(node.operand))
    if isinstance(node, ex.Binary):
        return "(%s %s %s)" % (_text(node.left), node.operator, _text(node.right))
    raise ProbeError("a slice inside an expression, or a dynamic_cast, needs a gdb with Python")


# -- and back --------------------------------------------------------------------------------------------------------


def convert(lines: Iterable[str], probe: Probe, path: Optional[str]) -> Session:
    """What a run with the command file printed, as a trace at `path` (None: judged only). The session is closed; its
    `steps`, `problems` and `report` tell the rest. There is no clock: t_ns stays absent."""
    session = Session(probe, path, {"clock": "none"})
    hooks = {hook.section: hook for hook in probe.hooks}
    facts: Dict[str, Any] = {}
    finish: Optional[str] = "abort"
    for line in lines:
        found = _LINE.search(line)
        if found is not None:
            values = {name: _value(text) for name, text in _PAIR.findall(found.group(2))}
            if found.group(1) == "facts":
                facts = values
            elif found.group(1) in hooks:
                session.hit(_hit(hooks[found.group(1)], values, facts))
                finish = "abort"
        ended = _ENDED.search(line)
        if ended is not None or _KILLED.search(line):
            finish = None if ended is not None and ended.group(1) == "normally" else "abort"
            session.program_ended(finish)
            finish = None
    if finish is not None:
        session.program_ended(finish)
    session.close()
    return session


def _hit(hook: Hook, values: Dict[str, Any], facts: Dict[str, Any]) -> Hit:
    groups: Dict[str, Dict[str, Any]] = {group: {} for group in ("when", "reads", "after", "sums")}
    missing: Dict[str, Absent] = {}
    for name, node in expressions_of(hook, {}).items():
        group, _, field = name.partition(".")
        value = _fitting(field, node, values.get(field if group == "reads" else name))
        if value is not None:
            groups[group][field] = value
        elif group in ("reads", "after"):
            missing[field] = Absent(UNREADABLE, "it was not printed: a null pointer, or a length out of range")
    thread = values.get("thread")
    thread = thread if isinstance(thread, int) else None
    if groups["when"].get("skip"):
        return Hit(hook, {}, {}, {}, {}, {}, None, skipped=True, thread=thread)
    if groups["when"].get("timed") == 0:
        groups["sums"] = {}
        off = Absent(NOT_MEASURED, "the engine's timers are switched off")
        missing.update(dict.fromkeys(hook.accumulators, off))
    return Hit(hook, groups["reads"], groups["after"], groups["sums"], missing, facts, None, thread=thread)


def _fitting(field: str, node: ex.Node, value: Any) -> Any:
    """What was printed, where it is of the shape that the probe asks for; of a slice of a field that is one value, its
    first."""
    if isinstance(value, tuple) != isinstance(node, ex.Slice):
        return None
    known = fields.FIELDS.get(field)
    is_single = known is not None and known.per_layer == "no" and field != "draft_ids"
    return value[0] if is_single and isinstance(value, tuple) and value else value


def _value(text: str) -> Any:
    if text.startswith("{"):
        return tuple(_number(part) for part in text[1:-1].split(","))
    return _number(text)


def _number(text: str) -> Any:
    """gdb writes a character as 97 'a', an enumerator by name: of those only the number counts."""
    word = text.split()[0] if text.split() else ""
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return None
