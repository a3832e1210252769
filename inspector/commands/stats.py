"""`stepscope stats`: a run's figures, or those of many traces in a table of medians."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from inspector.text import visible

if TYPE_CHECKING:
    from traces.table import Table

_MESSAGES = _REQUESTS = 8
HELP = "print rates, latencies and where the time went"
EPILOG = """\
TTFT   request start to the first sampled token
TPOT   (end-to-end - TTFT) / (n - 1), n > 1 tokens sent out, an end token not counted: a mean
ITL    the gap between successive steps that sent tokens out; percentiles interpolate linearly
GEMM   matrix products of the layers and the lm_head
scores products of a query and a key in one head of one layer: the naive loop computes all of them again

Of several traces: the medians over them, a line for each model and build.

exit codes: 0 fine, 2 a trace cannot be read

examples:
  stepscope stats a.steps
  stepscope stats nightly/
  stepscope stats a.steps --json | jq .itl_ms.p99
"""
_BAR = 40


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("traces", metavar="TRACE", nargs="+", help="step traces, JSON Lines of them, or folders")
    parser.add_argument("--json", action="store_true", help="one JSON object a trace, one a line")


def run(args: argparse.Namespace) -> int:
    """Print them; 0, or 2 where one of many cannot be read."""
    from inspector.fleet import traces_in
    from inspector.load import open_trace, state_of
    from traces.metrics import stats

    paths = traces_in(args.traces)
    if len(paths) > 1:
        return _many(paths, args.json)
    table = open_trace(paths[0])
    if args.json:
        print(as_json(paths[0], table))
        return 0
    for line in lines(stats(table)):
        print(line)
    for line in state_of(table):
        print(line)
    return 0


def as_json(path: str, table: Table) -> str:
    """The documented object of `stats --json`."""
    from traces.frames import json_text
    from traces.metrics import stats

    return json_text({"trace": path, **stats(table)})


# -- many --------------------------------------------------------------------------------------------------------------

Build = tuple[str, str]
"""Model and engine, in words"""
_HEADS: dict[str, Callable[[dict[str, Any]], float | None]] = {
    "prefill tok/s": lambda s: s["prefill"]["tok_s"],
    "decode tok/s": lambda s: s["decode"]["tok_s"],
    "TTFT ms": lambda s: s["ttft_ms"],
    "TPOT ms": lambda s: s["tpot_ms"],
    "ITL p50": lambda s: s["itl_ms"]["p50"],
    "ITL p99": lambda s: s["itl_ms"]["p99"],
    "tokens": lambda s: s["whole"]["tokens"],
}


def _many(paths: list[str], as_objects: bool) -> int:
    from inspector.fleet import of_each

    figures: dict[Build, list[list[float | None]]] = {}
    unreadable = 0
    for _, seen in of_each(partial(measured, as_object=as_objects), paths):
        if seen is None:
            unreadable += 1
        elif as_objects:
            print(seen)
        else:
            build, values = seen
            figures.setdefault(build, []).append(values)
    if not as_objects:
        for line in medians(figures):
            print(line)
        left_out = f", {unreadable:,} cannot be read" if unreadable else ""
        print(f"{len(paths):,} traces{left_out}")
    return 2 if unreadable else 0


def measured(path: str, as_object: bool) -> Any:
    """One of many traces, in a process that may be another: its object as text, or (build, the values of _HEADS).
    Raises TraceError where it cannot be read.
    """
    from inspector.facts import engine_words, model_words
    from inspector.load import open_trace
    from traces.metrics import stats

    table = open_trace(path)
    try:
        if as_object:
            return as_json(path, table)
        facts, seen = table.runs[0].facts, stats(table)
        return (model_words(facts), engine_words(facts)), [value(seen) for value in _HEADS.values()]
    finally:
        table.close()


def medians(figures: dict[Build, list[list[float | None]]]) -> Iterator[str]:
    """A table: the medians over each build's traces, those that lack a figure left out of it."""
    yield f"{'traces':>7}" + "".join(f" {head:>14}" for head in _HEADS) + "  (medians over the traces)"
    for (model, engine), rows in sorted(figures.items()):
        cells = ([v for v in column if v is not None] for column in zip(*rows, strict=True))
        numbers = "".join(f" {_number(median(values) if values else None):>14}" for values in cells)
        yield f"{len(rows):>7,}{numbers}  {model} | {engine}"


# -- one ---------------------------------------------------------------------------------------------------------------


def lines(figures: dict[str, Any]) -> list[str]:
    """The figures in words, the rates first."""
    told, more = figures["messages"][:_MESSAGES], len(figures["messages"]) - _MESSAGES
    out = sentences(figures) + [visible(text) for text in told]
    out += [f"and {more:,} more messages (--json has each)"] if more > 0 else []
    out += _floor(figures["floor"]) + _by_context(figures["by_context"]) + growth_words(figures["growth"])
    return out + clock_words(figures["clock"])


def sentences(figures: dict[str, Any]) -> list[str]:
    """What is known of the whole trace, a line each, the rates first."""
    out = [f"prefill: {_phase(figures['prefill'])} | decode: {_phase(figures['decode'])}"]
    several = len(figures["requests"]) > 1
    middle = f" (median of {len(figures['requests'])} requests)" if several else ""
    out.append(f"TTFT {_ms(figures['ttft_ms'])}, TPOT {_ms(figures['tpot_ms'])}{middle}")
    itl = figures["itl_ms"]
    out.append("ITL " + ", ".join(f"{name} {_ms(itl[name])}" for name in ("p50", "p90", "p99", "max")))
    whole = figures["whole"]
    out.append(
        f"{'requests' if several else 'request'}: {whole['tokens']} tokens out in {duration(whole['ms'])} "
        f"({_rate(whole['tok_s'])}), {figures['forwards']} forwards"
    )
    out.append("finish: " + _finishes(figures["requests"]) if several else f"finish: {figures['finish'] or 'none'}")
    parts = figures["unaccounted"]
    out.append(
        f"unaccounted: {_ms(figures['unaccounted_ms'])} ({_ms(parts['between_steps_ms'])} between steps, "
        f"{_ms(parts['inside_steps_ms'])} inside steps outside forward and sampling)"
    )
    out.append(f"tracing: {_ms(figures['tracing_ms'])} in all{_share(figures)}")
    out += _pace(figures["pace"]) + _naive(figures["naive"]) + _speculative(figures["speculative"])
    if figures["kv_bytes"] and not figures["naive"]:
        kv = figures["kv_bytes"]
        reserved = f" of {kv['reserved']:,} at full context" if kv["reserved"] is not None else ""
        out.append(f"KV cache: {kv['used']:,} bytes in use{reserved}")
    return out


def _finishes(requests: list[dict[str, Any]]) -> str:
    """Each request's, the first ones by name; how the others ended is counted."""
    told = ", ".join(f"seq {r['seq_id']} {r['finish'] or 'none'}" for r in requests[:_REQUESTS])
    rest = Counter(r["finish"] or "none" for r in requests[_REQUESTS:])
    more = ", ".join(f"{n:,} {finish}" for finish, n in rest.most_common())
    return f"{told} and {rest.total():,} more: {more} (--json has each)" if rest else told


def _floor(floor: dict[str, Any] | None) -> list[str]:
    if floor is None:
        return []
    from inspector.facts import megabytes

    weights = megabytes(floor["bytes_per_token"])
    bar = "#" * round(_BAR * min(floor["share"], 1))
    busy = "; the machine was busy when its bandwidth was measured" if floor["share"] > 1 else ""
    return [
        f"floor: {_ms(floor['least_ms'])} a token ({weights} of weights and the KV cache at "
        f"{floor['bandwidth_gb_s']:.1f} GB/s), measured {_ms(floor['measured_ms'])}",
        f"       [{bar:.<{_BAR}}] {floor['share']:.0%} of a decode step is the floor{busy}",
    ]


def growth_words(growth: dict[str, Any] | None) -> list[str]:
    """How attention and GEMM grow with the context, where that is known."""
    if growth is None:
        return []
    change = "" if growth["gemm_change"] is None else f"; GEMM {growth['gemm_change']:+.1%} from first to last"
    return [f"attention {growth['attn_ms_per_1000_rows']:+.3g} ms per 1,000 rows{change}"]


def _share(figures: dict[str, Any]) -> str:
    spent = [figures[phase]["ms"] for phase in ("prefill", "decode")]
    total = sum(ms for ms in spent if ms)
    return f" ({figures['tracing_ms'] / total:.2%} of the steps' time)" if figures["tracing_ms"] and total else ""


def _pace(pace: dict[str, Any] | None) -> list[str]:
    if pace is None:
        return []
    first, last, n = pace["first_ms"], pace["last_ms"], pace["steps"]
    steps = f"first {n} steps {_ms(first)}, last {n} {_ms(last)}"
    return [f"ms a step: {steps}{f' ({last / first:.2f} times)' if first else ''}"]


def _naive(naive: dict[str, Any] | None) -> list[str]:
    if naive is None:
        return []
    return [
        f"no KV cache: {naive['rows']:,} rows computed again in every layer, {naive['scores']:,} query-key products "
        "a head"
    ]


def _speculative(speculative: dict[str, Any] | None) -> list[str]:
    if speculative is None:
        return []
    accepted, drafted = speculative["accepted"], speculative["drafted"]
    share = f" ({accepted / drafted:.0%})" if drafted else ""
    rate = speculative["forwards_a_token"]
    forwards = f", {rate:.2f} forwards a token" if rate is not None else ""
    return [f"drafts: {accepted} of {drafted} accepted{share}{forwards}"]


def clock_words(clock: str | None) -> list[str]:
    """What is wrong with the times, if something is."""
    if clock == "debugger":
        return ["times were seen under a debugger: they say nothing about speed"]
    return ["the run has no clock"] if clock == "none" else []


def _by_context(table: list[dict[str, Any]]) -> list[str]:
    if not table or all(row["total_ms"] is None and row["gemm_ms"] is None for row in table):
        return []
    columns = {"gemm_ms": "GEMM ms", "attn_ms": "attn ms", "total_ms": "total ms"}
    if any(row["floor_ms"] is not None for row in table):
        columns["floor_ms"] = "floor ms"
    heads = "".join(f" {head:>9}" for head in columns.values())
    is_naive = "scores" in table[0]
    again = f" {'rows again':>11} {'scores':>9}" if is_naive else ""
    out = [f"{'context':>8} {'steps':>7}{heads}{again}   (medians of decode steps)"]
    for row in table:
        cells = "".join(f" {_number(row[name]):>9}" for name in columns)
        again = f" {row['recomputed_rows']:>11,} {row['scores']:>9,}" if is_naive else ""
        out.append(f"{row['context']:>8} {row['steps']:>7}{cells}{again}")
    return out


def _phase(phase: dict[str, Any]) -> str:
    if phase["ms"] is None:
        return f"{phase['tokens']} tok, not timed"
    return f"{phase['tokens']} tok in {duration(phase['ms'])} ({_rate(phase['tok_s'])})"


def duration(ms: float | None) -> str:
    """`69 ms` below a tenth of a second, `0.23 s` above."""
    if ms is None:
        return "an unknown time"
    if ms < 99.5:
        return f"{ms:.0f} ms" if ms >= 9.95 else f"{ms:.2g} ms"
    return f"{ms / 1000:.2f} s" if ms < 9995 else f"{ms / 1000:.1f} s"


def _rate(tok_s: float | None) -> str:
    if tok_s is None:
        return "rate unknown"
    return f"{tok_s:.1f} tok/s" if tok_s < 99.95 else f"{tok_s:.0f} tok/s"


def _number(ms: float | None) -> str:
    from inspector.film import milliseconds

    return milliseconds(ms)


def _ms(ms: float | None) -> str:
    return "not measured" if ms is None else f"{_number(ms)} ms"
