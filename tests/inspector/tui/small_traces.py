"""Small traces whose every number is written out, and ways to see what a person sees of them."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.app import App
from textual.pilot import Pilot

from inspector.tui.engine import Engine
from inspector.tui.feed import Feed
from inspector.tui.viewer import Viewer
from traces.fields import declaration
from traces.writer import TraceWriter

LAYERS = 4
NAMES = (
    "phase seq_id token_id n_tokens seq_before seq_len cache_len finish t_ns total_ms forward_ms gemm_ms attn_ms "
    "margin text"
).split()
LETTERS = [(64, b"a"), (293, b"b"), (272, b"c"), (294, b"d"), (384, b"e"), (282, b"f")]


def run_facts(layers: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A run of a model with four full layers, unless told otherwise."""
    layers = layers or [{"kind": "full"}] * LAYERS
    per_layer = {name: len(layers) for name in ("cache_len", "gemm_ms", "attn_ms")}
    return {
        "model": {"name": "letters", "n_layers": len(layers), "n_heads": 4, "n_kv_heads": 2, "vocab_size": 1000},
        "engine": {"name": "test-engine", "version": "7"},
        "sampler": {"kind": "greedy"},
        "host": {"machine": "riscv64", "threads": 3},
        "layers": layers,
        "stop": {"eos": [2], "max_new_tokens": 1000},
        "fields": declaration(NAMES, per_layer),
    }


def write_request(writer: TraceWriter, prompt: str = "Say the alphabet.\n") -> None:
    """A prompt of 25 tokens asked at 2 ms; its prefill takes 10 ms."""
    writer.note("request", seq_id=0, t_ns=2_000_000, prompt=prompt, prompt_tokens=25, n_reused=0)
    write_step(writer, None, b"", before=0, fed=25, t_ns=4_000_000)


def write_step(
    writer: TraceWriter, token: int | None, text: bytes, before: int, fed: int = 1, t_ns: int | None = None,
    rows: list[int] | None = None, finish: str = "none",
) -> None:  # fmt: skip
    """One step of 10 ms: GEMM 1, 2, 1, 0.5 ms in its layers, attention 0.25 ms each."""
    after = before + fed
    writer.step(
        phase="prefill" if token is None else "decode", seq_id=0, token_id=token, n_tokens=fed, seq_before=before,
        seq_len=after, cache_len=rows or [after] * LAYERS, finish=finish, total_ms=10.0, forward_ms=9.0,
        t_ns=4_000_000 + 10_000_000 * (before - 24) if t_ns is None else t_ns,
        gemm_ms=[1.0, 2.0, 1.0, 0.5], attn_ms=[0.25] * LAYERS, margin=3.5, text=text,
    )  # fmt: skip


def letters(path: Path, broken: tuple[int, ...] = (), end: bool = True) -> Path:
    """A prompt of 25 tokens, six letters, then the end token: eight steps.

    broken: steps (1 to 6) whose layers 0 and 1 hold one row less than the sequence is long. end: write the END frame.
    """
    writer = TraceWriter(path, run_facts())
    write_request(writer)
    for i, (token, text) in enumerate(LETTERS):
        before = 25 + i
        after = before + 1
        rows = [after - 1, after - 1, after, after] if i + 1 in broken else None
        write_step(writer, token, text, before, rows=rows)
    write_step(writer, 2, b"<eos>", before=31, fed=0, finish="eos")
    if end:
        writer.close()
    return path


def tokens(path: Path, texts: list[bytes], prompt: str = "") -> Path:
    """A decode step for each text, all of token 5."""
    with TraceWriter(path, run_facts()) as writer:
        write_request(writer, prompt)
        for i, text in enumerate(texts):
            write_step(writer, 5, text, before=25 + i)
    return path


def damage(path: Path, step: int) -> Path:
    """Flip one byte in the frame of a step (each frame holds one)."""
    data = bytearray(path.read_bytes())
    at = -1
    for _ in range(step + 1):
        at = data.index(b"STEP\x02\x00", at + 1)
    data[at + 40] ^= 0xFF
    path.write_bytes(bytes(data))
    return path


def own_keys_file(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A file of keys where the view looks for it."""
    (folder / "stepscope").mkdir()
    (folder / "stepscope" / "keys.toml").write_text(text)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


Script = Callable[[Viewer, Pilot[int]], Awaitable[None]]


def view(
    path: Path, script: Script, size: tuple[int, int] = (80, 24), follow: bool = False, engine: Engine | None = None,
    ascii: bool = False,
) -> Viewer:  # fmt: skip
    """Run the view on a trace in a terminal of `size`, let `script` drive it, and return what is left of it."""

    async def drive() -> Viewer:
        feed = Feed(str(path), follow)
        feed.start()
        try:
            feed.opened(5)
            app = Viewer(feed, engine, ascii=ascii)
            async with app.run_test(size=size) as pilot:
                await settle(app, pilot)
                await script(app, pilot)
            return app
        finally:
            feed.stop()

    return asyncio.run(drive())


async def settle(app: Viewer, pilot: Pilot[int]) -> None:
    """Let the view catch up with its trace: everything judged and drawn, or nothing there."""

    def caught_up(screen: str) -> bool:
        head = "\n".join(screen.split("\n")[:4])  # the footer's "? Help" is no verdict
        # a path in the head may hold the word as well
        judged = "so far" not in screen and re.search(r"[✓✗?]|(?:no|\d) failure", head) is not None
        return judged or "WAITING" in screen

    await until(app, pilot, caught_up)


async def until(app: App[int], pilot: Pilot[int], true: Callable[[str], bool], seconds: float = 10.0) -> str:
    """Wait until the screen says something; its text."""
    await pilot.pause(0.05)
    for _ in range(int(seconds / 0.05)):
        screen = "\n".join(seen(app))
        if true(screen):
            return screen
        await pilot.pause(0.05)
    raise AssertionError("the screen never said it:\n" + "\n".join(seen(app)))


def seen(app: App[int]) -> list[str]:
    """The screen as its rows of cells: a wide character takes its two, the second as nothing."""
    picture = app.export_screenshot()
    rows: dict[int, dict[int, str]] = {}
    found = re.findall(r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', picture, re.DOTALL)
    for x, y, text in found:
        row = rows.setdefault(round((float(y) - 20) / 24.4), {})
        row[round(float(x) / 12.2)] = html.unescape(text).replace("\xa0", " ")
    width, height = app.size
    return [_row(rows.get(number, {}), width) for number in range(height)]


def _row(parts: dict[int, str], width: int) -> str:
    line = ""
    for x, text in sorted(parts.items()):
        line += " " * (x - cell_len(line)) + text
    return line.rstrip()


def selected(app: Viewer) -> int:
    """The step that the cursor on the screen stands at."""
    row = next(row for row in seen(app) if row.startswith(">"))
    return int(row[2:].split()[0])
