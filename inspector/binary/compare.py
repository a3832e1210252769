"""Two builds' binaries: identity, compiler and flags, sizes of the hooked functions, probed members that moved."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from gdb_scripts import probe as probes
from gdb_scripts.probe import Probe
from inspector.binary import Binary, BinaryError, NoDebugInfo, open_binary
from inspector.binary.elf import Elf
from inspector.binary.names import last
from inspector.binary.probing import engine_facts, verified
from inspector.binary.symbols import path_of


def compare_binaries(base: str, new: str, probe: str | None = None) -> dict[str, Any]:
    """The `binary` object of `diff --json`; each pair is (base, new), None where it is not known.

    Without `probe` the shipped spec whose forward both binaries have is taken, if there is one. Raises BinaryError
    and ProbeError.
    """
    with ExitStack() as stack:
        elves = [stack.enter_context(Elf(path)) for path in (base, new)]
        debugged = [_debugged(path, stack) for path in (base, new)]
        spec = probes.load(probe) if probe is not None else _fitting(debugged)
        facts = [{} if b is None else engine_facts(b, spec) for b in debugged]
        return {
            "files": [base, new],
            "probe": None if spec is None else spec.name,
            "build_id": [elf.build_id or None for elf in elves],
            "compiler": [f.get("compiler") for f in facts],
            "flags": [f.get("flags") for f in facts],
            "functions": [] if spec is None else _sizes(spec, elves, debugged),
            "offsets": [] if spec is None else _moved(spec, debugged),
        }


def _debugged(path: str, stack: ExitStack) -> Binary | None:
    """With its debug information; None where it has none, which still leaves identity and sizes to compare."""
    try:
        return stack.enter_context(open_binary(path))
    except NoDebugInfo:
        return None


def _fitting(binaries: list[Binary | None]) -> Probe | None:
    """The first shipped spec whose forward and all that is read there resolve in both."""
    for spec in map(probes.load, probes.shipped()):
        try:
            if all(binary is not None and _fits(spec, binary) for binary in binaries):
                return spec
        except BinaryError:
            continue
    return None


def _fits(spec: Probe, binary: Binary) -> bool:
    hook = spec.hooks_for("forward")[0]
    if not binary.functions(hook.function, hook.file):
        return False
    return all(place.is_sound for place in verified(binary, spec) if place.section == hook.section)


def _sizes(spec: Probe, elves: list[Elf], binaries: list[Binary | None]) -> list[dict[str, Any]]:
    out = []
    for hook in spec.hooks:
        sizes = [_size(elf, b, hook.function, hook.file) for elf, b in zip(elves, binaries, strict=True)]
        row = {"name": hook.function, "size": sizes}
        if row not in out:
            out.append(row)
    return out


def _size(elf: Elf, binary: Binary | None, function: str, file: str | None) -> int | None:
    """Bytes of a function and its instances, as the symbol table has them."""
    functions = {s.address: s.size for s in elf.symbols() if s.is_function and s.size}
    if binary is not None:
        sizes = [functions[f.address] for f in binary.functions(function, file) if f.address in functions]
    else:
        sizes = [s.size for s in elf.symbols() if s.is_function and last(path_of(s.name)) == last(function)]
    return sum(sizes) if sizes else None


def _moved(spec: Probe, binaries: list[Binary | None]) -> list[dict[str, Any]]:
    """Probed expressions that lie elsewhere in the other build, or in only one of them."""
    if any(b is None for b in binaries):
        return []
    chains = [
        {(p.section, f.field): f.where for p in verified(b, spec) for f in p.findings}
        for b in binaries
        if b is not None
    ]
    keys = dict.fromkeys([*chains[0], *chains[1]])
    return [
        {"hook": hook, "field": field, "base": chains[0].get((hook, field)), "new": chains[1].get((hook, field))}
        for hook, field in keys
        if chains[0].get((hook, field)) != chains[1].get((hook, field))
    ]
