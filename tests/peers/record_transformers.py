"""Generations of transformers, each recorded to a trace: `python record_transformers.py MODEL FOLDER ASKED.json`.

ASKED: {"prompts": [[id, ...], ...], "ways": [name, ...], "n": tokens}. A way is a method below. FOLDER gets a trace of
each; printed is one JSON object: what each way returned, as lists of ids, one a sequence, padding and all.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

sys.path.insert(0, str(Path(__file__).parents[2]))

from traces.adapters.transformers import stepscope_record

Ids = list[list[int]]


class Breaks(transformers.generation.streamers.BaseStreamer):
    """Somebody presses Ctrl-C when the third token comes (the prompt is the first thing that a streamer is given)."""

    def __init__(self) -> None:
        self.left = 4

    def put(self, value: Any) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt

    def end(self) -> None:
        pass


class Generations:
    """The ways to generate; each returns what generate did."""

    def __init__(self, model: Path, asked: dict[str, Any]) -> None:
        self.load = lambda: transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
        self.model, self.prompts, self.n = self.load(), asked["prompts"], asked["n"]
        has_tokenizer = (model / "tokenizer.json").exists()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(model) if has_tokenizer else None

    def generate(self, **how: Any) -> Ids:
        settings = {"max_new_tokens": self.n, "do_sample": False, "pad_token_id": 0, "repetition_penalty": 1.0, **how}
        ids = settings.pop("ids", torch.tensor(self.prompts[:1]))
        returned: Ids = self.model.generate(ids, **settings).tolist()
        return returned

    def plain(self) -> Ids:
        return self.generate()

    def static(self) -> Ids:
        return self.generate(cache_implementation="static")

    def naive(self) -> Ids:
        return self.generate(use_cache=False)

    def chunked(self) -> Ids:
        ids = torch.tensor(self.prompts[:1])
        return self.generate(
            cache=transformers.DynamicCache(), prefill_chunk_size=7, attention_mask=torch.ones_like(ids)
        )

    def lookup(self) -> Ids:
        return self.generate(prompt_lookup_num_tokens=3)

    def assisted(self) -> Ids:
        return self.generate(assistant_model=self.load())

    def batch(self, **how: Any) -> Ids:
        width = max(len(prompt) for prompt in self.prompts)
        pads = [width - len(prompt) for prompt in self.prompts]
        ids = torch.tensor([[0] * pad + prompt for pad, prompt in zip(pads, self.prompts, strict=True)])
        mask = torch.tensor([[0] * pad + [1] * len(p) for pad, p in zip(pads, self.prompts, strict=True)])
        return self.generate(ids=ids, attention_mask=mask, **how)

    def static_batch(self) -> Ids:
        return self.batch(cache_implementation="static")

    def sampled(self) -> Ids:
        torch.manual_seed(1)
        return self.generate(do_sample=True, temperature=0.9, top_k=20, num_return_sequences=3)

    def stop_string(self) -> Ids:
        return self.batch(stop_strings=["c"], tokenizer=self.tokenizer)

    def turns(self) -> Ids:
        first = self.model.generate(
            torch.tensor(self.prompts[:1]), max_new_tokens=4, do_sample=False, return_dict_in_generate=True
        )
        both = torch.cat([first.sequences, torch.tensor(self.prompts[1:2])], 1)
        return [*first.sequences.tolist(), *self.generate(ids=both, cache=first.cache)]

    def beams(self) -> Ids:
        return [*self.generate(num_beams=2), *self.generate()]

    def broken(self) -> Ids:
        try:
            return self.generate(streamer=Breaks())
        except KeyboardInterrupt:
            return []

    def compiled(self) -> Ids:
        how = transformers.CompileConfig(backend="eager", mode=None)
        how._compile_all_devices = True  # transformers' own switch for trying it on a CPU
        return self.generate(cache_implementation="static", compile_config=how)

    def elsewhere(self) -> Ids:
        """The folder that the trace should go to is not there."""
        return self.generate()


def main(model: Path, folder: Path, asked: dict[str, Any]) -> None:
    """Run the ways and print."""
    torch.set_num_threads(1)
    generations = Generations(model, asked)
    returned = {}
    for name in asked["ways"]:
        way: Callable[[], Ids] = getattr(generations, name)
        path = folder / "none" / "x.steps" if name == "elsewhere" else folder / f"{name}.steps"
        with stepscope_record(generations.model, path, tokenizer=generations.tokenizer):
            returned[name] = way()
        hooks = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in generations.model.modules())
        assert not hooks, name
        assert not {"generate", "_get_stopping_criteria"} & set(vars(generations.model)), name
    print(json.dumps(returned))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text()))
