"""What a step costs under gdb: stops, gdbserver, qemu's stub, tracepoints, and reading what they collected.

`python -m tests.bench.bench_gdb` prints one line a figure. The program is loop28.c, 28 layers and no model, so that
a step is nothing but its hook; it writes down the time from one step to the next. gdb, the server and the program are
pinned to one core: unpinned, the scheduler is measured. Medians; runs with an empty breakpoint, which stops, calls
Python and goes on, alternate with the others, so that a drift of the machine meets both.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.figures import tell
from tests.gdb_scripts.serving import SYSROOT, gdbserver, qemu
from tests.programs import need

ROOT = Path(__file__).parents[2]
PINNED = ("taskset", "-c", "0")
SCRIPTS = ROOT / "gdb_scripts" / "stepscope.py"
HERE = Path(__file__).parent
PROBE = HERE / "loop28.ini"
EMPTY = """
import gdb
class Empty(gdb.Breakpoint):
    def stop(self):
        return False
Empty("forward", internal=True)
"""
ROUNDS = 3


def main() -> None:
    """Print every figure."""
    need("gdb", "gdbserver", "gdb-multiarch", "qemu-aarch64", "gcc", "aarch64-linux-gnu-gcc")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "empty.py").write_text(EMPTY)
        for compiler, program in (("gcc", "loop28"), ("aarch64-linux-gnu-gcc", "loop28-arm")):
            subprocess.run([compiler, "-O2", "-g", HERE / "loop28.c", "-o", folder / program], check=True)
        local(folder)
        remote_packets(folder)
        tracepoints(folder)


def debug(commands: Sequence[str], words: Sequence[object], debugger: str = "gdb") -> str:
    """One pinned batch run: its output."""
    command = [
        *PINNED,
        debugger,
        "-batch",
        "-nx",
        *(w for c in commands for w in ("-ex", c)),
        "--args",
        *map(str, words),
    ]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=True)
    return done.stdout + done.stderr


def ours(folder: Path, backend: str = "stop") -> list[str]:
    """Rules on, and recording."""
    return [
        f"source {SCRIPTS}", f"stepscope backend {backend}", f"stepscope probe {PROBE}",
        f"stepscope record {folder / 'run.steps'}",
    ]  # fmt: skip


def times_of(folder: Path) -> list[float]:
    """Microseconds from each step to the next, as the program saw them."""
    return [float(line) for line in (folder / "times").read_text().split()]


def local(folder: Path) -> None:
    """A hit of the stop back-end over a hit of an empty breakpoint, and whether it grows."""
    steps, empty_us, ours_us, flat = 20000, [], [], []
    for _ in range(ROUNDS):
        words = [folder / "loop28", steps, folder / "times"]
        debug([f"source {folder / 'empty.py'}", "run"], words)
        empty_us.append(statistics.median(times_of(folder)))
        debug([*ours(folder), "run"], words)
        seen = times_of(folder)
        ours_us.append(statistics.median(seen))
        flat.append(statistics.median(seen[-2000:]) / statistics.median(seen[:2000]))
    ratio = statistics.median(o / e for o, e in zip(ours_us, empty_us, strict=True))
    what = f"stop, local, 28 layers, rules on: us a hit / an empty breakpoint's {statistics.median(empty_us):.0f} us"
    tell(what, f"{statistics.median(ours_us):.0f} us {ratio:.2f}", "<= 1.5")
    tell(f"stop, local: the last 2000 of {steps} hits over the first 2000", f"{statistics.median(flat):.2f}", "1")


def remote_packets(folder: Path) -> None:
    """Packets a hit, and how many more than an empty breakpoint's."""
    empty_py = [f"source {folder / 'empty.py'}"]
    empty, stop = (packets(gdbserver, folder / "loop28", way, "gdb", "/") for way in (empty_py, ours(folder)))
    what = "stop, gdbserver: packets a hit, more than an empty breakpoint's %.1f"
    tell(what % empty, f"{stop:.1f} {stop - empty:+.1f}", "<= +4")
    traced = packets(gdbserver, folder / "loop28", ours(folder, "tracepoint"), "gdb", "/")
    tell("tracepoint, gdbserver: packets a hit", f"{traced:.2f}", "0")
    arm = folder / "loop28-arm"
    empty, stop = (packets(qemu, arm, way, "gdb-multiarch", SYSROOT) for way in (empty_py, ours(folder)))
    what = "stop, qemu-aarch64: packets a hit, more than an empty breakpoint's %.1f"
    tell(what % empty, f"{stop:.1f} {stop - empty:+.1f}", "<= +4")


def packets(serve: Any, program: Path, commands: list[str], debugger: str, root: str) -> float:
    """Packets a hit: two runs of different length."""
    sent = []
    for steps in (50, 250):
        with serve(program, [str(steps)]) as place:
            start = [f"set sysroot {root}", f"target remote {place}"]
            out = debug([*start, *commands, "set debug remote 1", "continue"], [program], debugger)
        sent.append(out.count("Sending packet: "))
    return (sent[1] - sent[0]) / 200


def tracepoints(folder: Path) -> None:
    """A hit against the stop back-end's through the same gdbserver, and how fast the saved buffer becomes steps."""
    steps = 6000
    us: dict[str, list[float]] = {"empty": [], "stop": [], "tracepoint": []}
    for _ in range(ROUNDS):
        for way, seen in us.items():
            commands = [f"source {folder / 'empty.py'}"] if way == "empty" else ours(folder, way)
            with gdbserver(folder / "loop28", [str(steps), str(folder / "times")], PINNED) as place:
                debug(["set sysroot /", f"target remote {place}", *commands, "continue"], [folder / "loop28"])
            seen.append(statistics.median(times_of(folder)))
    empty, stop, traced = (statistics.median(seen) for seen in us.values())
    tell(f"stop, gdbserver: us a hit / an empty breakpoint's {empty:.0f} us", f"{stop:.0f} us {stop / empty:.2f}")
    ratio = statistics.median(s / t for s, t in zip(us["stop"], us["tracepoint"], strict=True))
    tell("tracepoint, gdbserver: us a hit, stop over it", f"{traced:.0f} us {ratio:.1f}", ">= 5")
    reading(folder)


def reading(folder: Path) -> None:
    """A saved buffer of 20000 steps: parsed, decoded, judged and written as a trace, inside gdb."""
    clock = folder / "clock.py"
    clock.write_text(
        "import time\n"
        "from gdb_scripts.backends import tracepoint\n"
        "take = tracepoint.TracepointBackend._take\n"
        "def timed(self, file):\n"
        "    began = time.perf_counter()\n"
        "    take(self, file)\n"
        "    print('took', time.perf_counter() - began, self.frames)\n"
        "tracepoint.TracepointBackend._take = timed\n"
    )
    rates = []
    for _ in range(ROUNDS):
        with gdbserver(folder / "loop28", ["20000"], PINNED) as place:
            load, *more = ours(folder, "tracepoint")
            start = ["set sysroot /", f"target remote {place}", load, f"source {clock}"]
            out = debug([*start, *more, "continue"], [folder / "loop28"])
        took = re.search(r"took ([\d.]+) (\d+)", out)
        assert took is not None, out
        rates.append(int(took.group(2)) / float(took.group(1)))
    what = "tracepoint: the saved buffer read, decoded, judged and written, steps/s"
    tell(what, f"{statistics.median(rates):,.0f}", ">= 20,000")


if __name__ == "__main__":
    main()
