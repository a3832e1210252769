"""Generations of llama-cpp-python, recorded: `python record_llama_cpp.py MODEL.gguf FOLDER ASKED.json`.

ASKED: {"prompts": [[id, ...], [id, ...]], "end": id, "hint": [id, ...]}. FOLDER gets the traces; printed is one JSON
object: what each way returned.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from llama_cpp import Llama
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

sys.path.insert(0, str(Path(__file__).parents[2]))

from traces.adapters.llama_cpp import stepscope_record

GREEDY: dict[str, Any] = {"temperature": 0.0, "repeat_penalty": 1.0}


def main(model: str, folder: Path, asked: dict[str, Any]) -> None:
    """Run the ways and print."""
    first, second = asked["prompts"]
    settings: dict[str, Any] = {"n_ctx": 512, "n_batch": 64, "n_threads": 1, "verbose": False}
    settings |= {"type_k": 0, "type_v": 0, "flash_attn": False}
    returned: dict[str, Any] = {}

    with stepscope_record(llama := Llama(model, **settings), folder / "loop.steps"):
        returned["loop"] = []
        for token in llama.generate(first, temp=0.0, top_k=1, repeat_penalty=1.0):
            returned["loop"].append(token)
            if token == asked["end"]:
                break
    assert not {"generate", "eval", "sample", "create_completion"} & set(vars(llama))

    with stepscope_record(llama := Llama(model, **settings), folder / "completions.steps"):
        answers = [llama(first, max_tokens=3, **GREEDY), llama(first, max_tokens=40, **GREEDY)]
        answers.append(llama(second, max_tokens=40, stop=["c"], **GREEDY))
        streamed = list(llama(second, max_tokens=4, stream=True, **GREEDY))
        returned["completions"] = [answer["choices"][0]["text"] for answer in answers]
        returned["completions"].append("".join(chunk["choices"][0]["text"] for chunk in streamed))

    lookup = Llama(model, draft_model=LlamaPromptLookupDecoding(num_pred_tokens=4), **settings)
    with stepscope_record(lookup, folder / "lookup.steps"):
        returned["lookup"] = lookup([*asked["hint"], *first], max_tokens=40, **GREEDY)["choices"][0]["text"]

    with stepscope_record(llama := Llama(model, **settings), folder / "none" / "x.steps"):
        returned["elsewhere"] = llama(first, max_tokens=40, **GREEDY)["choices"][0]["text"]
    print(json.dumps(returned))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text()))
