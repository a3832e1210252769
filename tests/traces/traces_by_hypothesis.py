"""Random traces for property tests: valid in form, anything in content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from traces import fields
from traces.writer import TraceWriter

small = st.one_of(st.integers(0, 6), st.integers(-1, 40))
no_times = st.sampled_from([float("nan"), float("inf"), float("-inf"), -1.0, 2.0**127])
milliseconds = st.one_of(st.floats(0, 100, width=32), st.just(float("nan")), no_times)
token_ids = st.one_of(st.integers(0, 12), st.sampled_from([-1, 2**62, fields.ABSENT_I64]))

layer_kinds = st.one_of(
    st.just({"kind": "full"}),
    st.just({"kind": "recurrent"}),
    st.just({"kind": "none"}),
    st.just({"kind": "other", "name": "x"}),
    st.builds(lambda w, s: {"kind": "window", "window": w, "slack": s}, st.integers(1, 9), st.integers(0, 3)),
    st.builds(lambda o: {"kind": "shared", "owner": o}, st.integers(0, 5)),
)

OPTIONAL = [name for name in fields.OPTIONAL if name != "pos"]


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Any]:
    """A RUN object with its `fields`."""
    n_layers = draw(st.integers(1, 4))
    chosen = draw(st.lists(st.sampled_from(OPTIONAL), unique=True, max_size=len(OPTIONAL)))
    names = [*fields.REQUIRED, *chosen]
    shapes: dict[str, int] = {"draft_ids": draw(st.integers(1, 4))}
    for name in names:
        if fields.FIELDS[name].per_layer in ("yes", "may") and draw(st.booleans()):
            shapes[name] = draw(st.sampled_from([n_layers, n_layers, n_layers, max(1, n_layers - 1)]))
    run: dict[str, Any] = {"fields": fields.declaration(names, {k: v for k, v in shapes.items() if k in names})}
    if draw(st.booleans()):
        run["layers"] = draw(
            st.one_of(
                st.just([{"kind": "full"}] * n_layers), st.lists(layer_kinds, min_size=n_layers, max_size=n_layers)
            )
        )
    run["model"] = {"vocab_size": draw(st.sampled_from([None, 10, 13]))}
    run["kv"] = {
        "capacity": draw(st.sampled_from([None, 8, 30])),
        "total": draw(st.sampled_from([None, 20])),
        "unit": draw(st.sampled_from([None, "rows", "pages"])),
        "paged": draw(st.booleans()),
    }
    run["stop"] = {
        "eos": draw(st.sampled_from([None, [2], [2, 5]])),
        "max_new_tokens": draw(st.sampled_from([None, 3])),
        "ignore_eos": draw(st.booleans()),
    }
    if draw(st.booleans()):
        run["loop"] = draw(st.sampled_from(["naive", "cached"]))
    run["resolution_ms"] = draw(st.sampled_from([None, 0.5]))
    return run


def value_of(column: fields.Column) -> st.SearchStrategy[Any]:
    """A value that one field may hold."""
    if column.name == "phase":
        return st.sampled_from([1, 2, 2, 3])
    if column.name == "finish":
        return st.sampled_from([0, 0, 0, 0, 1, 2])
    if column.name == "seq_id":
        return st.integers(0, 2)
    if column.is_bytes:
        return st.binary(max_size=column.size)
    one = milliseconds if column.dtype[0] == "F" else token_ids if column.dtype == "I64" else small
    if column.dtype == "U64":
        one = st.one_of(st.integers(0, 10**6), st.just(fields.ABSENT_U64))
    if not column.shape:
        return one
    same = one.map(lambda v: [v] * column.size)
    return st.one_of(same, st.lists(one, min_size=column.size, max_size=column.size))


notes = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.just("request"), "seq_id": st.integers(0, 2)},
        optional={
            "prompt_tokens": small,
            "n_reused": small,
            "max_new_tokens": st.integers(0, 4),
            "t_ns": st.integers(0, 10**6),
            "prompt_ids": st.lists(st.integers(0, 9), max_size=4),
        },
    ),
    st.fixed_dictionaries(
        {"kind": st.just("shift"), "seq_id": st.integers(0, 2), "n_keep": small, "n_discard": st.integers(-1, 5)}
    ),
    st.fixed_dictionaries({"kind": st.just("rollback"), "seq_id": st.integers(0, 2), "n": st.integers(-1, 5)}),
    st.fixed_dictionaries(
        {"kind": st.just("release"), "seq_id": st.integers(0, 2)}, optional={"kv_used": small, "kv_free": small}
    ),
    st.fixed_dictionaries({"kind": st.just("gap"), "why": st.just("x")}, optional={"seq_id": st.integers(0, 2)}),
    st.fixed_dictionaries({"kind": st.just("finish"), "seq_id": st.integers(0, 2), "finish": st.just("abort")}),
    st.fixed_dictionaries(
        {"kind": st.just("totals"), "seq_id": st.integers(0, 2)},
        optional=dict.fromkeys(("prompt_tokens", "n_reused", "fed", "rows", "generated"), small),
    ),
    st.fixed_dictionaries({"kind": st.just("message"), "text": st.text(max_size=5)}),
)


@st.composite
def traces(draw: st.DrawFn, max_events: int = 25) -> list[tuple[str, dict[str, Any]]]:
    """("run", object) first, then ("step", values) and ("note", object)."""
    run = draw(runs())
    step = st.fixed_dictionaries({c.name: value_of(c) for c in fields.columns(run["fields"])})
    event = st.one_of(st.tuples(st.just("step"), step), st.tuples(st.just("step"), step),
                      st.tuples(st.just("note"), notes))  # fmt: skip
    return [("run", run), *draw(st.lists(event, max_size=max_events))]


def write(path: Path, events: list[tuple[str, dict[str, Any]]], flush: str = "step") -> None:
    """The file of such a trace."""
    with TraceWriter(path, events[0][1], flush=flush) as writer:
        for kind, value in events[1:]:
            if kind == "step":
                writer.step(**value)
            else:
                writer.note(**value)
