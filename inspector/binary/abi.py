"""Which register holds which argument at a function's first instruction: what a frozen layout reads.

Sources: System V ABI, AMD64 supplement, 3.2.3 (classes INTEGER and MEMORY); AAPCS64, 6.8.2 (stages A to C). Only
integers and pointers are told; where what stands before an argument would need the whole classification (structs by
value), the argument is refused rather than guessed.
"""

from __future__ import annotations

from typing import NamedTuple

from gdb_scripts.layout import Type
from inspector.binary import Binary, Function
from inspector.binary.types import is_cpp

_REGISTERS = {
    "x86_64": ["$rdi", "$rsi", "$rdx", "$rcx", "$r8", "$r9"],
    "aarch64": [f"$x{n}" for n in range(8)],
}
_BY_REFERENCE = 4  # DW_CC_pass_by_reference


class Arguments(NamedTuple):
    """registers: by parameter; refused: why another parameter has none."""

    registers: dict[str, str]
    refused: dict[str, str]


def machines() -> list[str]:
    """The machines whose argument registers are known."""
    return sorted(_REGISTERS)


def arguments_of(binary: Binary, function: Function) -> Arguments:
    """Where the arguments of a function are at its entry."""
    free = list(_REGISTERS[binary.elf.machine])
    out = Arguments({}, {})
    clones = [s for s in binary.symbols_at(function.address) if ".constprop" in s or ".isra" in s]
    problem = f"the compiler made a clone with other arguments ({clones[0]})" if clones else ""
    if not problem:
        problem = _hidden_result(binary, function, free)
    for parameter in binary.parameters(function):
        kind = parameter.type
        if not problem and kind.kind not in ("float",) and not _is_scalar(kind):
            problem = f"{parameter.name} is a struct by value"
        if problem:
            out.refused[parameter.name] = f"has no register that can be told: {problem}"
        elif kind.kind == "float":
            out.refused[parameter.name] = "is passed in a floating-point register"
        elif not free:
            out.refused[parameter.name] = "is passed on the stack"
        else:
            out.registers[parameter.name] = free.pop(0)
    return out


def _is_scalar(kind: Type) -> bool:
    return kind.kind in ("int", "uint", "bool", "pointer", "reference") and kind.size <= 8


def _hidden_result(binary: Binary, function: Function, free: list[str]) -> str:
    """Take the register that points to where a large result goes; why it cannot be told whether there is one."""
    die = function.die.first_refer("type")
    result = binary.types.convert(die)
    if result.kind != "struct" or binary.elf.machine == "aarch64":  # there it has a register of its own, x8
        return ""
    whole = binary.types.complete(die)
    convention = whole.number("calling_convention") if whole is not None else None
    if result.size > 16 or convention == _BY_REFERENCE:
        del free[0]
        return ""
    if is_cpp(function.die.unit) and convention is None:
        return f"nothing says how {result.name} is returned"
    return ""
