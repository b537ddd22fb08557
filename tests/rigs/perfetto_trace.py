"""A trace file of Perfetto, decoded by the messages that Perfetto itself generates: tracks, slices, values, flows.

It pairs begins with ends as the trace processor does: by time, at one time in the order of the file, each end closing
what began last on its track.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages

MONOTONIC_RAW = 5
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4


@dataclass
class DecodedSlice:
    track: str
    at_ns: int
    name: str
    category: str
    arguments: dict[str, object]
    flows: tuple[int, ...] = ()
    ends_flows: tuple[int, ...] = ()
    duration_ns: int = -1
    """-1: it has no end."""
    depth: int = 0


@dataclass
class DecodedTrace:
    tracks: list[str] = field(default_factory=list)
    """Each with those above it: ``trial/host's kernel/CPU 0``."""
    slices: list[DecodedSlice] = field(default_factory=list)
    instants: list[DecodedSlice] = field(default_factory=list)
    values: dict[str, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))
    clocks: set[int] = field(default_factory=set)
    """Of all events."""
    snapshot: dict[int, int] = field(default_factory=dict)
    primary_clock: int | None = None
    unmatched_ends: int = 0

    def on(self, track: str) -> list[DecodedSlice]:
        return [one for one in self.slices if one.track == track]


def decode(path: Path) -> DecodedTrace:
    trace = messages.Trace()
    trace.ParseFromString(path.read_bytes())
    found = DecodedTrace()
    names: dict[int, str] = {}
    events = []
    for packet in trace.packet:
        if packet.HasField("clock_snapshot"):
            found.snapshot = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
            found.primary_clock = packet.clock_snapshot.primary_trace_clock
        elif packet.HasField("track_descriptor"):
            told = packet.track_descriptor
            assert told.uuid not in names, "a track is described once"
            parent = f"{names[told.parent_uuid]}/" if told.HasField("parent_uuid") else ""
            names[told.uuid] = f"{parent}{told.name}"
        else:
            assert packet.track_event.track_uuid in names, "a track is described before its first event"
            events.append(packet)
    found.tracks = list(names.values())
    running: dict[str, list[DecodedSlice]] = defaultdict(list)
    for packet in sorted(events, key=lambda one: int(one.timestamp)):
        event = packet.track_event
        track = names[event.track_uuid]
        found.clocks.add(packet.timestamp_clock_id)
        if event.type == _COUNTER:
            found.values[track].append((packet.timestamp, event.double_counter_value))
        elif event.type == _END:
            if running[track]:
                ended = running[track].pop()
                ended.duration_ns = packet.timestamp - ended.at_ns
            else:
                found.unmatched_ends += 1
        else:
            one = DecodedSlice(
                track, packet.timestamp, event.name, event.categories[0], _arguments(event),
                tuple(event.flow_ids), tuple(event.terminating_flow_ids), depth=len(running[track]),
            )  # fmt: skip
            if event.type == _INSTANT:
                found.instants.append(one)
            else:
                found.slices.append(one)
                running[track].append(one)
    return found


def _arguments(event: messages.TrackEvent) -> dict[str, object]:
    return {one.name: getattr(one, str(one.WhichOneof("value"))) for one in event.debug_annotations}
