"""Two builds' traces whose every difference is written out, and the diff view of two traces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from textual.pilot import Pilot

from inspector.tui.comparing import Comparison
from inspector.tui.diff_viewer import DiffViewer
from tests.inspector.tui.small_traces import LETTERS, run_facts, until
from traces.fields import declaration
from traces.writer import TraceWriter

NAMES = (
    "phase seq_id token_id n_tokens seq_before seq_len cache_len finish t_ns total_ms forward_ms gemm_ms attn_ms "
    "margin text hidden_rms"
).split()
PARTS_AT, RMS_AT, ROWS_AT = 24, 18, 9
"""Output tokens: where the new build's token differs, where its layer 2 does, and where its layer 1 lacks a row"""
SLOW = 1.5
"""How much longer the new build's layer 2 takes in its matrix products"""


def build(path: Path, new: bool = False, outputs: int = 40, layers: int = 4, end: bool = True) -> Path:
    """A prompt of 25 tokens, then `outputs` letters; step i samples output i - 1. new: the build with the faults."""
    facts = run_facts([{"kind": "full"}] * layers)
    facts["fields"] = declaration(NAMES, dict.fromkeys(("cache_len", "gemm_ms", "attn_ms", "hidden_rms"), layers))
    facts["engine"]["version"] = "8" if new else "7"
    writer = TraceWriter(path, facts)
    writer.note("request", seq_id=0, t_ns=0, prompt="Say the alphabet.\n", prompt_tokens=25, n_reused=0)
    for i in range(outputs + 1):
        before = 24 + i if i else 0
        after, output = 25 + i, i - 1
        token, text = LETTERS[i % 6] if i else (None, b"")
        if new and i and output >= PARTS_AT:
            token, text = LETTERS[(i + 2) % 6]
        rows, gemm, rms = [after] * layers, [1.0] * layers, [1.0 + layer / 10 for layer in range(layers)]
        if new:
            gemm[2] *= SLOW
            rows[1] -= output == ROWS_AT
            rms[2] *= 1.05 if output >= RMS_AT else 1
        writer.step(
            phase="decode" if i else "prefill", seq_id=0, token_id=token, n_tokens=after - before, seq_before=before,
            seq_len=after, cache_len=rows, finish="length" if end and i == outputs else "none",
            total_ms=sum(gemm) + 1.5, forward_ms=sum(gemm) + 1.0, t_ns=1_000_000 + 6_000_000 * i,
            gemm_ms=gemm, attn_ms=[0.25] * layers,
            margin=0.5 if output == PARTS_AT else 3.5, text=text, hidden_rms=rms,
        )  # fmt: skip
    if end:
        writer.close()
    return path


Script = Callable[[DiffViewer, Pilot[int]], Awaitable[None]]


def compare(base: Sequence[Path], new: Sequence[Path], script: Script, size: tuple[int, int] = (120, 40)) -> DiffViewer:
    """Run the diff view, let `script` drive it once the traces are compared, and return what is left of it."""

    async def drive() -> DiffViewer:
        comparison = Comparison([str(path) for path in base], [str(path) for path in new])
        comparison.start()
        app = DiffViewer(comparison)
        try:
            comparison.opened(5)
            async with app.run_test(size=size) as pilot:
                await until(app, pilot, lambda screen: "COMPARING" not in screen)
                await script(app, pilot)
            return app
        finally:
            comparison.stop()
            app.view.close_films()

    return asyncio.run(drive())
