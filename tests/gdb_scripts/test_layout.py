"""Fields decoded from bytes, with no debugger: a program's memory is a dict of byte strings here."""

from __future__ import annotations

import struct

import pytest

from gdb_scripts.expressions import parse
from gdb_scripts.layout import NO_SYMBOL, OPTIMIZED_OUT, UNREADABLE, Absent, Memory, Scope, Type, Variable, plan

INT, UINT8, DOUBLE = Type("int", 4, "int"), Type("uint", 1, "unsigned char"), Type("float", 8, "double")


def pointer(target: Type) -> Type:
    return Type("pointer", 8, target.name + " *", lambda: target)


def struct_of(name: str, size: int, **members: tuple[int, Type]) -> Type:
    return Type("struct", size, name, members=lambda: members)


CONFIG = struct_of("config", 8, n_layers=(0, INT), vocab_size=(4, INT))
STATE = struct_of(
    "state", 64, cfg=(0, CONFIG), seq_len=(8, INT), cache_len=(16, pointer(INT)), spent=(24, DOUBLE),
    flags=(32, Type("array", 4, "unsigned char [4]", lambda: UINT8)), far=(1000, INT),
)  # fmt: skip
KV = struct_of("kv", 12, head=(0, INT), used=(8, INT))
LAYER = struct_of("layer", 32, kv=(4, KV), own=(16, pointer(KV)), count=(24, pointer(INT)), alias=(
    16, Type("reference", 8, "kv &", lambda: KV)
))  # fmt: skip
NODE = Type("struct", 16, "node", members=lambda: {"next": (0, pointer(NODE)), "value": (8, INT)})


class Names(Scope):
    """st and tokens are arguments, node a global, big a struct by value, gone optimised out."""

    def variable(self, name: str) -> Variable:
        known = {
            "st": Variable("st", pointer(STATE)),
            "ref": Variable("ref", Type("reference", 8, "state &", lambda: STATE)),
            "tokens": Variable("tokens", pointer(INT)),
            "node": Variable("node", NODE, 0x5000),
            "big": Variable("big", CONFIG),
            "gone": Variable("gone", INT),
            "layers": Variable("layers", Type("array", 64, "layer [2]", lambda: LAYER), 0x6000),
            "caches": Variable("caches", Type("array", 16, "kv *[2]", lambda: pointer(KV)), 0x7000),
            "wide": Variable("wide", pointer(struct_of("wide", 0x4000, used=(0x3FFC, INT)))),
            "local": Variable("local", Type("array", 24, "kv [2]", lambda: KV)),
        }
        if name not in known:
            raise Absent(NO_SYMBOL, f"no symbol {name} here")
        return known[name]

    def type_named(self, name: str) -> Type:
        if name in ("node", "long"):
            return NODE if name == "node" else Type("int", 8, "long")
        raise Absent(NO_SYMBOL, f"no type {name} here")


class Bytes(Memory):
    """Blocks of memory by address; counts what is asked for."""

    def __init__(self) -> None:
        state = struct.pack("<iiixxxxQd4B", 3, 100, 7, 0x2000, 0.5, 1, 2, 3, 250)
        self.blocks = {
            0x1000: state.ljust(64, b"\0"),
            0x2000: struct.pack("<3i", 7, 7, -1),
            0x3000: struct.pack("<2i", 42, 43),
            0x5000: struct.pack("<Qi", 0x5000, 9) + bytes(4),
            0x6000: struct.pack("<12xi QQ 12xi QQ", 5, 0x8000, 0x800C, 6, 0x800C, 0x8008),
            0x7000: struct.pack("<QQ", 0x800C, 0x8000),
            0x8000: struct.pack("<6i", 0, 0, 71, 81, 0, 72),
            0x13FFC: struct.pack("<i", 8),
            0x17FFC: struct.pack("<i", 9),
        }
        self.variables = {
            "st": struct.pack("<Q", 0x1000),
            "ref": struct.pack("<Q", 0x1000),
            "tokens": struct.pack("<Q", 0x3000),
            "wide": struct.pack("<Q", 0x10000),
            "local": struct.pack("<6i", 1, 2, 3, 4, 5, 6),
            "big": struct.pack("<ii", 5, 6),
            "$rsi": struct.pack("<q", -3),
        }
        self.reads: list[tuple[int, int]] = []

    def read_block(self, address: int, size: int) -> bytes:
        self.reads.append((address, size))
        for start, data in self.blocks.items():
            if start <= address and address + size <= start + len(data):
                return data[address - start : address - start + size]
        raise Absent(UNREADABLE, f"cannot access memory at 0x{address:x}")

    def read_variable(self, key: str, size: int) -> bytes:
        if key == "gone":
            raise Absent(OPTIMIZED_OUT, "gone is optimized out")
        return self.variables[key]


def read(**expressions: str) -> tuple[dict[str, object], dict[str, Absent], Bytes]:
    """(values, absences, memory) of one hit."""
    made = plan({name: parse(text) for name, text in expressions.items()}, Names())
    memory = Bytes()
    values, missing = made.read(memory)
    return values, {**made.absent, **missing}, memory


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("st->seq_len", 7),
        ("st->cfg.vocab_size", 100),
        ("st->cache_len[0]", 7),
        ("st->cache_len[2]", -1),
        ("st->cache_len[:st->cfg.n_layers]", (7, 7, -1)),
        ("st->cache_len[1:2]", (7, -1)),
        ("st->cache_len[st->cfg.n_layers - 1]", -1),
        ("st->cache_len[:0]", ()),
        ("st->spent", 0.5),
        ("st->flags[3]", 250),
        ("st->flags[:4]", (1, 2, 3, 250)),
        ("layers[:2].kv.used", (5, 6)),
        ("layers[1:1].kv.used", (6,)),
        ("layers[:2].own->used", (71, 72)),
        ("layers[:2].count[0]", (81, 71)),
        ("caches[:2]->used", (72, 71)),
        ("wide[:2].used", (8, 9)),
        ("local[:2].used", (3, 6)),
        ("layers[:0].kv.used", ()),
        ("*tokens", 42),
        ("tokens[1]", 43),
        ("*(tokens + 1)", 43),
        ("ref.seq_len", 7),
        ("(*st).seq_len", 7),
        ("node.value", 9),
        ("node.next->next->value", 9),
        ("&node", 0x5000),
        ("((node *)&node)->value", 9),
        ("big.vocab_size", 6),
        ("$rsi", -3),
        ("st->seq_len + 2 * 3 - 1", 12),
    ],
)
def test_values(text: str, value: object) -> None:
    values, missing, _ = read(x=text)
    assert missing == {}
    assert values == {"x": value}


@pytest.mark.parametrize(
    ("text", "why", "words"),
    [
        ("nobody", NO_SYMBOL, "no symbol nobody"),
        ("st->nothing", NO_SYMBOL, "state has no member nothing"),
        ("st->cfg", NO_SYMBOL, "not a number"),
        ("st->seq_len.x", NO_SYMBOL, "has no members"),
        ("st->seq_len[0]", NO_SYMBOL, "needs a pointer or an array"),
        ("(nope *)st", NO_SYMBOL, "no type nope"),
        ("gone", OPTIMIZED_OUT, "optimized out"),
        ("tokens[1000]", UNREADABLE, "cannot access"),
        ("st->cache_len[:5000]", UNREADABLE, "length of 5000"),
        ("st->cache_len[:-1]", UNREADABLE, "length of -1"),
        ("st->far", UNREADABLE, "cannot access"),
        ("*(node *)0", NO_SYMBOL, "not a number"),  # a struct
        ("((node *)0)->value", UNREADABLE, "null pointer"),
        ("&big", NO_SYMBOL, "lies in memory"),
        ("layers[:2]", NO_SYMBOL, "slice of layer (struct) cannot be recorded"),
        ("layers[:2].kv", NO_SYMBOL, "a member of each can, as in [:n].head"),
        ("layers[:2].kv.usd", NO_SYMBOL, "kv has no member usd"),
        ("layers[:2].alias.used", NO_SYMBOL, "alias is a reference"),
        ("layers[:2].own->used[0]", NO_SYMBOL, "a slice of pointers"),
        ("local[:2].used.x", NO_SYMBOL, "has no members"),
        ("layers[:2].kv.used + 1", NO_SYMBOL, "inside an expression"),
        ("wide[:3].used", UNREADABLE, "cannot access"),
    ],
)
def test_what_is_not_there_says_why(text: str, why: str, words: str) -> None:
    values, missing, _ = read(x=text)
    assert values == {}
    assert missing["x"].why == why
    assert words in str(missing["x"])


def test_variables_that_are_read_together_are_absent_each_for_its_own_reason() -> None:
    values, missing, _ = read(a="st->seq_len", b="gone", c="tokens[0]", d="gone + 1", e="*(tokens + gone)")
    assert values == {"a": 7, "c": 42}
    assert {name: absent.why for name, absent in missing.items()} == dict.fromkeys("bde", OPTIMIZED_OUT)


def test_members_that_overlap_as_in_a_union() -> None:
    values, missing, _ = read(whole="*(long *)st", low="st->cfg.n_layers", high="st->cfg.vocab_size")
    assert (values, missing) == ({"whole": 3 + (100 << 32), "low": 3, "high": 100}, {})


def test_members_near_each_other_are_one_read() -> None:
    values, missing, memory = read(
        seq_before="st->seq_len", n_layers="st->cfg.n_layers", rows="st->cache_len[:st->cfg.n_layers]", t="st->spent"
    )
    assert missing == {}
    assert memory.reads == [(0x1000, 32), (0x2000, 12)]
    assert values["rows"] == (7, 7, -1)


def test_a_block_that_reaches_too_far_does_not_cost_the_members_that_are_there() -> None:
    values, missing, _ = read(seq="st->seq_len", beyond="ref.far", near="st->cfg.n_layers")
    assert (values["seq"], values["near"]) == (7, 3)
    assert missing["beyond"].why == UNREADABLE


def test_a_cap_of_its_own() -> None:
    made = plan({"rows": parse("st->cache_len[:3]")}, Names(), {"rows": 2})
    values, missing = made.read(Bytes())
    assert values == {}
    assert "between 0 and 2" in str(missing["rows"])


def test_arithmetic_stays_inside_64_bits() -> None:
    """Numbers from garbage memory multiply to anything: what no register holds is absent."""
    for text, value in {
        "st->seq_len * 9 - 1": 62,
        "$rsi * 4611686018427387904": None,
        "*tokens" + " * 9223372036854775807" * 40: None,
        "0 - st->seq_len - 9223372036854775807": None,
        "18446744073709551615 - st->seq_len": 2**64 - 8,
    }.items():
        values, missing, _ = read(x=text)
        assert values.get("x") == value
        assert (missing["x"].why == UNREADABLE) if value is None else not missing
