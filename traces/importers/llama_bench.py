"""llama-bench's results: each repetition becomes a run, so that two bench files can be compared as repeated runs.

Run i holds the i-th repetition of every test that ran under the same settings; a test is a request. llama-bench feeds
random tokens and samples none: its `n_gen` tokens are as many forwards. A test of prompt and generation together has
one time for both, which no one can take apart: it is kept as `total_ms`. The CSV form has the mean of the repetitions
only, and so gives one run.
"""

from __future__ import annotations

import csv
from typing import Any

from traces.importers.log import Line, LogTrace, amount, is_number

_RESULT = set("n_prompt n_gen n_depth test_time avg_ns stddev_ns avg_ts stddev_ts samples_ns samples_ts".split())
"""What differs from test to test; everything else in a result is a setting"""


class Bench:
    """Gathers the tests of a bench and tells them at the end: repetition by repetition, not test by test."""

    def __init__(self, trace: LogTrace) -> None:
        self._trace = trace
        self._columns: list[str] = []
        self._tests: dict[tuple[Any, ...], list[dict[str, Any]]] = {}

    def line(self, line: Line) -> bool:
        """Whether the line is a row of the CSV form, or its head."""
        if "build_commit,build_number" in line.text:
            self._columns = next(csv.reader([line.text.strip()]))
            return True
        if not self._columns or not line.text.startswith('"'):
            return False
        cells = next(csv.reader([line.text.strip()]))
        if len(cells) != len(self._columns) or not line.text.rstrip().endswith('"'):
            self._trace.doubt(line, f"a CSV row of {len(cells)} cells under a head of {len(self._columns)}")
        else:
            self.sample(line, dict(zip(self._columns, cells, strict=True)))
        return True

    def sample(self, line: Line, result: dict[str, Any]) -> None:
        """One test's object (or CSV row)."""
        counts = {name: _count(result.get(name)) for name in ("n_prompt", "n_gen", "n_depth")}
        samples = result.get("samples_ns")
        each = [float(ns) for ns in samples if _is_time(ns)] if isinstance(samples, list) else []
        mean = result.get("avg_ns")
        mean = amount(mean) if isinstance(mean, str) else mean
        if isinstance(samples, list) and len(each) < len(samples):
            self._trace.doubt(line, "a sample is no time")
        if not each and _is_time(mean):
            self._trace.message(f"line {line.number}: the mean of the repetitions, not one of them")
            each = [float(mean or 0)]
        if counts["n_prompt"] is None or counts["n_gen"] is None or not each:
            self._trace.doubt(line, "a llama-bench result without its counts or times")
            return
        settings = tuple((name, str(value)) for name, value in sorted(result.items()) if name not in _RESULT)
        self._tests.setdefault(settings, []).append({**counts, "each": each})

    def end(self) -> None:
        """Tell the runs."""
        for settings, tests in self._tests.items():
            for i in range(max(len(test["each"]) for test in tests)):
                self._start_run(dict(settings))
                for seq_id, test in enumerate(tests):
                    if i < len(test["each"]):
                        self._tell(seq_id, test, test["each"][i] / 1e6)
        self._tests.clear()

    def _start_run(self, settings: dict[str, str]) -> None:
        self._trace.new_run()
        model = settings.get("model_filename", "").replace("\\", "/").rsplit("/", 1)[-1]
        self._trace.fact("model", name=model or None, kind=settings.get("model_type"))
        self._trace.fact("engine", build_id=settings.get("build_number"), commit=settings.get("build_commit"))
        threads = _count(settings.get("n_threads"))
        self._trace.fact("host", cpu=settings.get("cpu_info"), gpu=settings.get("gpu_info") or None, threads=threads)
        self._trace.fact("kv", dtype=settings.get("type_k"))
        self._trace.fact("bench", **settings)

    def _tell(self, seq_id: int, test: dict[str, Any], ms: float) -> None:
        prompt, generated, depth = test["n_prompt"], test["n_gen"], test["n_depth"]
        both = bool(prompt and generated)
        # the depth is fed before the clock runs: to the test it is a reused prefix
        account = {"prompt_tokens": prompt + (depth or 0), "n_reused": depth or 0} if prompt else {}
        self._trace.note("request", seq_id=seq_id, **account)
        self._trace.totals(
            seq_id,
            **account,
            fed=prompt or None,
            generated=generated,
            decoded=generated,
            prefill_ms=ms if prompt and not both else None,
            decode_ms=ms if generated and not both else None,
            total_ms=ms if both else None,
        )


def _count(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number >= 0 else None


def _is_time(value: Any) -> bool:
    return is_number(value) and value > 0
