"""Through gdbserver, and on another machine's processor: the same trace as the numpy engine's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine.native.conftest import built
from tests.gdb_scripts.running import gdb, letters, recorded
from tests.gdb_scripts.serving import SYSROOT, built_aarch64, gdbserver, qemu
from tests.programs import need
from traces.columnar import check_table
from traces.table import Table


@pytest.mark.parametrize("backend", ["stop", "tracepoint", "auto"])
@pytest.mark.parametrize("build", ["O0", "O2"])
def test_gdbserver(tmp_path: Path, build: str, backend: str, reference: list[dict[str, Any]]) -> None:
    path = tmp_path / "remote.steps"
    with gdbserver(built(build), letters()) as place:
        done = gdb(
            ["set sysroot /", f"target remote {place}", f"stepscope backend {backend}", "stepscope probe native",
             f"stepscope record {path}", "continue"], built(build),
        )  # fmt: skip
    assert "exited normally" in done.stdout, done.stdout + done.stderr
    assert ("is collected by tracepoint" in done.stdout) is (backend != "stop")
    assert recorded(path) == reference
    assert check_table(Table(path)).verdict == "pass"


@pytest.mark.parametrize("build", ["O0", "O2"])
def test_aarch64_through_qemus_stub(tmp_path: Path, build: str, reference: list[dict[str, Any]]) -> None:
    need("gdb-multiarch")
    path, program = tmp_path / "arm.steps", built_aarch64(build)
    with qemu(program, letters()) as place:
        done = gdb(
            [f"set sysroot {SYSROOT}", f"target remote {place}", "stepscope backend auto", "stepscope probe native",
             f"stepscope record {path}", "continue"], program, debugger="gdb-multiarch",
        )  # fmt: skip
    assert "exited normally" in done.stdout, done.stdout + done.stderr
    assert "backend stop: the target does not know tracepoints" in done.stdout
    assert recorded(path) == reference
    report = check_table(Table(path))
    assert report.verdict == "pass"
    assert report.results["KV11"].passed


@pytest.mark.parametrize("machine", ["x86-64", "aarch64"])
def test_break_on_any_stops_a_remote_program(machine: str) -> None:
    fault = "skip_increment"
    if machine == "aarch64":
        need("gdb-multiarch")
        server, program, debugger, root = qemu, built_aarch64("O2", fault), "gdb-multiarch", SYSROOT
    else:
        server, program, debugger, root = gdbserver, built("O2", fault), "gdb", "/"
    with server(program, letters()) as place:
        done = gdb(
            [f"set sysroot {root}", f"target remote {place}", "stepscope backend auto", "stepscope probe native",
             "stepscope break-on any", "continue", "stepscope status"], program, debugger=debugger,
        )  # fmt: skip
    assert "backend stop: break-on stops at the very step" in done.stdout, done.stdout
    assert "stepscope: KV02 step 3" in done.stdout, done.stdout
    assert "exited" not in done.stdout


def test_a_server_that_dies_leaves_a_whole_trace(tmp_path: Path) -> None:
    path = tmp_path / "died.steps"
    with gdbserver(built("O2"), letters()) as place:
        done = gdb(
            ["set sysroot /", f"target remote {place}", "stepscope probe native", f"stepscope record {path}",
             "break finish_request", "continue", "kill", "stepscope status"], built("O2"),
        )  # fmt: skip
    assert "7 steps" in done.stdout or "8 steps" in done.stdout, done.stdout
    table = Table(path)
    assert table.complete
    assert not table.damage
    assert check_table(table).verdict == "pass"
