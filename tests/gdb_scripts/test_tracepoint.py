"""Tracepoints: the saved buffer's file, what has to be collected, and runs on a real gdbserver."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest

from gdb_scripts import expressions as ex
from gdb_scripts import layout
from gdb_scripts.backends.collect import collection
from gdb_scripts.backends.tracefile import Frame, FrameMemory, Lost, TraceFile, TraceFileError
from tests.engine.native.conftest import built
from tests.gdb_scripts.running import LETTERS, gdb, letters
from tests.gdb_scripts.serving import BENCH, gdbserver
from tests.programs import compiled
from tests.reading import steps
from traces.columnar import check_table
from traces.table import Table

# -- the file --------------------------------------------------------------------------------------------------------

HEAD = (
    b"\x7fTRACE0\nR 8\nstatus 0;tstop::0;tframes:2;tcreated:5;tfree:10;tsize:100;circular:1;starttime:64;stoptime:70\n"
    b"tsv 1:0:1:74726163655f74696d657374616d70\ntsv 2:0:0:7374\ntp T2:1000:E:0:0\ntp T3:2000:E:0:0\ntdesc <target>\n\n"
)


def variable(number: int, value: int) -> bytes:
    return b"V" + struct.pack("<iq", number, value)


def memory(address: int, data: bytes) -> bytes:
    return b"M" + struct.pack("<QH", address, len(data)) + data


def frame(tracepoint: int, *blocks: bytes) -> bytes:
    body = b"".join(blocks)
    return struct.pack("<HI", tracepoint, len(body)) + body


def step(n: int) -> bytes:
    return frame(2, variable(1, 100 + n), variable(2, -n), memory(0x5000, struct.pack("<4i", n, n, n, n)))


def test_frames_variables_and_memory() -> None:
    registers = b"R" + bytes(8)
    file = TraceFile(HEAD + step(1) + frame(3, registers, memory(0x10, b"ab")) + step(2) + b"\0\0")
    assert file.variables == {1: "trace_timestamp", 2: "st"}
    assert (file.start_us, file.overwritten, file.was_full) == (100, 3, False)
    assert list(file.frames()) == [
        Frame(2, {1: 101, 2: -1}, {0x5000: struct.pack("<4i", 1, 1, 1, 1)}),
        Frame(3, {}, {0x10: b"ab"}),
        Frame(2, {1: 102, 2: -2}, {0x5000: struct.pack("<4i", 2, 2, 2, 2)}),
    ]


def test_a_buffer_that_was_full_says_so() -> None:
    assert TraceFile(HEAD.replace(b"tstop::0", b"tfull:0")).was_full


@pytest.mark.parametrize("damage", [b"\0" * 70, b"\xff" * 30, b"\x02\x00\x44", step(7)[:20], step(7)[:40] + bytes(300)])
def test_damage_is_stepped_over_and_told(damage: bytes) -> None:
    """As gdbserver leaves it where a circular buffer wraps."""
    data = HEAD + step(1) + step(2) + step(3)[:40] + damage + step(4) + step(5) + b"\0\0"
    found = list(TraceFile(data).frames())
    whole = [f.variables[2] for f in found if isinstance(f, Frame)]
    assert whole == [-1, -2, -4, -5]
    assert [f.size for f in found if isinstance(f, Lost)] == [40 + len(damage)]


def test_a_frame_of_another_shape_is_damage() -> None:
    other = frame(2, variable(1, 5), variable(2, 5), memory(0x5000, bytes(12)), b"S\x01\x00x")
    assert len(other) == len(step(1))
    found = list(TraceFile(HEAD + step(1) + other + step(2) + b"\0\0").frames())
    assert [type(f).__name__ for f in found] == ["Frame", "Lost", "Frame"]


def test_cut_off_at_any_byte() -> None:
    data = HEAD + step(1) + step(2) + step(3)
    for end in range(len(HEAD), len(data) + 1):
        found = list(TraceFile(data[:end]).frames())
        assert sum(isinstance(f, Frame) for f in found) == (end - len(HEAD)) // len(step(1))
        assert sum(f.size for f in found if isinstance(f, Lost)) == (end - len(HEAD)) % len(step(1))


def test_what_is_no_trace_file() -> None:
    for data in (b"", b"STEP", b"\x7fTRACE0\nR 8\n"):
        with pytest.raises(TraceFileError):
            TraceFile(data)


def test_memory_of_a_frame() -> None:
    found = Frame(2, {2: -1, 3: 0x5000}, {0x5000: bytes(range(16))})
    read = FrameMemory(found, {"n": 2, "$rdi": 3, "batch": 3}, {"batch"})
    assert read.read_block(0x5004, 4) == bytes([4, 5, 6, 7])
    assert read.read_scalar("n", 4, "int") == -1
    assert read.read_scalar("n", 4, "uint") == 2**32 - 1
    assert read.read_variable("$rdi", 8) == struct.pack("<q", 0x5000)
    assert read.read_variable("batch", 4) == bytes([0, 1, 2, 3])
    for missing in (lambda: read.read_block(0x500F, 2), lambda: read.read_variable("tokens", 8)):
        with pytest.raises(layout.Absent) as told:
            missing()
        assert told.value.why == "unreadable"


# -- what to collect -------------------------------------------------------------------------------------------------

INT = layout.Type("int", 4, "int")
STATE = layout.Type(
    "struct",
    32,
    "state",
    members=lambda: {"seq_len": (8, INT), "cache_len": (16, layout.pointer_to(INT)), "n": (24, INT)},
)
BATCH = layout.Type("struct", 16, "batch", members=lambda: {"n": (0, INT), "tokens": (8, layout.pointer_to(INT))})


class Names(layout.Scope):
    def variable(self, name: str) -> layout.Variable:
        kinds = {"st": layout.pointer_to(STATE), "n": INT, "batch": BATCH}
        return layout.Variable(name, kinds[name])


class Bytes(layout.Memory):
    def read_block(self, address: int, size: int) -> bytes:
        data = bytearray(64)
        struct.pack_into("<iiq i", data, 8, 25, 0, 0x1020, 3)
        struct.pack_into("<3i", data, 32, 25, 25, 25)
        return bytes(data[address - 0x1000 :][:size])

    def read_variable(self, key: str, size: int) -> bytes:
        return {"st": struct.pack("<q", 0x1000), "n": struct.pack("<i", 1), "batch": bytes(16)}[key][:size]


def test_a_plan_as_actions() -> None:
    wanted = {"reads.n": "n", "reads.seq": "st->seq_len", "reads.rows": "st->cache_len[:st->n]"}
    plan = layout.plan({name: ex.parse(text) for name, text in wanted.items()}, Names())
    found = collection(plan, Bytes(), {"st", "n"}, {}, set(), "s_")
    assert found.names == {"n": "s_0", "st": "s_1"} or found.names == {"st": "s_0", "n": "s_1"}
    st = "$" + found.names["st"]
    assert f"teval {st} = (long long) st" in found.lines
    assert f"collect *(unsigned char *) ({st} + 8)@20" in found.lines
    assert any(line.endswith("@12") and "unsigned long long" in line for line in found.lines)
    assert not found.by_address


def test_a_struct_by_value_is_collected_where_it_lies() -> None:
    plan = layout.plan({"reads.t": ex.parse("batch.tokens[0]"), "reads.n": ex.parse("batch.n")}, Names())
    found = collection(plan, Bytes(), set(), {}, set(), "s_")
    assert found.by_address == {"batch"}
    assert "teval $s_0 = (unsigned long long) &batch" in found.lines
    assert "collect *(unsigned char *) ($s_0 + 0)@16" in found.lines


# -- with gdbserver --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("loop"), BENCH / "loop28.c", "-g", "-O2")


def through_gdbserver(program: Path, arguments: list[str], *commands: str) -> str:
    with gdbserver(program, arguments) as place:
        return gdb(["set sysroot /", f"target remote {place}", *commands], program).stdout


def without_clock(path: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in s.items() if k != "t_ns"} for s in steps(path)]


def gaps(path: Path) -> list[str]:
    table = Table(path)
    return [str(n["why"]) for chunk in table.chunks(0, table.steps, 0) for _, n in chunk.notes if n["kind"] == "gap"]


@pytest.mark.parametrize("build", ["O0", "O2"])
def test_every_field_is_as_the_stop_backend_reads_it(tmp_path: Path, build: str) -> None:
    """Two requests; also the fields read after the forward (write_pos, hidden_rms), and the notes."""
    traces = {}
    for backend in ("stop", "tracepoint"):
        traces[backend] = tmp_path / f"{backend}.steps"
        out = through_gdbserver(
            built(build), letters(LETTERS, LETTERS.replace("six", "four")),
            f"stepscope backend {backend}", "stepscope probe native", f"stepscope record {traces[backend]}", "continue",
        )  # fmt: skip
        assert "exited normally" in out
    assert without_clock(traces["stop"]) == without_clock(traces["tracepoint"])
    assert len(steps(traces["stop"])) > 12
    assert check_table(Table(traces["tracepoint"])).verdict == "pass"
    assert not gaps(traces["tracepoint"])


def test_times_that_add_up_are_differenced(tmp_path: Path, loop: Path) -> None:
    probe, path = tmp_path / "timed.ini", tmp_path / "run.steps"
    text = (BENCH / "loop28.ini").read_text()
    probe.write_text(text.replace("n_tokens = n\n", "n_tokens = n\naccumulated.attn_ms = st->attn_ms\n"))
    through_gdbserver(
        loop, ["30"], "stepscope backend tracepoint", f"stepscope probe {probe}", f"stepscope record {path}", "continue"
    )
    found = steps(path)
    assert [s["attn_ms"] for s in found[:5]] == [0.25, 0.25, 0.5, 0.75, 1.0]


def test_no_packet_a_hit(loop: Path) -> None:
    sent = []
    for n in ("20", "220"):
        with gdbserver(loop, [n]) as place:
            done = gdb(
                ["set sysroot /", f"target remote {place}", "stepscope backend tracepoint",
                 f"stepscope probe {BENCH / 'loop28.ini'}", "set debug remote 1", "continue"], loop,
            )  # fmt: skip
        sent.append((done.stdout + done.stderr).count("Sending packet: $vCont"))
    assert sent[0] == sent[1]


def test_a_full_buffer_is_a_gap(tmp_path: Path, loop: Path) -> None:
    path = tmp_path / "run.steps"
    out = through_gdbserver(
        loop, ["9000"], "stepscope backend tracepoint 1", f"stepscope probe {BENCH / 'loop28.ini'}",
        f"stepscope record {path}", "continue",
    )  # fmt: skip
    assert "the trace buffer was full; stepscope backend tracepoint MB takes a larger one" in out
    found = steps(path)
    assert [s["seq_before"] for s in found[:3]] == [0, 25, 26]
    assert 3000 < len(found) < 8999
    assert found[-1]["seq_len"] == 25 + 8998
    assert gaps(path) == ["the trace buffer of 1 MB was full: what came behind is missing"]
    assert check_table(Table(path)).verdict == "pass"


def test_a_circular_buffer_keeps_the_newest(tmp_path: Path, loop: Path) -> None:
    path = tmp_path / "run.steps"
    out = through_gdbserver(
        loop, ["9000"], "stepscope backend tracepoint 1 circular", f"stepscope probe {BENCH / 'loop28.ini'}",
        f"stepscope record {path}", "continue",
    )  # fmt: skip
    assert "1 MB, circular" in out
    found = steps(path)
    assert [s["seq_before"] for s in found[-3:]] == [9021, 9022, 9023]
    assert len(found) > 3000
    told = gaps(path)
    assert re.match(r"\d+ older steps were overwritten", told[0])
    assert check_table(Table(path)).verdict == "pass"


def test_without_a_finish_hook_the_buffer_is_read_before_the_exit(tmp_path: Path, loop: Path) -> None:
    probe, path = tmp_path / "short.ini", tmp_path / "run.steps"
    probe.write_text((BENCH / "loop28.ini").read_text().partition("[finish]")[0])
    through_gdbserver(
        loop, ["30"], "stepscope backend tracepoint", f"stepscope probe {probe}", f"stepscope record {path}", "continue"
    )
    assert [s["token_id"] for s in steps(path)] == [None, *range(1, 29)]


def test_status_and_off_read_the_buffer(tmp_path: Path, loop: Path) -> None:
    path = tmp_path / "run.steps"
    out = through_gdbserver(
        loop, ["30"], "stepscope backend tracepoint", f"stepscope probe {BENCH / 'loop28.ini'}",
        f"stepscope record {path}", "tbreak forward if n == 1 && tokens[0] == 10", "continue", "stepscope status",
        "tbreak forward if tokens[0] == 20", "continue", "stepscope off", "continue",
    )  # fmt: skip
    status = re.search(r"probe loop28, (\d+) steps", out)
    assert status is not None
    assert int(status.group(1)) in (9, 10)
    assert len(steps(path)) in (20, 21)
    assert "exited normally" in out


def test_break_on_brings_the_stops_back(tmp_path: Path, loop: Path) -> None:
    path = tmp_path / "run.steps"
    out = through_gdbserver(
        loop, ["30"], "stepscope backend auto", f"stepscope probe {BENCH / 'loop28.ini'}", f"stepscope record {path}",
        "tbreak forward if tokens[0] == 10 && n == 1", "continue", "stepscope break-on any", "continue",
    )  # fmt: skip
    assert "is collected by tracepoint" in out
    assert "back to stops: break-on stops at the very step" in out
    found = steps(path)
    assert [s["seq_len"] for s in found] == [*range(25, 54), 53]


def test_auto_says_why_it_stops(tmp_path: Path, loop: Path) -> None:
    local = gdb(["stepscope backend auto", f"stepscope probe {BENCH / 'loop28.ini'}",
                 f"stepscope record {tmp_path / 'a.steps'}", "run"], loop, ["20"])  # fmt: skip
    assert "stepscope: backend stop: the target does not know tracepoints" in local.stdout
    out = through_gdbserver(
        loop, ["20"], "stepscope backend auto", f"stepscope probe {BENCH / 'loop28.ini'}", "continue"
    )
    assert "stepscope: backend stop: nothing is recorded" in out


@pytest.mark.parametrize(
    "words",
    ["fast", "tracepoint 0", "tracepoint 9999", "tracepoint round", "tracepoint 1 2", "tracepoint circular 1 1"],
)
def test_what_is_no_backend(words: str) -> None:
    done = gdb([f"stepscope backend {words}", "stepscope backend"])
    assert "backend stop" in done.stdout
    assert "stepscope backend auto|stop|tracepoint" in done.stderr or "MB" in done.stderr


CPP = """
#include <vector>
struct Batch { int n; const int *tokens; };
struct Engine {
    int seq_len = 0;
    std::vector<int> rows = std::vector<int>(3);
    __attribute__((noipa)) void forward(const Batch &batch, Batch copy) {
        for (int &row : rows) row += batch.n;
        seq_len += copy.n;
    }
};
int main() {
    Engine engine;
    int tokens[5] = {7, 8, 9, 10, 11};
    engine.forward({3, tokens}, {3, tokens});
    for (int i = 0; i < 4; i++) engine.forward({1, tokens + i}, {1, tokens + i});
}
"""
PROGRAMS = Path(__file__).parent / "programs"
CPP_PROBE = """
[probe]
name = cpp
layers = full
n_layers = 3
[forward]
function = Engine::forward
token_id = TOKEN
n_tokens = COUNT
seq_before = this->seq_len
cache_before = this->rows._M_impl._M_start[:this->rows._M_impl._M_finish - this->rows._M_impl._M_start]
"""


@pytest.mark.parametrize(
    ("optimised", "argument", "refused"),
    [
        ("-O0", "copy", ""),
        ("-O2 -fno-inline", "batch", ""),
        ("-O2", "batch", "Engine::forward begins with a function that was inlined"),
        ("-O0", "batch", "batch is a reference that lies in memory"),
    ],
)
def test_references_structs_by_value_and_this(tmp_path: Path, optimised: str, argument: str, refused: str) -> None:
    """Optimised, another function is inlined where the hook begins, and has its own `this`."""
    source, probe = tmp_path / "engine.cpp", tmp_path / "cpp.ini"
    source.write_text(CPP)
    probe.write_text(CPP_PROBE.replace("TOKEN", f"{argument}.tokens[0]").replace("COUNT", f"{argument}.n"))
    program = compiled(tmp_path, source, "-g", *optimised.split())
    found = {}
    for backend in ("stop", "tracepoint"):
        path = tmp_path / f"{backend}.steps"
        out = through_gdbserver(
            program, [],
            f"stepscope backend {backend}", f"stepscope probe {probe}", f"stepscope record {path}", "continue",
        )  # fmt: skip
        assert ("is collected by" in out) is (backend == "tracepoint" and not refused), out
        assert not refused or backend == "stop" or f"backend stop: {refused}" in out
        found[backend] = without_clock(path)
    assert found["stop"] == found["tracepoint"]
    assert [s["token_id"] for s in found["stop"]] == [None, 7, 8, 9, 10]
    assert [s["cache_before"] for s in found["stop"]] == [[n] * 3 for n in (0, 3, 4, 5, 6)]


def test_a_struct_in_registers_is_left_to_stops_and_the_run_goes_on(tmp_path: Path) -> None:
    """No target can collect it; and a command of gdb's that fails inside a hit would end `continue` early."""
    program = compiled(tmp_path, PROGRAMS / "containers.cpp", "-g", "-O2", "-std=c++20", "-DTOKENS_IN_A_SPAN")
    probe, path = tmp_path / "span.ini", tmp_path / "run.steps"
    probe.write_text(
        "[probe]\nname = span\n[forward]\nfunction = Engine::forward\n"
        "n_tokens = tokens._M_extent._M_extent_value\nseq_before = this->n_past\n"
    )
    out = through_gdbserver(
        program, [], "stepscope backend tracepoint", f"stepscope probe {probe}", f"stepscope record {path}", "continue"
    )
    assert "backend stop: tokens lies in registers" in out
    assert [(s["n_tokens"], s["seq_before"]) for s in steps(path)] == [(3, 0), (1, 3), (1, 4), (1, 5), (1, 6)]


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("apart_O0.s", "backend stop: n lies at the frame's base, where gdb misreads it"),
        ("apart_O2.s", "backend stop: state lies in registers"),
    ],
)
def test_what_clang_keeps_elsewhere_is_left_to_stops(tmp_path: Path, source: str, refused: str) -> None:
    """gdb 13 makes a tracepoint collect the frame's base in place of what lies at a distance from it."""
    program, probe, path = compiled(tmp_path, PROGRAMS / source, "-g"), tmp_path / "p.ini", tmp_path / "run.steps"
    probe.write_text(
        "[probe]\nname = apart\n[forward]\nfunction = forward\ntoken_id = token\nn_tokens = n\n"
        "seq_before = state.len\ncache_before = state.rows[:3]\n"
    )
    out = through_gdbserver(
        program, [], "stepscope backend tracepoint", f"stepscope probe {probe}", f"stepscope record {path}", "continue"
    )
    assert refused in out
    # by hand: (11 + 3) % 50 = 14, then (14 + 4) % 50 = 18
    names = ("token_id", "n_tokens", "seq_before", "cache_before")
    rows = [(None, 3, 0, [0] * 3), (14, 1, 3, [3] * 3), (18, 1, 4, [4] * 3)]
    assert [tuple(step[name] for name in names) for step in steps(path)[1:]] == rows[1:]
    assert steps(path)[0]["cache_before"] == [0] * 3


def test_rust_is_left_to_stops(tmp_path: Path) -> None:
    """A tracepoint is told in C; a command that gdb does not understand inside a hit would end `continue` early."""
    program, probe, path = (
        compiled(tmp_path, PROGRAMS / "slices.s", "-g"),
        tmp_path / "p.ini",
        tmp_path / "a.steps",
    )
    probe.write_text("[probe]\n[forward]\nfunction = slices::Engine::forward\nseq_before = self->n_past\n")
    out = through_gdbserver(
        program, [], "stepscope backend tracepoint", f"stepscope probe {probe}", f"stepscope record {path}", "continue"
    )
    assert "backend stop: tracepoints are told in C, which gdb does not read in slices::Engine::forward" in out
    assert [step["seq_before"] for step in steps(path)] == [0, 3, 4, 5, 6]
