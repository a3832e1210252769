"""Make tiny-llama3-f16-untied and its expected answers: needs torch and transformers, as the tests do not."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers

FOLDER = Path(__file__).parent
NAME = "tiny-llama3-f16-untied"
PROMPT_LENGTHS = (3, 40, 300)
N_GREEDY = 24


def make_model() -> transformers.LlamaForCausalLM:
    """Random weights, biases too, already rounded to float16."""
    torch.manual_seed(7)
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=1,
        vocab_size=384,
        max_position_embeddings=512,
        attention_bias=True,
        mlp_bias=True,
        tie_word_embeddings=False,
        rms_norm_eps=1e-5,
        bos_token_id=0,
        eos_token_id=[1, 2],
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
        attn_implementation="eager",
    )
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((parameter + 0.08 * torch.randn_like(parameter)).half().float())
    return model


def answer(model: transformers.LlamaForCausalLM, prompt: list[int]) -> dict[str, object]:
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


def in_the_older_spelling(config: Path) -> None:
    """config.json as transformers 4 wrote it."""
    said = json.loads(config.read_text())
    rope = said.pop("rope_parameters")
    said["rope_theta"] = rope.pop("rope_theta")
    said["rope_scaling"] = rope
    said["torch_dtype"] = said.pop("dtype")
    config.write_text(json.dumps(said, indent=2) + "\n")


def main() -> None:
    """Write the model directory and the expected answers beside it."""
    model = make_model()
    generator = torch.Generator().manual_seed(1)
    prompts = [torch.randint(3, 384, (n,), generator=generator).tolist() for n in PROMPT_LENGTHS]
    with torch.no_grad():
        runs = [answer(model, prompt) for prompt in prompts]
    model.half().save_pretrained(FOLDER / NAME)
    in_the_older_spelling(FOLDER / NAME / "config.json")
    expected = {
        "model": NAME,
        "weights_dtype": "float16",
        "note": "pure argmax greedy (no repetition penalty, no EOS stop), KV cache",
        "oracle": f"transformers {transformers.__version__}, torch {torch.__version__}, attn eager, CPU",
        "runs": runs,
    }
    (FOLDER / f"{NAME}.expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
