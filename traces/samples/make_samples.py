"""Writes the sample traces beside this file: `python traces/samples/make_samples.py` after a change of the format.

restored-prefix.steps shows the fault that KV01 is for. Two requests run on the embedded model; the second reuses the
rows of the prompt's beginning, as prefix caches do. Its steps are then recorded as an engine sees them that restored
the rows and forgot the position counter: seq_len starts again at 0 while the rows are all there.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as `stepscope run` does for the embedded model; numpy reads it when it loads

from engine.loop import StopSettings  # noqa: E402
from engine.model import DEMO_MODEL, Model, load_model  # noqa: E402
from engine.tracing import record_generation  # noqa: E402
from traces.table import Table  # noqa: E402
from traces.writer import TraceWriter  # noqa: E402

HERE = Path(__file__).parent
REQUESTS = ("List the first six letters of the alphabet", "List the first four letters of the alphabet")


def main() -> None:
    """Write every sample."""
    model = load_model(DEMO_MODEL)
    assert model.tokenizer is not None
    prompts = [model.tokenizer.encode(model.tokenizer.chat_prompt(text)) for text in REQUESTS]
    reused = next(i for i, (a, b) in enumerate(zip(*prompts, strict=False)) if a != b)
    runs = [_recorded(model, prompt) for prompt in prompts]
    facts = {**runs[0][0], "engine": {"name": "an engine with a prefix cache"}}
    facts.pop("started_at")
    with TraceWriter(HERE / "restored-prefix.steps", facts, flush="step") as writer:
        clock = 0
        for seq_id, (prompt, (_, steps)) in enumerate(zip(prompts, runs, strict=True)):
            n_reused = reused if seq_id else 0
            writer.note(
                "request", seq_id=seq_id, t_ns=clock, prompt=REQUESTS[seq_id], prompt_ids=prompt,
                prompt_tokens=len(prompt), n_reused=n_reused, max_new_tokens=64,
            )  # fmt: skip
            for step in steps:
                writer.step(**_forgetful(step, n_reused, seq_id, clock))
                clock += round(step["total_ms"] * 1e6) + 20_000
            writer.note("release", seq_id=seq_id)


def _recorded(model: Model, prompt: list[int]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.steps"
        record_generation(model, prompt, stops=StopSettings(model.defaults.eos, 64), path=path)
        table = Table(path)
        steps = [step for step in table.plain(0, table.steps) if step is not None]
        return table.runs[0].facts, steps


def _forgetful(step: dict[str, Any], n_reused: int, seq_id: int, clock: int) -> dict[str, Any]:
    """The step of an engine whose counter does not know the `n_reused` rows that were restored."""
    values = {name: value for name, value in step.items() if name != "step"}
    values.update(seq_id=seq_id, t_ns=clock, seq_len=step["seq_len"] - n_reused)
    if step["phase"] == "prefill":
        values.update(n_tokens=step["n_tokens"] - n_reused, n_reused=n_reused, write_pos=0)
    else:
        values["seq_before"] = step["seq_before"] - n_reused
        if step["write_pos"] is not None:
            values["write_pos"] = step["write_pos"] - n_reused
    return values


if __name__ == "__main__":
    main()
