"""One stop, several sequences: slots, warm-ups, timers and C++ classes, from bytes and without a debugger."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from gdb_scripts import probe
from gdb_scripts.hits import Hit, HookPlan
from gdb_scripts.layout import NO_SYMBOL, UNREADABLE, Absent, Memory, Scope, Type, Variable

INT, BYTE = Type("int", 4, "int"), Type("int", 1, "signed char")


def pointer(target: Type) -> Type:
    return Type("pointer", 8, target.name + " *", lambda: target)


def struct_of(name: str, size: int, **members: tuple[int, Type]) -> Type:
    return Type("struct", size, name, members=lambda: members)


BASE = struct_of("memory", 8)
CACHE = struct_of("cache", 32, rows=(8, pointer(INT)), first=(16, pointer(INT)), end=(24, pointer(INT)))
BATCH = struct_of("batch", 40, n=(0, INT), token=(8, pointer(INT)), pos=(16, pointer(INT)),
                  seq=(24, pointer(pointer(INT))), output=(32, pointer(BYTE)))  # fmt: skip
CONTEXT = struct_of("context", 16, warmup=(0, INT), memory=(8, pointer(BASE)))
VTABLE = 0x7010


class Names(Scope):
    def variable(self, name: str) -> Variable:
        return {"ctx": Variable("ctx", pointer(CONTEXT)), "batch": Variable("batch", pointer(BATCH))}[name]

    def type_named(self, name: str) -> Type:
        if name != "cache":
            raise Absent(NO_SYMBOL, f"no type {name} here")
        return CACHE

    def vtable(self, name: str) -> int:
        return VTABLE


class Program(Memory):
    """A batch of (slot, position, token, output) and a cache with so many rows a slot."""

    def __init__(self, fed: list[tuple[int, int, int, int]], warmup: int = 0, vtable: int = VTABLE) -> None:
        n = len(fed)
        self.reads = 0
        self.blocks = {
            0x1000: struct.pack("<ixxxxQ", warmup, 0x2000),
            0x2000: struct.pack("<QQQQ", vtable, 0x2100, 0x2100, 0x2100 + 4 * 4),
            0x2100: struct.pack("<4i", 100, 101, 102, 103),
            0x3000: struct.pack("<ixxxxQQQQ", n, 0x3100, 0x3200, 0x3300, 0x3400),
            0x3100: struct.pack(f"<{n}i", *(f[2] for f in fed)),
            0x3200: struct.pack(f"<{n}i", *(f[1] for f in fed)),
            0x3300: struct.pack(f"<{n}Q", *(0x4000 + 32 * i for i in range(n))),
            0x3400: bytes(f[3] for f in fed),
            0x4000: b"".join(struct.pack("<i28x", f[0]) for f in fed),
        }

    def read_block(self, address: int, size: int) -> bytes:
        self.reads += 1
        for start, data in self.blocks.items():
            if start <= address and address + size <= start + len(data):
                return data[address - start : address - start + size]
        raise Absent(UNREADABLE, f"cannot access memory at 0x{address:x}")

    def read_variable(self, key: str, size: int) -> bytes:
        return struct.pack("<Q", {"ctx": 0x1000, "batch": 0x3000}[key])


SPEC = """
[probe]
name = toy
let.kv = dynamic_cast<cache *>(ctx->memory)
n_layers = kv->end - kv->first
[forward]
function = step
skip = ctx->warmup
slot = batch->seq[:batch->n][0]
outputs = batch->output[:batch->n]
token_id = batch->token[:batch->n]
seq_before = batch->pos[:batch->n]
n_tokens = batch->n
cache_before = kv->rows[$slot]
"""


def hits(program: Program, spec: str = SPEC) -> list[Hit]:
    toy = probe.read(spec, "toy.ini")
    return HookPlan(toy.hooks[0], toy.facts, Names()).hits(program, 5, with_facts=True, forward_id=9)


def test_one_sequence_is_one_hit() -> None:
    (hit,) = hits(Program([(2, 7, 50, 0), (2, 8, 51, 1)]))
    assert hit.values == {"token_id": 50, "seq_before": 7, "n_tokens": 2, "cache_before": 102}
    assert (hit.slot, hit.outputs, hit.forward_id, hit.last, hit.t_ns) == (2, (0, 1), 9, True, 5)
    assert hit.facts == {"n_layers": 4}
    assert hit.missing == {}


def test_each_sequence_of_a_forward_is_a_hit_at_its_first_token() -> None:
    first, second = hits(Program([(3, 7, 50, 1), (1, 0, 60, 0), (1, 1, 61, 1), (3, 8, 51, 0)]))
    assert first.values == {"token_id": 50, "seq_before": 7, "n_tokens": 2, "cache_before": 103}
    assert second.values == {"token_id": 60, "seq_before": 0, "n_tokens": 2, "cache_before": 101}
    assert (first.slot, first.outputs, first.last) == (3, (1, 0), False)
    assert (second.slot, second.outputs, second.last) == (1, (0, 1), True)


def test_a_warm_up_is_told_apart() -> None:
    (hit,) = hits(Program([(0, 0, 1, 1)], warmup=1))
    assert hit.skipped
    assert hit.values == hit.facts == {}


def test_another_class_is_absent_and_nothing_else() -> None:
    (hit,) = hits(Program([(2, 7, 50, 1)], vtable=0x7018))
    assert hit.values == {"token_id": 50, "seq_before": 7, "n_tokens": 1}
    assert hit.missing["cache_before"].why == UNREADABLE
    assert "not exactly a cache" in str(hit.missing["cache_before"])
    assert hit.facts == {}


def test_a_vtable_that_nobody_knows_is_no_symbol() -> None:
    with_scope = probe.read(SPEC, "toy.ini")

    class Bare(Names):
        vtable = Scope.vtable

    (hit,) = HookPlan(with_scope.hooks[0], with_scope.facts, Bare()).hits(Program([(2, 7, 50, 1)]), 5, True)
    assert hit.missing["cache_before"].why == NO_SYMBOL
    assert hit.values["seq_before"] == 7


def test_a_prompt_costs_no_more_reads_than_one_token() -> None:
    one, many = Program([(0, 0, 1, 1)]), Program([(0, i, i, 0) for i in range(100)])
    hits(one), hits(many)
    assert one.reads == many.reads <= 14


def test_pointers_far_apart_are_read_one_by_one() -> None:
    program = Program([(1, 0, 60, 0), (2, 0, 61, 1)])
    program.blocks[0x3300] = struct.pack("<2Q", 0x4000, 0x900000)
    program.blocks[0x900000] = struct.pack("<i", 2)
    assert [hit.slot for hit in hits(program)] == [1, 2]


@pytest.mark.parametrize(("timed", "sums", "why"), [(1, {"attn_ms": 102}, None), (0, {}, "not_measured")])
def test_timers_count_while_they_run(timed: int, sums: dict[str, int], why: str | None) -> None:
    spec = "[probe]\nname = t\n[forward]\nfunction = f\ntimed = ctx->warmup\nslot = 2\n"
    spec += "accumulated.attn_ms = dynamic_cast<cache *>(ctx->memory)->rows[$slot]\n"
    (hit,) = hits(Program([], warmup=timed), spec)
    assert hit.sums == sums
    absent: Any = hit.missing.get("attn_ms")
    assert (absent.why if absent else None) == why
