"""A step trace for ui.perfetto.dev: nested slices a sequence, and counters for its length and rows.

Written with the perfetto package's own protobuf classes, packet by packet. A run is a process, a sequence a track in
it; timeline.py says how a step's parts are laid out.
"""

from __future__ import annotations

from typing import IO, Any

from traces.exporters.timeline import Slice, TimedStep, shown, timed_steps, title
from traces.table import Run, Table

_SEQUENCE = 1
_LAST_NS = 2**64 - 1
"""A trace may claim times that the format has no number for: they are drawn at the end of it"""


def write(table: Table, out: IO[bytes], first: int = 0, stop: int | None = None) -> int:
    """Write steps [first, stop) of every run to the binary file `out`; how many. Needs the perfetto package.

    Raises TraceError where the steps have no times.
    """
    from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

    builder = StreamingTraceProtoBuilder(out)
    written = 0
    for number, run in enumerate(table.runs):
        tracks = _Tracks(builder, number, run)
        for step in timed_steps(table, run, first, stop):
            tracks.step(step)
            written += 1
    return written


class _Tracks:
    """One run's tracks: made when a sequence is first seen."""

    def __init__(self, builder: Any, number: int, run: Run) -> None:
        self._builder = builder
        self._base = (number + 1) << 40  # room for four tracks of any 32-bit seq_id
        self._known: set[int] = set()
        packet = builder.create_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.track_descriptor.uuid = self._base
        packet.track_descriptor.process.pid = number + 1
        packet.track_descriptor.process.process_name = f"stepscope run {number}: {_utf8(title(run))}"
        builder.write_packet(packet)

    def step(self, step: TimedStep) -> None:
        """The step's slices on its sequence's track, and the counters at its end."""
        track = self._track(step.seq_id)
        event = self._event(track, step.slice.start)
        event.track_event.name = step.slice.name
        event.track_event.categories.append("step")
        self._annotate(event, shown(step))
        self._begin(event, step.slice)
        for i, (name, value) in enumerate(step.counters.items(), 1):
            event = self._event(self._counter(track + i, name, step.seq_id), step.slice.end)
            event.track_event.type = event.track_event.TYPE_COUNTER
            event.track_event.counter_value = value
            self._builder.write_packet(event)

    def _begin(self, event: Any, piece: Slice) -> None:
        track = event.track_event.track_uuid
        event.track_event.type = event.track_event.TYPE_SLICE_BEGIN
        self._builder.write_packet(event)
        for part in piece.inside:
            inner = self._event(track, part.start)
            inner.track_event.name = part.name
            inner.track_event.categories.append("part")
            self._begin(inner, part)
        event = self._event(track, piece.end)
        event.track_event.type = event.track_event.TYPE_SLICE_END
        self._builder.write_packet(event)

    def _event(self, track: int, at: int) -> Any:
        packet = self._builder.create_packet()
        packet.timestamp = min(at, _LAST_NS)
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.track_event.track_uuid = track
        return packet

    def _annotate(self, event: Any, values: dict[str, Any]) -> None:
        for name, value in values.items():
            note = event.track_event.debug_annotations.add()
            note.name = name
            if isinstance(value, int):
                note.int_value = value
            elif isinstance(value, float):
                note.double_value = value
            else:
                note.string_value = _utf8(str(value))

    def _track(self, seq_id: int) -> int:
        uuid = self._base + (seq_id % 2**32 + 1) * 4
        if uuid not in self._known:
            self._describe(uuid, f"seq {seq_id}")
        return uuid

    def _counter(self, uuid: int, name: str, seq_id: int) -> int:
        if uuid not in self._known:
            self._describe(uuid, f"{name} of seq {seq_id}", counter=True)
        return uuid

    def _describe(self, uuid: int, name: str, counter: bool = False) -> None:
        self._known.add(uuid)
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.track_descriptor.uuid = uuid
        packet.track_descriptor.parent_uuid = self._base
        packet.track_descriptor.name = name
        if counter:
            packet.track_descriptor.counter.SetInParent()
        self._builder.write_packet(packet)


def _utf8(text: str) -> str:
    """Halves of characters, which protobuf strings cannot hold, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()
