"""Make context-shift.json, what a model says when its full context is shifted: needs torch and transformers.

transformers shifts no context itself. Its cache's keys are cut and turned here, in float64, from the positions
that they were made for to the ones they move to.
"""

from __future__ import annotations

import json

import torch
import transformers
from answers import FOLDER, ORACLE

N_GREEDY = 60
RUNS = (("tiny-qwen2-f32-tied", 24, 4), ("tiny-llama3-f16-untied", 32, 0), ("tiny-qwen3-f16-window", 48, 4))
"""(model, context, n_keep)"""


def shift(cache: transformers.DynamicCache, inv_freq: torch.Tensor, n_keep: int, n_discard: int) -> None:
    """Forget n_discard rows after the first n_keep; a pair (i, i + half) of a key is one complex number."""
    turn = torch.polar(torch.ones_like(inv_freq), -n_discard * inv_freq)
    for layer in cache.layers:
        moved = layer.keys[..., n_keep + n_discard :, :].double()
        half = moved.shape[-1] // 2
        turned = torch.complex(moved[..., :half], moved[..., half:]) * turn
        moved = torch.cat((turned.real, turned.imag), dim=-1).float()
        layer.keys = torch.cat((layer.keys[..., :n_keep, :], moved), dim=-2)
        layer.values = torch.cat((layer.values[..., :n_keep, :], layer.values[..., n_keep + n_discard :, :]), dim=-2)


def answer(name: str, context: int, n_keep: int) -> dict[str, object]:
    """Greedy ids and margins of one run, in float32; `shifts` holds how many tokens were sampled before each."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        FOLDER / name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    prompt = torch.randint(3, 150, (20,), generator=torch.Generator().manual_seed(2)).tolist()
    inv_freq = model.model.rotary_emb.inv_freq.double()
    cache = transformers.DynamicCache()
    out = model(torch.tensor([prompt]), past_key_values=cache, use_cache=True)
    greedy: list[int] = []
    margins: list[float] = []
    shifts: list[int] = []
    for _ in range(N_GREEDY):
        best = out.logits[0, -1].topk(2)
        greedy.append(int(best.indices[0]))
        margins.append(round(float(best.values[0] - best.values[1]), 6))
        if cache.get_seq_length() == context:
            shifts.append(len(greedy))
            shift(cache, inv_freq, n_keep, (context - n_keep) // 2)
        place = torch.tensor([[cache.get_seq_length()]])
        out = model(best.indices[:1][None], position_ids=place, past_key_values=cache, use_cache=True)
    return {"model": name, "context": context, "n_keep": n_keep, "prompt": prompt, "greedy": greedy,
            "step_margin": margins, "shifts": shifts}  # fmt: skip


def main() -> None:
    """Write the answers."""
    with torch.no_grad():
        runs = [answer(*run) for run in RUNS]
    (FOLDER / "context-shift.json").write_text(json.dumps({"oracle": ORACLE, "runs": runs}) + "\n")


if __name__ == "__main__":
    main()
