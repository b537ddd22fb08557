"""The longest spikes of a cell as small drawings: segments too short to be seen are drawn together.

A spike of 50 ms can hold thousands of traced events. What is narrower than a 250th of the drawing cannot be
told apart by eye, so runs of such segments become one, coloured by what took most of it and saying what it holds. No
time is lost by that: the parts of the excess stand beside the drawing and are untouched.
"""

import math
from collections.abc import Sequence
from typing import Any

from stealtime.report import notation
from stealtime.studies.latency.attribution.model import AttributedSpike, Cause, Segment
from stealtime.studies.latency.content.cause_palette import RUNNING, family_of
from stealtime.studies.latency.content.causes import SpikePart, WorstSpike

_NARROWEST = 1 / 250
"""Of a spike's duration: four pixels of a wide drawing."""
_NAMED_IN_A_MERGED_SEGMENT = 4
_DECIMALS = 1
"""Of nanoseconds: a tenth is less than a counter's cycle."""


def worst_spike(spike: AttributedSpike, repetition: int, identity: str, tracks: Sequence[str]) -> WorstSpike:
    """Put a spike into what the page shows.

    Args:
        spike: With its segments.
        repetition: Of the cell, from 1.
        identity: Unique in the page.
        tracks: Those to draw, of ``machine`` and ``host``.
    """
    whole_ns = whole_parts([part.ns for part in spike.parts], spike.excess_ns)
    parts = tuple(
        SpikePart(cause_family(part.cause), part.cause.label, ns)
        for part, ns in zip(spike.parts, whole_ns, strict=True)
    )
    drawing = {
        "at_s": spike.start_s,
        "duration_ns": round(spike.duration_ns, _DECIMALS),
        "excess_ns": round(spike.excess_ns),
        "is_judged": spike.judged,
        "parts": [{"family": part.family, "label": part.label, "ns": part.ns} for part in parts],
        "tracks": [
            {
                "name": track,
                "segments": drawn_segments(
                    [segment for segment in spike.segments if segment.track == track], spike.duration_ns
                ),
            }
            for track in tracks
        ],
    }
    return WorstSpike(
        identity=identity,
        repetition=repetition,
        index=spike.index,
        at_s=spike.start_s,
        duration_ns=spike.duration_ns,
        excess_ns=round(spike.excess_ns),
        is_judged=spike.judged,
        parts=parts if spike.judged else (),
        drawing=drawing,
    )


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


def cause_family(cause: Cause | None) -> str:
    """Give the family of a cause; without one the probe itself ran."""
    return RUNNING if cause is None else family_of(cause.kind, cause.name)


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
