"""A probe held against a binary: where each expression lies, or why it does not resolve; and frozen for a twin."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from gdb_scripts import frozen
from gdb_scripts.layout import (
    Address,
    Arithmetic,
    Array,
    Checked,
    Const,
    Field,
    Gather,
    Load,
    Space,
    plan,
)
from gdb_scripts.probe import MOST_BYTES, Hook, Probe, expressions_of, text_of, written
from inspector.binary import Binary, BinaryError, Function, WrongMachine, damage_is_said
from inspector.binary.abi import arguments_of, machines
from inspector.binary.names import last
from inspector.binary.signatures import signature


@dataclass(frozen=True)
class Finding:
    """One expression of a hook. where: the chain of offsets, or None and why it does not resolve."""

    field: str
    expression: str
    where: str | None
    why: str | None = None


@dataclass(frozen=True)
class Place:
    """A hook at one function, or at none (`why`)."""

    section: str
    wanted: str
    function: Function | None
    findings: list[Finding]
    why: str | None = None

    @property
    def is_sound(self) -> bool:
        """Whether everything of it resolves."""
        return self.why is None and all(f.why is None for f in self.findings)


def verified(binary: Binary, probe: Probe) -> list[Place]:
    """Every expression of every hook, resolved without running the program."""
    with damage_is_said(binary.path):
        return [place for hook in probe.hooks for place in _places(binary, probe, hook)]


def ambiguous(probe: Probe, places: list[Place]) -> list[str]:
    """A line for each hook that a name, which is no pattern, sets at several functions."""
    out = []
    for hook in probe.hooks:
        places_of = [p.function for p in places if p.section == hook.section and p.function is not None]
        # clones of a function are all the same one
        found = dict.fromkeys(f"{f.qualified} at {os.path.basename(f.file)}:{f.line}" for f in places_of)
        if hook.pattern is None and len(found) > 1:
            out.append(
                f"[{hook.section}] function = {hook.function} hooks {len(found)} functions: {', '.join(found)}; "
                "its parameters, or file =, tell them apart"
            )
    return out


def _places(binary: Binary, probe: Probe, hook: Hook) -> list[Place]:
    functions = binary.functions(hook.function, hook.file)
    if not functions:
        return [Place(hook.section, hook.function, None, [], _why_not_found(binary, hook))]
    return [
        Place(hook.section, hook.function, function, _findings(binary, probe, hook, function)) for function in functions
    ]


def _findings(binary: Binary, probe: Probe, hook: Hook, function: Function) -> list[Finding]:
    nodes = expressions_of(hook, probe.facts)
    resolved = plan(nodes, binary.scope(function))
    out = []
    for name in nodes:
        _, key, text = written(probe, hook, name)
        why = str(resolved.absent[name]) if name in resolved.absent else None
        out.append(Finding(key, text, None if why else chain(resolved.fields[name]), why))
    return out


def _why_not_found(binary: Binary, hook: Hook) -> str:
    name = hook.function
    if hook.file and binary.functions(name):
        return f"{name} is not in a file that ends in {hook.file}"
    if name.startswith("/"):
        return f"no function matches {name}"
    instances = binary.instances(name)
    if instances:
        return f"{name} is a template; name an instance ({', '.join(instances[:4])}) or a /regex/"
    bare = last(signature(name).qualified)
    others = sorted({f.qualified for f in binary.functions_called(bare)})
    if others:
        return f"no function {name}; there are {', '.join(others[:4])}{' …' if len(others) > 4 else ''}"
    if binary.is_known(bare):
        return f"{name} is only declared, or inlined wherever it is called: there is no place to stop at"
    missing = binary.dwarf.missing
    split = f" ({len(missing)} .dwo files are missing, {missing[0]} is one)" if missing else ""
    return f"no function {name} in the debug information{split}"


# -- a chain of offsets, for people ------------------------------------------------------------------------------------


def chain(field: Field) -> str:
    """`int32 st → +640`: what a name holds, then through each pointer (→) to the bytes that are read."""
    if isinstance(field, Const):
        return str(field.value)
    if isinstance(field, Array):
        start = "" if field.start == Const(0) else f" from {_term(field.start)}"
        apart = f" every {field.stride} bytes" if field.stride != field.size else ""
        return f"{_scalar(field)}[{_term(field.length)}]{start}{apart} {_at(field.space, field.offset)}"
    if isinstance(field, Gather):
        return f"{_scalar(field)} → +{field.offset} behind each of {chain(field.pointers)}"
    if isinstance(field, Load):
        return f"{_scalar(field)} {_at(field.space, field.offset)}"
    return _term(field)


def _scalar(field: Load | Array | Gather) -> str:
    return field.kind if field.kind in ("pointer", "bool") else f"{field.kind}{field.size * 8}"


def _term(value: Any) -> str:
    if isinstance(value, Const):
        return str(value.value)
    if isinstance(value, Load):
        return _at(value.space, value.offset)
    if isinstance(value, Address):
        return f"&({_at(value.space, value.offset)})"
    if isinstance(value, Checked):
        return f"{_term(value.pointer)} if a {value.name}"
    assert isinstance(value, Arithmetic)
    return f"({_term(value.left)} {value.operator} {_term(value.right)})"


def _at(space: Space, offset: int) -> str:
    if space.kind == "variable":
        return str(space.base) + (f" +{offset}" if offset else "")
    if space.kind == "static":
        return hex(space.base + offset)
    return f"{_term(space.base)} → +{offset}"


# -- frozen ------------------------------------------------------------------------------------------------------------


def freeze(binary: Binary, probe: Probe) -> dict[str, Any]:
    """The layout's file as JSON. Raises BinaryError where the binary cannot have one."""
    if binary.elf.machine not in machines():
        raise WrongMachine(
            f"{binary.path}: is for {binary.elf.machine}; argument registers are known for {' and '.join(machines())}"
        )
    if not binary.build_id:
        raise BinaryError(f"{binary.path}: has no build id to know its twin by; link with -Wl,--build-id")
    with damage_is_said(binary.path):
        hooks = [_frozen_hook(binary, probe, hook, f) for hook in probe.hooks
                 for f in binary.functions(hook.function, hook.file)]  # fmt: skip
    if not any(h["section"].split()[0] == "forward" for h in hooks):
        raise BinaryError(f"{binary.path}: {_why_not_found(binary, probe.hooks_for('forward')[0])}")
    text = text_of(probe.path, MOST_BYTES)
    return {
        "format": frozen.FORMAT,
        "version": frozen.VERSION,
        "build_id": binary.build_id,
        "machine": binary.elf.machine,
        "binary": os.path.basename(binary.path),
        "text": binary.elf.address_of(".text"),
        "relocated": binary.elf.is_relocated,
        "library": binary.elf.is_library,
        "engine": engine_facts(binary, probe),
        "probe": text,
        "hooks": hooks,
    }


def _frozen_hook(binary: Binary, probe: Probe, hook: Hook, function: Function) -> dict[str, Any]:
    arguments = arguments_of(binary, function)
    resolved = plan(expressions_of(hook, probe.facts), binary.scope(function))
    absent = {name: [why.why, str(why)] for name, why in resolved.absent.items()}
    fields = {}
    for name, field in resolved.fields.items():
        try:
            fields[name] = frozen.as_json(frozen.replace_variables(field, dict(arguments.registers)))
        except KeyError as key:
            variable = str(key.args[0])
            why = arguments.refused.get(variable, "is not an argument: nothing says where it is in a stripped program")
            absent[name] = ["no_symbol", f"{variable} {why}"]
    return {
        "section": hook.section,
        "function": function.qualified,
        "address": function.address,
        "file": function.file,
        "line": function.line,
        "fields": fields,
        "absent": absent,
    }


def engine_facts(binary: Binary, probe: Probe | None) -> dict[str, Any]:
    """What a trace says of the engine: build id, compiler, flags, the file's name; where nothing is known, nothing."""
    hook = probe.hooks_for("forward")[0] if probe is not None else None
    found = binary.functions(hook.function, hook.file) if hook is not None else []
    producer = binary.producer(found[0] if found else None)
    compiler, dash, flags = producer.partition(" -")
    facts = {
        "build_id": binary.build_id,
        "compiler": compiler,
        "flags": "-" + flags if dash else "",
        "binary": os.path.basename(binary.path),
    }
    return {key: value for key, value in facts.items() if value}


def refused(data: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(section, field, why) of what a frozen layout could not take along."""
    return [(h["section"], name, why[1]) for h in data["hooks"] for name, why in h["absent"].items()]
