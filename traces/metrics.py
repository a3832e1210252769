"""Figures of a run: TTFT, TPOT, ITL, rates, time by context length, KV bytes, what no part accounts for.

Definitions are those of docs/reference.md: TPOT = (end-to-end - TTFT) / (n - 1) for n > 1 tokens sent out (an end
token is not one), as vLLM's serving benchmark has it; ITL are the gaps between successive steps that sent tokens out;
percentiles interpolate linearly (numpy's default). A token is there when its step begins: `t_ns` of the step that
samples it. Sequences that share a forward share its time: it is counted once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from traces.context import DECODE, PREFILL, VERIFY, count
from traces.fields import FINISH, FINISH_NAMES
from traces.run_columns import (
    RequestSteps,
    Rows,
    RunColumns,
    first_of_forward,
    request_steps,
    rows_by_sequence,
    tokens_of,
)
from traces.table import Run, Table

Floats = npt.NDArray[np.float64]
_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "fp16": 2, "fp32": 4, "f64": 8, "q8_0": 1.0625, "int8": 1, "fp8": 1}
_BINS = 8
_PACE_STEPS = 20
_LEAST_SPAN = 100


def stats(table: Table) -> dict[str, Any]:
    """The figures of a trace: the object that `stats --json` prints (see docs/reference.md).

    Several runs in one file are added up; `runs` says how many. Absent figures are None.
    """
    runs = [RunColumns(run, table.chunks_of(run)) for run in table.runs]
    requests = [r for run in runs for r in requests_of(run)]
    prefill, decode = _phase(runs, requests, prefill=True), _phase(runs, requests, prefill=False)
    gaps = [r.gaps_ms for r in requests]
    itl = np.concatenate(gaps) if gaps else np.zeros(0)
    between, inside = _unaccounted(runs)
    tracing = [r.end_facts.get("tracing_ms") if r.end_facts else None for r in table.runs]
    tokens_out = sum(r.tokens_out for r in requests)
    whole = _sum([r.whole_ms for r in requests])
    by_context, floor = _by_context(runs), _floor(runs[0]) if len(runs) == 1 else None
    return {
        "steps": table.steps,
        "complete": table.complete,
        "clock": table.runs[0].facts.get("clock"),
        "prefill": prefill,
        "decode": decode,
        "ttft_ms": _middle([r.ttft_ms for r in requests]),
        "tpot_ms": _middle([r.tpot_ms for r in requests]),
        "itl_ms": _percentiles(itl),
        "whole": {"tokens": tokens_out, "ms": whole, "tok_s": _rate(tokens_out, whole)},
        "finish": requests[0].finish if len(requests) == 1 else None,
        "forwards": sum(_forwards(run) for run in runs),
        "unaccounted_ms": _sum([between, inside]),
        "unaccounted": {"between_steps_ms": between, "inside_steps_ms": inside},
        "tracing_ms": _sum(tracing),
        "kv_bytes": _kv_bytes(runs[0]) if len(runs) == 1 else None,
        "by_context": _with_floor(by_context, floor),
        "growth": _growth(by_context),
        "pace": _pace(runs),
        "naive": _recomputed(runs),
        "speculative": _drafted(runs, requests),
        "floor": floor,
        "requests": [r.as_json() for r in requests],
        "messages": [str(note.get("text")) for run in runs for _, note in run.notes if note.get("kind") == "message"],
        "runs": len(runs),
    }


class Request(NamedTuple):
    """One request's figures; times in ms, None where the trace has no times for them."""

    seq_id: int
    prompt_tokens: int | None
    reused: int | None
    generated: int | None
    tokens_out: int
    finish: str | None
    ttft_ms: float | None
    tpot_ms: float | None
    whole_ms: float | None
    gaps_ms: Floats
    totals: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """Without the raw gaps."""
        return {k: v for k, v in self._asdict().items() if k not in ("gaps_ms", "totals")}


def requests_of(run: RunColumns) -> list[Request]:
    """Every request's figures, in the order of their first step; those of totals notes behind them."""
    columns = run.take("phase", "finish", "n_accepted", "total", "t_ns")
    requests = [_request(columns, run.clocked, request) for request in request_steps(run)]
    recorded = {request.seq_id for request in requests}
    totals = (note for _, note in run.notes if note.get("kind") == "totals")
    return requests + [_from_totals(note) for note in totals if count(note, "seq_id") not in recorded]


def _request(columns: dict[str, Any], clocked: bool, request: RequestSteps) -> Request:
    seq_id, rows, note, ended = request
    steps = _span(rows)
    finish = columns["finish"][steps]
    tokens, sent = _tokens_out(columns["phase"][steps], columns["n_accepted"][steps], finish)
    generated, tokens_out = int(tokens.sum()), int(sent.sum())
    del tokens
    code = int(finish[-1])
    reason = (FINISH_NAMES.get(code) if code else None) or (ended if isinstance(ended, str) else None)
    ttft = tpot = whole = None
    gaps = np.zeros(0)
    start, times, end = _clock(columns, steps, note) if clocked else (0.0, None, 0.0)
    if times is not None:
        sampled = columns["phase"][steps] != PREFILL
        ttft = float(times[np.argmax(sampled)] - start) if sampled.any() and start is not None else None
        whole = float(end - (times[0] if start is None else start))
        out = times[sent > 0]
        del times
        gaps = np.diff(out)
        tpot = float(out[-1] - out[0]) / (tokens_out - 1) if tokens_out > 1 and len(out) > 1 else None
    prompt, reused = count(note, "prompt_tokens"), count(note, "n_reused")
    return Request(
        seq_id,
        prompt if prompt >= 0 else None,
        reused if reused >= 0 else None,
        generated,
        tokens_out,
        reason,
        ttft,
        tpot,
        whole,
        gaps,
    )


def _span(rows: Rows) -> Any:
    """Rows as what picks them: a slice, which copies nothing, where they follow each other."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else rows


def _tokens_out(phase: Any, n_accepted: Any, finish: Any) -> tuple[Any, Any]:
    """(tokens that each step sampled and accepted, those of them that were sent out: all but an end token)."""
    tokens = tokens_of(phase, n_accepted)
    return tokens, tokens - ((phase != PREFILL) & (finish == FINISH["eos"]))


def _clock(columns: dict[str, Any], steps: Any, note: dict[str, Any]) -> tuple[float | None, Floats | None, float]:
    """(start, when each step began, end) in ms. From t_ns; where that is absent, or runs backwards since the clock was
    set, from the steps' own lengths. The start is unknown where neither the request's own time nor its prompt was
    seen: its first token is not its start."""
    from_prompt = columns["phase"][steps][0] == PREFILL
    total, t_ns = columns["total"][steps], columns["t_ns"][steps]
    asked = count(note, "t_ns")
    if (t_ns >= 0).all() and (t_ns[1:] >= t_ns[:-1]).all() and asked <= t_ns[0]:
        times = t_ns / 1e6
        start = asked / 1e6 if asked >= 0 else float(times[0]) if from_prompt else None
        return start, times, float(times[-1] + np.nan_to_num(total[-1].astype(np.float64)))
    if np.isnan(total).any():
        return 0.0, None, 0.0
    spent = total.astype(np.float64)
    ends = np.cumsum(spent)
    return (0.0 if from_prompt else None), ends - spent, float(ends[-1])


def _from_totals(note: dict[str, Any]) -> Request:
    """A request of which a log kept only the sums."""
    counts = {name: count(note, name) for name in ("prompt_tokens", "n_reused", "generated")}
    finish = note.get("finish")
    known = {name: value if value >= 0 else None for name, value in counts.items()}
    generated = known["generated"]
    times = [note.get("prefill_ms"), note.get("decode_ms")]
    decoded, spent = _decoded(note), _sum([note.get("decode_ms")])
    gaps = note.get("itl_ms")
    return Request(
        count(note, "seq_id"),
        known["prompt_tokens"],
        known["n_reused"],
        generated,
        generated or 0,
        finish if isinstance(finish, str) else None,
        _sum([note.get("ttft_ms")]),
        spent / decoded if spent is not None and decoded > 0 else None,
        _sum(times) if note.get("total_ms") is None else _sum([note.get("total_ms")]),
        np.array(gaps if isinstance(gaps, list) else [], np.float64),
        note,
    )


def _decoded(totals: dict[str, Any]) -> int:
    """Tokens that decode fed, -1 where unknown: the last token generated is usually not fed."""
    decoded, generated = count(totals, "decoded"), count(totals, "generated")
    return decoded if decoded >= 0 or generated < 0 else max(generated - 1, 0)


def _phase(runs: list[RunColumns], requests: list[Request], prefill: bool) -> dict[str, Any]:
    """Tokens fed and kept (rejected drafts are work, not tokens), the time of their steps, and the rate."""
    tokens, untimed = 0, 0
    spent, unfed, timed = 0.0, 0.0, False
    for run in runs:
        chosen = (run["phase"] == PREFILL) == prefill
        # what the naive loop feeds again is work, not tokens
        fed = np.where(run.fed, 1, run["n_tokens"]) if run.naive else run["n_tokens"]
        verify = chosen & (run["phase"] == VERIFY)
        tokens += int(np.maximum(fed[chosen & ~verify], 0).sum())
        if verify.any():
            tokens += int(np.maximum(1 + run["n_accepted"][verify], 0).sum())
        total = run["total"][chosen & first_of_forward(run)]
        if run.clocked and np.isfinite(total).any():
            spent, timed = spent + _added(total), True
    for totals in (r.totals for r in requests if r.totals is not None):
        fed = count(totals, "fed") if prefill else _decoded(totals)
        ms = _sum([totals.get("prefill_ms" if prefill else "decode_ms")])
        tokens += max(fed, 0)
        if ms is not None:
            spent, timed = spent + ms, True
        if ms is None or fed < 0:  # one without the other makes no rate
            untimed, unfed = untimed + max(fed, 0), unfed + (ms or 0.0)
    rate = _rate(tokens - untimed, spent - unfed) if timed and tokens > untimed else None
    return {"tokens": tokens, "ms": spent if timed else None, "tok_s": rate}


def _added(times: Any) -> float:
    """The sum of those that are known, in double precision."""
    exact = times.astype(np.float64)
    exact[np.isnan(exact)] = 0.0
    return float(exact.sum())


def _alone(run: RunColumns) -> npt.NDArray[np.bool_]:
    """Records whose forward fed no other sequence."""
    ids = run["forward_id"]
    alone = ids < 0
    shared = np.flatnonzero(~alone)
    _, where, n = np.unique(ids[shared], return_inverse=True, return_counts=True)
    alone[shared] = n[where] == 1
    return np.asarray(alone)


def _forwards(run: RunColumns) -> int:
    return int((first_of_forward(run) & (run["n_tokens"] > 0)).sum())


def _unaccounted(runs: list[RunColumns]) -> tuple[float | None, float | None]:
    """(between steps, inside steps but in neither forward nor sampling), in ms."""
    between: list[float | None] = []
    inside: list[float | None] = []
    for run in runs:
        once = first_of_forward(run)
        total, t_ns = run["total"][once], run["t_ns"][once]
        if not run.clocked or not len(total) or not np.isfinite(total).any():
            continue
        if (t_ns >= 0).all() and (t_ns[1:] >= t_ns[:-1]).all():
            span = t_ns[-1] / 1e6 + np.nan_to_num(total[-1].astype(np.float64)) - t_ns[0] / 1e6
            between.append(max(0.0, float(span - _added(total))))
        del t_ns
        parts = run["forward"][once]
        if np.isfinite(parts).any():
            left = total.astype(np.float64)
            spent = np.nan_to_num(parts.astype(np.float64))
            del parts
            spent += np.nan_to_num(run["sample"][once])
            left -= spent
            inside.append(max(0.0, _added(left)))
    return _sum(between), _sum(inside)


def _kv_bytes(run: RunColumns) -> dict[str, Any] | None:
    """{"used", "reserved"}: bytes of the rows held at the fullest moment by all sequences together, and of the
    capacity, or the window, in every layer for one.

    2 (keys and values) x rows x kv heads x head_dim x bytes an element; or rows x the run's own kv.row_bytes.
    """
    facts = run.run.facts
    row = _row_bytes(facts)
    if row is None or not len(run["rows"]):
        return None
    capacity, layers = count(facts.get("kv"), "capacity"), _owned_layers(run.run)
    scalar = run.run.dtype["cache_len"].shape == ()
    used = _most_rows_held(run) * (len(layers) if scalar else 1)
    rows = [capacity if window < 0 else min(capacity, window) for window in layers]
    return {"used": int(used * row), "reserved": int(sum(rows) * row) if capacity >= 0 else None}


def _row_bytes(facts: dict[str, Any]) -> float | None:
    """Bytes of one token's keys and values in one layer."""
    model, kv = facts.get("model"), facts.get("kv")
    if count(kv, "row_bytes") > 0:
        return float(count(kv, "row_bytes"))
    heads, size = count(model, "n_kv_heads"), count(model, "head_dim")
    element = _BYTES.get(str(kv.get("dtype"))) if isinstance(kv, dict) else None
    return None if heads < 0 or size < 0 or element is None else 2 * heads * size * element


def _owned_layers(run: Run) -> list[int]:
    """For each layer that owns rows the most that it holds, -1 for as many as there are tokens."""
    if not run.layers:
        return [-1] * run.n_layers
    owners = [layer for layer in run.layers if layer.get("kind") not in ("shared", "none", "recurrent")]
    return [count(k, "window") + max(count(k, "slack"), 0) if k.get("kind") == "window" else -1 for k in owners]


def _most_rows_held(run: RunColumns) -> int:
    """The most rows that all sequences held together: a sequence holds what its last step left until it gives it
    back (its release, or where there is none its end).
    """
    releases = _releases(run)
    rows = run["rows"]
    change = np.zeros(len(rows) + 1, np.int64)
    for seq_id, steps in rows_by_sequence(run["seq_id"]):
        given_back = releases.get(seq_id, [])
        pieces = np.split(steps, np.searchsorted(steps, given_back))
        for held, until in zip(pieces, [*given_back, None], strict=True):
            if len(held):
                own = rows[_span(held)]
                change[held[0]] += own[0]
                change[held[1:]] += own[1:] - own[:-1]
                if until is not None:
                    change[until] -= own[-1]
    del rows
    return int(np.cumsum(change, out=change).max())


def _releases(run: RunColumns) -> dict[int, list[int]]:
    """For each sequence the steps before which its rows were given back."""
    released: dict[int, list[int]] = {}
    for at, (_, note) in zip(run.note_rows(), run.notes, strict=True):
        if note.get("kind") == "release":
            released.setdefault(count(note, "seq_id"), []).append(at)
    ids = run["seq_id"]
    for i in np.flatnonzero(run["finish"]):
        seq_id = int(ids[i])
        if seq_id not in released:
            released.setdefault(seq_id, []).append(int(i) + 1)
    return released


def _pace(runs: list[RunColumns]) -> dict[str, Any] | None:
    """{"steps", "first_ms", "last_ms"}: the median time of the first 20 and the last 20 steps after prefill that fed
    something, of half of them where they are fewer than 40; None where that is nothing.
    """
    times = [run["total"][run.fed & first_of_forward(run)] for run in runs if run.clocked]
    spent = np.concatenate(times) if times else np.zeros(0)
    n = min(_PACE_STEPS, len(spent) // 2)
    first, last = (_median(part.astype(np.float64)) for part in (spent[:n], spent[len(spent) - n :]))
    return {"steps": n, "first_ms": first, "last_ms": last} if n and first is not None and last is not None else None


def _recomputed(runs: list[RunColumns]) -> dict[str, int] | None:
    """{"rows", "scores"} of the naive loop, a layer (and a head): keys and values computed again though they were
    computed before, and products of a query and a key, n (n + 1) / 2 for n tokens fed. None of another loop.
    """
    fed = [run["n_tokens"][run.fed].astype(np.int64) for run in runs if run.naive]
    if not fed:
        return None
    n = np.concatenate(fed)
    return {"rows": int((n - 1).sum()), "scores": int((n * (n + 1) // 2).sum())}


def _drafted(runs: list[RunColumns], requests: list[Request]) -> dict[str, Any] | None:
    """{"drafted", "accepted", "forwards_a_token"} of a run that verified drafts; None of another. A token is one that
    was fed and kept after prefill; requests without steps count drafts alone.
    """
    verifying = [run for run in runs if (run["phase"] == VERIFY).any()]
    summed = [r.totals for r in requests if r.totals is not None and count(r.totals, "n_drafted") >= 0]
    if not verifying and not summed:
        return None
    drafted = sum(count(totals, "n_drafted") for totals in summed)
    accepted = sum(max(count(totals, "n_accepted"), 0) for totals in summed)
    forwards = tokens = 0
    for run in verifying:
        verify = run["phase"] == VERIFY
        drafted += int(np.maximum(run["n_drafted"][verify], 0).sum())
        kept = int(np.maximum(run["n_accepted"][verify], 0).sum())
        accepted, tokens = accepted + kept, tokens + kept + int(run.fed.sum())
        forwards += int((run.fed & first_of_forward(run)).sum())
    return {"drafted": drafted, "accepted": accepted, "forwards_a_token": forwards / tokens if tokens else None}


def _by_context(runs: list[RunColumns]) -> list[dict[str, Any]]:
    """Median times of the steps after prefill that fed something, by the length of the sequence, in at most eight
    equal bins; of the naive loop also what a step computes again (`_recomputed`).
    """
    clocked = [run for run in runs if run.clocked]
    lengths = [run["seq_len"][_has_context(run)] for run in clocked]
    if not sum(map(len, lengths)):
        return []
    length = np.concatenate(lengths).astype(np.int64)
    lengths.clear()
    low, high = int(length.min()), int(length.max())
    bins = min(_BINS, high - low + 1)
    which = ((length - low) * bins // (high - low + 1)).astype(np.int8)
    sizes = np.bincount(which, minlength=bins)
    contexts = [float(length[which == b].mean()) if sizes[b] else None for b in range(bins)]
    del length
    medians = {
        name: [_median(times[which == b]) if sizes[b] else None for b in range(bins)]
        for name, times in _times_by_part(clocked)
    }
    table = []
    for b, context in enumerate(contexts):
        if context is not None:
            at = round(context)
            row = {"context": at, "steps": int(sizes[b]), **{name: values[b] for name, values in medians.items()}}
            if all(run.naive for run in runs):
                row.update(recomputed_rows=at - 1, scores=at * (at + 1) // 2)
            table.append(row)
    return table


def _has_context(run: RunColumns) -> npt.NDArray[np.bool_]:
    return np.asarray(run.fed & (run["seq_len"] >= 0))


def _times_by_part(runs: list[RunColumns]) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    """The times of the steps that have a context, one part after the other: GEMM counts the lm_head too."""

    def joined(part: str) -> npt.NDArray[np.float32]:
        return np.concatenate([run[part][_has_context(run)] for run in runs])

    yield "gemm_ms", joined("gemm") + np.nan_to_num(joined("lm_head"))
    yield "attn_ms", joined("attn")
    yield "total_ms", joined("total")


def _with_floor(table: list[dict[str, Any]], floor: dict[str, Any] | None) -> list[dict[str, Any]]:
    """`by_context` with the least time at each length, None where the floor is not known."""
    return [{**row, "floor_ms": least_ms(floor, row["context"]) if floor else None} for row in table]


def floor_of(facts: dict[str, Any]) -> dict[str, float] | None:
    """The `floor` of a run's facts (FORMAT.md); None where it is not there in full."""
    said = facts.get("floor")
    names = ("bytes_per_token", "kv_bytes_per_row", "bandwidth_gb_s")
    floor: dict[str, Any] = {name: said.get(name) for name in names} if isinstance(said, dict) else {}
    return floor if floor and all(map(_not_below_zero, floor.values())) and floor["bandwidth_gb_s"] else None


def least_ms(floor: dict[str, float], rows: Any) -> Any:
    """The least ms of a decode step over so many rows of the cache."""
    return (floor["bytes_per_token"] + floor["kv_bytes_per_row"] * rows) / floor["bandwidth_gb_s"] / 1e6


def _growth(by_context: list[dict[str, Any]]) -> dict[str, Any] | None:
    """How attention and GEMM grow with the context: straight lines through the medians of `by_context`.

    attn_ms_per_1000_rows is the slope; gemm_change what GEMM's line rises by from the table's first context to its
    last, as a share of its mean. None where the contexts lie too close for a line to mean something.
    """
    rows = [row for row in by_context if row["attn_ms"] is not None and row["gemm_ms"] is not None]
    if not rows or rows[-1]["context"] - rows[0]["context"] < _LEAST_SPAN:
        return None
    context = np.array([row["context"] for row in rows], np.float64)
    gemm = np.array([row["gemm_ms"] for row in rows])
    attention, products = (np.polyfit(context, values, 1)[0] for values in ([row["attn_ms"] for row in rows], gemm))
    change = float(products * (context[-1] - context[0]) / gemm.mean()) if gemm.mean() else None
    return {"attn_ms_per_1000_rows": float(attention * 1000), "gemm_change": change}


def _floor(run: RunColumns) -> dict[str, Any] | None:
    """The least time of a decode step by the run's own header, and the measured one beside it; None without either.

    A step's floor is (bytes_per_token + kv_bytes_per_row x rows) / bandwidth. Only steps that fed one token of one
    sequence are compared; `share` is the median of floor / measured.
    """
    floor = floor_of(run.run.facts)
    if floor is None or not run.clocked:
        return None
    total = run["total"]
    alone = (run["phase"] == DECODE) & (run["n_tokens"] == 1) & _alone(run) & (total > 0)
    if not alone.any():
        return None
    length, total = run["seq_len"][alone].astype(np.float64), total[alone].astype(np.float64)
    least = least_ms(floor, length)
    return {
        **floor,
        "least_ms": float(np.median(least)),
        "measured_ms": float(np.median(total)),
        "share": float(np.median(least / total)),
    }


def _not_below_zero(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


def _percentiles(gaps: Floats) -> dict[str, float | None]:
    if not len(gaps):
        return dict.fromkeys(("p50", "p90", "p99", "max"))
    p50, p90, p99 = np.percentile(gaps, (50, 90, 99))
    return {"p50": float(p50), "p90": float(p90), "p99": float(p99), "max": float(gaps.max())}


def _median(values: Any) -> float | None:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else None


def _middle(values: list[float | None]) -> float | None:
    present = [v for v in values if v is not None]
    return float(np.median(present)) if present else None


def _sum(values: list[Any]) -> float | None:
    """The sum of the numbers among them; None where none is one."""
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    return float(sum(numbers)) if numbers else None


def _rate(tokens: int, ms: float | None) -> float | None:
    return tokens / ms * 1000 if ms and tokens else None
