"""The figures of a cell: what became of the jobs of its task sets."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import JsonValue

from stealtime.report import notation
from stealtime.report.cells.figures import Figures
from stealtime.report.cells.model import Bounded, CellFigures, Watched
from stealtime.wire.rtload import RealTimePolicy

if TYPE_CHECKING:
    from stealtime.report.interval import Interval


class Share(Figures):
    """A share with its 95 % interval."""

    share: float
    low: float | None
    """None where it was not judged."""
    high: float | None
    method: str


class Tail(Figures):
    """Percentiles of a series, each a value that occurred, and its maximum; all of ``count`` values."""

    count: int
    p50: float
    p99: float
    p999: float
    max: float


class TaskFigures(Figures):
    """One task of one repetition."""

    task: int
    name: str
    thread_id: int
    priority: int
    period_ns: int
    deadline_ns: int
    cost_ns: int
    iterations: int
    released: int
    missed: int
    overruns: int
    median_response_ns: float | None
    worst_response_ns: float | None


class Repetition(Figures):
    """One task set, run once."""

    repetition: int
    seed: int | None
    """That the set was drawn by; None where it was given."""
    utilization: float
    """Of the costs asked for; the work is a share of it."""
    released: int
    finished: int
    missed: int
    """Jobs that were not done by their deadline, begun or not."""
    unstarted: int
    overruns: int
    urgent_latency_ns: Tail | None
    """From release to start of the most urgent task alone, which no other task delays under ``fifo``."""
    start_latency_ns: Tail | None
    """The same of all jobs: what more urgent jobs take is part of it."""
    response_share: Tail | None
    """From release to finish as a share of the relative deadline: over 1 is late."""
    conversion_error_ns: float
    """How far a release can be off on the counter."""
    tasks: list[TaskFigures]


class RealTimeCell(CellFigures):
    """A cell of ``rtload``. The figures over all are of the valid repetitions; each of them has a set of its own."""

    quantities: ClassVar[Mapping[str, str]] = {
        "start-latency": "how late the most urgent of several periodic tasks begins (`rtload`)"
    }

    study: Literal["realtime"] = "realtime"
    policy: RealTimePolicy | None
    """None where nothing was measured."""
    polluters: int
    repetitions: list[Repetition]
    """The valid ones."""
    released: int
    missed: int
    missed_share: Share | None
    """Of the released jobs; None without any."""
    sets_missed: int
    """Repetitions in which a job missed its deadline."""
    sets_missed_share: Share | None
    urgent_latency_ns: Tail | None
    start_latency_ns: Tail | None
    response_share: Tail | None

    def watched(self, quantity: str) -> Watched | None:
        """Give the latest start of the most urgent task."""
        if quantity not in self.quantities:
            return None
        bounded = self.bounded()
        urgent = [one.tasks[0] for one in self.repetitions if one.tasks]
        watched_s = sum(one.released * one.period_ns for one in urgent) / 1e9
        return Watched(bounded.longest_ns, watched_s, bounded.unknown_because)

    def bounded(self) -> Bounded:
        """Give the latest start of the most urgent task.

        A job that had not begun at the end is at least as late as its deadline, which lies within the trial, and the
        first of several by a period more for each of the others.
        """
        longest_ns = None if self.urgent_latency_ns is None else self.urgent_latency_ns.max
        waiting = 0
        for one in self.repetitions:
            urgent, begun = one.tasks[0], 0 if one.urgent_latency_ns is None else one.urgent_latency_ns.count
            if (unstarted := urgent.released - begun) > 0:
                waiting += unstarted
                late_ns = urgent.deadline_ns + (unstarted - 1) * urgent.period_ns
                longest_ns = max(longest_ns or 0.0, float(late_ns))
        because = "no job of the most urgent task was released" if longest_ns is None else None
        if waiting:
            because = f"{waiting} jobs of the most urgent task had not begun at the end, which were later than is known"
        return Bounded(longest_ns, unknown_because=because)

    def at_percentile(self, percentile: str) -> Bounded:
        """Give a percentile of the starts of the most urgent task; jobs that never began are in none."""
        tail = self.urgent_latency_ns
        if tail is None:
            return Bounded(None, unknown_because=self.bounded().unknown_because)
        value_ns = float(getattr(tail, f"p{percentile.replace('.', '')}"))
        return Bounded(value_ns, unknown_because=self.bounded().unknown_because, samples=tail.count)

    @property
    def lines(self) -> list[str]:
        if not self.repetitions:
            return ["nothing valid"]
        text = f"{self.missed} of {self.released} jobs missed their deadline, in {self.sets_missed} of "
        text += f"{len(self.repetitions)} repetitions"
        if self.urgent_latency_ns is None:
            return [text]
        latency = notation.duration(self.urgent_latency_ns.max)
        return [text, f"the most urgent task began {latency} after its release at the latest"]

    @property
    def intervals(self) -> "Mapping[str, Interval]":
        from stealtime.report.interval import Interval

        share = self.missed_share
        if share is None or share.low is None or share.high is None:
            return {}
        return {"missed_share": Interval(share.share, share.low, share.high)}

    @property
    def columns(self) -> dict[str, JsonValue]:
        columns: dict[str, JsonValue] = {
            "released": self.released,
            "missed": self.missed,
            "missed_share": None if self.missed_share is None else self.missed_share.share,
            "repetitions": len(self.repetitions),
            "repetitions_missed": self.sets_missed,
        }
        for name, unit, tail in (
            ("urgent_latency", "_ns", self.urgent_latency_ns),
            ("start_latency", "_ns", self.start_latency_ns),
            ("response_share", "", self.response_share),
        ):
            for key in ("p50", "p99", "p999", "max"):
                columns[f"{name}_{key}{unit}"] = None if tail is None else getattr(tail, key)
        return columns
