"""Perfetto, Chrome, Parquet and CSV: the same steps and the same sums as in the trace."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from traces import TraceError, frames
from traces.exporters import chrome, parquet, perfetto
from traces.exporters import csv as csv_export
from traces.fields import REQUIRED, declaration
from traces.table import Table
from traces.writer import TraceWriter

DOCS = Path(__file__).parents[3] / "docs" / "exports.md"
LAYERS = 2
PER_LAYER = dict.fromkeys(("cache_len", "gemm_ms", "attn_ms"), LAYERS)
NAMES = (*REQUIRED, "t_ns", "total_ms", "forward_ms", "sample_ms", "gemm_ms", "attn_ms", "lm_head_ms", "margin", "text")


def trace(path: Path, build: str = "b1", scale: float = 1.0, odd_layer: int | None = None) -> Table:
    """Two sequences in turn, a prefill and three decodes each, 10 ms apart; times are simple binary fractions."""
    run = {
        "model": {"name": "tiny/model", "n_layers": LAYERS},
        "engine": {"name": "e", "build_id": build},
        "layers": [{"kind": "full"}] * LAYERS,
        "fields": declaration(NAMES, PER_LAYER),
        "started_at": "2026-01-01T00:00:00Z",
    }
    with TraceWriter(path, run) as writer:
        for i in range(8):
            seq_id, nth = i % 2, i // 2
            length = 4 + nth
            rows = [length, length - (odd_layer == i)]
            writer.step(
                phase="decode" if nth else "prefill",
                seq_id=seq_id,
                token_id=10 + i if nth else None,
                n_tokens=1 if nth else 4,
                seq_before=length - 1 if nth else 0,
                seq_len=length,
                cache_len=rows,
                finish="eos" if nth == 3 else None,
                t_ns=i * 10_000_000,
                total_ms=8.0 * scale,
                forward_ms=6.0 * scale,
                sample_ms=0.5 * scale if nth else None,
                gemm_ms=[1.5 * scale, 2.0 * scale],
                attn_ms=[0.25 * scale, 0.5 * scale],
                lm_head_ms=1.0 * scale,
                margin=None if not nth else 0.5,
                text=b"=1+1" if i == 2 else b"\xe4\xbd" if i == 3 else b" b" if nth else None,
            )
    return Table(path)


# Perfetto


def read_perfetto(data: bytes) -> Trace:
    found = Trace()
    found.ParseFromString(data)
    return found


def slices(found: Trace) -> list[tuple[int, str, int, int, int]]:
    """(track, name, start, end, depth) of every slice; its end is the track's first end that is not an inner one's."""
    open_: dict[int, list[tuple[str, int]]] = {}
    out = []
    for packet in sorted((p for p in found.packet if p.HasField("track_event")), key=lambda p: p.timestamp):
        event, stack = packet.track_event, open_.setdefault(packet.track_event.track_uuid, [])
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            stack.append((event.name, packet.timestamp))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            name, start = stack.pop()
            out.append((event.track_uuid, name, start, packet.timestamp, len(stack)))
    assert not any(open_.values())
    return out


def test_perfetto_has_the_same_steps_and_sums(tmp_path: Path) -> None:
    table = trace(tmp_path / "a.steps")
    out = io.BytesIO()
    assert perfetto.write(table, out) == 8
    found = read_perfetto(out.getvalue())
    drawn = slices(found)
    steps = [s for s in drawn if s[4] == 0]
    assert sorted((name, start, end) for _, name, start, end, _ in steps) == sorted(
        ("prefill" if i < 2 else "decode", i * 10_000_000, i * 10_000_000 + 8_000_000) for i in range(8)
    )
    assert len({track for track, *_ in steps}) == 2

    def spent(name: str) -> int:
        return sum(end - start for _, n, start, end, _ in drawn if n == name)

    assert spent("attn") == 8 * 750_000
    assert spent("gemm") == 8 * 3_500_000
    assert spent("layer 0") == 8 * 1_750_000
    assert spent("forward") == 8 * 6_000_000
    assert spent("sample") == 6 * 500_000
    assert spent("lm_head") == 8 * 1_000_000
    names = {p.track_descriptor.uuid: p.track_descriptor for p in found.packet if p.HasField("track_descriptor")}
    counted: dict[str, list[int]] = {}
    for packet in found.packet:
        if packet.track_event.type == TrackEvent.TYPE_COUNTER:
            track = names[packet.track_event.track_uuid]
            assert track.HasField("counter")
            counted.setdefault(track.name, []).append(packet.track_event.counter_value)
    assert counted == {f"{what} of seq {seq}": [4, 5, 6, 7] for what in ("seq_len", "cache_len") for seq in (0, 1)}
    process = next(d.process for d in names.values() if d.HasField("process"))
    assert process.process_name == "stepscope run 0: tiny/model on e"


def test_perfetto_annotates_what_is_known(tmp_path: Path) -> None:
    out = io.BytesIO()
    perfetto.write(trace(tmp_path / "a.steps"), out, first=3, stop=4)
    begin = next(p.track_event for p in read_perfetto(out.getvalue()).packet if p.track_event.name == "decode")
    notes = {n.name: n.int_value or n.double_value or n.string_value for n in begin.debug_annotations}
    text = "\\udce4\\udcbd"  # half a character
    counts = {"n_tokens": 1, "seq_before": 4, "seq_len": 5}
    assert notes == {"step": 3, "token_id": 13, "text": text, **counts, "margin": 0.5}


times = st.one_of(st.none(), st.floats(0, 1e5, width=32))


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 10**7), times, times, st.lists(times, min_size=2, max_size=2)),
        max_size=12,
    )
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_slices_never_cross_whatever_the_times(tmp_path: Path, made: list[Any]) -> None:
    run = {"fields": declaration((*REQUIRED, "t_ns", "total_ms", "forward_ms", "gemm_ms"), {"gemm_ms": 2})}
    at = 0
    with TraceWriter(tmp_path / "a.steps", run) as writer:
        for seq_id, gap, total, forward, gemm in made:
            at += gap
            writer.step(phase="decode", seq_id=seq_id, t_ns=at, total_ms=total, forward_ms=forward, gemm_ms=gemm)
    out = io.BytesIO()
    assert perfetto.write(Table(tmp_path / "a.steps"), out) == len(made)
    drawn = slices(read_perfetto(out.getvalue()))
    assert sum(1 for piece in drawn if piece[1] == "decode") == len(made)
    assert all(start <= end for _, _, start, end, _ in drawn)


# Chrome


def test_chrome_has_the_same_steps_and_sums(tmp_path: Path) -> None:
    table = trace(tmp_path / "a.steps")
    events = json.loads("\n".join(chrome.lines(table)))["traceEvents"]
    steps = [e for e in events if e.get("cat") == "step"]
    assert sorted((e["tid"], e["ts"], e["dur"], e["args"]["step"]) for e in steps) == sorted(
        (i % 2, i * 10_000.0, 8_000.0, i) for i in range(8)
    )
    assert sum(e["dur"] for e in events if e["name"] == "gemm") == 8 * 3_500.0
    assert [e["args"] for e in events if e["ph"] == "C" and e["tid"] == 1][-1] == {"seq_len": 7, "cache_len": 7}
    assert {e["args"]["name"] for e in events if e["ph"] == "M"} == {"tiny/model on e", "seq 0", "seq 1"}


def test_steps_without_any_time_cannot_be_drawn(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.steps", {"fields": declaration(list(REQUIRED))}) as writer:
        writer.step(phase="decode", seq_id=0, token_id=1)
    with pytest.raises(TraceError, match="neither t_ns nor total_ms"):
        list(chrome.lines(Table(tmp_path / "a.steps")))


def test_steps_without_a_clock_stand_one_behind_another(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.steps", {"fields": declaration([*REQUIRED, "total_ms"])}) as writer:
        for _ in range(3):
            writer.step(phase="decode", seq_id=0, total_ms=2.0)
    events = json.loads("\n".join(chrome.lines(Table(tmp_path / "a.steps"))))["traceEvents"]
    assert [e["ts"] for e in events if e["ph"] == "X"] == [0.0, 2000.0, 4000.0]


# Parquet


def test_parquet_is_typed_and_partitioned(tmp_path: Path) -> None:
    table = trace(tmp_path / "a.steps")
    assert parquet.write(table, str(tmp_path / "fleet")) == 8
    (path,) = (tmp_path / "fleet").rglob("*.parquet")
    assert path.parent.relative_to(tmp_path / "fleet").parts == ("model=tiny%2Fmodel", "build=b1")
    file = pq.read_table(path, partitioning=None)
    names = ("step", "seq_len", "cache_len", "total_ms", "text")
    kinds = [str(file.schema.field(name).type) for name in names]
    assert kinds == ["int64", "int32", "list<element: int32>", "float", "string"]
    rows = file.to_pylist()
    assert [row["step"] for row in rows] == list(range(8))
    assert [row["phase"] for row in rows] == ["prefill"] * 2 + ["decode"] * 6
    assert [row["token_id"] for row in rows] == [None, None, 12, 13, 14, 15, 16, 17]
    assert [row["finish"] for row in rows] == [None] * 6 + ["eos"] * 2
    assert rows[2]["gemm_ms"] == [1.5, 2.0]
    assert rows[2]["text"] == "=1+1"
    assert rows[3]["text"] == "\\xe4\\xbd"
    assert rows[0]["text"] is rows[0]["sample_ms"] is None
    assert json.loads(file.schema.metadata[b"stepscope.run"])["engine"]["build_id"] == "b1"
    # as a partitioned dataset the folder's names come back as columns
    whole = pq.read_table(tmp_path / "fleet")
    assert set(whole["model"].to_pylist()) == {"tiny/model"}


def test_the_same_trace_again_replaces_its_file_another_stands_beside_it(tmp_path: Path) -> None:
    fleet = str(tmp_path / "fleet")
    parquet.write(trace(tmp_path / "a.steps"), fleet)
    parquet.write(trace(tmp_path / "a.steps"), fleet)
    assert len(list((tmp_path / "fleet").rglob("*"))) == 3
    (tmp_path / "other").mkdir()
    parquet.write(trace(tmp_path / "other" / "a.steps", build="b2"), fleet)
    assert len(list((tmp_path / "fleet").rglob("*.parquet"))) == 2


def test_a_damaged_frame_is_left_out(tmp_path: Path) -> None:
    table = trace(tmp_path / "a.steps")
    data = bytearray((tmp_path / "a.steps").read_bytes())
    block = next(table.blocks.since(0))
    data[block.offset + 3 * block.size + frames.HEADER_SIZE + 2] ^= 0xFF
    (tmp_path / "a.steps").write_bytes(data)
    damaged = Table(tmp_path / "a.steps")
    assert parquet.write(damaged, str(tmp_path / "fleet")) == 7
    (path,) = (tmp_path / "fleet").rglob("*.parquet")
    assert pq.read_table(path, partitioning=None)["step"].to_pylist() == [0, 1, 2, 4, 5, 6, 7]
    out = io.StringIO()
    assert csv_export.write(damaged, out) == 7
    assert perfetto.write(damaged, io.BytesIO()) == 7


def queries() -> list[str]:
    return re.findall(r"```sql\n(.+?)```", DOCS.read_text(), re.S)


def test_the_worked_queries_of_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parquet.write(trace(tmp_path / "old.steps", build="b1"), "fleet")
    parquet.write(trace(tmp_path / "new.steps", build="b2", scale=0.5, odd_layer=5), "fleet")
    total = {"fields": declaration([*REQUIRED, "total_ms", "attn_ms"]), "model": {"name": "other"}}
    with TraceWriter(tmp_path / "sums.steps", total) as writer:  # one attention time for all layers
        writer.step(phase="decode", seq_id=0, n_tokens=1, seq_len=2000, total_ms=20.0, attn_ms=5.0)
    parquet.write(Table(tmp_path / "sums.steps"), "fleet")
    speed, layers = queries()
    assert duckdb.sql(speed).fetchall() == [
        ("other", "unknown", 1024, 1, 20.0, 5.0),
        ("tiny/model", "b1", 0, 6, 8.0, 0.75),
        ("tiny/model", "b2", 0, 6, 4.0, 0.375),
    ]
    assert duckdb.sql(layers).fetchall() == [("tiny/model", "b2", "new.steps", 5, [6, 5])]


# CSV


def test_csv_has_every_value_and_no_formula(tmp_path: Path) -> None:
    table = trace(tmp_path / "a.steps")
    out = io.StringIO()
    assert csv_export.write(table, out) == 8
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert [row["cache_len.1"] for row in rows] == ["4", "4", "5", "5", "6", "6", "7", "7"]
    assert rows[2]["text"] == "'=1+1"
    assert rows[0]["token_id"] == ""
    (tmp_path / "a.csv").write_text(out.getvalue())
    assert pyarrow.csv.read_csv(tmp_path / "a.csv")["total_ms"].to_pylist() == [8.0] * 8
    query = f"""select sum("gemm_ms.0" + "gemm_ms.1") from '{tmp_path}/a.csv'"""
    assert duckdb.sql(query).fetchall() == [(28.0,)]


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\tx", "\rx", "\n=1"])
def test_what_a_spreadsheet_would_run(text: str) -> None:
    assert csv_export.guarded(text) == "'" + text


def test_negative_numbers_stay_numbers(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.steps", {"fields": [*declaration(list(REQUIRED)), ["=cmd", "F64"]]}) as writer:
        writer.step(phase="decode", seq_id=0, token_id=-1, **{"=cmd": -2.5})
    out = io.StringIO()
    csv_export.write(Table(tmp_path / "a.steps"), out)
    (row,) = csv.DictReader(io.StringIO(out.getvalue()))
    assert (row["token_id"], row["'=cmd"]) == ("-1", "-2.5")


def test_runs_of_different_fields_share_a_table(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.steps", {"fields": declaration([*REQUIRED, "total_ms"])}) as writer:
        writer.step(phase="decode", seq_id=0, total_ms=1.0)
        writer.start_run({"fields": declaration([*REQUIRED, "margin"], {"cache_len": 2})})
        writer.step(phase="decode", seq_id=0, margin=2.0, cache_len=[3, 4])
    out = io.StringIO()
    csv_export.write(Table(tmp_path / "a.steps"), out)
    first, second = csv.DictReader(io.StringIO(out.getvalue()))
    assert (first["run"], first["total_ms"], first["margin"], first["cache_len.1"]) == ("0", "1.0", "", "")
    assert (second["run"], second["total_ms"], second["margin"], second["cache_len.1"]) == ("1", "", "2.0", "4")
    assert parquet.write(Table(tmp_path / "a.steps"), str(tmp_path / "fleet")) == 2
    assert len([name for _, _, names in os.walk(tmp_path / "fleet") for name in names]) == 2


def test_perfetto_takes_any_seq_id_and_any_time(tmp_path: Path) -> None:
    ids = [-(2**31), -3, 0, 1, 2**30, 2**31 - 1]
    run = {"fields": declaration([*REQUIRED, "t_ns", "total_ms"])}
    with TraceWriter(tmp_path / "a.steps", run) as writer:
        for again in range(2):
            if again:
                writer.start_run(run)
            for seq_id in ids:
                writer.step(phase="decode", seq_id=seq_id, n_tokens=1, seq_len=5, cache_len=5, t_ns=2**64 - 2,
                            total_ms=3e38)  # fmt: skip
    out = io.BytesIO()
    assert perfetto.write(Table(tmp_path / "a.steps"), out) == 2 * len(ids)
    packets = read_perfetto(out.getvalue()).packet
    tracks = [p.track_descriptor.uuid for p in packets if p.HasField("track_descriptor")]
    assert len(tracks) == len(set(tracks)) == 2 * (1 + 3 * len(ids))  # a run's own; a sequence's and its two counters
    assert max(p.timestamp for p in packets) == 2**64 - 1
