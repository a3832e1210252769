"""What llama.cpp prints: sums a request, never steps; so a trace of request and totals notes.

Read are the blocks of `llama_perf_context_print` (older: `llama_print_timings`), the server's slot lines from
`launch_slot_` over `print_timing` to `release`, the `timings` of its JSON answers, and speculative acceptance.
llama_bench.py and llama_tensors.py read what llama-bench and the eval callback print.

How its numbers are to be taken: the last sampled token is counted and not fed, so `eval time` is the time of one
forward less than the server's token count, and of just as many as the perf block's `runs`. A count of 1 beside 0.00 ms
is the print's way to avoid a division by zero. At release a slot holds reused + evaluated + generated - 1 rows.
"""

from __future__ import annotations

import math
import re
from typing import Any

from traces.importers.llama_bench import Bench
from traces.importers.llama_tensors import Tensors
from traces.importers.log import NUMBER, Line, LogTrace, amount, whole

NAME = "llama.cpp"
MARKS = ("prompt eval time =", "llama_perf_context_print:")
_MARK = re.compile(
    r"llama_perf_\w+_print:|llama_print_timings:|slot +(?:print_timing|launch_slot_|release): id|llama_model_loader:|"
    r"\bggml_debug:|common_debug_cb_eval:|^build_commit,|print_timings?\] prompt eval|srv +llama_server:|"
    r"\bllama_(?:model_)?load|draft acceptance rate ="
)

_TIME = re.compile(
    rf"(?P<what>load|sampl(?:e|ing)|prompt eval|(?<!prompt )eval|total) time\s*=\s*(?P<ms>{NUMBER}) ms"
    rf"(?:\s*/\s*(?P<count>\d+) (?:tokens|runs))?(?P<rest>.*)",
    re.IGNORECASE,
)
_PER_TOKEN = re.compile(rf"\(\s*({NUMBER}) ms per token")
_NOT_FINITE = re.compile(r"\b(?:nan|inf)\b", re.IGNORECASE)
_SLOT = re.compile(r"slot +(\w+): id +(\d+) \| task +(-?\d+) \|\s*(.*)")
_OLD_SLOT = re.compile(r"id_slot=(\d+) id_task=(\d+)")
_CLOCK = re.compile(r"(\d+)\.(\d{2})\.(\d{3})\.(\d{3}) [A-Z] ")
_PROMPT = re.compile(r"(?:task\.n_tokens|n_prompt_tokens) = (\d+)")
_REUSED = re.compile(r"(?:memory_seq_rm|kv cache rm) (?:\[p0, end\) .*\bp0=|\[)(\d+)")
_ROWS = re.compile(r"\bn_(?:tokens|past) ?= ?(\d+)")
_CUT_NUMBER = re.compile(r"(?<!truncated )= *-?\d[\d.]*$")
_TRUNCATED = re.compile(r"truncated ?= ?(?:[1-9]|true)")
_DRAFTED = re.compile(r"acceptance rate\s*=.*?\(\s*(\d+)(?: accepted)?\s*/\s*(\d+)(?: generated)?\s*\)")
_SPECULATIVE = re.compile(
    rf"(?P<phase>encoded|decoded) +(?P<n>\d+) tokens in +(?P<s>{NUMBER}) seconds|"
    r"(?P<name>n_drafted|n_accept) += +(?P<value>\d+)"
)
_PREFIX_HIT = re.compile(r"Llama\.generate: (\d+) prefix-match hit")
_BUILD = re.compile(r"\bbuild(?: =|:) (?P<build>\d+) \((?P<commit>[0-9a-f]+)\)(?: with (?P<compiler>.+?) for )?")
_LOADING = re.compile(r"load(?:ing|ed) (?:meta data .* from|model(?: from)?) '?(?P<path>[^' ]+)'?")
_SHAPE = re.compile(r"(?:print_info|llm_load_print_meta|load_internal): (n_\w+|EOS token) *= *(\d+)")
_SHAPES = {
    "n_layer": "n_layers",
    "n_vocab": "vocab_size",
    "n_head": "n_heads",
    "n_head_kv": "n_kv_heads",
    "n_embd_head_k": "head_dim",
}
_SETTING = re.compile(r"\b(n_ctx_slot|n_threads) = (\d+)")
_FINISH = {"length": "length", "limit": "length", "eos": "eos", "word": "stop"}
"""An answer's `stop` may be an end token or a stop string: it stays unknown"""


class _Request:
    """One request's sums, as far as they were printed. `derived` names those that were worked out from others."""

    def __init__(self, seq_id: int, line: Line) -> None:
        self.seq_id, self.last_line = seq_id, line
        self.t_ns: int | None = None
        self.sums: dict[str, Any] = {}
        self.derived: list[str] = []

    def derive(self, name: str, value: int) -> None:
        """A number that follows from the printed ones."""
        self.sums[name] = value
        self.derived.append(name)

    def tell(self, trace: LogTrace) -> None:
        """Write its request and totals notes."""
        prompt = {name: self.sums.get(name) for name in ("prompt_tokens", "n_reused")}
        trace.note("request", seq_id=self.seq_id, t_ns=self.t_ns, **prompt)
        trace.totals(self.seq_id, **self.sums, derived=self.derived or None)


class LlamaCpp:
    """Reads a log of llama.cpp; see the module."""

    def __init__(self, trace: LogTrace) -> None:
        self.trace = trace
        self._bench, self._tensors = Bench(trace), Tensors(trace)
        self._slots = _Slots(trace)
        self._blocks = _Blocks(trace, self._tensors)

    def line(self, line: Line) -> None:
        """One line; parts that know it take it."""
        if line.value is not None:
            self._object(line, line.value)
        elif not line.ended and _CUT_NUMBER.search(line.text):
            self.trace.doubt(line, "the last line has no end, its last number may be cut: dropped")
        elif not any(part.line(line) for part in (self._bench, self._tensors, self._slots, self._blocks)):
            self._facts(line.text)

    def end(self) -> None:
        """The log is over."""
        for part in (self._bench, self._tensors, self._slots, self._blocks):
            part.end()

    def _object(self, line: Line, value: dict[str, Any]) -> None:
        if "samples_ns" in value or "avg_ns" in value:
            self._bench.sample(line, value)
        elif isinstance(value.get("timings"), dict):
            _answer(self.trace, line, value, self._slots.unused_id())

    def _facts(self, text: str) -> None:
        if "build" in text and (match := _BUILD.search(text)):
            self._new_program()
            compiler = match["compiler"]
            self.trace.fact("engine", build_id=match["build"], commit=match["commit"], compiler=compiler)
        elif "loading model" in text or "loaded meta data" in text:
            if match := _LOADING.search(text):
                self._new_program()
                self.trace.fact("model", name=match["path"].replace("\\", "/").rsplit("/", 1)[-1])
        elif not self.trace.begun and (match := _SHAPE.search(text)):
            if match[1] == "EOS token":
                self.trace.fact("stop", eos=[int(match[2])])
            elif match[1] in _SHAPES:
                self.trace.fact("model", **{_SHAPES[match[1]]: int(match[2])})
        elif not self.trace.begun and (match := _SETTING.search(text)):
            if match[1] == "n_threads":
                self.trace.fact("host", threads=int(match[2]))
            else:
                self.trace.fact("kv", capacity=int(match[2]))

    def _new_program(self) -> None:
        if self.trace.begun:
            self._slots.end()
            self._blocks.end()
            self.trace.new_run()


class _Slots:
    """The server: a slot serves one task after another, and each task is a request."""

    def __init__(self, trace: LogTrace) -> None:
        self._trace = trace
        self._open: dict[int, _Request] = {}
        self._owner: _Request | None = None
        self._next_id = 0
        self._last_ns = -1

    def unused_id(self) -> int:
        """A request number that no task of this run had."""
        self._next_id += 1
        return self._next_id - 1

    def line(self, line: Line) -> bool:
        """Whether the line is a slot's, or one of the sums printed below a slot's `print_timing`."""
        text = line.text
        if "slot" in text and (match := _SLOT.search(text)):
            self._slot_line(line, match[1], int(match[3]), match[4])
            return True
        if "id_task" in text and (match := _OLD_SLOT.search(text)):
            self._slot_line(line, "release" if "slot released" in text else "", int(match[2]), text)
            return True
        if self._owner is None or " time =" not in text and "acceptance rate" not in text:
            return False
        return self._sums(line, self._owner, text)

    def _slot_line(self, line: Line, what: str, task: int, rest: str) -> None:
        if task < 0:
            return
        t_ns = _clock_ns(line.text)
        if what == "launch_slot_":
            self._launch(line, task, t_ns)
            return
        request = self._open.get(task)
        if request is None:
            if not _TIME.search(rest) and "stop processing" not in rest and what != "print_timing":
                return
            request = self._open[task] = _Request(task, line)
            self._next_id = max(self._next_id, task + 1)
        request.last_line = line
        if what == "release" or "stop processing" in rest:
            self._release(line, request, rest)
        elif match := _PROMPT.search(rest):
            request.sums.setdefault("prompt_tokens", int(match[1]))
        elif match := _REUSED.search(rest):
            request.sums.setdefault("n_reused", int(match[1]))
        else:
            self._owner = request
            self._sums(line, request, rest)

    def _launch(self, line: Line, task: int, t_ns: int | None) -> None:
        went_back = t_ns is not None and t_ns < self._last_ns
        if task in self._open or (self._next_id and (task == 0 or went_back)):
            self.end()
            self._trace.new_run()
        self._open[task] = _Request(task, line)
        self._open[task].t_ns = t_ns
        self._next_id = max(self._next_id, task + 1)
        self._last_ns = self._last_ns if t_ns is None else t_ns

    def _sums(self, line: Line, request: _Request, text: str) -> bool:
        if match := _DRAFTED.search(text):
            request.sums.update(n_accepted=int(match[1]), n_drafted=int(match[2]))
            return True
        match = _TIME.search(text)
        if not match:
            return False
        what, ms, count = _read_time(self._trace, line, match)
        if what == "prompt eval":
            request.sums.update(fed=count, prefill_ms=ms)
        elif what == "eval":
            per_token = _PER_TOKEN.search(match["rest"])
            printed = amount(per_token[1]) if per_token and ms is not None else None
            request.sums.update(generated=count, decode_ms=ms, printed_ms_per_token=printed)
        return what != "load"

    def _release(self, line: Line, request: _Request, rest: str) -> None:
        del self._open[request.seq_id]
        self._owner = None if self._owner is request else self._owner
        if match := _ROWS.search(rest):
            request.sums["rows"] = int(match[1])
        if _TRUNCATED.search(rest):
            request.sums["truncated"] = True  # rows left the cache: they no longer tell what was reused
        else:
            _derive_prompt(self._trace, line, request)
        request.tell(self._trace)

    def end(self) -> None:
        """Requests that nothing closed: told as far as they got, and doubted."""
        for request in self._open.values():
            last = request.last_line
            self._trace.doubt(last, f"task {request.seq_id} has no release line: the log breaks off there")
            self._trace.cut = True
            if request.sums:
                request.tell(self._trace)
        self._open.clear()
        self._owner, self._next_id, self._last_ns = None, 0, -1


def _derive_prompt(trace: LogTrace, line: Line, request: _Request) -> None:
    """The reused prefix and the prompt, where only the rows at release tell them."""
    sums = request.sums
    rows, fed, generated = (sums.get(name) for name in ("rows", "fed", "generated"))
    if "n_reused" not in sums and rows is not None and fed is not None and generated is not None:
        reused = rows - fed - max(generated - 1, 0)
        if reused < 0:
            trace.doubt(line, f"{rows} rows are fewer than {fed} evaluated + {generated} generated - 1")
        else:
            request.derive("n_reused", reused)
    if "prompt_tokens" not in sums and fed is not None and sums.get("n_reused") is not None:
        request.derive("prompt_tokens", sums["n_reused"] + fed)


class _Blocks:
    """`llama_perf_context_print`: the sums of one context, from the first of its lines to `total time`."""

    def __init__(self, trace: LogTrace, tensors: Tensors) -> None:
        self._trace, self._tensors = trace, tensors
        self._sums: dict[str, Any] = {}
        self._first = Line(0, "")
        self._of_draft = False
        self._speculative: dict[str, Any] = {}
        self._reused: int | None = None
        self._seq_id = 0

    def line(self, line: Line) -> bool:
        """Whether the line is a block's."""
        text = line.text
        if " time =" in text and (match := _TIME.search(text)):
            self._time(line, match)
            return True
        if "prefix-match hit" in text and (match := _PREFIX_HIT.search(text)):
            self._reused = int(match[1])
            return True
        if text.rstrip().endswith(("draft:", "target:")) and len(text) < 60:
            self._of_draft = text.rstrip().endswith("draft:")
            return True
        if ("coded" in text or "n_" in text) and (match := _SPECULATIVE.search(text)):
            self._speculation(line, match)
            return True
        return False

    def _speculation(self, line: Line, match: re.Match[str]) -> None:
        first, more = ("fed", "prefill_ms") if match["phase"] == "encoded" else ("generated", "decode_ms")
        if match["phase"]:
            self._speculative.update({first: int(match["n"]), more: amount(match["s"]) * 1000})
        elif self._speculative:
            self._speculative["n_drafted" if match["name"] == "n_drafted" else "n_accepted"] = int(match["value"])
        self._first = line

    def _time(self, line: Line, match: re.Match[str]) -> None:
        what, ms, count = _read_time(self._trace, line, match)
        if what in self._sums and what != "sampling":
            self._close(whole=False)
        if not self._sums:
            self._first = line
        self._sums[what] = (ms, count)
        if what == "total":
            self._close(whole=True)

    def _close(self, whole: bool) -> None:
        """Tell the block. Without its last line it was cut off, or another block was printed into it."""
        sums, self._sums = self._sums, {}
        if not sums:
            return
        if not whole:
            self._trace.doubt(self._first, "a block of timings without its total")
        if self._of_draft:
            self._trace.message(f"draft model: {_in_words(sums)}")
            self._of_draft = False
            return
        if self._speculative:
            self._trace.message(f"target model, verifying counted as prompt: {_in_words(sums)}")
            self._tell_speculation()
            return
        if self._tensors.seen:
            self._trace.message(f"with every tensor printed: {_in_words(sums)}")
        elif sums.keys() & {"prompt eval", "eval"}:
            self._tell_block(sums)

    def _tell_block(self, sums: dict[str, Any]) -> None:
        request = _Request(self._seq_id, self._first)
        self._seq_id += 1
        prefill_ms, fed = sums.get("prompt eval", (None, None))
        decode_ms, runs = sums.get("eval", (None, None))
        sampled = sums["sample"][1] if "sample" in sums else None
        total = sums.get("total", (None, None))[0]
        request.sums.update(n_reused=self._reused, fed=fed, prefill_ms=prefill_ms, total_ms=total)
        if runs == 1 and decode_ms is None:
            runs = 0 if sampled is None else sampled - 1
        request.sums.update(decoded=runs, decode_ms=decode_ms, generated=sampled)
        if sampled is None and runs:
            request.derive("generated", runs + 1)
        if fed is not None and self._reused is not None:
            request.derive("prompt_tokens", self._reused + fed)
        self._reused = None
        request.tell(self._trace)

    def _tell_speculation(self) -> None:
        request = _Request(self._seq_id, self._first)
        self._seq_id += 1
        request.sums, self._speculative = self._speculative, {}
        request.tell(self._trace)

    def end(self) -> None:
        """The log is over, or another program begins."""
        if self._sums:
            self._trace.cut = True
        self._close(whole=False)
        if self._speculative:
            self._tell_speculation()
        self._seq_id = 0


def _read_time(trace: LogTrace, line: Line, match: re.Match[str]) -> tuple[str, float | None, int | None]:
    """(what, ms, count) of a sum; 0.00 ms beside a count was not measured."""
    what, ms = match["what"].lower(), amount(match["ms"])
    count = int(match["count"]) if match["count"] else None
    if not math.isfinite(ms):
        trace.doubt(line, f"the {what} time is {match['ms']}")
        return what, None, count
    unmeasured = ms == 0 and count is not None
    if _NOT_FINITE.search(match["rest"]) or (unmeasured and count != 1):
        trace.doubt(
            line, f"{count} in {match['ms']} ms: the time was not measured" if unmeasured else "a rate is no number"
        )
    return what, None if unmeasured else ms, count


def _in_words(sums: dict[str, Any]) -> str:
    return ", ".join(
        f"{what} {ms} ms" + (f" / {count}" if count is not None else "") for what, (ms, count) in sums.items()
    )


def _clock_ns(text: str) -> int | None:
    """The time at a line's start, `minutes.seconds.ms.us` since the program began."""
    match = _CLOCK.search(text[:60])
    if not match:
        return None
    minutes, seconds, ms, us = map(int, match.groups())
    return ((minutes * 60 + seconds) * 1_000_000 + ms * 1000 + us) * 1000


def _answer(trace: LogTrace, line: Line, value: dict[str, Any], seq_id: int) -> None:
    """A server's answer: `timings`, and `usage` or the fields of its own API."""
    timings, usage = value["timings"], value.get("usage")
    request = _Request(seq_id, line)
    predicted = timings.get("predicted_n")
    request.sums.update(
        prompt_tokens=whole(usage.get("prompt_tokens")) if isinstance(usage, dict) else None,
        n_reused=whole(timings.get("cache_n")),
        fed=whole(timings.get("prompt_n")),
        prefill_ms=_ms(trace, line, timings, "prompt_ms"),
        generated=whole(predicted),
        decode_ms=_ms(trace, line, timings, "predicted_ms") if predicted != 1 else None,
        n_drafted=whole(timings.get("draft_n")),
        n_accepted=whole(timings.get("draft_n_accepted")),
        rows=whole(value.get("tokens_cached")),
    )
    if request.sums["prompt_tokens"] is None and None not in (request.sums["n_reused"], request.sums["fed"]):
        request.derive("prompt_tokens", request.sums["n_reused"] + request.sums["fed"])
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    reason = choice.get("finish_reason") or value.get("stop_type")
    request.sums["finish"] = _FINISH.get(str(reason))
    if not trace.begun and isinstance(value.get("model"), str):
        trace.fact("model", name=value["model"].rsplit("/", 1)[-1])
    request.tell(trace)


def _ms(trace: LogTrace, line: Line, timings: dict[str, Any], name: str) -> float | None:
    value = timings.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    if not math.isfinite(value):
        trace.doubt(line, f"{name} is {value}")
        return None
    return float(value)


READER = LlamaCpp


def knows(line: Line) -> bool:
    """Whether the line is surely llama.cpp's."""
    if line.value is not None:
        return isinstance(line.value.get("timings"), dict) or "samples_ns" in line.value
    return _MARK.search(line.text) is not None
