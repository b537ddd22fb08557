"""What ``stealtime blackout --json`` prints: each blackout once, with what each way of asking saw of it."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from stealtime.blackout.seen import SeenBlackout, SeenLoss, SeenWay, Silence, Watched, Way, WayFigures
from stealtime.vocabulary.readings import Model

SCHEMA_VERSION = 1
"""Rises when a key goes away or means something else; new figures and keys do not raise it."""


class OfOneWay(Model):
    """What one way of asking saw."""

    way: Way


class ViewDocument(Silence, OfOneWay):
    """A blackout as one way of asking saw it."""

    connection_lost: str | None
    """Why the TCP connection ended in it; null where it lived, or where there is none."""
    violations: list[str]
    """What the counter's answers contradicted from then until the next blackout: ``forgotten``, ``repeated`` ..."""


class BlackoutDocument(Model):
    """A time in which clients saw nothing, over one way of asking or several."""

    start_wall_ns: int
    since_start_ns: int
    length_ns: int
    """The longest that one of the ways saw."""
    ended: bool
    views: list[ViewDocument]


class UnjudgedDocument(OfOneWay):
    """A silence in which this machine itself stood still: whether the other side did, nobody knows."""

    since_start_ns: int
    silence_ns: int
    own_pause_ns: int


class WayDocument(WayFigures[str], Model):
    """One way of asking, over the whole time."""


class WatchDocument(Model):
    """What was seen of a machine."""

    schema_version: int
    valid: bool
    reasons: list[str]
    """Why it is not."""
    limits: list[str]
    started_wall_ns: int
    duration_ns: int
    max_gap_ns: int | None
    blackouts: list[BlackoutDocument]
    unjudged: list[UnjudgedDocument]
    ways: list[WayDocument]


def make_document(seen: Watched) -> WatchDocument:
    """Put together what the ways of asking saw at the same time."""
    start_ns = seen.started.monotonic_ns
    views = sorted(
        ((blackout, _view(way, blackout, until_ns)) for way in seen.ways for blackout, until_ns in _with_next(way)),
        key=lambda pair: pair[0].from_monotonic_ns,
    )
    unjudged = [
        UnjudgedDocument(
            way=way.way,
            since_start_ns=max(0, one.from_monotonic_ns - start_ns),
            silence_ns=one.silence_ns,
            own_pause_ns=one.own_pause_ns,
        )
        for way in seen.ways
        for one in way.unjudged
    ]
    return WatchDocument(
        schema_version=SCHEMA_VERSION,
        valid=seen.valid,
        reasons=seen.reasons,
        limits=seen.limits,
        started_wall_ns=seen.started.wall_ns,
        duration_ns=seen.duration_ns,
        max_gap_ns=seen.max_gap_ns,
        blackouts=[_blackout(together) for together in _overlapping(views)],
        unjudged=sorted(unjudged, key=lambda one: one.since_start_ns),
        ways=[_way(way) for way in seen.ways],
    )


def _with_next(way: SeenWay) -> Iterator[tuple[SeenBlackout, int | None]]:
    for blackout, following in pairwise([*way.blackouts, None]):
        assert blackout is not None  # noqa: S101 - only the last one of a pair is none
        yield blackout, None if following is None else following.from_monotonic_ns


def _overlapping(
    views: Sequence[tuple[SeenBlackout, ViewDocument]],
) -> Iterator[list[tuple[SeenBlackout, ViewDocument]]]:
    together: list[tuple[SeenBlackout, ViewDocument]] = []
    end_ns = 0
    for view in views:
        if together and view[0].from_monotonic_ns >= end_ns:
            yield together
            together = []
        end_ns = max(end_ns, view[0].to_monotonic_ns) if together else view[0].to_monotonic_ns
        together.append(view)
    if together:
        yield together


def _blackout(together: Sequence[tuple[SeenBlackout, ViewDocument]]) -> BlackoutDocument:
    first = together[0][0]
    return BlackoutDocument(
        start_wall_ns=first.start_wall_ns,
        since_start_ns=first.since_start_ns,
        length_ns=max(view.length_ns for _, view in together),
        ended=all(view.ended for _, view in together),
        views=[view for _, view in together],
    )


def _view(way: SeenWay, blackout: SeenBlackout, until_ns: int | None) -> ViewDocument:
    def is_in_it(moment_ns: int) -> bool:
        return blackout.from_monotonic_ns <= moment_ns and (until_ns is None or moment_ns < until_ns)

    lost = [loss.reason for loss in way.connection_losses if is_in_it(loss.at_monotonic_ns)]
    return ViewDocument(
        way=way.way,
        **blackout.model_dump(include=set(Silence.model_fields)),
        connection_lost=lost[0] if lost else None,
        violations=[str(one["kind"]) for one in way.violations if is_in_it(int(one["at_monotonic_ns"]))],
    )


def _way(way: SeenWay) -> WayDocument:
    figures = way.model_dump(include=set(WayFigures.model_fields))
    return WayDocument(**figures | {"connection_losses": [_loss(loss) for loss in way.connection_losses]})


def _loss(loss: SeenLoss) -> str:
    if loss.again_monotonic_ns is None:
        return f"{loss.reason}; not made anew"
    return f"{loss.reason}; made anew after {(loss.again_monotonic_ns - loss.at_monotonic_ns) / 1e6:.1f} ms"
