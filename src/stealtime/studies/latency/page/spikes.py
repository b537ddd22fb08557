"""The longest spikes of a cell as small drawings: segments too short to be seen are drawn together.

A spike of 50 ms can hold thousands of traced events. What is narrower than a 250th of the drawing cannot be
told apart by eye, so runs of such segments become one, coloured by what took most of it and saying what it holds. No
time is lost by that: the parts of the excess stand beside the drawing and are untouched.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stealtime.report import notation
from stealtime.studies.latency.attribution.cells import TracedCell
from stealtime.studies.latency.attribution.families import NOT_JUDGED, RUNNING, cause_family
from stealtime.studies.latency.attribution.model import AttributedSpike, Segment

_NARROWEST = 1 / 250
"""Of a spike's duration: four pixels of a wide drawing."""
_NAMED_IN_A_MERGED_SEGMENT = 4
_DECIMALS = 1
"""Of nanoseconds: a tenth is less than a counter's cycle."""


@dataclass(frozen=True)
class SpikePart:
    """A part of a spike's excess."""

    family: str
    label: str
    ns: int
    """Rounded so that the parts of a spike add up to its excess."""


@dataclass(frozen=True)
class WorstSpike:
    """One of the longest spikes of a cell."""

    identity: str
    """Unique in the page, fit for an HTML id."""
    repetition: int
    told: AttributedSpike
    tracks: tuple[str, ...]
    """Those to draw, of ``machine`` and ``host``."""

    @property
    def parts(self) -> list[SpikePart]:
        """They add up to the excess; none if it was not judged."""
        whole_ns = whole_parts([part.ns for part in self.told.parts], self.told.excess_ns)
        return [
            SpikePart(cause_family(part.cause), part.cause.label, ns)
            for part, ns in zip(self.told.parts, whole_ns, strict=True)
        ]

    @property
    def families(self) -> str:
        """The families of its parts, space-separated."""
        return " ".join(dict.fromkeys(part.family for part in self.parts)) if self.told.judged else NOT_JUDGED

    @property
    def drawing(self) -> dict[str, Any]:
        """What ``templates/spike_figure.js`` reads."""
        segments = self.told.segments
        return {
            "at_s": self.told.start_s,
            "duration_ns": round(self.told.duration_ns, _DECIMALS),
            "excess_ns": round(self.told.excess_ns),
            "is_judged": self.told.judged,
            "parts": [asdict(part) for part in self.parts],
            "tracks": [
                {
                    "name": track,
                    "segments": drawn_segments([one for one in segments if one.track == track], self.told.duration_ns),
                }
                for track in self.tracks
            ],
            "families": self.families,
        }


def worst_spikes(cell: TracedCell) -> list[WorstSpike]:
    return [
        WorstSpike(f"{cell.identity}-spike-{number}", one.repetition, spike, one.tracks(spike))
        for number, (spike, one) in enumerate(cell.worst, start=1)
    ]


def drawings(cell: TracedCell) -> list[dict[str, Any]]:
    """Give what the page's scripts read of them."""
    has_several = len(cell.attributed) > 1
    return [{**spike.drawing, "repetition": spike.repetition if has_several else None} for spike in worst_spikes(cell)]


def whole_parts(parts_ns: Sequence[float], excess_ns: float) -> list[int]:
    """Round parts to whole nanoseconds so that they still add up to the rounded excess, as a reader will check.

    Those that lose most by being rounded down are rounded up (Hamilton's method of apportionment).
    """
    whole = [math.floor(part) for part in parts_ns]
    missing = round(excess_ns) - sum(whole)
    by_loss = sorted(range(len(whole)), key=lambda index: whole[index] - parts_ns[index])
    for index in by_loss[: max(missing, 0)]:
        whole[index] += 1
    return whole


def drawn_segments(segments: Sequence[Segment], duration_ns: float) -> list[dict[str, Any]]:
    """Give the segments of one track to draw, in time order: ``{from, ns, family, text}``, at most about 500."""
    least_ns = duration_ns * _NARROWEST
    drawn: list[dict[str, Any]] = []
    narrow: list[Segment] = []
    for segment in sorted(segments, key=lambda one: one.start_ns):
        span_ns = segment.start_ns + segment.duration_ns - narrow[0].start_ns if narrow else 0.0
        if segment.duration_ns < least_ns and span_ns <= least_ns:
            narrow.append(segment)
            continue
        drawn += _merged(narrow)
        narrow = []
        if segment.duration_ns < least_ns:
            narrow = [segment]
        else:
            drawn.append(_drawn(segment))
    return drawn + _merged(narrow)


def _drawn(segment: Segment) -> dict[str, Any]:
    return {
        "from": round(segment.start_ns, _DECIMALS),
        "ns": round(segment.duration_ns, _DECIMALS),
        "family": cause_family(segment.cause),
        "text": segment.text,
    }


def _merged(segments: Sequence[Segment]) -> list[dict[str, Any]]:
    """Draw a run of short segments as one, with what took most of it in front."""
    if len(segments) <= 1:
        return [_drawn(segment) for segment in segments]
    totals: dict[tuple[str, str], float] = {}
    for segment in segments:
        key = (cause_family(segment.cause), segment.text)
        totals[key] = totals.get(key, 0.0) + segment.duration_ns
    # What interrupted is what the reader looks for: the probe's own running gives the colour only if there is no more.
    ordered = sorted(totals.items(), key=lambda item: (item[0][0] == RUNNING, -item[1]))
    named = [f"{text} {notation.duration(ns, 3)}" for (_, text), ns in ordered[:_NAMED_IN_A_MERGED_SEGMENT]]
    more = len(ordered) - len(named)
    first, last = segments[0], segments[-1]
    return [
        {
            "from": round(first.start_ns, _DECIMALS),
            "ns": round(last.start_ns + last.duration_ns - first.start_ns, _DECIMALS),
            "family": ordered[0][0][0],
            "text": f"{len(segments)} short ones: {', '.join(named)}{f' and {more} more' if more else ''}",
        }
    ]
