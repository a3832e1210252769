"""JSON Lines in and out: nothing lost, nothing invented, and a clear line for what is not one."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.traces.traces_by_hypothesis import traces, write
from traces import TraceError
from traces.exporters.jsonl import lines
from traces.importers.jsonl import import_jsonl
from traces.reader import Reader, Source
from traces.table import Table

RUN = {"format": "stepscope", "version": 1}
STEP = {"phase": "decode", "seq_id": 0, "token_id": 5, "n_tokens": 1, "seq_before": 3, "seq_len": 4,
        "cache_len": [4, 4], "finish": None}  # fmt: skip
END = {"note": {"kind": "end"}}


def events(path: Path) -> list[tuple[str, Any]]:
    """What is in a trace, numbers that JSON does not have as None."""
    found = list(Reader(Source(path)).events())
    return [(kind, {n: known(x) for n, x in value.items() if n != "started_at"}) for kind, value in found]


def known(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(known, x))
    return None if isinstance(x, float) and not math.isfinite(x) else x


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(trace=traces(max_events=12))
def test_out_and_in_again_is_the_same_trace(tmp_path_factory: pytest.TempPathFactory, trace: list[Any]) -> None:
    folder = tmp_path_factory.getbasetemp()
    a, text, b = folder / "a.steps", folder / "a.jsonl", folder / "b.steps"
    write(a, trace)
    text.write_text("".join(line + "\n" for line in lines(Table(a))))
    import_jsonl(text, b)
    assert events(b) == events(a)


def put(path: Path, *objects: Any) -> Path:
    path.write_text("".join((o if isinstance(o, str) else json.dumps(o)) + "\n" for o in objects))
    return path


def test_an_engine_that_only_prints_needs_no_declaration(tmp_path: Path) -> None:
    source = put(tmp_path / "a.jsonl", RUN, {**STEP, "gemm_ms": [1.5, 2.5], "power_w": 11.5, "sm": 3}, STEP, END)
    assert import_jsonl(source, tmp_path / "a.steps") == 2
    table = Table(tmp_path / "a.steps")
    first, second = table.plain(0, 2)
    assert first is not None
    assert second is not None
    assert (first["gemm_ms"], first["power_w"], first["sm"]) == ([1.5, 2.5], 11.5, 3)
    assert (second["gemm_ms"], second["power_w"], second["cache_len"]) == (None, None, [4, 4])
    assert table.complete


def test_words_in_a_step_travel_as_messages(tmp_path: Path) -> None:
    source = put(tmp_path / "a.jsonl", RUN, {**STEP, "slot": "B"}, END)
    import_jsonl(source, tmp_path / "a.steps")
    notes = [note for _, note in Table(tmp_path / "a.steps").notes()]
    assert notes == [{"kind": "message", "step": 0, "field": "slot", "text": "B"}]


def test_without_an_end_note_it_was_cut_off(tmp_path: Path) -> None:
    import_jsonl(put(tmp_path / "a.jsonl", RUN, STEP), tmp_path / "a.steps")
    assert not Table(tmp_path / "a.steps").complete
    torn = tmp_path / "torn.jsonl"
    torn.write_text(json.dumps(RUN) + "\n" + json.dumps(STEP) + "\n" + json.dumps(STEP)[:40])
    assert import_jsonl(torn, tmp_path / "b.steps") == 1
    assert not Table(tmp_path / "b.steps").complete


def test_an_import_claims_no_cost_of_tracing(tmp_path: Path) -> None:
    import_jsonl(put(tmp_path / "a.jsonl", RUN, STEP, END), tmp_path / "a.steps")
    assert Table(tmp_path / "a.steps").runs[0].end_facts == {}


def test_large_ids_stay_exact(tmp_path: Path) -> None:
    big = 5279552648203111001
    import_jsonl(put(tmp_path / "a.jsonl", RUN, {**STEP, "token_id": big}, END), tmp_path / "a.steps")
    step = Table(tmp_path / "a.steps").plain(0, 1)[0]
    assert step is not None
    assert step["token_id"] == big


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        (["{broken", STEP], "line 1: not JSON"),
        ([RUN, "{broken", STEP], "line 2: not JSON"),
        ([RUN, "[1, 2]"], "line 2: a line is one JSON object"),
        ([STEP], "line 1: the first line must be the run object"),
        ([{"format": "pdf"}], 'line 1: format is "pdf"'),
        ([{**RUN, "version": 3}], "line 1: version 3"),
        ([RUN, {**STEP, "n_tokens": {"a": 1}}], "line 2: field n_tokens"),
        ([RUN, {**STEP, "n_tokens": 2**50}], "line 2: n_tokens holds I32"),
        ([RUN, STEP, {**STEP, "phase": "thinking"}], "line 3: phase"),
        ([RUN, STEP, {**STEP, "cache_len": [1]}], "line 3: cache_len takes 2 values"),
        ([RUN, END, STEP], "line 3: something follows the end note"),
        ([RUN, {"note": "x"}], "line 2: a note is an object with a kind"),
        ([{**RUN, "fields": [["phase", "U9"]]}, STEP], "line 1: field phase has dtype 'U9'"),
        ([{**RUN, "fields": 7}, STEP], "line 1: the run's fields are not a list"),
        ([RUN, STEP, END, {**RUN, "fields": True}, STEP], "line 4: the run's fields are not a list"),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_nothing_is_left(
    tmp_path: Path, objects: list[Any], words: str
) -> None:
    source = put(tmp_path / "a.jsonl", *objects)
    with pytest.raises(TraceError, match=words) as caught:
        import_jsonl(source, tmp_path / "a.steps")
    assert str(source) in str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl"]


def test_an_import_that_fails_costs_no_older_trace(tmp_path: Path) -> None:
    old = tmp_path / "keep.steps"
    import_jsonl(put(tmp_path / "good.jsonl", RUN, STEP, END), old)
    kept = old.read_bytes()
    with pytest.raises(TraceError):
        import_jsonl(put(tmp_path / "bad.jsonl", RUN, {**STEP, "n_tokens": 2**50}), old)
    assert old.read_bytes() == kept
    other = tmp_path / "notes.txt"
    other.write_text("precious")
    with pytest.raises(TraceError, match="not a step trace"):
        import_jsonl(tmp_path / "good.jsonl", other)
    assert other.read_text() == "precious"


def test_strange_but_honest_lines(tmp_path: Path) -> None:
    half = {**STEP, "text": "\ud83d"}
    named = {"note": {"kind": "message", "self": 1, "text": "x"}}
    text = "\ufeff" + "\r\n".join(map(json.dumps, (RUN, half, {**STEP, "self": 2}, named, END))) + "\r\n"
    (tmp_path / "a.jsonl").write_bytes(text.encode())
    assert import_jsonl(tmp_path / "a.jsonl", tmp_path / "a.steps") == 2
    table = Table(tmp_path / "a.steps")
    assert table.notes()[-1][1] == {"kind": "message", "self": 1, "text": "x"}
    assert [s and s["self"] for s in table.plain(0, 2)] == [None, 2]


def test_a_value_without_a_name_is_refused_with_the_files(tmp_path: Path) -> None:
    path = tmp_path / "nameless.jsonl"
    path.write_text('{"format": "stepscope", "version": 1}\n{"": null}\n')
    with pytest.raises(TraceError, match=r"nameless\.jsonl: .* non-empty strings, not ''"):
        import_jsonl(path, tmp_path / "out.steps")
    assert not (tmp_path / "out.steps").exists()
