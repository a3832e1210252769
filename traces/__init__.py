"""Step traces: the one file that every producer writes and every consumer reads. `FORMAT.md` describes it.

import traces
with traces.record("run.steps", n_layers=28) as trace:
    trace.request(prompt_tokens=25, n_reused=0)
    trace.step(token_id=None, n_tokens=25, seq_before=0, seq_len=25, cache_len=[25] * 28)
"""

from traces.writer import TraceError, record

__all__ = ["TraceError", "record"]
