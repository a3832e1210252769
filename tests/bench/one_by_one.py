"""For gdb, beside the llama_cpp probe: the same values read one by one, as one would type them, and an empty stop.

Sourced by bench_llama.py. Prints `one by one: MS` when gdb ends: the mean of a hit, the first left out.
"""

import time

import gdb

KV = "((llama_kv_cache *)*(llama_memory_i **)&this->memory)"
CELLS = f"{KV}->v_cells._M_impl._M_start[0]"
EXPRESSIONS = [
    "this->cparams.warmup",
    "ubatch.n_tokens",
    "ubatch.token[0]",
    "ubatch.pos[0]",
    "ubatch.seq_id[0][0]",
    "ubatch.output[0]",
    f"{CELLS}.used._M_t._M_impl._M_node_count",
    f"{CELLS}.seq_pos[0]._M_t._M_impl._M_node_count",
    f"{CELLS}.pos._M_impl._M_finish - {CELLS}.pos._M_impl._M_start",
]


class OneByOne(gdb.Breakpoint):
    """A hit that evaluates every expression."""

    def __init__(self) -> None:
        super().__init__("-source llama-context.cpp -function llama_context::process_ubatch", internal=True)
        self.silent = True
        self.spent: list[float] = []

    def stop(self) -> bool:
        if gdb.newest_frame().function() is None:
            return False
        began = time.perf_counter()
        for expression in EXPRESSIONS:
            int(gdb.parse_and_eval(expression))
        table = int(gdb.parse_and_eval("*(long *)*(llama_memory_i **)&this->memory"))
        assert "llama_kv_cache" in gdb.execute(f"info symbol {table}", to_string=True)
        self.spent.append(time.perf_counter() - began)
        return False


hits = OneByOne()


def tell(event: object) -> None:
    """The mean, once the program is over."""
    spent = hits.spent[1:]
    print(f"one by one: {sum(spent) / max(len(spent), 1) * 1e3:.3f} over {len(spent)}", flush=True)


gdb.events.exited.connect(tell)
