"""Marks as packets of Perfetto's trace format, each written as it comes, so that memory does not grow with a run.

The format is ``TrackEvent`` (perfetto.dev/docs/reference/synthetic-track-event); the messages are those that Perfetto
itself generates and ships on PyPI.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from stealtime.report.marks import Arguments, Begin, End, Instant, Mark, Slice, Track, Value
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from typing import IO

_SEQUENCE = 1
_SEQUENCE_BEGINS = 1  # TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
_MONOTONIC_RAW, _REALTIME = 5, 1  # BuiltinClock
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4  # TrackEvent.Type
_EXPLICIT = 3  # TrackDescriptor.ChildTracksOrdering
_NANOSECONDS = 1  # CounterDescriptor.Unit
_KEPT_BYTES = 1 << 20


@dataclass
class Written:
    """What was written so far."""

    tracks: int = 0
    slices: int = 0
    instants: int = 0
    values: int = 0
    flows: int = 0


class PerfettoWriter(AbstractContextManager["PerfettoWriter"]):
    """Writes a trace file.

    Args:
        target: Is replaced.
        raw_ns: A moment of the host's ``CLOCK_MONOTONIC_RAW`` ...
        realtime_ns: ... and of ``CLOCK_REALTIME``, so that a viewer can tell the time of day.

    Raises:
        StealtimeError: The library is not installed.
        OSError: ``target`` cannot be written.
    """

    def __init__(self, target: Path, *, raw_ns: int, realtime_ns: int) -> None:
        builder, self._packet = _library()
        self._file: IO[bytes] = target.open("wb", buffering=_KEPT_BYTES)
        self._builder = builder(self._file)
        self._tracks: dict[Track, int] = {}
        self.written = Written()
        packet = self._new()
        packet.sequence_flags = _SEQUENCE_BEGINS
        snapshot = packet.clock_snapshot
        snapshot.primary_trace_clock = _MONOTONIC_RAW
        for clock, at_ns in ((_MONOTONIC_RAW, raw_ns), (_REALTIME, realtime_ns)):
            snapshot.clocks.add(clock_id=clock, timestamp=at_ns)
        self._builder.write_packet(packet)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, marks: Iterable[Mark]) -> None:
        """Write marks, and each track before its first one."""
        for mark in marks:
            uuid = self._tracks.get(mark.track) or self._describe(mark.track)
            if isinstance(mark, Value):
                self._event(uuid, mark.at_ns, _COUNTER).double_counter_value = mark.value
                self.written.values += 1
            elif isinstance(mark, End):
                self._event(uuid, mark.at_ns, _END)
            elif isinstance(mark, Instant):
                self._named(uuid, mark, _INSTANT)
                self.written.instants += 1
            else:
                self._begin(uuid, mark)
            self._builder.write_packet(self._pending)
            if isinstance(mark, Slice):
                self._event(uuid, mark.at_ns + mark.duration_ns, _END)
                self._builder.write_packet(self._pending)

    def _begin(self, uuid: int, mark: Slice | Begin) -> None:
        event = self._named(uuid, mark, _BEGIN)
        if isinstance(mark, Slice):
            event.flow_ids.extend(mark.flows)
            self.written.flows += len(mark.flows)
            if mark.ends_flow is not None:
                event.terminating_flow_ids.append(mark.ends_flow)
        self.written.slices += 1

    def _named(self, uuid: int, mark: Slice | Begin | Instant, kind: int) -> Any:
        event = self._event(uuid, mark.at_ns, kind)
        event.name = mark.name
        event.categories.append(mark.category)
        _annotate(event, mark.arguments)
        return event

    def _event(self, uuid: int, at_ns: int, kind: int) -> Any:
        packet = self._pending = self._new()
        packet.timestamp = at_ns
        packet.timestamp_clock_id = _MONOTONIC_RAW
        event = packet.track_event
        event.type = kind
        event.track_uuid = uuid
        return event

    def _new(self) -> Any:
        packet = self._packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        return packet

    def _describe(self, track: Track) -> int:
        parent = None
        if track.parent is not None:
            parent = self._tracks.get(track.parent) or self._describe(track.parent)
        uuid = self._tracks[track] = len(self._tracks) + 1
        packet = self._new()
        descriptor = packet.track_descriptor
        descriptor.uuid = uuid
        descriptor.name = track.name
        # In the order in which they are first drawn.
        descriptor.child_ordering = _EXPLICIT
        descriptor.sibling_order_rank = uuid
        if parent is not None:
            descriptor.parent_uuid = parent
        if track.is_counter:
            descriptor.counter.SetInParent()
            if track.is_time:
                descriptor.counter.unit = _NANOSECONDS
        self._builder.write_packet(packet)
        self.written.tracks += 1
        return uuid


def _annotate(event: Any, arguments: Arguments) -> None:
    for name, value in arguments.items():
        annotation = event.debug_annotations.add(name=name)
        if isinstance(value, bool):
            annotation.bool_value = value
        elif isinstance(value, int):
            annotation.int_value = value
        elif isinstance(value, float):
            annotation.double_value = value
        else:
            annotation.string_value = value


def _library() -> tuple[Any, Any]:
    try:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket
        from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder
    except ImportError as error:
        raise StealtimeError(
            f"--perfetto needs the Python package perfetto, which is not installed: {error}",
            hint="pip install 'stealtime[perfetto]'",
        ) from error
    return StreamingTraceProtoBuilder, TracePacket
