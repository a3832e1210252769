"""What the Kestrel engine prints, and what people have gdb print from it.

`[PREFILL-TIMING]` and `[PREFILL-KERNELS]` are a prefill step: totals over all layers, printed when it is over; a
`reuse N-token KV prefix` before them belongs to it, and `[L3] … seq=` behind them says how long the sequence is.
`[DEC-SINGLE]` is a decode step, also over all layers; `othloop` is a part of `other` and is kept apart from it. The
offline run prints an id and whole milliseconds a token. A film of hand-made breakpoints, `DEC token_id=64 seq_before=25
cache0=25`, sees the state before each forward: what a step leaves behind is what the next one finds.
A JSON answer of the server has sums and so becomes a totals note.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from traces.importers.log import MOST_LAYERS, NUMBER, Line, LogTrace, amount

NAME = "kestrel"
MARKS = ("[PREFILL-TIMING]", "[DEC-SINGLE]", "[STREAM] TOKIDS:")
_MARK = re.compile(r"vLLM-Kestrel|\[DEC-SINGLE\]|\[PREFILL-TIMING\]|\[KV-PREFIX\]|\[STREAM\]|\bDEC token_id=")

_TIMES = ("total_ms", "gemm_ms", "attn_ms", "qkv_ms", "o_ms", "gate_up_ms", "down_ms", "lm_head_ms")
_PARTS = {
    "total": "total_ms",
    "gemm": "gemm_ms",
    "attn": "attn_ms",
    "qkv": "qkv_ms",
    "o": "o_ms",
    "gu": "gate_up_ms",
    "gateup": "gate_up_ms",
    "down": "down_ms",
    "lm": "lm_head_ms",
    "other": "other_ms",
    "oth": "other_ms",
    "othloop": "othloop_ms",
}
_PAIR = re.compile(rf"\b([A-Za-z]\w*) *= *({NUMBER})(ms|us|s)?\b")
_UNIT = {"ms": 1.0, "us": 1e-3, "s": 1e3}
_SEQ = re.compile(r"\bseq=(\d+)")
_REUSE = re.compile(r"\breuse (\d+)-token")
_LENGTH = re.compile(r"\[L3\] .*?(?<![\w-])seq=(\d+)")
_STREAM_PREFILL = re.compile(rf"\[STREAM\] prefill (\d+) tokens in ({NUMBER})s")
_STREAM_TOKEN = re.compile(r"(?:^|[\s:])(-?\d+) t=\d+ ms=(\d+)\b")
_MOST_TOKENS = 2**31 - 1
_FILM = re.compile(r"\b(DEC|PREFILL|PRE) \w+=")
_FACTS = {
    "dim": ("model", "hidden_size"),
    "layers": ("model", "n_layers"),
    "heads": ("model", "n_heads"),
    "kv": ("model", "n_kv_heads"),
    "vocab": ("model", "vocab_size"),
    "max_seq": ("kv", "capacity"),
}


class Kestrel:
    """Reads a log of Kestrel; see the module."""

    def __init__(self, trace: LogTrace) -> None:
        self._trace = trace
        self._begin_run()
        requests = ("[KV-PREFIX]", "[PREFILL-TIMING]", "[PREFILL-KERNELS]", "[L3]", "[STREAM]", " t=")
        self._takers: list[tuple[str, Callable[[Line], object]]] = [
            ("[DEC-SINGLE]", self._decode),
            ("seq_before=", lambda line: self._film.line(line)),
            *((mark, lambda line: self._requests.line(line)) for mark in requests),
            ("vLLM-Kestrel", self._banner),
            ("[TOK]", self._tokenizer),
            ("[DEV]", self._device),
        ]

    def _begin_run(self) -> None:
        self._trace.names = ["cache_before", *_TIMES]
        self._trace.shapes = {}
        self._trace.extra = [["other_ms", "F32"], ["othloop_ms", "F32"]]
        self._requests = _Requests(self._trace)
        self._film = _Film(self._trace, self._requests)

    def line(self, line: Line) -> None:
        """One line."""
        if line.value is not None:
            self._answer(line.value)
            return
        for mark, take in self._takers:
            if mark in line.text:
                if not line.ended and line.text.rstrip()[-1:].isdigit():
                    self._trace.doubt(line, "the last line has no end, its last number may be cut: dropped")
                else:
                    take(line)
                break
        if not self._trace.begun and "=" in line.text:
            self._shapes(line.text)

    def end(self) -> None:
        """The log is over."""
        self._film.close()
        self._requests.close()

    def _decode(self, line: Line) -> None:
        times = times_of(self._trace, line)
        if self._film.entry is not None and "total_ms" not in self._film.entry:
            self._film.entry.update(times)  # the film's entry and this line are one step
        else:
            self._requests.decode(line, times)

    def _banner(self, line: Line) -> None:
        if self._trace.begun:
            self.end()
            self._trace.new_run()
            self._begin_run()

    def _shapes(self, text: str) -> None:
        told = re.search(r"\[(?:SERVE|STREAM)\].*", text)
        for name, number in re.findall(r"\b(\w+)=(\d+)\b", told[0]) if told else ():
            if name in _FACTS:
                section, key = _FACTS[name]
                self._trace.fact(section, **{key: int(number)})
        if match := re.search(r"\[SERVE\] model=(\S+)", text):
            self._trace.fact("model", name=match[1].rstrip("/").rsplit("/", 1)[-1])

    def _tokenizer(self, line: Line) -> None:
        if self._trace.begun:
            return
        if match := re.search(r"Loaded (\d+) tokens", line.text):
            self._trace.fact("model", tokenizer_size=int(match[1]))
        elif match := re.search(r"Special tokens:.*\beos=(\d+)", line.text):
            self._trace.fact("stop", eos=[int(match[1])])

    def _device(self, line: Line) -> None:
        match = re.search(r"arch=(\w+).* model=(.+?) npu=", line.text)
        if match and not self._trace.begun:
            self._trace.fact("host", machine=match[1], cpu=match[2] if match[2] != "-" else None)

    def _answer(self, value: dict[str, Any]) -> None:
        sums = value.get("metrics")
        if not isinstance(sums, dict) or "ttft_ms" not in sums:
            return
        if isinstance(value.get("model"), str) and not self._trace.begun:
            self._trace.fact("model", name=value["model"])
        seq_id = self._requests.begin()
        total, ttft = sums.get("total_ms"), sums["ttft_ms"]
        both = isinstance(total, (int, float)) and isinstance(ttft, (int, float))
        self._trace.note("request", seq_id=seq_id, prompt_tokens=sums.get("prompt_tokens"))
        self._trace.totals(
            seq_id,
            prompt_tokens=sums.get("prompt_tokens"),
            generated=sums.get("n_tokens"),
            prefill_ms=sums.get("prefill_ms"),
            decode_ms=total - ttft if both else None,
            ttft_ms=ttft,
            total_ms=total,
            derived=["decode_ms"] if both else None,
        )


def times_of(trace: LogTrace, line: Line) -> dict[str, float]:
    """The parts of a line in ms, by the names of FORMAT.md. The products inside the layers add up to `gemm_ms`."""
    times = {}
    for name, number, unit in _PAIR.findall(line.text, line.text.find("]") + 1):
        part = _PARTS.get(name) or _PARTS.get(name.lower())
        if part is None:
            continue
        value = amount(number)
        if not math.isfinite(value):
            trace.doubt(line, f"{name} is {number}")
        else:
            times[part] = value * _UNIT[unit] if unit else value
    products = [times[name] for name in ("qkv_ms", "o_ms", "gate_up_ms", "down_ms") if name in times]
    if len(products) == 4 and "PREFILL" not in line.text:
        times["gemm_ms"] = sum(products)
    return times


class _Requests:
    """The engine's own lines: one request after another."""

    def __init__(self, trace: LogTrace) -> None:
        self._trace = trace
        self.seq_id = -1
        self.fresh = False
        """Whether the present request was prefilled and has not decoded yet"""
        self._reused = 0
        self._prompt: int | None = None
        self._prefill: dict[str, Any] | None = None
        self._length: int | None = None
        self._prints_before: bool | None = None

    def begin(self) -> int:
        """Another request begins; its number."""
        self.close()
        self.seq_id += 1
        self._length = None
        return self.seq_id

    def close(self) -> None:
        """The present request ends. A server logs its prefill only, by default."""
        self.tell_prefill()
        if self.fresh:
            self._trace.note("gap", seq_id=self.seq_id, why="the log has no decode steps of this request")
        self.fresh = False

    def line(self, line: Line) -> None:
        """A line of a prefill, or of the offline run."""
        text = line.text
        if "[PREFILL-TIMING]" in text:
            self._timing(line)
        elif "[PREFILL-KERNELS]" in text and self._prefill is not None:
            self._prefill.update(times_of(self._trace, line))
        elif "[PREFILL-KERNELS]" in text:
            self._trace.doubt(line, "kernel times without a prefill before them")
        elif "[KV-PREFIX]" in text and (match := _REUSE.search(text)):
            self.tell_prefill()
            self._reused = int(match[1])
        elif self._prefill is not None and (match := _LENGTH.search(text)):
            self._prefill["seq_len"] = int(match[1])
            self.tell_prefill()
        elif match := _STREAM_TOKEN.search(text):
            self._stream_token(line, match)
        elif "[STREAM]" in text:
            self._stream(text)

    def _timing(self, line: Line) -> None:
        match = re.search(r"\bn=(\d+)", line.text)
        if not match:
            self._trace.doubt(line, "a prefill without its number of tokens")
            return
        self.begin()
        fed, reused, self._reused = int(match[1]), self._reused, 0
        self._prefill = {"n_tokens": fed, "seq_before": reused, **times_of(self._trace, line)}

    def tell_prefill(self) -> None:
        """The prefill step. The prompt is as long as the log says, else the reused prefix and the rest."""
        if self._prefill is None:
            return
        step, self._prefill = self._prefill, None
        said = step.get("seq_len", self._prompt)
        self._prompt = None
        prompt = said if said is not None else step["seq_before"] + step["n_tokens"]
        derived = None if said is not None else ["prompt_tokens"]
        reused = step["seq_before"]
        self._trace.note("request", seq_id=self.seq_id, prompt_tokens=prompt, n_reused=reused, derived=derived)
        self._trace.step(phase="prefill", seq_id=self.seq_id, **step)
        # beside the step: where no decode follows, only this lets the prompt's account be judged
        sums = {"fed": step["n_tokens"], "prefill_ms": step.get("total_ms")}
        self._trace.totals(self.seq_id, prompt_tokens=prompt, n_reused=reused, **sums)
        self._length, self.fresh = prompt, True

    def decode(self, line: Line, times: dict[str, float]) -> None:
        """A `[DEC-SINGLE]` line."""
        self.tell_prefill()
        if "total_ms" not in times:
            self._trace.doubt(line, "a decode step without its total")
        if not times:
            return
        if self.seq_id < 0:
            self.begin()
        lengths = self._lengths(_SEQ.search(line.text))
        self._trace.step(phase="decode", seq_id=self.seq_id, n_tokens=1, **lengths, **times)
        self.fresh = False

    def _lengths(self, match: re.Match[str] | None) -> dict[str, int]:
        """seq_before and seq_len. The line is printed after the step; whether its `seq` already counts the step shows
        in the first one behind a prompt of known length."""
        if not match:
            return {}
        seq, before = int(match[1]), self._length
        if self._prints_before is None and before is not None:
            self._prints_before = seq == before
        if self._prints_before:
            self._length = seq + 1
            return {"seq_before": seq}
        self._length = seq
        return {"seq_len": seq} if before is None else {"seq_before": before, "seq_len": seq}

    def _stream(self, text: str) -> None:
        if match := _STREAM_PREFILL.search(text):
            self.begin()
            self._trace.facts["resolution_ms"] = 1.0  # tokens' ms are printed whole
            self._prefill = {"n_tokens": int(match[1]), "seq_before": 0, "total_ms": amount(match[2]) * 1000}
        elif match := re.search(r"prompt tokens = (\d+)", text):
            self._prompt = int(match[1])
        elif "decode mode: greedy" in text and not self._trace.begun:
            self._trace.fact("sampler", kind="greedy")

    def _stream_token(self, line: Line, match: re.Match[str]) -> None:
        if self.seq_id < 0:
            self._trace.doubt(line, "a token before any prefill")
            return
        self.tell_prefill()
        values = {"token_id": int(match[1]), "n_tokens": 1, "total_ms": float(match[2])}
        self._trace.step(phase="decode", seq_id=self.seq_id, **values)
        self.fresh = False


class _Film:
    """Hand-made breakpoints at the forward's entry. `entry` is the forward that was entered last."""

    def __init__(self, trace: LogTrace, requests: _Requests) -> None:
        self._trace, self._requests = trace, requests
        self.entry: dict[str, Any] | None = None

    def line(self, line: Line) -> None:
        """One entry: it closes the one before it."""
        match = _FILM.search(line.text)
        if not match:
            return
        seen = {name: int(value) for name, value in re.findall(r"\b([a-z_]+)=(-?\d+)", line.text)}
        rows = {int(layer): int(count) for layer, count in re.findall(r"\bcache(\d+)=(\d+)", line.text)}
        if "seq_before" not in seen:
            self._trace.doubt(line, "an entry without seq_before")
            return
        if max(seen["seq_before"], *rows.values(), 0) > _MOST_TOKENS or max(rows, default=0) >= MOST_LAYERS:
            self._trace.doubt(line, "a count beyond measure")
            return
        self._declare(rows)
        width = self._trace.shapes.get("cache_before", 0)
        decode = match[1] == "DEC"
        entry = {
            "phase": "decode" if decode else "prefill",
            "token_id": seen.get("token_id") if decode else None,
            "n_tokens": seen.get("n_tokens", seen.get("n", 1 if decode else None)),
            "seq_before": seen["seq_before"],
            "cache_before": [rows.get(layer, -1) for layer in range(width)] if width else None,
        }
        self._follow(line, entry)

    def _declare(self, rows: dict[int, int]) -> None:
        """Before a run's first step: which layers the film shows. Every layer of this engine has a full cache."""
        if self._trace.begun or not rows:
            return
        known = self._trace.facts.get("model", {}).get("n_layers")
        width = max(max(rows) + 1, known if isinstance(known, int) else 0)
        self._trace.shapes = {"cache_len": width, "cache_before": width}
        self._trace.facts.update(layers=[{"kind": "full"}] * width, clock="debugger")

    def _follow(self, line: Line, entry: dict[str, Any]) -> None:
        last, requests = self.entry, self._requests
        anew = last is not None and _begins_anew(last, entry)
        if last is not None and not anew:
            last.update(seq_len=entry["seq_before"], cache_len=entry["cache_before"])
        self.close()
        requests.tell_prefill()
        if anew and entry["phase"] == "decode" and not requests.fresh:
            self._trace.doubt(line, f"the sequence and its rows fall to {entry['seq_before']}: taken for a new request")
        if requests.seq_id < 0 or (anew and not requests.fresh):
            requests.begin()
        requests.fresh = False
        self.entry = entry

    def close(self) -> None:
        """Tell the last entry, with what is known of how it left the sequence."""
        if self.entry is not None:
            entry, self.entry = self.entry, None
            self._trace.step(seq_id=self._requests.seq_id, **entry)


def _begins_anew(entry: dict[str, Any], following: dict[str, Any]) -> bool:
    """Whether the next entry is another request's. A shorter sequence whose rows stay is this one, gone wrong."""
    if following["seq_before"] >= entry["seq_before"]:
        return bool(following["phase"] == "prefill" and entry["phase"] == "decode")
    before, after = entry["cache_before"] or [-1], following["cache_before"] or [-1]
    return bool(after[0] < before[0] or after[0] < 0)


READER = Kestrel


def knows(line: Line) -> bool:
    """Whether the line is surely Kestrel's."""
    if line.value is not None:
        sums = line.value.get("metrics")
        return isinstance(sums, dict) and "ttft_ms" in sums
    return _MARK.search(line.text) is not None
