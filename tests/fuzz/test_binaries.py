"""Programs, and the probes that are resolved in them, with anything wrong in them."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdb_scripts.probe import PROBES
from tests.fuzz.mutations import STRINGS, WORDS, changed_json, changed_lines, json_text
from tests.fuzz.running import FUZZ, behaves, explore, run
from tests.inspector.programs import C
from tests.programs import compiled

SPEC = """\
[probe]
name = mine
layers = full
n_layers = st->cfg.n_layers
vocab_size = st->cfg.vocab_size
let.state = ((state_t *)st)

[forward]
function = forward
token_id = tokens[0]
n_tokens = n
seq_before = state->seq_len
cache_before = st->cache_len[:st->cfg.n_layers]
cap.cache_before = 64
accumulated.attn_ms = st->dec_t_attn
scale.attn_ms = 1000
"""
EXPRESSIONS = st.sampled_from([
    "f()", "x = 1", "x++", "--x", "$pc = 0", "{char}0", "{char}0 = 1", "(int (*)(void))f", "((int (*)())f)()", "a, b",
    "a ? b : c", "&x", "*x", "x[:]", "x[:9999999999]", "-" * 3000 + "1", "(" * 3000, "((a))" * 900, "a" * 9999,
    "1" * 5000, "st->next" + "->next" * 500, "$rax", "$_siginfo", "$_exit(1)", "*(int*)0", "/x", '"s"', "'c'", "1/0",
    "\x1b[2J", "`date`", "n; shell date", "n\n  shell date", "0x7fffffffffffffff+1", "1<<99999999", "sizeof(int)",
    "st->table[-1][99999999]",
])  # fmt: skip
VERBS = ["probe draft {binary}", "probe verify {binary} {probe}", "probe verify {binary} {probe} --json",
         "probe layout {binary} {probe}"]  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("program"), C, "-g", "-O1")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "sound.ini"
    path.write_text(SPEC)
    return path


def headers_of(elf: bytes) -> list[tuple[int, int]]:
    """(first, last) byte of the ELF header and of each section's header, then of each section: by ELF's own layout."""
    table, size, n = struct.unpack_from("<Q", elf, 40)[0], 64, struct.unpack_from("<H", elf, 60)[0]
    found = [(16, 64)] + [(table + i * size, table + (i + 1) * size) for i in range(n)]
    for i in range(n):
        kind, offset, length = (struct.unpack_from(f, elf, table + i * size + at)[0]
                                for f, at in (("<I", 4), ("<Q", 24), ("<Q", 32)))  # fmt: skip
        if length and kind != 8 and i > 20:  # the later ones: debug information and symbols
            found.append((offset, offset + length))
    return found


def test_changed_programs(program: Path, spec: Path, tmp_path: Path) -> None:
    sound = program.read_bytes()
    places = headers_of(sound)
    path = tmp_path / "changed-program"

    @settings(FUZZ, max_examples=15)
    @given(st.data())
    def ends_well(data: st.DataObject) -> None:
        first, last = data.draw(st.sampled_from(places))
        changed = bytearray(sound)
        for _ in range(data.draw(st.integers(1, 4))):
            size = data.draw(st.sampled_from([1, 2, 4, 8]))
            at = first + data.draw(st.integers(0, (last - first - 1) // size)) * size
            changed[at : at + size] = (data.draw(WORDS) & (1 << 8 * size) - 1).to_bytes(size, "little")
        if data.draw(st.integers(0, 5)) == 0:
            changed = changed[: data.draw(st.integers(0, len(changed)))]
        path.write_bytes(changed)
        words = data.draw(st.sampled_from(VERBS)).format(binary=path, probe=spec)
        behaves(run(*words.split()), "changed-program")

    explore(ends_well)


def test_changed_probes(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "changed.ini"
    shipped = [file.read_text() for file in sorted(Path(PROBES).glob("*.ini"))]
    verbs = [*VERBS[1:], "probe plain {probe}", "import gdb {log} --probe {probe} -o " + str(tmp_path / "x.steps")]
    (tmp_path / "empty.log").touch()

    @settings(FUZZ, max_examples=40)
    @given(st.data())
    def ends_well(data: st.DataObject) -> None:
        text = data.draw(st.sampled_from([SPEC, SPEC, *shipped]))
        if data.draw(st.booleans()):
            keys = [m.span(1) for m in re.finditer(r"^[\w.]+ = (.*)$", text, re.M)]
            first, last = data.draw(st.sampled_from(keys))
            new = data.draw(
                st.one_of(EXPRESSIONS, st.sampled_from(STRINGS), st.text("ab->[:](){}*&$=+ 1,", max_size=12))
            )
            path.write_bytes((text[:first] + new + text[last:]).encode("utf-8", "surrogatepass"))
        else:
            path.write_bytes(data.draw(changed_lines(text)))
        words = data.draw(st.sampled_from(verbs)).format(binary=program, probe=path, log=tmp_path / "empty.log")
        outcome = run(*words.split())
        if "import" in words and outcome.code == 2 and "changed.ini" not in outcome.err:
            return  # the log is empty, which is said of a sound probe
        behaves(outcome, "changed.ini", program.name)  # what is not in the program is said of it

    explore(ends_well)


def test_changed_layouts(program: Path, spec: Path, tmp_path: Path) -> None:
    sound, path = tmp_path / "sound.json", tmp_path / "changed.layout.json"
    assert run("probe", "layout", program, spec, "-o", sound).code == 0
    value = json.loads(sound.read_bytes())

    @settings(FUZZ, max_examples=40)
    @given(changed_json(value))
    def ends_well(changed: object) -> None:
        path.write_bytes(json_text(changed))
        behaves(run("gdb", "--probe", path, "--gdb", "nosuchgdb", "--", program), path.name, "nosuchgdb")

    explore(ends_well)
