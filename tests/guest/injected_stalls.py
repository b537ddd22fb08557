"""Known thefts of the CPU against what a probe shows of them: the trial, the rule, and how it is damaged on purpose.

The rule, for the platform whose bound is asserted, is made so that what else happens on the machine cannot break it:
whoever disturbs a theft *adds* to the time that the samples show, and disturbs the pauses between the thefts alike.
A theft is within *tolerance* if the excess that the samples show differs from the thief's own stamp by at most 2 us or
1 % of the stamp, whichever is larger. The same look-up is made where nobody stole, in the middle of each pause. And
thefts of nothing, at the same rhythm, show the *way* to the thief and back, which is longer on a machine that is busy,
and at times much longer on one that takes back memory that rests: the thief's own pages rest between two thefts.

* ``MISSING``: no theft shows shorter than its stamp by over 2 us. Nothing outside can take that time out again.
* ``LENGTH``: the median error is within tolerance, beside the way.
* ``SPREAD``: of the thefts, at most 0.1 % are off by over the tolerance and the 99th percentiles of the ways and of the
  pauses together, besides as many as the shares of ways and pauses over these percentiles give. (If an error is the sum
  of what the instrument adds and of independent disturbances, it is not over the sum of their bounds more often than
  its parts are over theirs.)
* ``CAUSED_BY_PROBE``: over 2 % of the pauses are over the tolerance only if the thief was disturbed too. It spins for a
  fixed time: what its stamp has beyond that was taken from it by others, and the probe has no part in it.

Trials are short and several, and those with the calmest pauses are pooled.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import stats

from stealtime._core import Series
from stealtime.lab.platforms.model import Machine
from stealtime.wire.message import Injection, Periodic, ProbeRequest, RunTrial, TickProbe

TOLERANCE_NS = 2_000.0
TOLERANCE_SHARE = 0.01
MISSED_SHARE_MAX = 0.001
SELDOM = 0.99
DISTURBED_SHARE_MAX = 0.02
DISTURBED_TO_OVERRUN_MAX = 10
"""How many pauses may be disturbed for each theft that ran over. A disturbance just over the tolerance meets four times
as many pauses as ends of thefts, since a pause is looked up over a stretch; more than twice that."""
PAUSE_STRETCH_NS = 100_000
"""About the way to the thief and back, during which a theft too can be disturbed."""
CONFIDENCE = 0.999
"""Of the bound on how many thefts an independent disturbance may spoil, from its share of the pauses."""

MISSING = "stolen time is missing from the samples"
LENGTH = "the thefts have another length"
SPREAD = "more thefts are off than ways and pauses account for"
CAUSED_BY_PROBE = "the pauses are disturbed, and the thief was not"


@dataclass(frozen=True)
class Thefts:
    """What is asked of the agent."""

    every_ns: int
    steal_ns: int
    duration_ns: int


@dataclass(frozen=True)
class Measured:
    """A trial with thefts, in units of its clock."""

    durations: NDArray[np.uint32]
    saturated_index: NDArray[np.uint64]
    saturated_value: NDArray[np.uint64]
    stolen_start: NDArray[np.uint64]
    stolen_duration: NDArray[np.uint64]
    units_per_s: float
    interval: int | None
    """Of a periodic probe; None for a tiled one."""
    ways_ns: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    """To the thief and back, each as found by a theft of nothing just before."""

    def series(self) -> Series:
        # Series makes its columns read-only, and damaged() changes a copy.
        return Series(
            self.durations,
            None,
            self.saturated_index,
            self.saturated_value,
            None,
            None,
            "tiled" if self.interval is None else "periodic",
            self.interval,
            self.units_per_s,
            None,
        )

    def with_durations(self, durations: NDArray[np.float64]) -> "Measured":
        nothing = np.empty(0, dtype=np.uint64)
        return replace(
            self, durations=durations.astype(np.uint32), saturated_index=nothing, saturated_value=nothing
        )  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """The samples of a trial beside the stamps of its thief."""

    error_ns: NDArray[np.float64]
    """Signed, of each theft: what the samples show less what the thief stamped."""
    expected_ns: NDArray[np.float64]
    pause_ns: NDArray[np.float64]
    """Of each pause between two thefts, what the samples show of a theft that was none."""
    overrun_ns: NDArray[np.float64]
    """Of each theft, how much longer it was than the shortest: what others took from the thief."""
    ways_ns: NDArray[np.float64]

    @property
    def way_ns(self) -> float:
        """The usual one."""
        return float(np.median(self.ways_ns))

    @property
    def tolerance_ns(self) -> float:
        return max(TOLERANCE_NS, TOLERANCE_SHARE * float(np.median(self.expected_ns)))

    @property
    def disturbed_share(self) -> float:
        """Of the pauses."""
        return float(np.mean(self.pause_ns > self.tolerance_ns))

    @property
    def overrun_share(self) -> float:
        """Of the thefts. One ends within a disturbance, not before it, and so shows only a part: half of one counts."""
        return float(np.mean(self.overrun_ns > self.tolerance_ns / 2))

    @property
    def is_undisturbed(self) -> bool:
        """Whether so few pauses are disturbed that it may have been a single event."""
        return int(np.count_nonzero(self.pause_ns > self.tolerance_ns)) <= 1


@dataclass(frozen=True)
class Verdict:
    """How the samples stand against the thefts."""

    compared: Comparison
    missed: int
    """Not found at all, or with an error over the tolerance."""
    beyond: int
    """Of these, over what ways and pauses show besides."""
    beyond_max: int
    """0.1 % and what the machine itself may have spoilt."""
    complaints: tuple[str, ...]
    """The parts of the rule that are broken."""

    @property
    def total(self) -> int:
        return len(self.compared.error_ns)

    def text(self) -> str:
        error_us, pause_us = self.compared.error_ns / 1000, self.compared.pause_ns / 1000
        low, half, high, top = np.quantile(error_us, [0.0, 0.5, 0.99, 1.0])
        usual, seldom = np.quantile(pause_us, [0.5, SELDOM])
        way, long_way = np.quantile(self.compared.ways_ns / 1000, [0.5, SELDOM])
        expected_ns = self.compared.expected_ns
        percent = 100 * float(np.median(self.compared.error_ns / expected_ns))
        return (
            f"n {self.total}, {np.median(expected_ns) / 1000:.0f} us each, {self.missed} over 2 us or 1 %, "
            f"{self.beyond} over that and the p99 of ways and pauses (bound {self.beyond_max}), "
            f"ways p50 {way:.1f} / p99 {long_way:.1f} us, "
            f"error min {low:.1f} / p50 {half:.1f} / p99 {high:.1f} / max {top:.1f} us, median {percent:.2f} %, "
            f"pauses p50 {usual:.1f} / p99 {seldom:.1f} us, {100 * self.compared.disturbed_share:.2f} % disturbed, "
            f"{100 * self.compared.overrun_share:.2f} % of the thefts overrun, load {os.getloadavg()[0]:.1f}"
        )


async def steal(machine: Machine, probe: ProbeRequest, thefts: Thefts, folder: Path) -> Measured:
    """Measure while the agent takes the CPU away at known times."""
    request = RunTrial(
        trial=1,
        probe=probe,
        cpus=list(machine.measured_cpus),
        priority=80,
        duration_ns=thefts.duration_ns,
        lift_rt_throttling=True,
        injection=Injection(every_ns=thefts.every_ns, steal_ns=thefts.steal_ns),
    )
    result = await machine.connection.run_trial(request, folder, deadline_s=thefts.duration_ns / 1e9 + 60)
    samples, events = read_table(result.samples), read_table(result.events)
    assert result.samples is not None
    result.samples.unlink()
    of_thief = np.array(events["kind"].to_pylist()) == "injected"
    # Linux 6.18 may leave a thread of higher priority waiting for a whole trial (once in some thousand).
    assert np.count_nonzero(of_thief) > 1, f"a thief of higher priority never ran: {result.outcome}"
    saturated = np.array(events["kind"].to_pylist()) == "saturated"
    index, start, duration = (events[name].to_numpy() for name in ("index", "start", "duration"))
    layout = result.outcome.layout
    return Measured(
        durations=np.ascontiguousarray(samples["duration"].to_numpy()),
        saturated_index=index[saturated],
        saturated_value=duration[saturated],
        stolen_start=start[of_thief],
        stolen_duration=duration[of_thief],
        units_per_s=result.outcome.clock.units_per_s,
        interval=layout.interval if isinstance(layout, Periodic) else None,
    )


async def calibrated_tick(machine: Machine, loop_ns: int = 68_000) -> TickProbe:
    """Give the probe ``tick`` with a busy loop that takes ``loop_ns`` there."""
    calibrated = await machine.connection.calibrate(loop_ns, machine.measured_cpus[-1], 80)
    return TickProbe(iterations=calibrated.iterations)


def read_table(path: Path | None) -> pa.Table:
    assert path is not None, "the agent sent no events, though it was to steal"
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_stream(file).read_all()


def compare(measured: Measured) -> Comparison:
    """Look up the thefts of a trial, and its pauses, in its samples."""
    series = measured.series()
    match = series.match_injected(measured.stolen_start, measured.stolen_duration)
    assert match["total"] > 1, f"no theft lies inside {len(series)} samples: did something else hold this CPU?"
    overrun = measured.stolen_duration - measured.stolen_duration.min()
    return Comparison(
        error_ns=match["excess_ns"] - match["expected_ns"],
        expected_ns=match["expected_ns"],
        pause_ns=_excess_in_pauses_ns(measured, series),
        overrun_ns=overrun / measured.units_per_s * 1e9,
        ways_ns=measured.ways_ns,
    )


def judge(trials: Sequence[Comparison]) -> Verdict:
    """Hold the thefts and pauses of some trials against the rule in the head of this module."""
    pooled = Comparison(
        error_ns=np.concatenate([trial.error_ns for trial in trials]),
        expected_ns=np.concatenate([trial.expected_ns for trial in trials]),
        pause_ns=np.concatenate([trial.pause_ns for trial in trials]),
        overrun_ns=np.concatenate([trial.overrun_ns for trial in trials]),
        ways_ns=np.concatenate([trial.ways_ns for trial in trials]),
    )
    error_ns, pause_ns, total = pooled.error_ns, pooled.pause_ns, len(pooled.error_ns)
    tolerance_ns = np.maximum(TOLERANCE_NS, TOLERANCE_SHARE * pooled.expected_ns)
    limits_ns = [max(0.0, float(np.quantile(ns, SELDOM))) for ns in (pooled.ways_ns, pause_ns)]
    beyond = int(np.count_nonzero(np.abs(error_ns) > tolerance_ns + sum(limits_ns)))
    beyond_max = int(MISSED_SHARE_MAX * total) + sum(
        _spoilt_at_most(int(np.count_nonzero(ns > limit_ns)), len(ns), total)
        for ns, limit_ns in zip((pooled.ways_ns, pause_ns), limits_ns, strict=True)
    )
    disturbed_max = DISTURBED_SHARE_MAX + DISTURBED_TO_OVERRUN_MAX * pooled.overrun_share
    broken = {
        MISSING: error_ns.min() < -TOLERANCE_NS,
        LENGTH: not -pooled.tolerance_ns <= np.median(error_ns) <= pooled.tolerance_ns + pooled.way_ns,
        SPREAD: beyond > beyond_max,
        CAUSED_BY_PROBE: pooled.disturbed_share > disturbed_max,
    }
    return Verdict(
        compared=pooled,
        missed=int(np.count_nonzero(np.abs(error_ns) > tolerance_ns)),
        beyond=beyond,
        beyond_max=beyond_max,
        complaints=tuple(complaint for complaint, is_broken in broken.items() if is_broken),
    )


def _excess_in_pauses_ns(measured: Measured, series: Series) -> NDArray[np.float64]:
    """Look where nobody stole, for as long as a theft can be disturbed besides its own length."""
    end = (measured.stolen_start + measured.stolen_duration)[:-1]
    middle = (end + measured.stolen_start[1:]) // 2
    width = measured.interval or int(PAUSE_STRETCH_NS * measured.units_per_s / 1e9)
    pretended = series.match_injected(middle - width // 2, np.full(len(middle), width, dtype=np.uint64))
    # Of a periodic probe the ordinary lateness is no disturbance.
    usual_ns = np.median(pretended["excess_ns"]) if measured.interval is not None else 0.0
    excess_ns: NDArray[np.float64] = pretended["excess_ns"] - usual_ns
    # Only those at the end can be outside of the series, so that the others keep their places.
    next_ns = measured.stolen_duration[1 : len(excess_ns) + 1] / measured.units_per_s * 1e9
    # What lasts until the next theft is one sample with it.
    return np.where(excess_ns >= next_ns, excess_ns - next_ns, excess_ns)


def _spoilt_at_most(disturbed: int, pauses: int, thefts: int) -> int:
    """Bound how many of ``thefts`` are spoilt if ``disturbed`` of ``pauses`` were.

    Both counts are taken as binomial of one unknown share; none of the pauses disturbed allows for none of the thefts.
    """
    if disturbed == 0:
        return 0
    return int(stats.betabinom.ppf(CONFIDENCE, thefts, disturbed + 0.5, pauses - disturbed + 0.5))


def is_surely_off(differences_ns: NDArray[np.float64], limit_ns: float) -> bool:
    """Whether differences of neighbours in time lie around more than ``limit_ns``, or less than its negative.

    By signed ranks (Wilcoxon), so that the turns' own spread makes the answer careful and no single turn decides.
    """
    above = stats.wilcoxon(differences_ns - limit_ns, alternative="greater").pvalue
    below = stats.wilcoxon(differences_ns + limit_ns, alternative="less").pvalue
    return bool(min(above, below) < 1 - CONFIDENCE)


def without_a_tenth(measured: Measured) -> Measured:
    """Lose one ordinary sample in ten; what follows moves forward in time.

    Where a theft is lost the next one moves into its place, and half of them may seem whole.
    """
    durations = _full(measured)
    is_ordinary = durations <= 2 * np.median(durations)
    return measured.with_durations(durations[~(_one_in(10, len(durations)) & is_ordinary)])


def a_seventh_ordinary(measured: Measured) -> Measured:
    """Replace one sample in seven with the median; of a periodic probe nothing moves in time."""
    durations = _full(measured)
    durations[_one_in(7, len(durations))] = np.median(durations)
    return measured.with_durations(durations)


def _one_in(count: int, samples: int) -> NDArray[np.bool_]:
    """Choose at random: every tenth never meets a theft where a multiple of ten samples lies between two thefts."""
    chosen: NDArray[np.bool_] = np.random.default_rng(count).random(samples) < 1 / count
    return chosen


def clipped(measured: Measured) -> Measured:
    """Cut off what is longer than two ordinary samples."""
    durations = _full(measured)
    return measured.with_durations(np.minimum(durations, 2 * np.median(durations)))


def stretched(measured: Measured) -> Measured:
    """Count every duration 3 % too long, as a wrong clock rate would; the thefts' times move with it."""
    durations = measured.with_durations(1.03 * _full(measured))
    return replace(durations, stolen_start=(1.03 * measured.stolen_start).astype(np.uint64))


def _full(measured: Measured) -> NDArray[np.float64]:
    durations = measured.durations.astype(np.float64)
    durations[measured.saturated_index] = measured.saturated_value
    return durations


def invented(measured: Measured) -> Measured:
    """Make one sample in three 1 ms longer than it was; of a tiled series what follows moves back in time."""
    durations = _full(measured)
    durations[_one_in(3, len(durations))] += 0.001 * measured.units_per_s
    return measured.with_durations(durations)
