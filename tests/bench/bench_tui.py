"""What the terminal view costs: first paint, jumps, keys and memory on 10,000,000 steps x 28 layers, and a live trace,
also for a day.

`python -m tests.bench.bench_tui` prints one line a figure; `scale`, `live` or `day` behind it: only those. It drives
the real program on a pseudo-terminal of 120 x 40 and reads what it draws; the day alone passes by a clock that is set,
in this process. The large traces, of the required fields, t_ns, total_ms, gemm_ms, attn_ms and text, are made in a
temporary folder (4.2 GB at a time) and removed.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import random
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.figures import tell
from traces import frames
from traces.fields import ABSENT_I64, REQUIRED, declaration
from traces.table import Table
from traces.writer import TraceWriter

ROOT = Path(__file__).parents[2]

LAYERS = 28
STEPS = 10_000_000
NOTE_EVERY = 1000
BLOCK = 50_000
ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")


def facts(layers: int) -> dict[str, Any]:
    """A run of `layers` full layers that records rows, times and text."""
    names = (*REQUIRED, "t_ns", "total_ms", "gemm_ms", "attn_ms", "text")
    return {
        "model": {"name": "bench", "n_layers": layers, "vocab_size": 151936},
        "layers": [{"kind": "full"}] * layers,
        "kv": {"capacity": 10**8},
        "stop": {"eos": [2], "max_new_tokens": 10**8},
        "clock": "monotonic",
        "fields": declaration(names, dict.fromkeys(("cache_len", "gemm_ms", "attn_ms"), layers)),
    }


def records(dtype: np.dtype[Any], begin: int, n: int) -> Any:
    """Steps [begin, begin + n) of one long healthy sequence whose step 0 is a prefill of 25 tokens."""
    rows = np.zeros(n, dtype)
    length = 25 + begin + np.arange(n)
    rows["phase"], rows["token_id"], rows["n_tokens"] = 2, 5, 1
    rows["seq_len"], rows["seq_before"] = length, length - 1
    rows["cache_len"], rows["t_ns"] = length[:, None], (begin + np.arange(n)) * 1_100_000
    rows["gemm_ms"] = rows["attn_ms"] = 0.01
    rows["total_ms"], rows["text"] = 1.1, b" token"
    if not begin:
        rows["phase"][0], rows["n_tokens"][0], rows["seq_before"][0], rows["token_id"][0] = 1, 25, 0, ABSENT_I64
    return rows


def single_frames(rows: Any) -> bytes:
    """Each record in a frame of its own, packed without a call a field."""
    size = rows.dtype.itemsize
    length = size + (-size % 8)
    head = frames.HEADER.pack(frames.MAGIC, frames.STEPS, 1, length, 0)
    packed = np.zeros((len(rows), frames.HEADER_SIZE + length), np.uint8)
    packed[:, : len(head)] = np.frombuffer(head, np.uint8)
    packed[:, len(head) : len(head) + size] = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), size)
    covered = zlib.crc32(head[4:12])
    crcs = np.array([zlib.crc32(payload, covered) for payload in packed[:, len(head) :]], "<u4")
    packed[:, 12:16] = crcs.view(np.uint8).reshape(-1, 4)
    return packed.tobytes()


def many_frames(rows: Any, per_frame: int) -> bytes:
    """Records in frames of `per_frame`."""
    return b"".join(
        frames.pack(frames.STEPS, len(part), part.tobytes())
        for part in (rows[i : i + per_frame] for i in range(0, len(rows), per_frame))
    )


def make_trace(path: Path, steps: int, one_a_frame: bool) -> None:
    """A whole trace: frames of 4096 steps, or frames of one step with a note every NOTE_EVERY."""
    TraceWriter(path, facts(LAYERS)).leave_unfinished()
    dtype = Table(path).runs[0].dtype
    with open(path, "ab") as file:
        request = {"kind": "request", "seq_id": 0, "prompt_tokens": 25, "n_reused": 0, "t_ns": 0}
        file.write(frames.pack_json(frames.NOTE, request))
        for begin in range(0, steps, BLOCK):
            rows = records(dtype, begin, min(BLOCK, steps - begin))
            if not one_a_frame:
                file.write(many_frames(rows, 4096))
                continue
            for i in range(0, len(rows), NOTE_EVERY):
                file.write(single_frames(rows[i : i + NOTE_EVERY]))
                file.write(frames.pack_json(frames.NOTE, {"kind": "message", "text": f"note at {begin + i}"}))
        file.write(frames.pack_json(frames.END, {"steps": steps}))


def resident_mb(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class Screen:
    """`stepscope view` on a pseudo-terminal of 120 x 40: keys go in, what it draws comes out."""

    def __init__(self, *words: str) -> None:
        self.began = time.perf_counter()
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            os.environ["TERM"] = "xterm-256color"
            os.execv(sys.executable, [sys.executable, "-m", "inspector.cli", "view", *words])
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.drawn = b""

    def seconds_until(self, words: str, timeout: float = 120.0) -> float:
        """Seconds from now until something drawn since the last press() holds `words`."""
        began = time.perf_counter()
        while words.encode() not in ESCAPES.sub(b"", self.drawn):
            if time.perf_counter() - began > timeout:
                raise SystemExit(f"bench_tui: the view never drew {words!r}; last: {self.drawn[-2000:]!r}")
            self._take(0.5)
        return time.perf_counter() - began

    def _take(self, seconds: float) -> bool:
        if not select.select([self._terminal], [], [], seconds)[0]:
            return False
        self.drawn += os.read(self._terminal, 1 << 16)
        return True

    def rest(self, seconds: float) -> None:
        """Let it draw for a while."""
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            self._take(0.02)

    def press(self, keys: str) -> None:
        """Keys as the terminal sends them; what was drawn before is forgotten."""
        self.rest(0.02)
        self.drawn = b""
        os.write(self._terminal, keys.encode())

    def key(self, keys: str, shows: str) -> float:
        """Milliseconds from a key to the picture that shows its effect."""
        self.press(keys)
        return self.seconds_until(shows) * 1e3

    def jump(self, step: int) -> float:
        """Milliseconds from the end of `:STEP` to the picture of that step."""
        self.press(f":{step}")
        self.seconds_until(str(step))
        return self.key("\r", f"{step} decode")

    def memory_mb(self) -> float:
        """Resident memory now."""
        return resident_mb(self.pid)

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        words = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End it."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)


# -- ten million steps -----------------------------------------------------------------------------------------------


def scale(folder: Path) -> None:
    """First paint, keys, jumps and memory on a trace of STEPS steps, in two framings."""
    small = folder / "small.steps"
    make_trace(small, 50, one_a_frame=True)
    base = Screen(str(small))
    base.seconds_until("50 steps judged")
    base.rest(1.0)
    at_rest = base.memory_mb()
    base.close()
    for name, one_a_frame in (("4096 steps a frame", False), (f"1 step a frame, a note every {NOTE_EVERY}", True)):
        path = folder / "large.steps"
        make_trace(path, STEPS, one_a_frame)
        large(f"1e7 x {LAYERS}, {name}", path, at_rest)
        path.unlink()


def large(name: str, path: Path, at_rest: float) -> None:
    """The figures of one trace."""
    painted = []
    for _ in range(7):
        screen = Screen(str(path))
        screen.seconds_until("prefill")
        painted.append(time.perf_counter() - screen.began)
        screen.close()
    tell(f"{name}: first paint, s", f"{statistics.median(painted):.2f}", "<= 0.5")
    screen = Screen(str(path))
    screen.seconds_until("prefill")
    # the file is read and the rules judge meanwhile
    busy = [screen.key("j", f"{i} decode") for i in range(1, 101)]
    tell(f"{name}: key to paint while it is read, p95, ms", f"{p95(busy):.0f}", "<= 50")
    memory = screen.memory_mb()
    screen.seconds_until(f"{STEPS:,} steps judged")
    memory = max(memory, screen.memory_mb())
    chance = random.Random(4)
    jumps = [screen.jump(chance.randrange(STEPS)) for _ in range(60)]
    tell(
        f"{name}: jump to any step, median / slowest, ms", f"{statistics.median(jumps):.0f} / {max(jumps):.0f}", "<= 50"
    )
    at = STEPS // 2
    screen.jump(at)
    rest = [screen.key(key, f"{at + by} decode") for at in range(at, at + 100) for key, by in (("j", 1),)]
    tell(f"{name}: key to paint, p50 / p95, ms", f"{statistics.median(rest):.0f} / {p95(rest):.0f}", "<= 50")
    screen.press("/total > 99ms\r")
    tell(f"{name}: search through all of it, s", f"{screen.seconds_until('no such step'):.1f}")
    memory = max(memory, screen.memory_mb())
    tell(f"{name}: memory above that of a trace of 50 steps, MB", f"{memory - at_rest:.0f}", "<= 200")
    screen.close()


def p95(values: Sequence[float]) -> float:
    """The 95th percentile."""
    return float(np.percentile(values, 95))


# -- live ------------------------------------------------------------------------------------------------------------

PRODUCER = """
import statistics, sys, time
from tests.bench.bench_tui import LAYERS, facts
from traces.writer import TraceWriter
path, rate, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
rows, times, work = [0] * LAYERS, [0.01] * LAYERS, list(range(400))
with TraceWriter(path, facts(LAYERS)) as writer:
    writer.note("request", seq_id=0, prompt_tokens=1, n_reused=0, t_ns=0)
    began, taken = time.perf_counter(), []
    for i in range(int(rate * seconds)):
        wait = began + i / rate - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        start = time.perf_counter()
        sum(work)
        writer.step(phase=1 if not i else 2, seq_id=0, token_id=5 if i else None, n_tokens=1, seq_before=i,
                    seq_len=i + 1, cache_len=[i + 1] * LAYERS, t_ns=writer.now_ns(), total_ms=1.1, gemm_ms=times,
                    attn_ms=times, text=b" token")
        taken.append(time.perf_counter() - start)
        if len(taken) == rate // 10:
            print(time.perf_counter(), statistics.median(taken), flush=True)
            taken.clear()
"""
RATE, TURNS = 5000, 30


def produce(path: Path, seconds: float) -> subprocess.Popen[str]:
    """A process that writes RATE steps a second, and says every tenth of a second what a step took it."""
    command = [sys.executable, "-c", PRODUCER, str(path), str(RATE), str(seconds)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def live(folder: Path) -> None:
    """Following RATE steps a second: what the viewer takes and loses, and what the producer feels of it."""
    path, seconds = folder / "live.steps", 60
    with produce(path, seconds) as producer:
        screen = Screen("--follow", str(path))
        screen.seconds_until("LIVE")
        screen.rest(3.0)
        cpu, began = screen.cpu_seconds(), time.perf_counter()
        screen.rest(seconds - 10)
        share = (screen.cpu_seconds() - cpu) / (time.perf_counter() - began)
        screen.drawn = b""
        producer.communicate()
        screen.seconds_until(f" {RATE * seconds:,} steps")
        screen.seconds_until("ENDED")
    screen.close()
    tell(f"live, {RATE:,} steps/s for {seconds} s: steps lost", str(RATE * seconds - Table(path).steps), "0")
    tell(f"live, {RATE:,} steps/s: the viewer's share of one core", f"{share:.0%}", "<= 30 %")
    path.unlink()
    ratio = slowed(folder / "live.steps")
    tell("live: the producer's step, watched / alone (viewer stopped each 2 s)", f"{ratio:.3f}", "<= 1.02")
    hour(folder / "hour.steps")


def slowed(path: Path) -> float:
    """The producer's step while it is watched to that while the viewer is stopped: the median of neighbouring turns."""
    turns: list[tuple[float, float]] = []
    with produce(path, 2.0 * TURNS + 6) as producer:
        screen = Screen("--follow", str(path))
        screen.seconds_until("LIVE")
        screen.rest(2.0)
        for number in range(TURNS):
            os.kill(screen.pid, signal.SIGSTOP if number % 2 else signal.SIGCONT)
            screen.rest(0.5)
            began = time.perf_counter()
            screen.rest(1.5)
            turns.append((began, time.perf_counter()))
        os.kill(screen.pid, signal.SIGCONT)
        said = [tuple(map(float, line.split())) for line in producer.communicate()[0].splitlines()]
    screen.close()
    path.unlink()
    steps = [statistics.median(took for at, took in said if began <= at <= ended) for began, ended in turns]
    return statistics.median(watched / alone for watched, alone in zip(steps[::2], steps[1::2], strict=True))


def hour(path: Path) -> None:
    """Memory over an hour's steps at RATE, written as fast as they are followed, in frames as a flush each 50 ms."""
    layers, chance, written = 4, random.Random(5), 0
    TraceWriter(path, facts(layers)).leave_unfinished()
    dtype = Table(path).runs[0].dtype
    screen = Screen("--follow", str(path))
    memory = []
    with open(path, "ab") as file:
        request = {"kind": "request", "seq_id": 0, "prompt_tokens": 25, "n_reused": 0, "t_ns": 0}
        file.write(frames.pack_json(frames.NOTE, request))
        while written < RATE * 3600:
            rows = records(dtype, written, RATE * 60)
            while len(rows):
                n = chance.randrange(230, 270)
                file.write(frames.pack(frames.STEPS, len(rows[:n]), rows[:n].tobytes()))
                rows = rows[n:]
            written += RATE * 60
            file.flush()
            screen.drawn = b""
            screen.seconds_until(f"{written:,} steps judged")
            memory.append(screen.memory_mb())
    screen.close()
    path.unlink()
    tell(
        "live, an hour's 18,000,000 steps: memory, last minute less sixth, MB", f"{memory[-1] - memory[5]:.1f}", "flat"
    )


def day(folder: Path) -> None:
    """Memory over a day of 20 steps a second, by a clock that is set on (tests/inspector/tui/simulated_day.py)."""
    from tests.inspector.tui.simulated_day import HOUR, RATE, Watched

    watched = Watched(folder / "day.steps")
    memory = []

    async def follow() -> None:
        async with watched.app.run_test(size=(120, 40)) as pilot:
            for _ in range(24):
                await watched.go_on(pilot, 1)
                memory.append(resident_mb(os.getpid()))

    asyncio.run(follow())
    steps = watched.feed.snapshot.steps
    if steps != 24 * HOUR * RATE:
        raise SystemExit(f"bench_tui: the view knows {steps:,} steps of the day")
    tell(f"live, a day's {steps:,} steps: memory, last hour less first, MB", f"{memory[-1] - memory[0]:.1f}", "<= 20")


def main() -> None:
    """Print every figure, or those of the part that is named."""
    parts = {"scale": scale, "live": live, "day": day}
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or parts:
            parts[name](Path(folder))


if __name__ == "__main__":
    main()
