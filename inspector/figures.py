"""The figures of a trace in words: what `stats` prints, and what the report says of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from inspector.facts import megabytes
from inspector.film import milliseconds
from inspector.text import visible

_MESSAGES = _REQUESTS = 8
_BAR = 40


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
        cells = "".join(f" {milliseconds(row[name]):>9}" for name in columns)
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


def _ms(ms: float | None) -> str:
    return "not measured" if ms is None else f"{milliseconds(ms)} ms"
