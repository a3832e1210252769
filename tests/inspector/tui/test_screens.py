"""What every screen looks like at three sizes and in three kinds of colour: pictures that a person has looked at.

The trace is made here, the clock stands still, and the feed has read and judged everything before the first picture.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inspector.tui.feed import Feed
from inspector.tui.viewer import Viewer
from tests.inspector.tui.pictures import IN_COLOURS, IN_SIZES, looks_as_before
from tests.inspector.tui.small_traces import LETTERS, run_facts
from traces.writer import TraceWriter

SCREENS = {
    "film": (), "text": ("1", "j"), "layers": ("2", "z"), "time": ("3", "z"), "histogram": ("b", "z"),
    "rules": ("n", "4", "z"), "source": ("5", "z"), "failure": ("n",), "help": ("question_mark",),
}  # fmt: skip
SOURCE = """\
#include "engine.h"

/* one step: sample, then feed */
int forward(struct state *st, const int *tokens, int n) {
    for (int layer = 0; layer < N_LAYERS; layer++)
        st->cache_len[layer] += n;  // every layer
    return 0;
}
"""


def trace(path: Path) -> Path:
    """Forty decode steps of four layers, attention growing with the context; one step breaks two rules."""
    layers = [{"kind": "full"}, {"kind": "full"}, {"kind": "window", "window": 32}, {"kind": "full"}]
    facts = {
        **run_facts(layers),
        "floor": {"bytes_per_token": 20_000_000, "kv_bytes_per_row": 100_000, "bandwidth_gb_s": 10.0},
    }
    facts["fields"].append(["hidden_rms", "F32", [4]])
    writer = TraceWriter(path, facts)
    writer.note("source", file="/build/engine/forward.c", line=6, function="forward")
    writer.note("request", seq_id=0, t_ns=0, prompt="Say the alphabet.\n", prompt_tokens=25, n_reused=0)
    for i in range(41):
        _step(writer, i, 25 if i == 0 else 1, 0 if i == 0 else 24 + i)
        if i == 4:
            writer.note("message", text="the laptop was unplugged here")
    writer.close(tracing_ms=1.25)
    return path


def _step(writer: TraceWriter, i: int, fed: int, before: int) -> None:
    after = before + fed
    rows = [after, after - (i == 6), min(after, 32), after]
    token, text = LETTERS[i % 6] if i else (None, b"")
    attention = [0.01 * after, 0.01 * after, 0.16, 0.01 * after]
    writer.step(
        phase="decode" if i else "prefill", seq_id=0, token_id=token, n_tokens=fed, seq_before=before, seq_len=after,
        cache_len=rows, finish="length" if i == 40 else "none", total_ms=6.0 + i / 20, forward_ms=5.5 + i / 20,
        t_ns=2_000_000 + 8_000_000 * i + 40_000 * i * i, gemm_ms=[1.0, 1.0 + 0.5 * (i == 8), 1.0, 0.8],
        attn_ms=attention, margin=3.5, text=text if i != 9 else "日".encode(), hidden_rms=[1.0, 1.1, 1.2, 1.3 + i / 50],
    )  # fmt: skip


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], Viewer]:
    """The view of the trace, everything read, nothing moving."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "forward.c").write_text(SOURCE)
    trace(tmp_path / "alphabet.steps")

    def view(theme: str | None) -> Viewer:
        feed = Feed("alphabet.steps", follow=False, clock=lambda: 0.0)
        feed.judge()
        while feed.turn():
            pass
        return Viewer(feed, theme=theme, source_maps=[("/build/engine", ".")])

    return view


@IN_SIZES
@IN_COLOURS
@pytest.mark.parametrize("screen", SCREENS)
def test_screen(
    shown: Callable[[str | None], Viewer], monkeypatch: pytest.MonkeyPatch, snap_compare: Any, screen: str,
    colours: str, size: tuple[int, int],
) -> None:  # fmt: skip
    assert looks_as_before(snap_compare, monkeypatch, shown, SCREENS[screen], colours, size)
