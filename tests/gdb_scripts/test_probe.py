"""Hook specs: those that ship, and what is wrong with those that do not work."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdb_scripts import frozen, probe
from gdb_scripts.expressions import parse

GOOD = """
[probe]
name = mine
layers = window 8 2, full, shared 0
vocab_size = st->vocab

[forward]
function = step
n_tokens = n
seq_before = st->len
cache_before = st->rows[:2]
cap.cache_before = 4
accumulated.attn_ms = st->t_attn
scale.attn_ms = 1000
after.logit = st->best

[finish eos]
function = /stop_.*/
file = loop.c
finish = why
codes.finish = 7 eos, 9 length
"""


def test_a_whole_spec() -> None:
    read = probe.read(GOOD, "mine.ini")
    assert (read.name, read.engine) == ("mine", "mine")
    assert read.layers == [
        {"kind": "window", "window": 8, "slack": 2},
        {"kind": "full"},
        {"kind": "shared", "owner": 0},
    ]
    assert read.facts == {"vocab_size": parse("st->vocab")}
    forward, finish = read.hooks
    assert forward.reads["cache_before"] == parse("st->rows[:2]")
    assert forward.caps == {"cache_before": 4}
    assert forward.accumulators == {"attn_ms": probe.Accumulator(parse("st->t_attn"), 1000.0)}
    assert forward.after == {"logit": parse("st->best")}
    assert (finish.event, finish.function, finish.file) == ("finish", "/stop_.*/", "loop.c")
    assert finish.codes == {"finish": {7: "eos", 9: "length"}}


@pytest.mark.parametrize("name", probe.shipped())
def test_every_shipped_probe_loads(name: str) -> None:
    assert probe.load(name).hooks_for("forward")


def test_the_probes_that_ship() -> None:
    assert probe.shipped() == ["kestrel", "llama_cpp", "native"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[probe]", "[prob]"), "no \\[probe\\] section"),
        (("[forward]", "[backward]"), "a hook is one of"),
        (("[forward]", "[request]"), "not known here"),
        (("function = step", ""), "function: missing"),
        (("n_tokens = n", "n_tokenz = n"), "\\[forward\\] n_tokenz: not known here"),
        (("n_tokens = n", "n_tokens = f(n)"), "\\[forward\\] n_tokens: f.* is a call"),
        (("cap.cache_before = 4", "cap.cache_before = many"), "not a number"),
        (("accumulated.attn_ms", "accumulated.seq_len"), "not a time field"),
        (("after.logit", "after.seq_len"), "not known here"),
        (("layers = window 8 2", "layers = window"), "layers: 'window'"),
        (("7 eos", "7 tired"), "'7 tired'"),
        (("vocab_size = st", "vocab = st"), "\\[probe\\] vocab: not known"),
        (("name = mine", "name mine"), "mine.ini"),
        (("function = step", "function = st->x"), "'st->x' is not the name of a function, nor a /regex/"),
        (("function = step", "function = int step"), "'int step' is not the name"),
        (("function = step", "function = *0x4000"), "is not the name"),
        (("function = step", "function = step if x"), "is not the name"),
        (("function = step", "function = -source x"), "is not the name"),
        (("function = step", "function = " + "(" * 5000), "is not the name"),
        (("function = step", "function = /step(/"), "/step\\(/ is not a regular expression: missing \\)"),
        (("function = step", "function = step\nfile = a b.c"), "file: 'a b.c' is not a source file's name"),
        (("cap.cache_before = 4", "cap.cache_before = 1e12"), "not between 0 and 1048576"),
        (("cap.cache_before = 4", "cap.cache_before = -1"), "not between 0 and 1048576"),
        (("cap.cache_before = 4", "cap.cache_before = inf"), "'inf' is not a number"),
        (("cap.cache_before = 4", "scale = nan"), "'nan' is not a number"),
        (("layers = window 8 2", "layers = window " + "9" * 5000), "layers: 'window"),
        (("7 eos", "9" * 5000 + " eos"), "is not a number and one of"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(change: tuple[str, str], words: str) -> None:
    with pytest.raises(probe.ProbeError, match=words) as caught:
        probe.read(GOOD.replace(*change), "mine.ini")
    assert "mine.ini" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "forward",
        "ns::engine::forward",
        "ns::engine::forward(int)",
        "ns::engine::forward(std::vector<int, std::allocator<int> > const&) const",
        "ns::model<long>::forward",
        "(anonymous namespace)::forward(int)",
        "ns::operator<<(int)",
        "model<(kind)3>::operator()",
        "forward.constprop.0",
        "/forward_v[0-9]+$/",
    ],
)
def test_names_of_functions(name: str) -> None:
    text = GOOD.replace("function = step", f"function = {name}")
    assert probe.read(text, "mine.ini").hooks_for("forward")[0].function == name


def test_a_name_that_is_no_probe_gets_the_choices(tmp_path: Path) -> None:
    with pytest.raises(probe.ProbeError, match="no probe 'x'; those that come with stepscope are .*native"):
        probe.load("x")
    with pytest.raises(probe.ProbeError, match="cannot read"):
        probe.load(str(tmp_path / "x.ini"))
    (tmp_path / "b.ini").write_bytes(b"\xff\xfe")
    with pytest.raises(probe.ProbeError, match="not UTF-8"):
        probe.load(str(tmp_path / "b.ini"))


def test_the_example_of_the_guide_is_a_probe() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "gdb.md").read_text()
    example = guide.split("```ini\n")[1].split("```")[0]
    read = probe.read(example, "guide.ini")
    assert [hook.event for hook in read.hooks] == ["forward", "finish", "request"]
    assert read.layers == "full"


@pytest.mark.parametrize("name", ["p.ini", "p.layout.json"])
def test_a_large_file_of_something_else_is_not_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with open(path, "wb") as file:
        file.truncate(1 << 40)  # a hole: it takes no room
    with pytest.raises(probe.ProbeError, match=r"cannot read: it has more than [0-9]+ bytes; is it another file\?"):
        frozen.load(str(path)) if frozen.is_layout(name) else probe.load(str(path))
