"""What other forms cost: importing a large log, exporting a large trace.

`python -m tests.bench.bench_io` prints one line a figure. Times are beside that of a plain Python loop over the same
lines, or of reading the same steps, measured in the same run; memory is the highest that a process of its own reached.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.bench_traces import LAYERS, STEPS, make_trace, median_seconds
from tests.bench.figures import tell
from tests.bench.processes import Cost, measured
from traces.table import Table

MB = 100
REQUEST = """\
{t} I slot get_availabl: id  {slot} | task -1 | selected slot by LCP similarity, f_sim_best = 0.988 (> 0.100 thold), f_keep = 0.982
{t} I slot launch_slot_: id  {slot} | task {task} | processing task, is_child = 0
{t} I slot update_slots: id  {slot} | task {task} | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 54
{t} I slot update_slots: id  {slot} | task {task} | n_tokens = 30, memory_seq_rm [30, end)
{t} I slot update_slots: id  {slot} | task {task} | prompt processing progress, n_tokens = 54, batch.n_tokens = 24, progress = 1.000000
{t} I slot update_slots: id  {slot} | task {task} | prompt done, n_tokens = 54, batch.n_tokens = 24
{t} I slot print_timing: id  {slot} | task {task} | prompt eval time =     120.00 ms /    24 tokens (    5.00 ms per token,   200.00 tokens per second)
{t} I slot print_timing: id  {slot} | task {task} |        eval time =     630.00 ms /    64 tokens (   10.00 ms per token,   100.00 tokens per second)
{t} I slot print_timing: id  {slot} | task {task} |       total time =     750.00 ms /    88 tokens
{t} I slot      release: id  {slot} | task {task} | stop processing: n_tokens = 117, truncated = 0
{t} I srv  log_server_r: done request: POST /v1/chat/completions 127.0.0.1 200
"""  # noqa: E501 - as wide as they are
KESTREL = (
    "[DEC-SINGLE] seq={n} qkv=4.01 attn=2.02 o=1.03 gu=5.04 down=3.05 lm=2.06 other=2.07 othloop=1.08 total=19.28\n"
)


def main() -> None:
    """Print every figure."""
    with tempfile.TemporaryDirectory() as folder:
        importing(Path(folder))
        exporting(Path(folder))


def llama_server() -> Iterator[str]:
    """Requests of a server, one after another."""
    task = 0
    while True:
        minutes, ms = divmod(task, 60)
        yield REQUEST.format(t=f"{minutes}.{ms:02d}.000.000", slot=task % 4, task=task)
        task += 1


def kestrel_decode() -> Iterator[str]:
    """Decode steps of one long sequence."""
    n = 100
    while True:
        yield KESTREL.format(n=n)
        n += 1


def write(path: Path, lines: Iterator[str], size: int) -> None:
    """A log of about `size` bytes."""
    with open(path, "w") as log:
        done = 0
        while done < size:
            text = "".join(next(lines) for _ in range(1000))
            log.write(text)
            done += len(text)


def importing(folder: Path) -> None:
    """A large log of each kind; and a tenth of it, for its memory."""
    log, out = folder / "a.log", folder / "a.steps"
    for name, lines in (("llama.cpp", llama_server), ("kestrel", kestrel_decode)):
        write(log, lines(), MB << 17)
        less = measured("import", name, str(log), "-o", str(out))
        write(log, lines(), MB << 20)
        plain = median_seconds(lambda: sum(1 for _ in open(log)), 3)  # noqa: SIM115
        whole = measured("import", name, str(log), "-o", str(out))
        tell(f"import {name}, {MB} MB: s (a plain loop over its lines: {plain:.2f})", str(whole), "<= 20")
        tell_memory("an eighth of the log", less, whole)


def exporting(folder: Path) -> None:
    """A million steps x 28 layers to Parquet; fewer to the targets that write every layer of a step as slices."""
    trace, small = folder / "a.steps", folder / "small.steps"
    make_trace(trace, STEPS, 4096)
    make_trace(small, STEPS // 8, 4096)
    name = f"{STEPS:,} x {LAYERS}"
    reading = median_seconds(lambda: read_all(trace), 3)
    less = measured("export", str(small), "--to", "parquet", "-o", str(folder / "few"))
    whole = measured("export", str(trace), "--to", "parquet", "-o", str(folder / "fleet"))
    tell(f"export {name} to parquet, s (reading and checking them: {reading:.2f})", str(whole), "<= 15")
    tell_memory("an eighth of the trace", less, whole)
    for target in ("csv", "chrome", "perfetto"):
        out = str(folder / f"a.{target}")
        less = measured("export", str(small), "--to", target, "-o", out, "--steps", ":2000")
        whole = measured("export", str(small), "--to", target, "-o", out, "--steps", ":18000")
        tell(f"export to {target}: ms a step of the processor", f"{(whole.cpu - less.cpu) / 16:.2f}", "")
        tell_memory("2,000 steps", less, whole)


def tell_memory(part: str, less: Cost, whole: Cost) -> None:
    """Whether memory grows with the input."""
    tell(f"  peak memory, MB: {part} / all of it", f"{less.memory:.0f} / {whole.memory:.0f}", "the same")


def read_all(path: Path) -> None:
    """Every step of a trace, read and its checksums checked."""
    for _ in Table(path).chunks():
        pass


if __name__ == "__main__":
    main()
