"""What traces cost: writing a step, opening, showing and checking 1,000,000 steps x 28 layers, and `kill -9`.

`python -m tests.bench.bench_traces` prints one line a figure, medians of several runs. The large traces are made once
in a temporary folder (about 1.2 GB) and removed.
"""

from __future__ import annotations

import fcntl
import os
import pty
import random
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.figures import tell
from tests.bench.processes import measured
from traces import frames
from traces.fields import ABSENT_I64, REQUIRED, declaration
from traces.table import Table
from traces.writer import TraceWriter

LAYERS = 28
STEPS = 1_000_000
PER_LAYER = ("cache_len", "gemm_ms", "attn_ms", "hidden_rms")
NAMES = (
    *REQUIRED,
    *"t_ns total_ms forward_ms sample_ms gemm_ms attn_ms qkv_ms o_ms gate_up_ms down_ms lm_head_ms write_pos".split(),
    *"logit margin runner_up hidden_rms text".split(),
)
RUN: dict[str, Any] = {
    "model": {"name": "bench", "n_layers": LAYERS, "vocab_size": 151936},
    "layers": [{"kind": "full"}] * LAYERS,
    "kv": {"capacity": 10**8},
    "stop": {"eos": [2], "max_new_tokens": 10**8},
    "clock": "monotonic",
    "fields": declaration(NAMES, dict.fromkeys(PER_LAYER, LAYERS)),
}


def main() -> None:
    """Print every figure."""
    with tempfile.TemporaryDirectory() as folder:
        writing(Path(folder))
        killing(Path(folder))
        for per_frame in (1, 4096):
            path = Path(folder) / f"million-{per_frame}.steps"
            make_trace(path, STEPS, per_frame)
            reading(path, per_frame)
            path.unlink()
    help_time()


def median_seconds(action: Callable[[], object], runs: int = 5) -> float:
    """Wall seconds of `action`, the median of several runs after one that warms up."""
    action()
    taken = []
    for _ in range(runs):
        began = time.perf_counter()
        action()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def writing(folder: Path) -> None:
    """Microseconds a step for the writer, by flush policy; the same record packed by hand beside it."""
    layer = [1.5] * LAYERS
    cache = [7] * LAYERS
    values: dict[str, Any] = dict.fromkeys(NAMES, 1)
    values.update(gemm_ms=layer, attn_ms=layer, hidden_rms=layer, cache_len=cache, text=b" token", phase=2, finish=0)

    def write(flush: str) -> Callable[[], None]:
        def steps() -> None:
            with TraceWriter(folder / "w.steps", RUN, flush=flush) as writer:
                for _ in range(20_000):
                    writer.step(**values)

        return steps

    for flush in ("step", "interval"):
        each = median_seconds(write(flush)) / 20_000 * 1e6
        tell(f"writer, {LAYERS} layers, flush={flush}: us a step", f"{each:.1f}", "<= 10")


def make_trace(path: Path, steps: int, per_frame: int) -> None:
    """A healthy trace of one long sequence, written at disk speed."""
    with TraceWriter(path, RUN) as writer:
        writer.note("request", seq_id=0, prompt_tokens=25, n_reused=0, t_ns=0)
        dtype = Table(path).runs[0].dtype
        for begin in range(0, steps, 65536):
            n = min(65536, steps - begin)
            rows = np.zeros(n, dtype)
            length = 25 + begin + np.arange(n)
            rows["phase"], rows["token_id"], rows["n_tokens"] = 2, 5, 1
            rows["seq_len"], rows["seq_before"] = length, length - 1
            rows["cache_len"], rows["t_ns"] = length[:, None], (begin + np.arange(n)) * 1000
            rows["gemm_ms"] = rows["attn_ms"] = 0.01
            rows["forward_ms"], rows["total_ms"], rows["sample_ms"], rows["text"] = 1.0, 1.1, 0.05, b" token"
            if not begin:
                rows[0] = np.zeros(1, dtype)[0]
                rows["phase"][0], rows["n_tokens"][0], rows["seq_len"][0] = 1, 25, 25
                rows["token_id"][0], rows["cache_len"][0] = ABSENT_I64, 25
            rows["write_pos"] = rows["seq_before"]
            data, size = rows.tobytes(), dtype.itemsize
            with open(path, "ab") as file:
                for i in range(0, n, per_frame):
                    m = min(per_frame, n - i)
                    file.write(frames.pack(frames.STEPS, m, data[i * size : (i + m) * size]))
        os.lseek(writer._fd, 0, os.SEEK_END)
        writer.steps = steps


def stepscope(*words: str) -> Callable[[], None]:
    """A whole `stepscope` process, its output thrown away."""

    def run() -> None:
        command = [sys.executable, "-m", "inspector.cli", *words]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

    return run


def reading(path: Path, per_frame: int) -> None:
    """First screen, check and memory of whole processes on a large trace."""
    name = f"1e6 x {LAYERS}, {per_frame} steps a frame"
    first = median_seconds(stepscope("show", str(path), "--steps", "0:40"))
    tell(f"{name}: show --steps 0:40, s", f"{first:.2f}", "<= 0.5")
    last = median_seconds(stepscope("show", str(path), "--steps", "-40:"))
    tell(f"{name}: show --steps -40:, s", f"{last:.2f}", "<= 0.5")
    tell(f"{name}: check, s", f"{median_seconds(stepscope('check', str(path)), 3):.2f}", "<= 3")
    tell(f"{name}: view, first screen, s", f"{first_paint(path):.2f}", "<= 0.5")
    for verb in ("show --steps 0:40", "check", "stats"):
        first, *more = verb.split()
        tell(f"{name}: {verb}, peak memory, MB", f"{measured(first, path, *more).memory:.0f}", "<= 300")


def first_paint(path: Path) -> float:
    """Seconds from starting `stepscope view` on an 80 x 24 terminal to the output that draws step 0."""
    return statistics.median(_one_paint(path) for _ in range(7))


def _one_paint(path: Path) -> float:
    began = time.perf_counter()
    pid, terminal = pty.fork()
    if not pid:
        os.environ["TERM"] = "xterm-256color"
        os.execv(sys.executable, [sys.executable, "-m", "inspector.cli", "view", str(path)])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    drawn = b""
    while b"prefill" not in drawn and time.perf_counter() - began < 20:
        if select.select([terminal], [], [], 0.2)[0]:
            drawn += os.read(terminal, 65536)
    taken = time.perf_counter() - began
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(terminal)
    return taken


KILLED = """
import sys
from traces.writer import TraceWriter
from tests.bench.bench_traces import RUN, PER_LAYER
writer = TraceWriter(sys.argv[1], RUN, flush=sys.argv[2])
layers = {name: [1] * 28 for name in PER_LAYER}
for i in range(10**9):
    writer.step(phase=2, seq_id=0, token_id=i, n_tokens=1, seq_before=i, seq_len=i + 1, finish=0, t_ns=writer.now_ns(),
                **layers)
    if i % 50 == 0:
        sys.stdout.write(f"{i} {writer.now_ns()}\\n"); sys.stdout.flush()
"""


def killing(folder: Path) -> None:
    """kill -9 at 100 random moments: how many files were whole, and how much was lost at most."""
    chance = random.Random(9)
    whole, worst_ms, lost_steps = 0, 0.0, 0
    for n in range(100):
        path = folder / f"killed{n}.steps"
        flush = ("step", "interval")[n % 2]
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(path), flush], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        said = [line.split() for line in process.stdout.read().split("\n")[:-1]]
        process.wait()
        table = Table(path)
        rows = [r for r in table.records(0, table.steps) if r is not None]
        whole += [r["seq_len"] for r in rows] == list(range(1, table.steps + 1)) and not table.complete
        if said and rows:
            last, at_ns = map(int, said[-1])
            if flush == "step":
                lost_steps = max(lost_steps, last + 1 - table.steps)
            else:
                worst_ms = max(worst_ms, (at_ns - rows[-1]["t_ns"]) / 1e6)
        path.unlink()
    tell("kill -9 at 100 random moments: files whole and said to be cut off", str(whole), "100")
    tell("  flush=step: steps known to be over and not in the file, at most", str(max(lost_steps, 0)), "0")
    tell("  flush=interval (50 ms): ms lost at most", f"{worst_ms:.0f}", "about 50")


def help_time() -> None:
    """`stepscope --help` as a whole process."""
    tell("stepscope --help, s", f"{median_seconds(stepscope('--help'), 9):.3f}", "<= 0.2")


if __name__ == "__main__":
    main()
