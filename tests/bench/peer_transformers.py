"""transformers on the CPU, one measured turn for each line of standard input: run by bench_engine.py.

    python peer_transformers.py CONFIG.json THREADS

The weights are random, of the shape in CONFIG, in float32. A line `prefill N` feeds N tokens to an empty cache,
`decode` feeds one more; the answer is the milliseconds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
import transformers


def main(config: Path, threads: int) -> None:
    """Answer until standard input ends."""
    torch.set_num_threads(threads)
    settings = transformers.AutoConfig.from_pretrained(config.parent)
    model = transformers.AutoModelForCausalLM.from_config(settings, dtype=torch.float32).eval()
    cache = None
    print("ready", flush=True)
    with torch.inference_mode():
        for line in sys.stdin:
            ids = torch.arange(int(line.split()[1])) if line.startswith("prefill") else torch.tensor([7])
            began = time.perf_counter()
            out = model(
                ids[None],
                past_key_values=None if line.startswith("prefill") else cache,
                use_cache=True,
                logits_to_keep=1,
            )
            int(out.logits[0, -1].argmax())
            spent = time.perf_counter() - began
            cache = out.past_key_values
            print(spent * 1000, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
