"""What runs under gdb: llama-cpp-python generating greedily, printing what its API returned, one JSON line a request.

    python generate.py MODEL.gguf HOW N IDS [IDS ...]        IDS is a prompt: 957,12,34

HOW: `requests` one after the other through Llama.generate, `batched` all in one llama_batch a forward, `unified` the
same with one pool of cells for all, `shifted` one request whose oldest rows leave the context half-way, `warm` a
warm-up forward first and then one request.
A line holds `prompt` (ids), `sampled` (ids; the last one was not fed), and `positions` (where each sampled one was fed,
or would have been).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import llama_cpp
from llama_cpp import Llama

N_KEEP = 4


def main(model: str, how: str, n: int, prompts: list[list[int]]) -> None:
    """Run and print."""
    llama = Llama(model, n_ctx=512, n_batch=64, n_threads=1, n_threads_batch=1, verbose=False)
    ways = {"requests": requests, "batched": batched, "unified": unified, "shifted": shifted, "warm": warm}
    for request in ways[how](llama, n, prompts):
        print(json.dumps(request), flush=True)


def requests(llama: Llama, n: int, prompts: list[list[int]]) -> Iterator[dict[str, Any]]:
    """Through the high-level API, which keeps the rows of a common prefix from one prompt to the next."""
    for prompt in prompts:
        sampled: list[int] = []
        positions: list[int] = []
        for token in llama.generate(prompt, temp=0.0, top_k=1, repeat_penalty=1.0):
            sampled.append(token)
            positions.append(llama.n_tokens)
            if len(sampled) == n or token == llama.token_eos():
                break
        yield {"prompt": prompt, "sampled": sampled, "positions": positions}


def batched(llama: Llama, n: int, prompts: list[list[int]], one_pool: bool = False) -> Iterator[dict[str, Any]]:
    """All prompts in one batch, then one token of each in one batch, until each has n."""
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx, settings.n_batch, settings.n_seq_max = 512 * len(prompts), 512, len(prompts)
    settings.n_threads = settings.n_threads_batch = 1
    settings.kv_unified = one_pool
    context = llama_cpp.llama_init_from_model(llama.model, settings)
    runs = [{"prompt": p, "sampled": [], "positions": []} for p in prompts]
    feed(context, [(slot, list(enumerate(p))) for slot, p in enumerate(prompts)], runs)
    for step in range(n - 1):
        feed(context, [(slot, [(len(p) + step, runs[slot]["sampled"][-1])]) for slot, p in enumerate(prompts)], runs)
    yield from runs


def unified(llama: Llama, n: int, prompts: list[list[int]]) -> Iterator[dict[str, Any]]:
    """The same, the cells of all sequences in one pool."""
    yield from batched(llama, n, prompts, one_pool=True)


def shifted(llama: Llama, n: int, prompts: list[list[int]]) -> Iterator[dict[str, Any]]:
    """After half of the tokens, N_KEEP rows are kept and as many behind them leave."""
    run = {"prompt": prompts[0], "sampled": [], "positions": []}
    feed(llama.ctx, [(0, list(enumerate(prompts[0])))], [run])
    position = len(prompts[0])
    for step in range(n - 1):
        if step == n // 2:
            memory = llama_cpp.llama_get_memory(llama.ctx)
            llama_cpp.llama_memory_seq_rm(memory, 0, N_KEEP, 2 * N_KEEP)
            llama_cpp.llama_memory_seq_add(memory, 0, 2 * N_KEEP, position, -N_KEEP)
            position -= N_KEEP
            run["positions"][-1] = position
        feed(llama.ctx, [(0, [(position, run["sampled"][-1])])], [run])
        position += 1
    yield run


def warm(llama: Llama, n: int, prompts: list[list[int]]) -> Iterator[dict[str, Any]]:
    """As llama.cpp's own tools begin: an empty forward that touches every weight, then the cache is cleared."""
    llama_cpp.llama_set_warmup(llama.ctx, True)
    feed(llama.ctx, [(0, [(0, 1), (1, 2)])], [{"sampled": [], "positions": []}])
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(llama.ctx), True)
    llama_cpp.llama_set_warmup(llama.ctx, False)
    yield from requests(llama, n, prompts[:1])


def feed(context: Any, fed: list[tuple[int, list[tuple[int, int]]]], runs: list[dict[str, Any]]) -> None:
    """One llama_decode of (slot, [(position, token), ...]); the best token of each slot's last row is its next."""
    n_vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(llama_cpp.llama_get_model(context)))
    batch = llama_cpp.llama_batch_init(sum(len(tokens) for _, tokens in fed), 0, 1)
    at = 0
    last = []
    for slot, tokens in fed:
        for position, token in tokens:
            batch.token[at], batch.pos[at] = token, position
            batch.n_seq_id[at], batch.seq_id[at][0], batch.logits[at] = 1, slot, 0
            at += 1
        batch.logits[at - 1] = 1
        last.append((slot, at - 1, tokens[-1][0] + 1))
    batch.n_tokens = at
    if llama_cpp.llama_decode(context, batch) != 0:
        raise SystemExit("llama_decode failed")
    for slot, row, position in last:
        logits = llama_cpp.llama_get_logits_ith(context, row)
        runs[slot]["sampled"].append(max(range(n_vocab), key=logits.__getitem__))
        runs[slot]["positions"].append(position)
    llama_cpp.llama_batch_free(batch)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), [[int(i) for i in ids.split(",")] for ids in sys.argv[4:]])
