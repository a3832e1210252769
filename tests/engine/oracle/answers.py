"""What a model of transformers answers, and the files that the tests read it from: shared by the scripts that make the
models beside this file. Needs torch and transformers, as the tests do not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

FOLDER = Path(__file__).parent
PROMPT_LENGTHS = (3, 40, 300)
N_GREEDY = 24
ORACLE = f"transformers {transformers.__version__}, torch {torch.__version__}, attn eager, CPU"


def roughen(model: Any, noise: float, dtype: torch.dtype) -> None:
    """Add noise to every weight and round it to `dtype`, biases and norms too, whose first values are all alike."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((parameter + noise * torch.randn_like(parameter)).to(dtype).float())


def draw_prompts(generator: torch.Generator, vocab_size: int) -> list[list[int]]:
    """Random ids of three lengths, no special ones."""
    return [torch.randint(3, vocab_size, (n,), generator=generator).tolist() for n in PROMPT_LENGTHS]


def write_model(name: str, model: Any, dtype: torch.dtype, prompts: Iterable[Sequence[int]]) -> None:
    """Write the model directory, its weights in `dtype`, and the expected answers beside it."""
    with torch.no_grad():
        runs = [answer(model, prompt) for prompt in prompts]
    model.to(dtype).save_pretrained(FOLDER / name)
    expected = {
        "model": name,
        "weights_dtype": str(dtype).removeprefix("torch."),
        "note": "pure argmax greedy (no repetition penalty, no EOS stop), KV cache",
        "oracle": ORACLE,
        "runs": runs,
    }
    (FOLDER / f"{name}.expected.json").write_text(json.dumps(expected) + "\n")


def answer(model: Any, prompt: Sequence[int]) -> dict[str, object]:
    """What the model says after a prompt, in float32."""
    run: dict[str, list[float]] = {"greedy": [], "step_max_logit": [], "step_margin": []}
    out = model(torch.tensor([prompt]), use_cache=True, output_hidden_states=True)
    first, hidden = out.logits[0, -1], out.hidden_states
    for _ in range(N_GREEDY):
        best = out.logits[0, -1].topk(2)
        run["greedy"].append(int(best.indices[0]))
        run["step_max_logit"].append(round(float(best.values[0]), 6))
        run["step_margin"].append(round(float(best.values[0] - best.values[1]), 6))
        out = model(best.indices[:1][None], past_key_values=out.past_key_values, use_cache=True)
    return {
        "compute_dtype": "float32",
        "prompt": prompt,
        **run,
        "prefill_last_logits_first16": [round(float(x), 6) for x in first[:16]],
        "hidden_state_l2_last_token": [round(float(h[0, -1].norm()), 6) for h in hidden],
    }
