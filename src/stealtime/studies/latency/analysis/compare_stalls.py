"""What two runs lost, and how often they stalled: the figures in which rare disturbances show.

Percentiles are deaf to them: what happens once in 10 s is beyond the 99.99th, and a CPU that is taken for half of the
time moves the percentiles of half of the repetitions. Compared are besides

- the *mean overhead*: what a sample takes over the floor, all repetitions of a run together;
- *stalls*: how many samples a second lie beyond a threshold. It is taken from the longest samples of both runs together
  and without looking at whose they are, in the widest gap behind some of them: the longest ten, some fifty, some two
  hundred. Chosen so, it favours neither run. Of a trial at most those count that it keeps;
- *longest stalls*: whether the longest samples of one run's repetitions are longer than those of the other's. On a host
  where stalls come in bursts, seven more among twenty are nothing; that no repetition is without one is;
- *recurring stalls*: whether a length of stalls is in the repetitions of one run and not in those of the other. What
  has a timetable takes about as long each time, and so shows in the midst of a burst.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt
from statistics import median

from stealtime.report import notation
from stealtime.report.amounts import Amounts, ratio_of_amounts
from stealtime.report.comparison import StatisticComparison, judged
from stealtime.report.rates import Counts, judge_rates, method_of_rates
from stealtime.report.recurrence import Repetition, judge_recurrence
from stealtime.report.scale import METHOD_OF_SCALE, judge_scale
from stealtime.studies.latency.analysis.model import Stalls
from stealtime.studies.latency.analysis.stalls import KEPT

_METHOD_OF_MEAN = "mean overhead: all repetitions of a run together; its error by leaving out each in turn (jackknife)"
_FEWEST_TRIALS = 2
"""With an overhead, on each side: with one, leaving it out leaves nothing."""


@dataclass(frozen=True)
class Cut:
    """Near which of the longest samples of both runs together a threshold is sought."""

    statistic: str
    fewest: int
    """So many lie beyond it at least. Of six against none equal runs have seldom enough; of fewer nothing is told."""
    most: int


CUTS = (Cut("frequent_stalls", 150, 300), Cut("stalls", 40, 64), Cut("rare_stalls", 6, 12))


class MeanComparison(StatisticComparison):
    """What a sample takes over the floor, on average."""

    a_ns: float | None
    b_ns: float | None

    @property
    def words(self) -> tuple[str, str, str]:
        return "mean overhead", notation.duration(self.a_ns), notation.duration(self.b_ns)


class StallsComparison(StatisticComparison):
    """How many samples a second are longer than a threshold."""

    threshold_ns: float | None
    """Over the floor; None where there are too few samples in both runs together."""
    a_count: int | None
    b_count: int | None
    a_per_s: float | None
    b_per_s: float | None

    @property
    def words(self) -> tuple[str, str, str]:
        name = self.statistic.replace("_", " ")
        if self.threshold_ns is not None:
            name = f"over {notation.duration(self.threshold_ns, 3)}"
        a, b = (
            notation.ABSENT if one is None else f"{notation.three_digits(one)}/s"
            for one in (self.a_per_s, self.b_per_s)
        )
        return name, a, b


class LongestStallsComparison(StatisticComparison):
    """How long the longest sample of each repetition is."""

    a_median_ns: float | None
    """Over the floor, of the valid repetitions."""
    b_median_ns: float | None

    @property
    def words(self) -> tuple[str, str, str]:
        return "longest stalls", notation.duration(self.a_median_ns), notation.duration(self.b_median_ns)


class RecurringStallsComparison(StatisticComparison):
    """In how many repetitions there is a stall of a length. Its ratio is of the odds that there is one."""

    from_ns: float | None
    """Over the floor: the length by which the runs lie furthest apart; None where it is not judged."""
    to_ns: float | None
    a_repetitions: int | None
    """Of the valid ones, those that have such a stall."""
    b_repetitions: int | None
    of_a: int
    """Valid repetitions."""
    of_b: int

    @property
    def words(self) -> tuple[str, str, str]:
        if self.from_ns is None or self.to_ns is None:
            return "recurring stalls", notation.ABSENT, notation.ABSENT
        name = f"{notation.duration(self.from_ns, 3)} to {notation.duration(self.to_ns, 3)}"
        return name, f"in {self.a_repetitions} of {self.of_a}", f"in {self.b_repetitions} of {self.of_b}"


@dataclass(frozen=True)
class Side:
    """The valid trials of one run, one of each an entry."""

    stalls: Sequence[Stalls]
    samples: Sequence[int]
    watched_s: Sequence[float]

    def beyond(self, threshold_ns: float) -> Counts:
        """Count the samples of each trial that lie further above their floor; of each at most those that are kept."""
        counts = [sum(one > threshold_ns for one in trial.longest_ns) for trial in self.stalls]
        return Counts(counts, self.watched_s)

    @property
    def longest_ns(self) -> list[float]:
        """The longest of each trial over its floor; 0 of one that lost nothing."""
        return [max(trial.longest_ns, default=0.0) for trial in self.stalls]

    @property
    def repetitions(self) -> list[Repetition]:
        """The stalls of each trial, of which only so many are kept."""
        return [
            Repetition(trial.longest_ns, min(trial.longest_ns) if len(trial.longest_ns) >= KEPT else 0.0)
            for trial in self.stalls
        ]


def compare_stalls(a: Side, b: Side, because: str | None) -> list[StatisticComparison]:
    """Compare the mean overhead, stalls of several kinds, the longest of each repetition, and which length recurs.

    Args:
        a: The run that is the base of the ratios.
        b: The other one.
        because: Why nothing of this cell is judged; None where it is.
    """
    return [
        _compare_mean(a, b, because),
        *(_compare_beyond(a, b, cut, because) for cut in CUTS),
        _compare_longest(a, b, because),
        _compare_recurring(a, b, because),
    ]


def _compare_mean(a: Side, b: Side, because: str | None) -> MeanComparison:
    sides = [Amounts([one.lost_s for one in side.stalls], side.samples) for side in (a, b)]
    if because is None and any(sum(amount > 0.0 for amount in side.amounts) < _FEWEST_TRIALS for side in sides):
        because = "fewer than two repetitions of a run have any"
    ratio = ratio_of_amounts(*sides) if because is None else None
    means_ns = [side.share * 1e9 if side.wholes else None for side in sides]
    return MeanComparison(
        statistic="mean_overhead_ns", a_ns=means_ns[0], b_ns=means_ns[1], **judged(ratio, because, _METHOD_OF_MEAN)
    )


def find_threshold(longest_ns: Sequence[float], cut: Cut) -> float | None:
    """Find the middle of the widest gap, on a logarithmic scale, behind the longest ``fewest`` to ``most`` samples.

    Args:
        longest_ns: Of both runs together, over their floors, in any order.
        cut: Where to look.

    Returns:
        None where there are not more than ``fewest`` samples over their floor.
    """
    ordered = sorted((one for one in longest_ns if one > 0.0), reverse=True)
    gaps = [
        (log(ordered[place - 1] / ordered[place]), place)
        for place in range(cut.fewest, min(cut.most + 1, len(ordered)))
    ]
    if not gaps:
        return None
    # Of equal gaps the one behind fewer samples.
    _, place = max(gaps, key=lambda gap: (gap[0], -gap[1]))
    return sqrt(ordered[place - 1] * ordered[place])


def _compare_beyond(a: Side, b: Side, cut: Cut, because: str | None) -> StallsComparison:
    threshold_ns = None
    if because is None:
        longest_ns = [one for side in (a, b) for trial in side.stalls for one in trial.longest_ns]
        threshold_ns = find_threshold(longest_ns, cut)
        if threshold_ns is None:
            because = f"both runs together have not more than {cut.fewest} samples over their floor"
    if threshold_ns is None:
        return StallsComparison(
            statistic=cut.statistic,
            threshold_ns=None,
            a_count=None,
            b_count=None,
            a_per_s=None,
            b_per_s=None,
            **judged(None, because),
        )
    first, second = a.beyond(threshold_ns), b.beyond(threshold_ns)
    ratio, because = judge_rates(first, second)
    return StallsComparison(
        statistic=cut.statistic,
        threshold_ns=threshold_ns,
        a_count=round(first.total),
        b_count=round(second.total),
        a_per_s=first.rate,
        b_per_s=second.rate,
        **judged(ratio, because, method_of_rates(first, second, f"over {notation.duration(threshold_ns, 3)}")),
    )


def _compare_longest(a: Side, b: Side, because: str | None) -> LongestStallsComparison:
    ratio = None
    if because is None:
        ratio, because = judge_scale(a.longest_ns, b.longest_ns)
    medians_ns = [median(side.longest_ns) if side.stalls else None for side in (a, b)]
    return LongestStallsComparison(
        statistic="longest_stalls",
        a_median_ns=medians_ns[0],
        b_median_ns=medians_ns[1],
        **judged(ratio, because, METHOD_OF_SCALE),
    )


def _compare_recurring(a: Side, b: Side, because: str | None) -> RecurringStallsComparison:
    found = None
    if because is None:
        found, because = judge_recurrence(a.repetitions, b.repetitions)
    return RecurringStallsComparison(
        statistic="recurring_stalls",
        from_ns=None if found is None else found.from_ns,
        to_ns=None if found is None else found.to_ns,
        a_repetitions=None if found is None else found.a_repetitions,
        b_repetitions=None if found is None else found.b_repetitions,
        of_a=len(a.stalls),
        of_b=len(b.stalls),
        **judged(None if found is None else found.odds, because, None if found is None else found.method),
    )
