"""The language of hook specs: what it says and what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdb_scripts.expressions import (
    Binary,
    Cast,
    ExpressionError,
    Index,
    Member,
    Name,
    Number,
    Register,
    Slice,
    Unary,
    parse,
    substitute,
)

ST = Name("st")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("st->seq_len", Member(ST, "seq_len", True)),
        ("st->cfg.n_layers", Member(Member(ST, "cfg", True), "n_layers", False)),
        ("tokens[0]", Index(Name("tokens"), Number(0))),
        ("tokens[n - 1]", Index(Name("tokens"), Binary("-", Name("n"), Number(1)))),
        ("st->rows[:4]", Slice(Member(ST, "rows", True), None, Number(4))),
        ("st->rows[2:n]", Slice(Member(ST, "rows", True), Number(2), Name("n"))),
        ("st->rows[:n].kv->used", Slice(Member(ST, "rows", True), None, Name("n"), (".kv", "->used"))),
        ("*p", Unary("*", Name("p"))),
        ("$x0", Register("x0")),
        ("0x10", Number(16)),
        ("ns::global", Name("ns::global")),
        ("(T *)p", Cast("T", 1, Name("p"))),
        ("*(struct kv **)&this->memory", Unary("*", Cast("kv", 2, Unary("&", Member(Name("this"), "memory", True))))),
        ("((a::b<int, c<d> > *)p)->n", Member(Cast("a::b<int, c<d> >", 1, Name("p")), "n", True)),
        ("(a) + 2 * b", Binary("+", Name("a"), Binary("*", Number(2), Name("b")))),
    ],
)
def test_what_it_says(text: str, tree: object) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("system(1)", "is a call"),
        ("st->free(x)", "not expected"),
        ("a = 3", "'='"),
        ("a++", "not expected"),
        ("a; b", "';'"),
        ('"text"', "not part"),
        ("a[", "ends too early"),
        ("a]", "not expected"),
        ("", "ends too early"),
        ("st->", "member's name"),
        ("a[:", "ends too early"),
        ("((((", "ends too early"),
        ("(" * 60 + "a" + ")" * 60, "nested too deeply"),
        ("-" * 200 + "a", "nested too deeply"),
        ("a" * 2000, "longer than"),
        ("a" * 10_000, "longer than"),
        ("+".join("a" * 400), "nested too deeply"),
        ("a" + ".b" * 300, "nested too deeply"),
        ("9" * 900, "does not fit into 64 bits"),
        ("0x1" + "0" * 16, "does not fit into 64 bits"),
    ],
)
def test_what_it_refuses(text: str, words: str) -> None:
    with pytest.raises(ExpressionError, match=words):
        parse(text)


def test_names_that_stand_for_names_cannot_grow_without_end() -> None:
    names = {"a0": parse("st->rows[1]")}
    with pytest.raises(ExpressionError, match="more than 1000 parts"):
        for i in range(60):
            names[f"a{i + 1}"] = substitute(parse(f"a{i} + a{i}"), names)


@given(st.text(alphabet="ab09->.[]():*&+-$<>, x", max_size=40))
def test_any_text_is_a_tree_or_one_kind_of_error(text: str) -> None:
    try:
        parse(text)
    except ExpressionError as error:
        assert "\n" not in str(error)
