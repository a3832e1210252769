"""What llama.cpp makes of texts and prompts, as one JSON object: `python answer.py MODEL.gguf N < ASKED.json`.

ASKED: {"texts": [text, ...], "prompts": [[id, ...], ...]}. Printed: the ids of each text, special tokens parsed, and
the N ids that follow each prompt greedily, keys and values in float32, past an end token too.
"""

from __future__ import annotations

import json
import sys

from llama_cpp import GGML_TYPE_F32, Llama


def main(model: str, n: int) -> None:
    """Answer and print."""
    asked = json.load(sys.stdin)
    llama = Llama(model, n_ctx=1024, type_k=GGML_TYPE_F32, type_v=GGML_TYPE_F32, flash_attn=False, verbose=False)
    ids = [llama.tokenize(text.encode(), add_bos=False, special=True) for text in asked["texts"]]
    print(json.dumps({"ids": ids, "answers": [greedy(llama, prompt, n) for prompt in asked["prompts"]]}))


def greedy(llama: Llama, prompt: list[int], n: int) -> list[int]:
    """The n best next ids, one after the other."""
    answer: list[int] = []
    for token in llama.generate(prompt, temp=0.0, top_k=1, repeat_penalty=1.0):
        answer.append(token)
        if len(answer) == n:
            break
    return answer


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
