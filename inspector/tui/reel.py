"""The film's lines: which columns fit a width, and one step in them. No Textual here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inspector import facts, film
from inspector.film import Step
from inspector.text import visible
from inspector.tui.lines import DIM, FAIL, PLAIN, STRONG, TITLE, UNKNOWN, Line, fit, padded

CURSOR, MARKED, FAILED = ">", "*", "✗"
LEAST_REMARK, WHOLE_REMARK = len("KV01 KV02"), len("finish=length; not fed")
ROOM_FOR_REMARK = 40
"""Narrower films show that a step fails, not which rules it breaks."""
WIDEST = 20
"""No number takes more cells: ids and counts of a damaged engine may be any."""


@dataclass(frozen=True)
class Column:
    """A column of the film: `least` cells, numbers to the right."""

    key: str
    title: str
    least: int
    right: bool = True


_COLUMNS = {
    column.key: column
    for column in (
        Column("step", "step", 4),
        Column("seq_id", "seq", 3),
        Column("phase", "phase", 7, right=False),
        Column("token", "token", 5),
        Column("text", "text", 6, right=False),
        Column("grown", "seq_len", 7, right=False),
        Column("cache", "cache", 5, right=False),
        Column("growth", "Δ", 3),
        Column("gemm", "GEMM", 6),
        Column("attn", "attn", 6),
        Column("total", "total", 6),
        Column("margin", "margin", 6),
    )
}
_KEEP = ("step", "text", "token", "seq_id", "cache", "grown", "total", "growth", "phase", "gemm", "attn", "margin")
"""In a narrow window the columns at the end of this are left out first."""
_NEEDS = {"gemm": ("gemm_ms", "lm_head_ms"), "attn": ("attn_ms",), "total": ("total_ms",), "margin": ("margin",)}


class Widths:
    """How wide the columns must be for what was seen so far. Only ever grows, so that lines do not jump about."""

    def __init__(self) -> None:
        self._seen = {key: column.least for key, column in _COLUMNS.items()}

    def see(self, cells: dict[str, str]) -> bool:
        """Make room for a step's numbers (its text is cut instead). True if something grew."""
        grew = False
        for key, cell in cells.items():
            size = min(len(cell), WIDEST)
            if key != "text" and size > self._seen[key]:
                self._seen[key] = size
                grew = True
        return grew

    def chosen(self, width: int, fields: frozenset[str], several: bool) -> list[tuple[Column, int]]:
        """The columns for `width` cells, each with its own: the most important ones that fit.

        fields: what the run records. several: steps of more than one sequence are there.
        """
        wanted = [k for k in _KEEP if not _NEEDS.get(k) or any(name in fields for name in _NEEDS[k])]
        if not several:
            wanted.remove("seq_id")
        left = width - 2 - (LEAST_REMARK if width >= ROOM_FOR_REMARK else 0)
        kept = set()
        for key in wanted:
            if self._seen[key] + 1 > left:
                break
            kept.add(key)
            left -= self._seen[key] + 1
        # what is left is for the remark first, then for the text
        extra = min(max(left - (WHOLE_REMARK - LEAST_REMARK), 0), 12)
        return [(c, self._seen[k] + (extra if k == "text" else 0)) for k, c in _COLUMNS.items() if k in kept]


def cells(step: Step, full_layers: list[int] | None) -> dict[str, str]:
    """A step's cells by column key."""
    before, after = film.count(step.get("seq_before")), film.count(step.get("seq_len"))
    return {
        "step": str(step["step"]),
        "seq_id": film.count(step.get("seq_id")),
        "phase": str(step.get("phase")),
        "token": film.count(step.get("token_id")),
        "text": film.text(step) or film.NOTHING,
        "grown": f"{before}→{after}",
        "cache": film.cache(step, full_layers),
        "growth": film.growth(step),
        "gemm": film.milliseconds(film.gemm(step)),
        "attn": film.milliseconds(film.attention(step)),
        "total": film.milliseconds(step.get("total_ms")),
        "margin": film.milliseconds(step.get("margin")),
    }


def titles(columns: Sequence[tuple[Column, int]], width: int) -> Line:
    """The line of column names."""
    names = " ".join(fit(column.title, size, column.right) for column, size in columns)
    return padded([(f"  {names} breaks", TITLE)], width, TITLE)


def line(
    columns: Sequence[tuple[Column, int]], width: int, number: int, step: Step | str, said: dict[str, str],
    codes: Sequence[str], selected: bool, marked: bool = False,
) -> Line:  # fmt: skip
    """One step. `said`: its cells; `codes`: the rules it breaks."""
    edge = (CURSOR if selected else MARKED if marked else " ") + (FAILED if codes or isinstance(step, str) else " ")
    out: Line = [(edge, FAIL if edge[1] == FAILED else STRONG)]
    if isinstance(step, str):
        size = columns[0][1] if columns else 4
        return padded([*out, (fit(str(number), size, right=True) + " ", PLAIN), (step, FAIL)], width)
    for column, size in columns:
        out.append((fit(said[column.key], size, column.right) + " ", _role(column.key, step, said)))
    drafts = film.drafts(step)
    # the finish first: it is what a narrow window must not lose
    remarks = [f"drafts {drafts}"] if drafts else []
    words = "; ".join(remarks + [word for word in reversed(film.remark(step).split("; ")) if word])
    if codes:
        out.append((" ".join(codes) + (" " if words else ""), FAIL))
    if words:
        out.append((words, UNKNOWN))
    return padded(out, width)


def run_begins(number: int, run: dict[str, Any]) -> dict[str, Any]:
    """What stands between the steps of one run and another's, as a note."""
    return {"kind": f"run {number + 1}", "text": f"{facts.model_words(run)}; {facts.engine_words(run)}"}


def more(n: int) -> dict[str, Any]:
    """What stands for notes that no screen has room for, as a note."""
    return {"kind": "…", "text": f"{n:,} more notes here: stepscope show prints all"}


def note_line(note: dict[str, Any], width: int) -> Line:
    """A note between two steps, in words."""
    kind, seq_id = note.get("kind"), note.get("seq_id")
    whose = "" if seq_id is None or kind == "message" else f" seq {seq_id}"
    role = UNKNOWN if kind == "gap" else DIM
    return padded([(f"   ── {visible(f'{kind}{whose}: {_in_words(note)}')}", role)], width, role)


def _in_words(note: dict[str, Any]) -> str:
    kind = note.get("kind")
    if kind == "shift":
        return f"{note.get('n_discard')} oldest rows left a full context, {note.get('n_keep')} kept"
    if kind == "rollback":
        return f"{note.get('n')} rows taken back"
    if kind == "gap":
        return f"steps were not recorded: {note.get('why') or 'no reason given'}"
    if kind not in film.NOTES or kind == "message":
        return str(note.get("text") or "")
    known = {k: v for k, v in note.items() if k not in ("kind", "seq_id") and v is not None}
    words = ", ".join(f"{k} {v}" for k, v in known.items())
    return ", ".join(["its cache is given back", *([words] if words else [])]) if kind == "release" else words


def _role(key: str, step: Step, said: dict[str, str]) -> str:
    if key == "cache" and said["cache"].endswith("!"):
        return FAIL
    if key == "text":
        return STRONG
    return DIM if key in ("step", "phase") or said[key] == film.NOTHING else PLAIN


def fields_of(run: Any) -> frozenset[str]:
    """The fields a run declares."""
    declared = run.get("fields")
    return frozenset(entry[0] for entry in declared if entry) if isinstance(declared, list) else frozenset()
