"""What a day of kept verdicts says: for how much of the time each held, and when it was worst; pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from stealtime.capacity.exporter.kept import Line
from stealtime.capacity.rules import Verdict
from stealtime.capacity.severity import TO_CHANGE
from stealtime.vocabulary.readings import Model

SCHEMA_VERSION = 1
_HOUR_S = 3600


class SubjectHistory(Model):
    """The host, or one guest."""

    name: str
    uuid: str | None
    kind: str
    """``host`` or ``guest``."""
    watched_s: float
    verdict_percent: dict[Verdict, float]
    """Of the time that it was watched."""
    stretch: float | None
    """(run + wait) / run of the whole time; null for the host, and for a guest that never ran."""
    crowded_percent: float | None
    """Of its seconds: those in which it waited for more than a quarter of the CPU time that it wanted."""
    worst_hour: datetime | None
    """The beginning of the hour in which it was over-committed or under-provisioned for longest; null where never."""
    worst_hour_percent: float
    """Of that hour."""


class HistoryDocument(Model):
    """What ``stealtime advise --history --json`` prints."""

    schema_version: int
    host: str
    first: datetime
    last: datetime
    watched_s: float
    subjects: list[SubjectHistory]
    """The host, then guests, those first that were worst for longest."""


def make_history(lines: Sequence[Line], host: str) -> HistoryDocument:
    """Judge the day.

    Args:
        lines: Kept ones, the oldest first; at least one.
        host: The name of the host.
    """
    by_subject: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        # A guest that was started anew is the same one if its UUID is.
        by_subject[line.uuid, line.name if line.guest else ""].append(line)
    subjects = [_subject(own) for own in by_subject.values()]
    subjects.sort(key=lambda one: (one.kind != "host", -_needs_change(one.verdict_percent), one.name))
    return HistoryDocument(
        schema_version=SCHEMA_VERSION,
        host=host,
        first=_moment(lines[0].at_s - round(lines[0].elapsed_s)),
        last=_moment(lines[-1].at_s),
        watched_s=round(sum(line.elapsed_s for line in lines if not line.guest), 3),
        subjects=subjects,
    )


def _subject(lines: Sequence[Line]) -> SubjectHistory:
    is_host = not lines[-1].guest
    watched_s = sum(line.elapsed_s for line in lines)
    run_s, wait_s = sum(line.run_s for line in lines), sum(line.wait_s for line in lines)
    seconds = sum(line.watched_seconds for line in lines)
    worst_at_s, worst_percent = _worst_hour(lines)
    return SubjectHistory(
        name="host" if is_host else lines[-1].name,
        uuid=lines[-1].uuid or None,
        kind="host" if is_host else "guest",
        watched_s=round(watched_s, 3),
        verdict_percent=_shares(lines),
        stretch=round((run_s + wait_s) / run_s, 4) if run_s > 0 else None,
        crowded_percent=round(100 * sum(line.crowded_seconds for line in lines) / seconds, 2) if seconds else None,
        worst_hour=None if worst_at_s is None else _moment(worst_at_s),
        worst_hour_percent=round(worst_percent, 2),
    )


def _shares(lines: Iterable[Line]) -> dict[Verdict, float]:
    held: Counter[str] = Counter()
    for line in lines:
        held[line.verdict] += line.elapsed_s  # type: ignore[assignment]
    total = sum(held.values())
    return {verdict: round(100 * held_s / total, 2) for verdict, held_s in held.most_common()}  # type: ignore[misc]


def _needs_change(shares: Mapping[Verdict, float]) -> float:
    return sum(shares.get(verdict, 0.0) for verdict in TO_CHANGE)


def _worst_hour(lines: Iterable[Line]) -> tuple[int | None, float]:
    hours: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        hours[(line.at_s - 1) // _HOUR_S * _HOUR_S].append(line)
    shares = {hour: _needs_change(_shares(own)) for hour, own in hours.items()}
    worst = max(shares, key=lambda hour: (shares[hour], hour))
    return (worst, shares[worst]) if shares[worst] > 0 else (None, 0.0)


def _moment(at_s: int) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)
