"""What a binary says about its variables, against what the compiled program itself prints."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdb_scripts import layout
from gdb_scripts.expressions import parse
from gdb_scripts.layout import Absent, Load, Scope, Space
from inspector.binary import (
    BinaryError,
    NoDebugInfo,
    NotElf,
    Stripped,
    WrongMachine,
    damage_is_said,
    open_binary,
)
from inspector.binary.symbols import path_of
from tests.inspector.programs import CPP, C, told_by
from tests.programs import compiled, need

FORMATS = {
    "DWARF 4": ["-gdwarf-4"],
    "DWARF 5": ["-gdwarf-5"],
    "DWARF 4 in type units": ["-gdwarf-4", "-fdebug-types-section"],
    "DWARF 5 in type units": ["-gdwarf-5", "-fdebug-types-section"],
    "DWARF 5, 64-bit": ["-gdwarf-5", "-gdwarf64"],
    "compressed": ["-g", "-gz=zlib"],
    "compressed the old way": ["-gdwarf-4", "-gz=zlib-gnu"],
    "split, DWARF 4": ["-gdwarf-4", "-gsplit-dwarf"],
    "split, DWARF 5": ["-gdwarf-5", "-gsplit-dwarf"],
    "optimised": ["-g", "-O2"],
    "static, not PIE": ["-g", "-no-pie"],
}


def place(expression: str, scope: Scope) -> Load:
    """Where a scalar lies."""
    found = layout.resolve(parse(expression), scope)
    assert isinstance(found, Load)
    return found


@pytest.mark.parametrize("flags", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("source", [C, CPP], ids=["C", "C++"])
def test_offsets_are_those_that_the_program_prints(tmp_path: Path, source: str, flags: list[str]) -> None:
    program = compiled(tmp_path, source, *flags)
    told = told_by(program)
    assert len(told) >= 10
    with open_binary(str(program)) as binary:
        (function,) = binary.functions("forward" if source is C else "engine::session::forward")
        scope = binary.scope(function)
        assert Path(function.file) == tmp_path / ("program.c" if source is C else "program.cpp")
        assert "forward(" in source.splitlines()[function.line - 1]
        resolved = {
            e: place(e + ("._M_impl._M_start" if e.endswith("cells") else ""), scope).offset for e in told
        }  # fmt: skip
    assert resolved == told


def test_kinds_and_sizes_in_c(tmp_path: Path) -> None:
    with open_binary(str(compiled(tmp_path, C, "-g"))) as binary:
        (function,) = binary.functions("forward")
        scope = binary.scope(function)
        kinds = {
            "st->seq_len": ("int", 4),
            "st->sign": ("int", 4),
            "st->plain": ("uint", 4),
            "st->on": ("bool", 1),
            "st->byte": ("uint", 1),
            "st->dec_t_attn": ("float", 8),
            "st->next": ("pointer", 8),
            "st->next->next->seq_len": ("int", 4),
            "st->table[1][2]": ("int", 2),
            "tokens[0]": ("int", 4),
            "n": ("int", 4),
            "calls": ("int", 4),
            "total_steps": ("int", 4),
            "the_state.cfg.n_layers": ("int", 4),
            "((struct config *)st)->n_heads": ("int", 4),
            "((state_t *)st)->seq_len": ("int", 4),
        }
        assert {e: (place(e, scope).kind, place(e, scope).size) for e in kinds} == kinds
        rows = layout.resolve(parse("st->cache_len[:st->cfg.n_layers]"), scope)
        assert isinstance(rows, layout.Array)
        assert (rows.size, rows.kind) == (4, "int")


def test_static_objects_lie_where_the_symbols_say(tmp_path: Path) -> None:
    program = compiled(tmp_path, C, "-g", "-no-pie")
    symbols = subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True).stdout
    addresses = {line.split()[-1]: int(line.split()[0], 16) for line in symbols.splitlines() if len(line.split()) == 3}
    with open_binary(str(program)) as binary:
        (function,) = binary.functions("forward")
        assert function.address == addresses["forward"]
        assert place("total_steps", binary.scope(function)).space == Space("static", addresses["total_steps"])


def test_cpp_references_templates_statics_and_scopes(tmp_path: Path) -> None:
    with open_binary(str(compiled(tmp_path, CPP, "-g"))) as binary:
        (function,) = binary.functions("engine::session::forward")
        scope = binary.scope(function)
        assert [(p.name, p.type.kind) for p in binary.parameters(function)] == [
            ("this", "pointer"),
            ("batch", "reference"),
            ("status", "reference"),
        ]
        through = place("status", scope)
        assert (through.offset, through.space.kind) == (0, "at")
        for name in ("engine::session::alive", "hidden"):
            assert place(name, scope).space.kind == "static", name
        # a cast names a type as it is seen from inside the function
        for name in ("session", "engine::session", "ring<short, 7>", "ring<short int, 7>"):
            assert place(f"(({name} *)this)->{'head' if 'ring' in name else 'seq_len'}", scope).size == 4
        assert binary.functions("engine::decode") == [], "a breakpoint takes an instance's whole name only"
        assert binary.instances("engine::decode") == ["engine::decode<float>", "engine::decode<int>"]
        assert [f.qualified for f in binary.functions("engine::decode<float>")] == ["engine::decode<float>"]
        assert len(binary.functions("/session::for.*d$/")) == 1
        assert binary.functions("session::forward") == [], "a breakpoint takes only the whole qualified name"
        assert binary.functions("engine::session::forward", file="program.cpp")
        assert not binary.functions("engine::session::forward", file="other.cpp")


def test_what_does_not_resolve_says_why(tmp_path: Path) -> None:
    reasons = {
        "st->nothing": "struct state has no member nothing",
        "nothing": "no symbol nothing here",
        "st->flag": "struct state has no member flag",
        "st->cfg": "not a number",
        "n->x": "has no members",
        "((struct nothing *)st)->x": "no type nothing here",
        "st->cfg[:n]": "a slice needs",
    }
    with open_binary(str(compiled(tmp_path, C, "-g"))) as binary:
        scope = binary.scope(binary.functions("forward")[0])
        plan = layout.plan({e: parse(e) for e in reasons}, scope)
        assert not plan.fields
        for expression, reason in reasons.items():
            assert reason in str(plan.absent[expression])


def test_identity(tmp_path: Path) -> None:
    program = compiled(tmp_path, C, "-g", "-O1")
    notes = subprocess.run(["readelf", "-n", str(program)], capture_output=True, text=True, check=True).stdout
    with open_binary(str(program)) as binary:
        assert binary.build_id in notes
        assert len(binary.build_id) == 40
        assert "GNU C" in binary.producer()
        assert "-O1" in binary.producer()


def test_debug_information_in_a_file_of_its_own(tmp_path: Path) -> None:
    need("objcopy", "strip")
    program = compiled(tmp_path, C, "-g")
    for command in (
        ["objcopy", "--only-keep-debug", "program", "program.debug"],
        ["strip", "program"],
        ["objcopy", "--add-gnu-debuglink=program.debug", "program"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
    with open_binary(str(program)) as binary:
        assert binary.functions("forward")
        assert "forward" in binary.function_names()


def test_split_files_that_are_packed_or_missing(tmp_path: Path) -> None:
    need("dwp")
    program = compiled(tmp_path, C, "-gdwarf-4", "-gsplit-dwarf")
    told = told_by(program)
    subprocess.run(["dwp", "-e", "program", "-o", "program.dwp"], cwd=tmp_path, check=True)
    for split in tmp_path.glob("*.dwo"):
        split.unlink()
    with open_binary(str(program)) as binary:
        scope = binary.scope(binary.functions("forward")[0])
        assert {e: place(e, scope).offset for e in told} == told
    (tmp_path / "program.dwp").unlink()
    with pytest.raises(NoDebugInfo, match=r"split .* not there: .*\.dwo; keep the \.dwo files"):
        open_binary(str(program))


def test_functions_that_are_only_inlined_are_known_but_not_found(tmp_path: Path) -> None:
    source = "static inline __attribute__((always_inline)) int step(int n) { return n + 1; }\nint main(int c, char **v) { (void)v; return step(c); }\n"  # noqa: E501
    with open_binary(str(compiled(tmp_path, source, "-g", "-O2"))) as binary:
        assert binary.functions("step") == []
        assert binary.is_known("step")
        assert not binary.is_known("nothing")


def test_parts_of_two_units_meet(tmp_path: Path) -> None:
    """A type that is only declared beside the function is found where it is defined."""
    (tmp_path / "other.c").write_text(
        "struct hidden { long pad; int seq_len; }; static struct hidden one = {0, 3};\n"
        "struct hidden *make(void) { return &one; }\n"
    )
    source = (
        "struct hidden; struct hidden *make(void);\n"
        "__attribute__((noinline)) int forward(struct hidden *st) { return st == 0; }\n"
        "int main(void) { return forward(make()); }\n"
    )
    with open_binary(str(compiled(tmp_path, source, "-g", "other.c"))) as binary:
        assert place("st->seq_len", binary.scope(binary.functions("forward")[0])).offset == 8


def test_symbols_are_read_as_names() -> None:
    assert path_of("forward") == "forward"
    assert path_of("forward.constprop.0") == "forward"
    assert path_of("_ZN13llama_context14process_ubatchERK12llama_ubatch") == "llama_context::process_ubatch"
    assert path_of("_ZNK2ns1a3getEv") == "ns::a::get"
    assert path_of("_Z4evalP5state") == "eval"


@pytest.mark.parametrize(
    ("symbol", "name"),  # names as c++filt gives them
    [
        ("_ZL7forwardR3CtxPKii", "forward"),
        ("_ZN12_GLOBAL__N_17forwardERK3CtxPKii", "(anonymous namespace)::forward"),
        ("_Z7forwardIiET_R3CtxPKS0_i", "forward"),
        ("_ZN2lm5ModelIfE7forwardESt4spanIKiLm18446744073709551615EE", "lm::Model::forward"),
        ("_ZN1aIiE6EngineE", "a::Engine"),
        ("_ZN12_GLOBAL__N_18tinyBLASILi16EDv16_fS1_fffE4gemmILi4ELi1ELi1EEEvlll.constprop.0",
         "(anonymous namespace)::tinyBLAS::gemm"),
        ("_ZN4ggml3cpu13tensor_traitsI10block_q1_0Ll4EL9ggml_type8EE15compute_forwardEP1pP1t",
         "ggml::cpu::tensor_traits::compute_forward"),
        ("_ZN4llvm3PtrINS_3fooELNS_4KindE2ELb1EE3runEv", "llvm::Ptr::run"),
        ("_ZNK1a6EngineclEi", "a::Engine::operator()"),
        ("_ZSt7forwardIRiEOT_RNSt16remove_referenceIS1_E4typeE",
         "_ZSt7forwardIRiEOT_RNSt16remove_referenceIS1_E4typeE"),
        # and some that no compiler writes
        ("_ZN1fI1", "f"),
        ("_ZN1aI" + "LN1b" * 10_000, "a"),
        ("_ZN" + "9" * 10_000, "9" * 9_996),
        ("_Z", "_Z"),
        ("_ZNL", "_ZNL"),
    ],
)  # fmt: skip
def test_template_arguments_are_left_out_of_a_symbols_name(symbol: str, name: str) -> None:
    assert path_of(symbol) == name


# -- what cannot be used -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"hello there, this is text", "is not an ELF"),
        (b"#!/bin/sh\nexec engine\n", "a script"),
        (b"\x7fELF", "damaged"),
        (b"\x7fELF\x02\x01\x01" + bytes(80), "stripped|damaged|not linked"),
    ],
)
def test_what_is_no_program(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "engine"
    path.write_bytes(content)
    with pytest.raises(BinaryError, match=words) as failed:
        open_binary(str(path))
    assert "\n" not in str(failed.value)
    assert str(path) in str(failed.value)


def test_without_debug_information(tmp_path: Path) -> None:
    program = compiled(tmp_path, C)
    with pytest.raises(NoDebugInfo, match="compile with -g"):
        open_binary(str(program))
    subprocess.run(["strip", str(program)], check=True)
    with pytest.raises(Stripped, match="is stripped"):
        open_binary(str(program))
    with pytest.raises(BinaryError, match="missing: cannot read: No such file or directory"):
        open_binary(str(tmp_path / "missing"))
    subprocess.run(["gcc", "-g", "-c", "program.c"], cwd=tmp_path, check=True)
    with pytest.raises(NotElf, match="not linked"):
        open_binary(str(tmp_path / "program.o"))


def test_big_endian_is_refused(tmp_path: Path) -> None:
    program = bytearray(compiled(tmp_path, C, "-g").read_bytes())
    header = bytes(program[:16]) + b"".join(
        bytes(reversed(program[a:b]))
        for a, b in [(16, 18), (18, 20), (20, 24), (24, 32), (32, 40), (40, 48), (48, 52)]
        + [(at, at + 2) for at in range(52, 64, 2)]
    )
    path = tmp_path / "big"
    path.write_bytes(header[:5] + b"\x02" + header[6:] + bytes(program[64:]))
    with pytest.raises(WrongMachine, match="is big-endian"):
        open_binary(str(path))


def test_what_python_cannot_decompress(tmp_path: Path) -> None:
    program = compiled(tmp_path, C, "-g", "-gz=zlib")
    with program.open("rb") as file:
        at = ELFFile(file).get_section_by_name(".debug_info").header.sh_offset
    content = bytearray(program.read_bytes())
    assert content[at] == 1, "zlib"
    content[at] = 2
    program.write_bytes(content)
    with pytest.raises(NoDebugInfo, match="zstd.*objcopy --decompress-debug-sections"):
        open_binary(str(program))


def look_around(path: Path) -> None:
    """Everything that the verbs do with a binary."""
    with open_binary(str(path)) as binary, damage_is_said(str(path)):
        binary.producer()
        binary.function_names()
        for name in ("forward", "/for/"):
            for function in binary.functions(name):
                scope = binary.scope(function)
                binary.parameters(function)
                for expression in ("st->seq_len", "st->cfg.n_layers", "total_steps", "((state_t *)st)->table[1][2]"):
                    layout.plan({"x": parse(expression)}, scope)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("sound"), C, "-g", "-O1")


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damage_ends_as_one_line(sound: Path, data: st.DataObject) -> None:
    content = bytearray(sound.read_bytes())
    if data.draw(st.booleans(), label="cut off"):
        content = content[: data.draw(st.integers(4, len(content) - 1))]
    for _ in range(data.draw(st.integers(0, 6))):
        # sections and their table stand at the end of the file: most flips should meet them
        back = data.draw(st.integers(1, len(content)))
        content[-back] ^= 1 << data.draw(st.integers(0, 7))
    path = sound.parent / "damaged"
    path.write_bytes(content)
    try:
        look_around(path)
    except (BinaryError, Absent) as error:
        assert "\n" not in str(error)
