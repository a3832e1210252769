"""What vLLM prints: averages over stretches of time, which become interval notes, and its serving benchmark's results.

An engine's `Avg prompt throughput: …` line every ten seconds speaks of no single request and no step; nor does
`SpecDecoding metrics: …`. A result of the serving benchmark (`--save-result --save-detailed`) has each request's
lengths, its time to the first token and the gaps behind it: a totals note each. Without `--save-detailed` there are
only means, which are kept as a benchmark note.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any

from traces.importers.log import NUMBER, Line, LogTrace, amount, is_number

NAME = "vllm"
MARKS = ("Avg prompt throughput: ",)
_MARK = re.compile(
    r"Avg prompt throughput: |SpecDecoding metrics: |Serving Benchmark Result|LLM engine \(v|vLLM API server"
)

_AVERAGES = {
    "Avg prompt throughput": "prompt_tok_s",
    "Avg generation throughput": "generation_tok_s",
    "Running": "running",
    "Waiting": "waiting",
    "Pending": "waiting",
    "Swapped": "swapped",
    "GPU KV cache usage": "kv_used_percent",
    "CPU KV cache usage": "cpu_kv_used_percent",
    "Prefix cache hit rate": "prefix_hit_percent",
    "Mean acceptance length": "mean_acceptance_length",
    "Accepted throughput": "accepted_tok_s",
    "Drafted throughput": "drafted_tok_s",
    "Accepted": "n_accepted",
    "Drafted": "n_drafted",
    "Avg Draft acceptance rate": "acceptance_percent",
    "Draft acceptance rate": "acceptance_rate",
    "Number of accepted tokens": "n_accepted",
    "Number of draft tokens": "n_drafted",
    "Number of emitted tokens": "n_emitted",
}
_COUNTS = {"running", "waiting", "swapped", "n_accepted", "n_drafted", "n_emitted"}
_PAIR = re.compile(rf"([A-Z][\w ]*?): ({NUMBER})")
_POSITIONS = re.compile(r"Per-position acceptance rate: \[?([\d.]+(?:, [\d.]+)*)", re.IGNORECASE)
_ENGINE = re.compile(r"\bEngine (\d+):")
_TIME = re.compile(r"\b(?:\d{4}-)?(\d{2}-\d{2} \d{2}:\d{2}:\d{2})\b")
_VERSION = re.compile(r"LLM engine \(v([^)]+)\) with config: .*?\bmodel='([^']+)'")
_KV_TOKENS = re.compile(r"GPU KV cache size: ([\d,]+) tokens")
_IDS = re.compile(r"Received request ([\w-]+): .*prompt_token_ids: \[([\d, ]+)\]")
_RESULT_LINE = re.compile(rf"^((?:Mean|Median|P\d+) \w+|[A-Z][\w ]+?) ?(?:\((ms|s|req/s|tok/s)\))?: +({NUMBER})\s*$")
_RESULT_NAMES = {
    "successful requests": "completed",
    "benchmark duration": "duration",
    "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens",
    "request throughput": "request_throughput",
    "output token throughput": "output_throughput",
    "total token throughput": "total_token_throughput",
}


class VLLM:
    """Reads what vLLM printed; see the module."""

    def __init__(self, trace: LogTrace) -> None:
        self._trace = trace
        self._seq_id = 0
        self._began: datetime | None = None
        self._results: dict[str, float] | None = None

    def line(self, line: Line) -> None:
        """One line."""
        text = line.text
        if line.value is not None:
            self._object(line, line.value)
        elif "throughput: " in text or "metrics: " in text:
            self._interval(line)
        elif "Serving Benchmark Result" in text:
            self._results = {}
        elif self._results is not None and not text.startswith("==="):
            self._result(line)
        elif self._results is not None:
            self._tell_results()
        elif "Received request" in text and (match := _IDS.search(text)):
            ids = [int(i) for i in match[2].split(",")]
            self._trace.note("request", seq_id=self._next(), prompt_ids=ids, prompt_tokens=len(ids), name=match[1])
        else:
            self._facts(text)

    def end(self) -> None:
        """A result that broke off is told as far as it goes."""
        if self._results is not None:
            self._trace.cut = True
            self._tell_results()

    def _next(self) -> int:
        self._seq_id += 1
        return self._seq_id - 1

    def _facts(self, text: str) -> None:
        if "LLM engine (v" in text and (match := _VERSION.search(text)):
            self._trace.fact("engine", version=match[1])
            self._trace.fact("model", name=match[2].rsplit("/", 1)[-1])
            self._began = None
            self._seq_id = 0
        elif "GPU KV cache size" in text and (match := _KV_TOKENS.search(text)) and not self._trace.begun:
            self._trace.fact("kv", total=int(match[1].replace(",", "")), unit="tokens", paged=True)

    def _interval(self, line: Line) -> None:
        known: dict[str, Any] = {}
        for name, number in _PAIR.findall(line.text):
            key = _AVERAGES.get(name.strip())
            if key is None:
                continue
            value = amount(number.rstrip(".,"))
            if not math.isfinite(value):
                self._trace.doubt(line, f"{name.strip()} is {number}")
            else:
                known[key] = int(value) if key in _COUNTS else value
        if positions := _POSITIONS.search(line.text):
            known["acceptance_by_position"] = [amount(n) for n in positions[1].split(", ")]
        engine = _ENGINE.search(line.text)
        if known and not line.ended and "%" not in line.text[-2:]:
            self._trace.doubt(line, "the last line has no end: it may be cut")
        if known:
            number = int(engine[1]) if engine else None
            self._trace.note("interval", t_ns=self._time_ns(line.text), engine=number, **known)

    def _time_ns(self, text: str) -> int | None:
        """Since the first line with a time; the year is not printed."""
        match = _TIME.search(text)
        if not match:
            return None
        try:
            now = datetime.strptime("2000-" + match[1], "%Y-%m-%d %H:%M:%S")
        except ValueError:
            return None
        self._began = self._began or now
        since = (now - self._began).total_seconds()
        return int(since * 1e9) if since >= 0 else None

    def _object(self, line: Line, value: dict[str, Any]) -> None:
        if "request_throughput" not in value:
            return
        model = value.get("model_id")
        if isinstance(model, str) and not self._trace.begun:
            self._trace.fact("model", name=model.rsplit("/", 1)[-1])
        scalars = {n: v for n, v in value.items() if isinstance(v, (int, float, str)) and n not in ("kind", "model_id")}
        self._trace.note("benchmark", **scalars)
        lists = [value.get(name) for name in ("input_lens", "output_lens", "ttfts", "itls")]
        if all(isinstance(each, list) for each in lists):
            self._requests(line, value)
        else:
            self._trace.message("the result has means only; --save-detailed keeps every request")

    def _requests(self, line: Line, value: dict[str, Any]) -> None:
        columns = [value[name] for name in ("input_lens", "output_lens", "ttfts", "itls")]
        if len({len(column) for column in columns}) > 1:
            self._trace.doubt(line, "its lists are of different lengths: read up to the shortest")
        errors = value.get("errors")
        errors = errors if isinstance(errors, list) else []
        for i, (prompt, generated, ttft, itl) in enumerate(zip(*columns, strict=False)):
            seq_id = self._next()
            error = errors[i] if i < len(errors) else ""
            if error or not isinstance(itl, list) or not all(map(is_number, (ttft, *itl))):
                self._trace.doubt(line, f"request {i} failed" if error else f"request {i} has a time that is no number")
                self._trace.note("request", seq_id=seq_id, prompt_tokens=prompt if isinstance(prompt, int) else None)
                continue
            gaps = [gap * 1000 for gap in itl]
            self._trace.note("request", seq_id=seq_id, prompt_tokens=prompt)
            self._trace.totals(
                seq_id,
                prompt_tokens=prompt,
                generated=generated,
                ttft_ms=ttft * 1000,
                decode_ms=sum(gaps) if gaps else None,
                total_ms=ttft * 1000 + sum(gaps),
                itl_ms=gaps,
            )

    def _result(self, line: Line) -> None:
        match = _RESULT_LINE.match(line.text)
        if not match or self._results is None:
            return
        name, value = match[1].strip().lower(), amount(match[3])
        if not math.isfinite(value):
            self._trace.doubt(line, f"{match[1]} is {match[3]}")
            return
        suffix = "_ms" if match[2] == "ms" else ""
        self._results[_RESULT_NAMES.get(name, name.replace(" ", "_") + suffix)] = value

    def _tell_results(self) -> None:
        results, self._results = self._results, None
        if results:
            self._trace.note("benchmark", **results)


READER = VLLM


def knows(line: Line) -> bool:
    """Whether the line is surely vLLM's."""
    if line.value is not None:
        return "request_throughput" in line.value
    return _MARK.search(line.text) is not None
