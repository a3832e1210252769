"""Step traces and JSON Lines with anything wrong in them, through every verb that reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.pilot import Pilot

from inspector.record_set import FORMAT
from inspector.tui.viewer import Viewer
from tests.command_line import ROOT, SAMPLE
from tests.fuzz.mutations import changed_json, changed_lines, changed_trace, json_text
from tests.fuzz.running import FUZZ, OBEYED, behaves, explore, run
from tests.inspector.tui.small_traces import seen, view
from traces import TraceError
from traces.exporters import jsonl
from traces.importers.jsonl import import_jsonl
from traces.table import Table

CASES = sorted((ROOT / "tests" / "traces" / "cases").rglob("*.jsonl"))
# {trace} is the changed one, {sound} another, {out} a new file
VERBS = {
    "show": ["show {trace}", "show {trace} --steps -3:", "show {trace} --json"],
    "check": ["check {trace}", "check {trace} --all", "check {trace} --json"],
    "stats": ["stats {trace}", "stats {trace} --json"],
    "diff": ["diff {trace} --against {sound}", "diff {sound} --against {trace}",
             "diff {trace} --against {trace} --json"],
    "export": [f"export {{trace}} --to {target} -o {{out}}" for target in ("csv", "jsonl", "chrome", "perfetto")],
    "report": ["report {trace} -o {out}", "report {sound} --against {trace} -o {out}"],
}  # fmt: skip


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Sound traces of every kind, and one of several runs."""
    out = tmp_path_factory.mktemp("seeds") / "a.steps"
    found = [SAMPLE.read_bytes()]
    for case in CASES:
        import_jsonl(case, out)
        found.append(out.read_bytes())
    return [*found, b"".join(found[:3])]


@pytest.mark.parametrize("verb", VERBS)
def test_a_changed_trace(verb: str, seeds: list[bytes], tmp_path: Path) -> None:
    path, out = tmp_path / "changed.steps", tmp_path / "out"

    @settings(FUZZ, max_examples=40)
    @given(data=st.data())
    def ends_well(data: st.DataObject) -> None:
        path.write_bytes(data.draw(changed_trace(seeds[data.draw(st.integers(0, len(seeds) - 1))])))
        out.unlink(missing_ok=True)
        words = data.draw(st.sampled_from(VERBS[verb])).format(trace=path, sound=SAMPLE, out=out)
        outcome = run(*words.split())
        if verb == "export" and outcome.code == 0:
            outcome = outcome._replace(err="")  # what is wrong with the trace is told beside
        behaves(outcome, "changed.steps")
        if "--json" in words and outcome.out:
            json.loads(outcome.out, parse_constant=pytest.fail)

    explore(ends_well)


def test_integers_that_no_float_holds(tmp_path: Path) -> None:
    large = 10**400
    path, out = tmp_path / "changed.jsonl", tmp_path / "out"
    lines: list[dict[str, Any]] = [
        {"format": "stepscope", "version": 1, "clock": "wall", "model": {"n_kv_heads": large, "head_dim": large},
         "kv": {"row_bytes": large, "capacity": large, "dtype": "f16"}, "host": {"threads": large},
         "layers": [{"kind": "window", "window": large, "slack": large}], "stop": {"max_new_tokens": large},
         "floor": {"bytes_per_token": large, "kv_bytes_per_row": large, "bandwidth_gb_s": large}},
        {"note": {"kind": "request", "seq_id": 0, "prompt_tokens": large, "t_ns": large, "prompt_ids": [large]}},
        {"note": {"kind": "totals", "seq_id": large, "ttft_ms": large, "prefill_ms": large, "decode_ms": -large,
                  "generated": large, "n_drafted": large, "itl_ms": [large, 1]}},
        {"n_tokens": 3, "phase": "prefill", "seq_before": 0, "seq_len": 3, "cache_len": [3], "total_ms": 3, "t_ns": 5},
        {"note": {"kind": "shift", "seq_id": 0, "n_discard": large, "n_keep": large}},
        {"note": {"kind": "text", "step": large, "text": "a"}},
        {"n_tokens": 1, "phase": "decode", "token_id": 5, "seq_before": 3, "seq_len": 4, "cache_len": [4],
         "total_ms": 3, "t_ns": 9},
        {"note": {"kind": "end", "tracing_ms": large}},
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for words in (verb for verbs in VERBS.values() for verb in verbs):
        out.unlink(missing_ok=True)
        outcome = run(*words.format(trace=path, sound=SAMPLE, out=out).split())
        assert outcome.code != 2, outcome
        behaves(outcome, "changed.jsonl")


def test_changed_json_lines(tmp_path: Path) -> None:
    path, out = tmp_path / "changed.jsonl", tmp_path / "out.steps"
    texts = [case.read_text() for case in CASES]

    @settings(FUZZ, max_examples=40)
    @given(data=st.data())
    def ends_well(data: st.DataObject) -> None:
        text = texts[data.draw(st.integers(0, len(texts) - 1))]
        if data.draw(st.booleans()):
            lines: list[Any] = [json.loads(line) for line in text.splitlines()]
            at = data.draw(st.integers(0, len(lines) - 1))
            lines[at] = data.draw(changed_json(lines[at]))
            path.write_bytes(b"\n".join(map(json_text, lines)) + b"\n")
        else:
            path.write_bytes(data.draw(changed_lines(text)))
        out.unlink(missing_ok=True)
        outcome = run(*data.draw(st.sampled_from([["import", "jsonl", path, "-o", out], ["check", path], ["show", path],
                                                  ["stats", path, "--json"]])))  # fmt: skip
        behaves(outcome, "changed.jsonl")
        if out.exists():  # what was imported can be exported, and is then the same again
            table = Table(out)
            again = "\n".join(jsonl.lines(table))
            path.write_text(again + "\n")
            import_jsonl(path, out)
            assert "\n".join(jsonl.lines(Table(out))) == again

    explore(ends_well)


def test_the_view_of_a_changed_trace(seeds: list[bytes], tmp_path: Path) -> None:
    """Every panel of it; what cannot be opened is one line."""
    path = tmp_path / "changed.steps"

    async def look_around(app: Viewer, pilot: Pilot[int]) -> None:
        for key in ("end", "n", "1", "2", "3", "4", "5", "slash", "f", "a", "i", "l", "enter", "g"):
            await pilot.press(key)
            assert not OBEYED.search("".join(seen(app)))

    @settings(FUZZ, max_examples=2)
    @given(data=st.data())
    def ends_well(data: st.DataObject) -> None:
        path.write_bytes(data.draw(changed_trace(seeds[data.draw(st.integers(0, len(seeds) - 1))])))
        try:
            view(path, look_around, (160, 50))
        except TraceError as error:
            assert "changed.steps" in str(error)

    explore(ends_well)


def test_a_changed_record_set(tmp_path: Path) -> None:
    folder = tmp_path / "changed-set"
    folder.mkdir()
    names = ["base-1.steps", "new-1.steps"]
    for name in names:
        (folder / name).write_bytes(SAMPLE.read_bytes())
    runs = [{"side": name.split("-")[0], "trace": name, "seconds": 1.0} for name in names]
    commands = {"base": ["true", "{trace}"], "new": ["true", "{trace}"]}
    sound = {"format": FORMAT, "version": 1, "commands": commands, "runs": runs}

    @settings(FUZZ, max_examples=20)
    @given(changed_json(sound))
    def ends_well(changed: object) -> None:
        (folder / "set.json").write_bytes(json_text(changed))
        behaves(run("diff", folder), "changed-set", "--against")

    explore(ends_well)
