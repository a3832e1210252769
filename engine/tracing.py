"""A generation turned into a step trace: the same loop, watched from outside.

The recorder stands between a loop and the model (`engine/timing.py`): it times the sampler and the forward that
the loop calls, and writes one record when the loop reports a step. The loops and the model stay free of clocks;
`traces/FORMAT.md` says what the file holds.
"""

from __future__ import annotations

import inspect
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from engine.batched import Request, Round, collect_batch, generate_batched, make_requests
from engine.floor import floor_facts
from engine.kv_cache import INT8_SCALE_BYTES, Rounding
from engine.loop import (
    Context,
    Result,
    Step,
    StopSettings,
    check_request,
    collect,
    generate,
    generate_naive,
    generate_speculative,
    start,
)
from engine.loop_settings import LoopSettings
from engine.model import Model
from engine.sampling import Sampler, SamplerSettings, make_sampler
from engine.text_stream import OnText
from engine.threads import threads_in_use
from engine.timing import Watch, to_ms
from traces import fields
from traces.writer import TraceWriter

_FIELDS = (
    *fields.REQUIRED,
    *("t_ns", "total_ms", "forward_ms", "sample_ms", "gemm_ms", "attn_ms"),
    *("qkv_ms", "o_ms", "gate_up_ms", "down_ms", "lm_head_ms"),
    *("write_pos", "n_reused", "logit", "margin", "runner_up", "hidden_rms", "text"),
)
_PER_LAYER = ("cache_len", "gemm_ms", "attn_ms", "hidden_rms")
_GENERATORS: dict[str, Callable[..., Any]] = {
    "cached": generate,
    "naive": generate_naive,
    "speculative": generate_speculative,
    "batched": generate_batched,
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
    loop: LoopSettings | None = None,
) -> Result:
    """Generate as `engine.loop.run_generation` does and write the trace to `path`.

    prompt_text: the text that the ids come from, for the request note. flush: "interval" or "step", as
    TraceWriter's. Whatever ends the generation, the trace is closed: with finish "abort" after Ctrl-C, and where
    nobody reads any more what `on_text` writes (BrokenPipeError), with "error" after any other error; errors are
    raised again. Raises EngineError as `generate` does and TraceError where `path` cannot be written.
    """
    settings = (sampler or SamplerSettings()).with_seed()
    stops, loop = stops or StopSettings(eos=model.defaults.eos), loop or LoopSettings()
    # a request that cannot run should not cost the trace that stands at `path`
    check_request(prompt_ids, stops, loop.capacity_of(model), _token_bytes(model))
    model.check_ids(prompt_ids)
    with TraceWriter(path, run_facts(model, settings, stops, loop), flush=flush) as writer:
        writer.note("source", **_loop_source(loop))
        rounding = Rounding()
        context = Context([], model.new_cache(loop.capacity_of(model), loop.kv_dtype, rounding))
        pick = make_sampler(settings)
        result = record_request(writer, 0, context, model, prompt_ids, pick, stops, loop, prompt_text, on_text)
        writer.note("release", seq_id=0)
        note_rounding(writer, rounding)
        return result


def record_request(
    writer: TraceWriter,
    seq_id: int,
    context: Context,
    model: Model,
    prompt_ids: Sequence[int],
    sampler: Sampler,
    stops: StopSettings,
    loop: LoopSettings,
    prompt_text: str | None = None,
    on_text: OnText | None = None,
) -> Result:
    """One request of a recording: its note, its steps, and how it ended where no step says so.

    context: what its cache holds already, the reused prefix; it grows with the request.
    """
    writer.note("request", **_request(writer, seq_id, prompt_ids, prompt_text, stops, len(context.ids)))
    steps = recorded_steps(writer, model, prompt_ids, sampler, stops, loop, context, seq_id)
    finish = "error"
    try:
        result = collect(steps, len(prompt_ids), stops, model.tokenizer, on_text)
        finish = result.finish
    except BrokenPipeError:
        finish = "abort"  # the generation was in order; whoever it was for has left
        raise
    finally:
        if finish in ("abort", "error"):
            writer.note("finish", seq_id=seq_id, finish=finish)
    return result


def record_batch(
    model: Model,
    prompts: Sequence[Sequence[int]],
    sampler: SamplerSettings | None = None,
    stops: StopSettings | None = None,
    path: str | Path = "run.steps",
    prompt_texts: Sequence[str | None] | None = None,
    flush: str = "interval",
    loop: LoopSettings | None = None,
) -> list[Result]:
    """Generate as `engine.batched.run_batch` does and write the trace to `path`.

    prompt_texts: the texts that the ids come from. How it ends, and what it raises, is as for `record_generation`.
    """
    settings = (sampler or SamplerSettings()).with_seed()
    stops, loop = stops or StopSettings(eos=model.defaults.eos), loop or LoopSettings("batched")
    for prompt in prompts:
        check_request(prompt, stops, loop.capacity_of(model), _token_bytes(model))
        model.check_ids(prompt)
    with TraceWriter(path, run_facts(model, settings, stops, loop), flush=flush) as writer:
        writer.note("source", **_loop_source(loop))
        for seq_id, (prompt, text) in enumerate(zip(prompts, prompt_texts or [None] * len(prompts), strict=True)):
            writer.note("request", **_request(writer, seq_id, prompt, text, stops, 0))
        requests = make_requests(prompts, settings)
        unfinished = {request.seq_id for request in requests}
        rounding = Rounding()
        rounds = recorded_rounds(writer, model, requests, stops, loop, unfinished, rounding)
        reason = "error"
        try:
            results = collect_batch(rounds, requests, stops, model)
            reason = "abort"
        finally:
            for seq_id in sorted(unfinished):
                writer.note("finish", seq_id=seq_id, finish=reason)
        note_rounding(writer, rounding)
        return results


def recorded_rounds(
    writer: TraceWriter,
    model: Model,
    requests: Sequence[Request],
    stops: StopSettings,
    loop: LoopSettings,
    unfinished: set[int],
    rounding: Rounding | None = None,
) -> Iterator[Round]:
    """The rounds of `engine.batched.generate_batched`, written to the trace before they are passed on.

    Records of one forward share its times; a sequence that ended without being fed took only its sampling.
    unfinished: the requests' ids; those that end are taken out. rounding: adds up what int8 rows cost.
    """
    watch, token_bytes = Watch(model, _first_full(model, loop)), _token_bytes(model)
    requests = [Request(r.seq_id, r.prompt_ids, watch.watched(r.sampler)) for r in requests]
    capacity = loop.capacity_of(model)
    new_cache = partial(model.new_cache, dtype=loop.kv_dtype, rounding=rounding)
    rounds = generate_batched(
        watch, requests, stops, capacity, token_bytes, loop.max_batch, loop.prefill_chunk, new_cache
    )
    forward_id = 0
    while True:
        watch.begin_step()
        t_ns, began = writer.now_ns(), time.perf_counter_ns()
        steps = next(rounds, None)
        if steps is None:
            return
        total_ns = time.perf_counter_ns() - began
        for step, values in zip(steps, _shared_times(watch, steps, total_ns, forward_id), strict=True):
            writer.step(seq_id=step.seq_id, t_ns=t_ns, **state_of(step, token_bytes), **values)
            if step.finish:
                unfinished.discard(step.seq_id)
                writer.note("release", seq_id=step.seq_id)
        forward_id += any(step.n_tokens for step in steps)
        yield steps


def _shared_times(watch: Watch, steps: Round, total_ns: int, forward_id: int) -> Iterator[dict[str, Any]]:
    """What each step of a round measured, by field name; `total_ns` is the whole round's."""
    sampled = dict(zip([step.seq_id for step in steps if step.pick], watch.sample_ns, strict=True))
    together_ns = total_ns - sum(sampled[step.seq_id] for step in steps if not step.n_tokens)
    place = 0
    for step in steps:
        values: dict[str, Any] = {"sample_ms": to_ms(sampled[step.seq_id])} if step.pick else {}
        if step.n_tokens:
            values.update(watch.measured(place), total_ms=to_ms(together_ns), forward_id=forward_id)
            place += 1
        else:
            values["total_ms"] = values["sample_ms"]
        if step.phase == "prefill" and not step.seq_before:
            values["n_reused"] = 0
        yield values


def note_rounding(writer: TraceWriter, rounding: Rounding) -> None:
    """Say in the trace what int8 rows cost in exactness; nothing where rows are float32."""
    if rounding.relative is not None:
        text = f"int8 KV cache: rounding changed the rows by {rounding.relative:.2%} (relative RMS)"
        writer.note("message", text=text)


def run_facts(
    model: Model, sampler: SamplerSettings, stops: StopSettings, loop: LoopSettings | None = None
) -> dict[str, Any]:
    """The RUN object of a generation with these settings; `traces/FORMAT.md` explains the entries."""
    config, loop = model.config, loop or LoopSettings()
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
        "layers": _layer_facts(model, loop),
        "kv": _kv_facts(model, loop),
        "sampler": _sampler_facts(sampler),
        "stop": {
            "eos": list(stops.eos),
            "max_new_tokens": stops.max_new_tokens,
            "ignore_eos": stops.ignore_eos,
            "stop_strings": list(stops.stop_strings),
        },
        "loop": loop.kind,
        "floor": floor_facts(model, 4 if loop.kv_dtype == "f32" else 1 + INT8_SCALE_BYTES / config.head_dim),
        "host": _host(),
        "clock": "monotonic",
        "resolution_ms": time.get_clock_info("perf_counter").resolution * 1000,
        "fields": _declaration(config.n_layers, loop),
    }
    if loop.kind == "speculative":
        facts["draft"] = _draft_facts(loop)
    if model.tokenizer is not None:
        facts["model"]["tokenizer_size"] = model.tokenizer.size
    if model.sha256 is not None:
        facts["model"]["weights_sha256"] = model.sha256
    return facts


def _layer_facts(model: Model, loop: LoopSettings) -> list[dict[str, Any]]:
    if loop.kind == "naive":
        return [{"kind": "none"}] * model.config.n_layers
    return [
        {"kind": "full"} if window is None else {"kind": "window", "window": window, "slack": 0}
        for window in model.config.layer_windows
    ]


def _kv_facts(model: Model, loop: LoopSettings) -> dict[str, Any]:
    facts = {"capacity": loop.capacity_of(model), "dtype": loop.kv_dtype, "unit": "rows"}
    if loop.kv_dtype == "int8":
        facts["row_bytes"] = 2 * model.config.n_kv_heads * (model.config.head_dim + INT8_SCALE_BYTES)
    return facts


def _first_full(model: Model, loop: LoopSettings) -> int:
    kinds = [layer["kind"] for layer in _layer_facts(model, loop)]
    return kinds.index("full") if "full" in kinds else -1


def _draft_facts(loop: LoopSettings) -> dict[str, Any]:
    draft = loop.draft_model
    if draft is None:
        return {"kind": "ngram", "k": loop.draft_k}
    return {"kind": "model", "name": draft.name, "n_layers": draft.config.n_layers, "k": loop.draft_k}


def _declaration(n_layers: int, loop: LoopSettings) -> list[list[Any]]:
    names, shapes = list(_FIELDS), dict.fromkeys(_PER_LAYER, n_layers)
    if loop.kind == "speculative":
        names += ["n_drafted", "n_accepted", "draft_ids"]
        shapes["draft_ids"] = loop.draft_k
        if loop.draft_model is not None:
            names.append("draft_cache_len")
    if loop.kind == "batched":
        names.append("forward_id")
    return fields.declaration(names, shapes)


def recorded_steps(
    writer: TraceWriter,
    model: Model,
    prompt_ids: Sequence[int],
    sampler: Sampler,
    stops: StopSettings,
    loop: LoopSettings | None = None,
    context: Context | None = None,
    seq_id: int = 0,
) -> Iterator[Step]:
    """The steps of a loop over one sequence, each written to the trace before it is passed on.

    writer: open, with a run of `run_facts`. context: as for `record_request`, by default empty. Raises what the
    loop and TraceWriter raise.
    """
    loop = loop or LoopSettings()
    capacity = loop.capacity_of(model)
    context = context or Context([], model.new_cache(capacity, loop.kv_dtype))
    watch, token_bytes = Watch(model, _first_full(model, loop)), _token_bytes(model)
    first = {"n_reused": len(context.ids)}
    steps = start(loop, watch, prompt_ids, watch.watched(sampler), stops, capacity, token_bytes, context)
    while True:
        watch.begin_step()
        t_ns, began = writer.now_ns(), time.perf_counter_ns()
        step = next(steps, None)
        if step is None:
            return
        total_ns = time.perf_counter_ns() - began
        if step.shift:
            writer.note("shift", seq_id=seq_id, n_keep=step.shift[0], n_discard=step.shift[1])
        times = {"t_ns": t_ns, "total_ms": to_ms(total_ns), **watch.measured()}
        if watch.sample_ns:
            times["sample_ms"] = to_ms(sum(watch.sample_ns))
        writer.step(seq_id=seq_id, **first, **state_of(step, token_bytes), **times)
        first = {}
        yield step


def _token_bytes(model: Model) -> Callable[[int], bytes] | None:
    return model.tokenizer.token_bytes if model.tokenizer else None


def state_of(step: Step, token_bytes: Callable[[int], bytes] | None) -> dict[str, Any]:
    """What a step says about its sequence, by field name; its seq_id and what it measured come from elsewhere."""
    values: dict[str, Any] = {
        "phase": fields.PHASES[step.phase],
        "n_tokens": step.n_tokens,
        "seq_before": step.seq_before,
        "seq_len": step.seq_len,
        "cache_len": step.cache_len,
        "finish": fields.FINISH[step.finish or "none"],
    }
    if step.pick is not None:
        pick = step.pick
        values.update(token_id=pick.token_id, logit=pick.logit, margin=pick.margin, runner_up=pick.runner_up)
        if token_bytes is not None:
            values["text"] = token_bytes(pick.token_id)
    if step.phase == "verify":
        values.update(n_drafted=len(step.drafts), n_accepted=step.n_accepted, draft_ids=step.drafts)
    if step.draft_cache_len is not None:
        values["draft_cache_len"] = step.draft_cache_len
    return values


def _request(
    writer: TraceWriter,
    seq_id: int,
    prompt_ids: Sequence[int],
    prompt_text: str | None,
    stops: StopSettings,
    n_reused: int,
) -> dict[str, Any]:
    return {
        "seq_id": seq_id,
        "t_ns": writer.now_ns(),
        "prompt": prompt_text,
        "prompt_ids": list(prompt_ids),
        "prompt_tokens": len(prompt_ids),
        "n_reused": n_reused,
        "max_new_tokens": stops.max_new_tokens,
    }


def _loop_source(loop: LoopSettings) -> dict[str, Any]:
    function = _GENERATORS[loop.kind]
    return {
        "file": function.__module__.replace(".", "/") + ".py",
        "line": inspect.getsourcelines(function)[1],
        "function": function.__name__,
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
    return {"machine": platform.machine(), "cpu": _cpu_name(), "threads": threads_in_use()}


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
