"""From the results of a cell's repetitions to its figures, and from those of two runs to their differences.

A repetition gives one value of each figure. Its interval (``report.repetitions``) holds what differs from one pair of
hosts to the next, and a variance between sessions.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pydantic import Field, JsonValue

from stealtime.report import notation
from stealtime.report.cells.model import Bounded, CellFigures
from stealtime.report.cells.records import cell_figures, used_trials
from stealtime.report.comparison import CellComparison
from stealtime.report.repetitions import ComparisonOfRepetitions, FigureOfRepetitions, compared_repetitions
from stealtime.store.run import Trial
from stealtime.studies.protection.results import Checkpoints, Failover, RoundTrips

OF_PROBE = {
    "failover": ("silence_tcp_ns", "silence_udp_ns", "blow_to_running_ns", "decision_to_running_ns"),
    "roundtrip": ("tcp_p50_ns", "tcp_p99_ns", "udp_p50_ns", "udp_p99_ns"),
}
"""Figures that stand in the result as they are, by probe."""
_SILENCES = ("silence_tcp_ns", "silence_udp_ns")
_OF_CHECKPOINTS: dict[str, Callable[[Checkpoints], float]] = {
    "pause_p50_ns": lambda one: one.pause_p50_ns,
    "pause_max_ns": lambda one: one.pause_max_ns,
    "hold_p50_ns": lambda one: one.hold_p50_ns,
    "guest_time_lost_ppm": lambda one: 1e6 * one.pause_total_ns / one.elapsed_ns,
    "epochs_per_s": lambda one: 1e9 * one.epochs / one.elapsed_ns,
    "shipped_bytes_per_s": lambda one: 1e9 * one.shipped_bytes / one.elapsed_ns,
}
LABELS = {
    "silence_tcp_ns": "silence, TCP",
    "silence_udp_ns": "silence, UDP",
    "blow_to_running_ns": "blow to running",
    "decision_to_running_ns": "decision to running",
    "tcp_p50_ns": "TCP, median",
    "tcp_p99_ns": "TCP, 99 %",
    "udp_p50_ns": "UDP, median",
    "udp_p99_ns": "UDP, 99 %",
    "pause_p50_ns": "pause, median",
    "pause_max_ns": "pause, longest",
    "hold_p50_ns": "output held",
    "guest_time_lost_ppm": "guest time lost",
    "epochs_per_s": "checkpoints",
    "shipped_bytes_per_s": "shipped",
}
"""All figures of the study, as tables name them."""


class ProtectionFigures(CellFigures):
    """A cell of this study."""

    study: Literal["protection"] = "protection"
    repetitions: int
    """The valid ones; where none is, all that were measured."""
    acknowledged: int
    """Values that clients were told, in all repetitions."""
    unanswered: int
    """Requests that were not answered when the client ended."""
    violations: dict[str, int]
    """What a client saw that must not happen, by kind: values that were forgotten, repeated or wrong."""
    pages_wrong: int = 0
    """Of the guest's own memory, by its own check after each failover."""
    connections_lost: int
    """TCP connections that did not live through the failover."""
    unanswered_protocols: dict[str, int] = Field(default_factory=dict)
    """After how many failovers nothing was answered any more over a protocol."""
    figures: list[FigureOfRepetitions]

    @property
    def wrong(self) -> int:
        """How often something was seen that must not happen."""
        return sum(self.violations.values())

    @property
    def lines(self) -> list[str]:
        """Each figure with its interval, then what was counted."""
        told = [one.line(LABELS[one.name], in_words) for one in self.figures]
        return [
            *told,
            f"acknowledged {self.acknowledged}, wrong {self.wrong}, connections lost {self.connections_lost}",
        ]

    @property
    def columns(self) -> dict[str, JsonValue]:
        """The median of each figure of the study; those of other probes are empty."""
        medians: dict[str, JsonValue] = {name: self.figure(name).p50 for name in LABELS}
        return {**medians, "acknowledged": self.acknowledged, "wrong": self.wrong, "repetitions": self.repetitions}

    def bounded(self) -> Bounded:
        """Give the longest silence over TCP or UDP of a client whose guest's host died."""
        if self.violations or self.pages_wrong:
            # What is gone does not come back in any time.
            return Bounded(None, endless="; ".join(_wrongs(self.violations, self.pages_wrong)))
        if self.connections_lost:
            return Bounded(None, endless=f"{self.connections_lost} of {self.repetitions} TCP connections were lost")
        if self.unanswered_protocols:
            return Bounded(None, endless="; ".join(_silent(self.unanswered_protocols)))
        silences = [one for name in _SILENCES for one in self.figure(name).of_repetitions]
        return Bounded(max(silences, default=None))

    def figure(self, name: str) -> FigureOfRepetitions:
        """Give a figure; one without repetitions where this cell has none."""
        return next((one for one in self.figures if one.name == name), FigureOfRepetitions.of(name, []))


class ProtectionComparison(ComparisonOfRepetitions):
    """A figure in two runs."""

    @property
    def words(self) -> tuple[str, str, str]:
        """Its name, and its median in each run."""
        return LABELS[self.statistic], in_words(self.statistic, self.a_p50), in_words(self.statistic, self.b_p50)


def summarize_cell(trials: Sequence[Trial]) -> ProtectionFigures:
    """Compute the figures of a cell from all its trials, at least one."""
    cell = trials[0].record.cell
    results: list[Failover | RoundTrips] = [
        trial.result(Failover) if cell.probe == "failover" else trial.result(RoundTrips)
        for trial in used_trials(trials)
    ]
    values = {name: [float(getattr(one, name)) for one in results] for name in OF_PROBE[cell.probe]}
    checkpoints = [one.checkpoints for one in results if one.checkpoints is not None]
    if checkpoints:
        values |= {name: [take(one) for one in checkpoints] for name, take in _OF_CHECKPOINTS.items()}
    violations: Counter[str] = Counter()
    for result in results:
        violations.update(result.violations)
    figures = cell_figures([trial.record for trial in trials])
    failovers = [one for one in results if isinstance(one, Failover)]
    pages = sum(one.pages_wrong for one in failovers)
    silent = Counter(name for one in failovers for name in one.unanswered_protocols)
    told = [*_wrongs(violations, pages), *_silent(silent)]
    if lapses := sum(one.lapses for one in results):
        told.append(f"begun anew {lapses}x, because the guest lost its standby meanwhile on this busy host")
    return ProtectionFigures(
        **figures | {"limits": [*figures["limits"], *told]},
        repetitions=len(results),
        acknowledged=sum(one.acknowledged for one in results),
        unanswered=sum(one.requests - one.acknowledged for one in results),
        violations=dict(violations),
        pages_wrong=pages,
        connections_lost=sum(not one.tcp_lived for one in failovers),
        unanswered_protocols=dict(silent),
        figures=[FigureOfRepetitions.of(name, numbers) for name, numbers in values.items()],
    )


def compare_cells(a: ProtectionFigures, b: ProtectionFigures) -> CellComparison:
    """Compare each figure that both have."""
    both = [(one, other) for one in a.figures if (other := b.figure(one.name)).of_repetitions]
    return compared_repetitions(ProtectionComparison, (a, b), both)


def in_words(name: str, value: float | None) -> str:
    """Write a figure with its unit, which its name tells."""
    if value is None or name.endswith("_ns"):
        return notation.duration(value, 3)
    if name.endswith("_ppm"):
        return notation.percent(value / 1e6)
    if name.endswith("bytes_per_s"):
        return f"{notation.three_digits(value / 1e6)} MB/s"
    return f"{notation.three_digits(value)}/s"


def _wrongs(violations: Mapping[str, int], pages: int) -> list[str]:
    told = [f"clients saw what must not happen: {count} x {kind}" for kind, count in sorted(violations.items())]
    return [*told, f"{pages} pages of the guest's memory are wrong"] if pages else told


def _silent(protocols: Mapping[str, int]) -> list[str]:
    told = "nothing was answered any more after"
    return [f"over {name.upper()} {told} {count} failovers" for name, count in protocols.items()]
