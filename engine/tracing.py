"""A generation turned into a step trace: the same loop, watched from outside.

The recorder stands between the loop and the model: it times the sampler and the forward that the loop calls,
and writes one record when the loop reports a step. The loop and the model stay free of clocks;
`traces/FORMAT.md` says what the file holds.
"""

from __future__ import annotations

import inspect
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from engine.loop import Result, Step, StopSettings, check_request, collect, generate
from engine.model import Model
from engine.sampling import Pick, Sampler, SamplerSettings, make_sampler
from engine.text_stream import OnText
from engine.weights import Array
from traces import fields
from traces.writer import TraceWriter

GEMM_PARTS = ("qkv", "o", "gate_up", "down")
"""The matrix products inside a layer; their times add up to gemm_ms."""

_FIELDS = (
    *fields.REQUIRED,
    *("t_ns", "total_ms", "forward_ms", "sample_ms", "gemm_ms", "attn_ms"),
    *("qkv_ms", "o_ms", "gate_up_ms", "down_ms", "lm_head_ms"),
    *("write_pos", "n_reused", "logit", "margin", "runner_up", "hidden_rms", "text"),
)
_PER_LAYER = ("cache_len", "gemm_ms", "attn_ms", "hidden_rms")
_SEQ_ID = 0


class ForwardTimer:
    """Times the parts of one forward, in ns of the monotonic clock.

    attn covers everything between the qkv and the o product: q/k norm, RoPE, growing the cache, scores,
    softmax and the weighted sum. Norms, biases, activations and residual sums of a layer belong to forward_ms
    alone.
    """

    now = staticmethod(time.perf_counter_ns)

    def __init__(self, n_layers: int) -> None:
        self.n_layers = n_layers
        self.reset()

    def reset(self) -> None:
        """Forget the previous forward."""
        self.part_ns = dict.fromkeys((*GEMM_PARTS, "lm_head"), 0)
        self.gemm_ns = [0] * self.n_layers
        self.attn_ns = [0] * self.n_layers
        self.hidden_rms = [float("nan")] * self.n_layers
        self.write_pos = -1

    def add(self, part: str, layer: int, since: int) -> None:
        """The time from `since` until now went to `part` of `layer`; see `engine.model.Timer`."""
        spent = time.perf_counter_ns() - since
        if part == "attn":
            self.attn_ns[layer] += spent
            return
        self.part_ns[part] += spent
        if layer >= 0:
            self.gemm_ns[layer] += spent

    def layer_done(self, layer: int, residual: Array, write_pos: int) -> None:
        """Take a layer's fingerprint, the residual stream's root mean square, and the first row it wrote."""
        self.hidden_rms[layer] = (float(residual @ residual) / len(residual)) ** 0.5
        if layer == 0 and self.write_pos < 0:
            self.write_pos = write_pos

    def measured(self) -> dict[str, Any]:
        """What it saw by field name: times in ms; gemm_ms, attn_ms, hidden_rms one a layer."""
        return {
            **{f"{part}_ms": _ms(spent) for part, spent in self.part_ns.items()},
            "gemm_ms": [_ms(spent) for spent in self.gemm_ns],
            "attn_ms": [_ms(spent) for spent in self.attn_ns],
            "hidden_rms": self.hidden_rms,
            "write_pos": self.write_pos,
        }


def record_generation(
    model: Model,
    prompt_ids: Sequence[int],
    sampler: SamplerSettings | None = None,
    stops: StopSettings | None = None,
    path: str | Path = "run.steps",
    prompt_text: str | None = None,
    on_text: OnText | None = None,
    flush: str = "interval",
) -> Result:
    """Generate as `engine.loop.run_generation` does and write the trace to `path`.

    prompt_text: the text that the ids come from, for the request note. flush: "interval" or "step", as
    TraceWriter's. Whatever ends the generation, the trace is closed: after Ctrl-C with finish "abort", after
    an error with finish "error" (which is raised again). Raises EngineError as `generate` does and TraceError
    where `path` cannot be written.
    """
    settings = (sampler or SamplerSettings()).with_seed()
    stops = stops or StopSettings(eos=model.defaults.eos)
    # a request that cannot run should not cost the trace that stands at `path`
    check_request(prompt_ids, stops, model.config.context_length, _token_bytes(model))
    model.check_ids(prompt_ids)
    with TraceWriter(path, run_facts(model, settings, stops), flush=flush) as writer:
        writer.note("source", **_loop_source())
        writer.note("request", **_request(writer.now_ns(), prompt_ids, prompt_text, stops))
        steps = recorded_steps(writer, model, prompt_ids, make_sampler(settings), stops)
        finish = "error"
        try:
            result = collect(steps, len(prompt_ids), stops, model.tokenizer, on_text)
            finish = result.finish
        finally:
            if finish in ("abort", "error"):
                writer.note("finish", seq_id=_SEQ_ID, finish=finish)
            writer.note("release", seq_id=_SEQ_ID)
        return result


def run_facts(model: Model, sampler: SamplerSettings, stops: StopSettings) -> dict[str, Any]:
    """The RUN object of a generation with these settings; `traces/FORMAT.md` explains the entries."""
    config = model.config
    facts: dict[str, Any] = {
        "producer": {"name": "stepscope", "version": _version()},
        "engine": {"name": "stepscope-numpy", "version": _version()},
        "model": {
            "name": model.name,
            "n_layers": config.n_layers,
            "n_heads": config.n_heads,
            "n_kv_heads": config.n_kv_heads,
            "head_dim": config.head_dim,
            "vocab_size": config.vocab_size,
        },
        "layers": [{"kind": "full"}] * config.n_layers,
        "kv": {"capacity": config.context_length, "dtype": "f32", "unit": "rows"},
        "sampler": _sampler_facts(sampler),
        "stop": {
            "eos": list(stops.eos),
            "max_new_tokens": stops.max_new_tokens,
            "ignore_eos": stops.ignore_eos,
            "stop_strings": list(stops.stop_strings),
        },
        "loop": "cached",
        "host": _host(),
        "clock": "monotonic",
        "resolution_ms": time.get_clock_info("perf_counter").resolution * 1000,
        "fields": fields.declaration(_FIELDS, dict.fromkeys(_PER_LAYER, config.n_layers)),
    }
    if model.tokenizer is not None:
        facts["model"]["tokenizer_size"] = model.tokenizer.size
    if model.sha256 is not None:
        facts["model"]["weights_sha256"] = model.sha256
    return facts


class _Watch:
    """Stands in for the model and the sampler in the loop, calls the real ones and keeps their times."""

    def __init__(self, model: Model, sampler: Sampler) -> None:
        self.timer = ForwardTimer(model.config.n_layers)
        self._model, self._sampler = model, sampler
        self.begin_step()

    def begin_step(self) -> None:
        self.forward_ns: int | None = None
        self.sample_ns: int | None = None

    def new_cache(self, capacity: int) -> Sequence[Any]:
        return self._model.new_cache(capacity)

    def forward(self, ids: Sequence[int], cache: Any, timer: Any = None) -> Array:
        self.timer.reset()
        began = time.perf_counter_ns()
        logits = self._model.forward(ids, cache, self.timer)
        self.forward_ns = time.perf_counter_ns() - began
        return logits

    def sample(self, logits: Array, sequence: Sequence[int]) -> Pick:
        began = time.perf_counter_ns()
        pick = self._sampler(logits, sequence)
        self.sample_ns = time.perf_counter_ns() - began
        return pick

    def measured(self) -> dict[str, Any]:
        """What the step did, by field name; nothing of a forward that was not run."""
        values: dict[str, Any] = {}
        if self.sample_ns is not None:
            values["sample_ms"] = _ms(self.sample_ns)
        if self.forward_ns is not None:
            values.update(self.timer.measured(), forward_ms=_ms(self.forward_ns))
        return values


def recorded_steps(
    writer: TraceWriter, model: Model, prompt_ids: Sequence[int], sampler: Sampler, stops: StopSettings
) -> Iterator[Step]:
    """The steps of `engine.loop.generate`, each written to the trace before it is passed on.

    writer: open, with a run of `run_facts`. Raises what `generate` and TraceWriter raise.
    """
    watch = _Watch(model, sampler)
    token_bytes = _token_bytes(model)
    steps = generate(watch, prompt_ids, watch.sample, stops, model.config.context_length, token_bytes)
    while True:
        watch.begin_step()
        t_ns, began = writer.now_ns(), time.perf_counter_ns()
        step = next(steps, None)
        if step is None:
            return
        total_ns = time.perf_counter_ns() - began
        text = token_bytes(step.pick.token_id) if token_bytes and step.pick else None
        writer.step(t_ns=t_ns, total_ms=_ms(total_ns), text=text, **_state(step), **watch.measured())
        yield step


def _token_bytes(model: Model) -> Callable[[int], bytes] | None:
    return model.tokenizer.token_bytes if model.tokenizer else None


def _state(step: Step) -> dict[str, Any]:
    values: dict[str, Any] = {
        "phase": fields.PHASES[step.phase],
        "seq_id": _SEQ_ID,
        "n_tokens": step.n_tokens,
        "seq_before": step.seq_before,
        "seq_len": step.seq_len,
        "cache_len": step.cache_len,
        "finish": fields.FINISH[step.finish or "none"],
    }
    if step.pick is None:
        values["n_reused"] = 0
    else:
        pick = step.pick
        values.update(token_id=pick.token_id, logit=pick.logit, margin=pick.margin, runner_up=pick.runner_up)
    return values


def _request(t_ns: int, prompt_ids: Sequence[int], prompt_text: str | None, stops: StopSettings) -> dict[str, Any]:
    return {
        "seq_id": _SEQ_ID,
        "t_ns": t_ns,
        "prompt": prompt_text,
        "prompt_ids": list(prompt_ids),
        "prompt_tokens": len(prompt_ids),
        "n_reused": 0,
        "max_new_tokens": stops.max_new_tokens,
    }


def _loop_source() -> dict[str, Any]:
    return {
        "file": "engine/loop.py",
        "line": inspect.getsourcelines(generate)[1],
        "function": generate.__name__,
    }


def _sampler_facts(settings: SamplerSettings) -> dict[str, Any]:
    if settings.is_greedy:
        return {"kind": "greedy", "repetition_penalty": settings.repetition_penalty}
    return {
        "kind": "sample",
        "temperature": settings.temperature,
        "top_k": settings.top_k,
        "top_p": settings.top_p,
        "min_p": settings.min_p,
        "repetition_penalty": settings.repetition_penalty,
        "seed": settings.seed,
    }


def _host() -> dict[str, Any]:
    asked = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or ""
    threads = int(asked) if asked.isdigit() else len(os.sched_getaffinity(0))
    return {"machine": platform.machine(), "cpu": _cpu_name(), "threads": threads}


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _version() -> str:
    try:
        return metadata.version("stepscope")
    except metadata.PackageNotFoundError:
        return "0"


def _ms(ns: int) -> float:
    return ns / 1e6
