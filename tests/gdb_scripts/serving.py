"""Programs behind a remote protocol: gdbserver, and qemu's own stub for another machine's programs."""

from __future__ import annotations

import contextlib
import fcntl
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.engine.native.conftest import NATIVE
from tests.programs import need

BENCH = Path(__file__).parents[1] / "bench"
SYSROOT = "/usr/aarch64-linux-gnu"


@cache
def built_aarch64(name: str, fault: str = "") -> Path:
    """The C engine for aarch64, made where it is not there or older than its sources."""
    need("aarch64-linux-gnu-gcc")
    target = Path("build") / "aarch64" / fault / f"engine-{name}"
    (NATIVE / "build").mkdir(exist_ok=True)
    with open(NATIVE / "build" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["make", "-s", "CC=aarch64-linux-gnu-gcc", f"BUILD={target.parent}", str(target)]
        command += [f"FAULT={fault}"] if fault else []
        done = subprocess.run(command, cwd=NATIVE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return NATIVE / target


@contextlib.contextmanager
def gdbserver(program: Path, arguments: Sequence[str] = (), before: Sequence[str] = ()) -> Iterator[str]:
    """A server that runs it once; what `target remote` takes. before: words such as taskset's."""
    need("gdbserver")
    process = subprocess.Popen(
        [*before, "gdbserver", "--once", "localhost:0", str(program), *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        told = ""
        while not (found := re.search(r"Listening on port (\d+)", told)):
            line = process.stderr.readline()
            assert line, f"gdbserver ended: {told}"
            told += line
        yield f"localhost:{found.group(1)}"
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@contextlib.contextmanager
def qemu(program: Path, arguments: Sequence[str] = ()) -> Iterator[str]:
    """qemu's stub with an aarch64 program."""
    need("qemu-aarch64")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = ["qemu-aarch64", "-L", SYSROOT, "-g", str(port), str(program), *arguments]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until_listening(process, port)
        yield f"localhost:{port}"
    finally:
        process.kill()
        process.wait()


def _wait_until_listening(process: subprocess.Popen[bytes], port: int) -> None:
    """The stub takes one connection only, so the kernel is asked whether it listens."""
    for _ in range(200):
        assert process.poll() is None, "qemu ended"
        with open("/proc/net/tcp") as table:
            if any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in list(table)[1:]):
                return
        with contextlib.suppress(FileNotFoundError), open("/proc/net/tcp6") as table:
            if any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in list(table)[1:]):
                return
        time.sleep(0.05)
    raise AssertionError("qemu does not listen")
