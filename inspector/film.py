"""The film: a run's steps as lines, the way a person reads them. Cells as text, shared by `show` and the TUI."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from inspector.text import token_text

Step = dict[str, Any]
"""A step as Table.plain() gives it"""

NOTHING = "-"
NOTES = ("shift", "rollback", "gap", "release", "finish", "totals", "interval", "benchmark", "message")
"""Kinds of notes that stand between the steps; the others are told elsewhere"""


def count(value: int | None) -> str:
    """A count, or - where it is absent."""
    return NOTHING if value is None else str(value)


def milliseconds(value: float | None) -> str:
    """Milliseconds with three significant digits at least: 0.042, 2.40, 128.8."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if abs(value) < 9.9995:
        return f"{value:.3f}" if abs(value) < 0.99995 else f"{value:.2f}"
    return f"{value:.1f}"


def layer_sum(value: Any) -> float | None:
    """A time over all layers: the total itself, or the sum of its layers; None where absent."""
    if isinstance(value, list):
        present = [v for v in value if v is not None]
        return sum(present) if present else None
    return value if isinstance(value, (int, float)) else None


def gemm(step: Step) -> float | None:
    """Matrix products of a step: gemm + lm_head, since both read weights."""
    inside, head = layer_sum(step.get("gemm_ms")), step.get("lm_head_ms")
    return head if inside is None else inside if head is None else inside + head


def attention(step: Step) -> float | None:
    """Attention of a step over all layers."""
    return layer_sum(step.get("attn_ms"))


def cache(step: Step, full_layers: list[int] | None = None) -> str:
    """Rows in the cache: one number where the layers agree, `25–26!` where they do not.

    full_layers: the layers that should agree; all of them where the run does not say.
    """
    rows = step.get("cache_len")
    if not isinstance(rows, list):
        return count(rows)
    chosen = rows if full_layers is None else [rows[i] for i in full_layers if i < len(rows)]
    seen = [r for r in (chosen or rows) if r is not None]
    if not seen:
        return NOTHING
    low, high = min(seen), max(seen)
    return str(low) if low == high else f"{low}–{high}!"


def growth(step: Step) -> str:
    """How much the sequence grew."""
    before, after = step.get("seq_before"), step.get("seq_len")
    return NOTHING if before is None or after is None else f"{after - before:+d}"


def drafts(step: Step) -> str:
    """`2/4`: accepted of drafted, empty outside verify steps."""
    if step.get("phase") != "verify":
        return ""
    return f"{count(step.get('n_accepted'))}/{count(step.get('n_drafted'))}"


def remark(step: Step) -> str:
    """What the numbers alone do not say: not fed, why it finished."""
    words = []
    if step.get("n_tokens") == 0 and step.get("phase") != "prefill":
        words.append("not fed")
    if step.get("finish"):
        words.append(f"finish={step['finish']}")
    return "; ".join(words)


def text(step: Step) -> str:
    """The token's text, safe for one cell."""
    return token_text(step.get("text"))


def long_texts(notes: Iterable[tuple[int, dict[str, Any]]]) -> dict[int, str]:
    """Texts of the tokens too long for their field, by step number. notes: (index of the step that follows, note)."""
    found = {}
    for at, note in notes:
        step, text = note.get("step"), note.get("text")
        if note.get("kind") == "text" and isinstance(text, str):
            found[step if isinstance(step, int) else at] = text
    return found


def full_layers(run: dict[str, Any]) -> list[int] | None:
    """Layers that own a full cache, None where the run does not describe its layers."""
    layers = run.get("layers")
    if not isinstance(layers, list) or not layers:
        return None
    return [i for i, layer in enumerate(layers) if isinstance(layer, dict) and layer.get("kind") == "full"]


def cells(step: Step, number: int, rows: str) -> dict[str, str]:
    """A line of the film as text and pages have it, by column name. rows: what cache() says, or more."""
    return {
        "step": str(number),
        "seq": count(step["seq_id"]),
        "phase": str(step["phase"]),
        "token": count(step["token_id"]),
        "text": text(step) or NOTHING,
        "seq_before": count(step["seq_before"]),
        "seq_len": count(step["seq_len"]),
        "cache_len": rows,
        "drafts": drafts(step),
        "ms": milliseconds(step.get("total_ms")),
        "remark": remark(step),
    }
