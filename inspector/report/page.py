"""The page itself: what `subject` and `comparison` found, put into the templates beside this file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from inspector.facts import describe, engine_words, host_words, model_words, sampler_words
from inspector.figures import clock_words, growth_words, sentences
from inspector.film import milliseconds
from inspector.load import state_of
from inspector.report import plots
from inspector.report.comparison import Comparison
from inspector.report.film import film_of
from inspector.report.subject import LayerTimes, Subject
from inspector.text import visible
from traces.check import Report
from traces.metrics import Request

_REQUESTS, _PROMPT, _FAILURES, _MESSAGES, _RUNS = 50, 2000, 20, 20, 20


def page(comparison: Comparison | None, subjects: list[Subject]) -> str:
    """The HTML of a report: what was compared, then each trace."""
    from inspector.cli import version

    environment = Environment(
        loader=PackageLoader("inspector.report"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["ms"] = milliseconds
    names = [os.path.basename(subject.path) for subject in subjects]
    title = "two builds" if comparison is not None else ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
    sides = ("base: ", "new: ") if comparison is not None else ("",) * len(subjects)
    return environment.get_template("page.html").render(
        version=version(),
        title=title,
        comparison=comparison,
        comparison_plot=_inline(comparison.plot) if comparison is not None else None,
        traces=[
            _trace(number, subject, side)
            for number, (subject, side) in enumerate(zip(subjects, sides, strict=False), 1)
        ],
    )


def _shown(value: Any) -> Any:
    """Every text on the page without characters that hide or turn around what it says; jinja2 escapes it after."""
    return visible(value, keep_newlines=True) if isinstance(value, str) and not isinstance(value, Markup) else value


def _inline(plot: plots.Plot | None) -> tuple[Markup, str] | None:
    """(the picture as it is, its caption): an element of ours, in which text is already escaped."""
    return None if plot is None else (Markup(plot.svg), plot.said)


def _trace(number: int, subject: Subject, side: str) -> dict[str, Any]:
    """What the template of one trace needs."""
    table, figures = subject.table, subject.figures
    requests = [_request(request, note) for request, note in subject.requests[:_REQUESTS]]
    return {
        "id": f"trace-{number}",
        "name": side + subject.path,
        "steps": table.steps,
        "problems": state_of(table),
        "verdict": subject.report.verdict,
        "rules": list(_rules(subject.report)),
        "describe": describe(table.runs[0].facts),
        "runs": [list(_facts(run.facts)) for run in table.runs[:_RUNS]],
        "n_runs": len(table.runs),
        "figures": figures,
        "sentences": sentences(figures) + growth_words(figures["growth"]) + clock_words(figures["clock"]),
        "messages": figures["messages"][:_MESSAGES],
        "requests": requests,
        "n_requests": len(subject.requests),
        "prompts": [r for r in requests if r["prompt"]],
        "film": film_of(table, subject.report),
        "time_plot": _inline(_time_plot(subject)),
        "gap_plot": _inline(_gap_plot(subject)),
        "layer_plot": _inline(_layer_plot(subject.layers)),
        "layers": _layer_rows(subject.layers),
        "has_floor": any(row["floor_ms"] is not None for row in figures["by_context"]),
    }


def _facts(run: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A run's header in rows of (name, words), as far as it says something."""
    producer, kv, stop = (
        value if isinstance(value, dict) else {} for value in map(run.get, ("producer", "kv", "stop"))
    )
    told = {
        "model": model_words(run),
        "engine": engine_words(run),
        "sampler": sampler_words(run),
        "host": host_words(run),
        "loop": run.get("loop"),
        "KV cache": ", ".join(f"{name} {value}" for name, value in kv.items() if value is not None),
        "stops": ", ".join(f"{name} {value}" for name, value in stop.items() if value is not None),
        "clock": run.get("clock"),
        "recorded by": " ".join(str(producer[name]) for name in ("name", "version") if producer.get(name)),
        "started": run.get("started_at"),
    }
    for name, words in told.items():
        if words:
            yield name, str(words)


def _rules(report: Report) -> Iterator[dict[str, Any]]:
    """Rules that fail first, those that had nothing to judge last."""
    order = ["fail", "unknown", "pass", "n/a"]
    rows: list[dict[str, Any]] = []
    for code, result in report.results.items():
        rows.append(
            {
                "code": code,
                "name": report.rules[code].name,
                "statement": report.rules[code].statement,
                "fault": report.rules[code].fault,
                "verdict": result.verdict if result.applies else "n/a",
                "result": result,
                "failures": [failure.message for failure in result.failures[:_FAILURES]],
            }
        )
    yield from sorted(rows, key=lambda row: order.index(row["verdict"]))


def _request(request: Request, note: dict[str, Any]) -> dict[str, Any]:
    prompt = note.get("prompt")
    text = prompt if isinstance(prompt, str) else ""
    return {**request.as_json(), "prompt": text[:_PROMPT], "cut": max(0, len(text) - _PROMPT)}


def _time_plot(subject: Subject) -> plots.Plot | None:
    if subject.times is None:
        return None
    rows = subject.figures["by_context"]
    floor = [(row["context"], row["floor_ms"]) for row in rows if row["floor_ms"] is not None]
    return plots.time_against_context(subject.times.context, subject.times.parts, floor)


def _gap_plot(subject: Subject) -> plots.Plot | None:
    if not len(subject.gaps):
        return None
    itl = subject.figures["itl_ms"]
    return plots.gap_histogram(subject.gaps, {name: itl[name] for name in ("p50", "p90", "p99")})


def _layer_plot(layers: LayerTimes | None) -> plots.Plot | None:
    if layers is None:
        return None
    plot = plots.layer_map(layers.context, layers.parts)
    if layers.sampled is None:
        return plot
    sample = f"; a random sample of {layers.sampled:,} of {layers.steps:,} steps"
    return plots.Plot(plot.svg, plot.said + sample)


def _layer_rows(layers: LayerTimes | None) -> list[dict[str, Any]]:
    """Each layer's median times, for those to whom colours say nothing."""
    if layers is None:
        return []
    columns = {part: plots.layer_medians(values) for part, values in layers.parts.items()}
    n = len(next(iter(columns.values())))
    return [
        {"layer": i, **{part: float(columns[part][i]) if part in columns else np.nan for part in ("gemm", "attn")}}
        for i in range(n)
    ]
