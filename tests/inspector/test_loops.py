"""The loops as a user runs them: the same answer, a trace that keeps the rules, and figures that tell them apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import stepscope

COUNT = "Count to forty"
FORTY = " ".join(map(str, range(1, 41)))


def run(folder: Path, *words: str) -> str:
    """What `run` prints; its trace, a.steps, keeps every rule."""
    done = stepscope("run", *words, "-o", "a.steps", cwd=folder)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    assert stepscope("check", "a.steps", cwd=folder).returncode == 0
    return done.stdout


def stats(folder: Path) -> Any:
    return json.loads(stepscope("stats", "a.steps", "--json", cwd=folder).stdout)


@pytest.mark.parametrize(
    "flags",
    [
        ("--loop", "cached", "--prefill-chunk", "5", "--context", "100"),
        ("--loop", "naive"),
        ("--loop", "speculative", "--draft-k", "6"),
        ("--loop", "speculative", "--draft-model", "demo"),
        ("--kv-dtype", "int8"),
        ("--context", "62", "--n-keep", "20"),
    ],
)
def test_every_way_gives_the_same_answer(tmp_path: Path, flags: tuple[str, ...]) -> None:
    assert run(tmp_path, "-p", COUNT, *flags) == FORTY + "\n"


def test_naive_steps_grow_slower_and_stats_say_why(tmp_path: Path) -> None:
    ids = ",".join(str(3 + i) for i in range(20))
    run(tmp_path, "--prompt-ids", ids, "--ignore-eos", "--max-new-tokens", "150", "--loop", "naive")
    figures = stats(tmp_path)
    assert figures["decode"]["tokens"] == 149
    # 20 to 168 rows were there before each of the 149 tokens that were fed
    assert figures["naive"]["rows"] == sum(range(20, 169))
    assert figures["pace"]["steps"] == 20
    assert figures["pace"]["last_ms"] > 1.15 * figures["pace"]["first_ms"]
    scores = [row["scores"] for row in figures["by_context"]]
    assert scores == sorted(scores)
    assert scores[-1] > 20 * scores[0]  # about 160² against 30²
    text = stepscope("stats", "a.steps", cwd=tmp_path).stdout
    assert "ms a step: first 20 steps " in text
    assert f"no KV cache: {sum(range(20, 169)):,} rows computed again in every layer" in text


def test_several_prompts_run_together(tmp_path: Path) -> None:
    (tmp_path / "prompts").write_text("Count to ten\n\nName three months\nList the first six letters of the alphabet\n")
    said = run(tmp_path, "--prompts-file", "prompts", "--max-batch", "2", "--prefill-chunk", "8")
    assert said == "[0] 1 2 3 4 5 6 7 8 9 10\n[1] January February March\n[2] a b c d e f\n"
    figures = stats(tmp_path)
    assert [request["finish"] for request in figures["requests"]] == ["eos"] * 3
    assert figures["decode"]["tokens"] == 19
    assert figures["forwards"] < 3 + 3 + 4 + 19  # chunks of the prompts, and fewer forwards than tokens


def test_one_prompt_may_run_as_a_batch(tmp_path: Path) -> None:
    assert run(tmp_path, "-p", COUNT, "--loop", "batched") == f"[0] {FORTY}\n"


def test_drafts_are_told(tmp_path: Path) -> None:
    ids = ",".join(["64", "317", "302"] * 20)
    run(tmp_path, "--prompt-ids", ids, "--ignore-eos", "--max-new-tokens", "40", "--loop", "speculative")
    drafts = stats(tmp_path)["speculative"]
    assert 0 < drafts["accepted"] <= drafts["drafted"]
    shown = stepscope("show", "a.steps", cwd=tmp_path).stdout
    assert "verify" in shown
    text = stepscope("stats", "a.steps", cwd=tmp_path).stdout
    assert f"drafts: {drafts['accepted']} of {drafts['drafted']} accepted" in text


def test_several_prompts_may_have_int8_rows(tmp_path: Path) -> None:
    said = run(tmp_path, "-p", COUNT, "-p", "Name three months", "--kv-dtype", "int8")
    assert said == f"[0] {FORTY}\n[1] January February March\n"
    [message] = stats(tmp_path)["messages"]
    assert message.startswith("int8 KV cache: rounding changed the rows by 0.")


def test_what_int8_cost_stands_in_the_trace(tmp_path: Path) -> None:
    run(tmp_path, "-p", COUNT, "--kv-dtype", "int8")
    [message] = stats(tmp_path)["messages"]
    assert message.startswith("int8 KV cache: rounding changed the rows by 0.")
    assert message in stepscope("stats", "a.steps", cwd=tmp_path).stdout
    # 61 rows in 4 layers: keys and values, 2 heads, 32 values and a scale
    assert stats(tmp_path)["kv_bytes"]["used"] == 61 * 4 * 2 * 2 * 36
