"""A file of several runs: each is told by itself, with its own notes, also one that has no steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from inspector import cli
from inspector.tui.viewer import Viewer
from tests.inspector.tui.small_traces import seen, view
from traces.importers.jsonl import import_jsonl


def run(name: str) -> dict[str, Any]:
    return {"format": "stepscope", "version": 1, "engine": {"name": f"engine-{name}"}, "model": {"name": name}}


def message(text: str) -> dict[str, Any]:
    return {"note": {"kind": "message", "text": text}}


def prefill(n: int) -> dict[str, Any]:
    return {"phase": "prefill", "seq_id": 0, "n_tokens": n, "seq_before": 0, "seq_len": n, "cache_len": n}


END = {"note": {"kind": "end"}}
TOTALS = {"note": {"kind": "totals", "seq_id": 0, "prompt_tokens": 3, "n_reused": 0, "fed": 3}}
LINES = [run("A"), prefill(3), message("last of A"), END,
         run("B"), TOTALS, END,
         run("C"), message("first of C"), prefill(4), message("last of C"), END]  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return written(tmp_path / "several", *LINES)


def written(path: Path, *lines: dict[str, Any]) -> Path:
    source, out = path.with_suffix(".jsonl"), path.with_suffix(".steps")
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    import_jsonl(source, out)
    return out


def shown(capsys: pytest.CaptureFixture[str], *words: object) -> list[str]:
    assert cli.main(["show", *map(str, words)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    return [words[0] if words[0] in "ABC01" else " ".join(words[:4]) for words in lines if words[0] in "A B C 0 1 --"]


def test_show_puts_notes_where_they_belong(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = ["A", "0", "-- message text=last of"]
    b = ["B", "-- totals seq_id=0 prompt_tokens=3"]
    c = ["C", "-- message text=first of", "1", "-- message text=last of"]
    assert shown(capsys, trace) == [*a, *b, *c]
    assert shown(capsys, trace, "--steps", "0:1") == a
    assert shown(capsys, trace, "--steps", "1:2") == c


def test_show_json_says_which_run_a_note_is_of(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "--json", str(trace)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(note["run"], note["before_step"], note["kind"]) for note in told["notes"]] == [
        (0, 1, "message"), (1, 1, "totals"), (2, 1, "message"), (2, 2, "message"),
    ]  # fmt: skip
    assert [run["first_step"] for run in told["runs"]] == [0, 1, 1]


def test_the_view_says_where_another_run_begins(trace: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        screen = seen(app)
        marks = ["  0 prefill", "last of A", "run 2: B; engine-B", "totals seq 0", "run 3: C; engine-C", "first of C",
                 "  1 prefill", "last of C"]  # fmt: skip
        places = [next(i for i, line in enumerate(screen) if mark in line) for mark in marks]
        assert places == list(range(places[0], places[0] + len(marks)))
        assert "run 1 of 3" in screen[2] + screen[3]
        await pilot.press("j")
        await pilot.pause(0.1)
        assert "run 3 of 3" in seen(app)[2] + seen(app)[3]

    view(trace, script, (160, 50))


def test_the_view_of_totals_alone_shows_them(tmp_path: Path) -> None:
    many = [{"note": {**TOTALS["note"], "seq_id": i}} for i in range(500)]
    path = written(tmp_path / "totals", run("A"), *many, END)

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        screen = seen(app)
        assert "0 steps │ ✓ no failure" in screen[1]
        told = [line for line in screen if "totals seq" in line]
        assert told[0].split()[:4] == ["──", "totals", "seq", "0:"]
        assert any(f"{500 - len(told)} more notes here: stepscope show prints all" in line for line in screen)
        assert "no step was recorded" in "\n".join(screen)
        await pilot.press("j", "f", "n", "g")
        await pilot.pause(0.1)
        assert [line for line in seen(app) if "totals seq" in line] == told

    view(path, script, (120, 40))


def test_more_notes_before_a_step_than_fit_are_counted(tmp_path: Path) -> None:
    many = [message(f"number {i}") for i in range(100)]
    path = written(tmp_path / "notes", run("A"), prefill(3), *many, {**prefill(4), "seq_id": 1}, END)

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("j")
        await pilot.pause(0.1)
        screen = seen(app)
        told = [line for line in screen if "message: number" in line]
        assert "number 99" in told[-1]
        assert any(f"{100 - len(told)} more notes here" in line for line in screen)

    view(path, script, (120, 30))
