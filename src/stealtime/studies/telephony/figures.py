"""From the results of a cell's repetitions to its figures, and from those of two runs to their differences.

A repetition gives one value of each figure; the interval is that of ``report.interval``.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Literal

from pydantic import JsonValue

from stealtime.campaigns.probe import whole
from stealtime.report.comparison import CellComparison, StatisticComparison, Verdict
from stealtime.report.interval import (
    REPETITIONS_MIN,
    SESSION_SHARE,
    interval_of_repetitions,
    ratio_of_repetitions,
)
from stealtime.report.summary import CellFigures, Figures
from stealtime.store.run import Trial
from stealtime.studies.telephony.calls.figures import CallFigures, figures_of, limits_of
from stealtime.studies.telephony.calls.results import CallFailover, Calls
from stealtime.studies.telephony.quantities import KINDS, figure_names, in_words, label_of
from stealtime.studies.telephony.results import (
    AnswersOverTime,
    RegistrationFailover,
    RegistrationRate,
    Registrations,
    ResponseTimes,
)

SATURATED = "the load is above what the server bears: {unanswered} of {sent} registrations were not acknowledged"


class FigureOfRepetitions(Figures):
    """One figure of a cell, with its unit in the name."""

    name: str
    of_repetitions: list[float]
    p50: float | None
    """The median of the repetitions."""
    low: float | None
    """The 95 % interval of their geometric mean in another session; None where that is not judged."""
    high: float | None
    because: str | None
    """Why it is not judged."""


class TimeLine(Figures):
    """One failover: times after the blow, and what phones were told meanwhile."""

    blow_to_detection_ns: int
    blow_to_running_ns: int
    blow_to_answer_ns: int | None
    """None where no phone was answered any more."""
    silence_ns: int | None
    over_time: AnswersOverTime


class TelephonyFigures(CellFigures):
    """A cell of this study."""

    study: Literal["telephony"] = "telephony"
    repetitions: int
    """Measured ones."""
    counts: dict[str, int]
    """Added up over the repetitions: ``sent``, ``acknowledged``, ``lost`` ... as the probe has them."""
    figures: list[FigureOfRepetitions]
    responses: list[ResponseTimes]
    """Of each repetition of ``register`` that was answered."""
    time_lines: list[TimeLine]
    """Of each failover of registrations."""
    calls: CallFigures | None = None
    """Of all repetitions together, where the probe makes calls."""

    @property
    def is_measured(self) -> bool:
        """Whether a repetition came to its end."""
        return self.repetitions > 0

    @property
    def lines(self) -> list[str]:
        """Each figure with its interval, then what was counted."""
        told = [f"{label_of(one.name)} {in_words(one.name, one.p50)} ({interval_words(one)})" for one in self.figures]
        counted = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in self.counts.items())
        return [*told, *([counted] if counted else [])]

    @property
    def columns(self) -> dict[str, JsonValue]:
        """The median of each figure of the study; those of other probes are empty."""
        medians: dict[str, JsonValue] = {name: self.figure(name).p50 for name in figure_names()}
        counted: dict[str, JsonValue] = {
            name: self.counts.get(name)
            for name in dict.fromkeys(name for kind in KINDS.values() for name in kind.counts)
        }
        return {**medians, **counted, "repetitions": self.repetitions}

    def figure(self, name: str) -> FigureOfRepetitions:
        """Give a figure; one without repetitions where this cell has none."""
        return next((one for one in self.figures if one.name == name), _figure(name, []))


class TelephonyComparison(StatisticComparison):
    """A figure in two runs."""

    a_p50: float | None
    b_p50: float | None

    @property
    def words(self) -> tuple[str, str, str]:
        """Its name, and its median in each run."""
        return label_of(self.statistic), in_words(self.statistic, self.a_p50), in_words(self.statistic, self.b_p50)


def summarize_cell(trials: Sequence[Trial]) -> TelephonyFigures:
    """Compute the figures of a cell from all its trials, at least one."""
    cell = trials[0].record.cell
    kind = KINDS[cell.probe]
    results: list[Any] = [trial.result(kind.model) for trial in trials if trial.record.state == "measured"]
    values = {
        name: [value for one in results if (value := quantity.take(one)) is not None]
        for name, quantity in kind.quantities.items()
    }
    failures = [trial.record.failure.message for trial in trials if trial.record.failure is not None]
    called = [one for one in results if isinstance(one, Calls | CallFailover)]
    failures += dict.fromkeys(text for one in called for text in one.voice.invalid)
    return TelephonyFigures(
        platform=cell.platform,
        scenario=cell.scenario,
        probe=cell.probe,
        parameters=cell.parameters,
        valid=bool(results) and not failures,
        reasons=failures,
        limits=_limits(results),
        repetitions=len(results),
        counts={name: sum(int(getattr(one, name)) for one in results) for name in kind.counts},
        figures=[_figure(name, numbers) for name, numbers in values.items() if numbers],
        responses=[one.response for one in results if isinstance(one, Registrations) and one.response is not None],
        time_lines=[_time_line(one) for one in results if isinstance(one, RegistrationFailover)],
        calls=_calls(cell.parameters, called),
    )


def compare_cells(a: TelephonyFigures, b: TelephonyFigures) -> CellComparison:
    """Compare each figure that both have."""
    names = [one.name for one in a.figures if b.figure(one.name).of_repetitions]
    statistics = [_compare(name, a.figure(name), b.figure(name)) for name in names]
    return CellComparison.of(a, (a.repetitions, b.repetitions), statistics)


def interval_words(one: FigureOfRepetitions) -> str:
    """Write the interval of a figure, or why there is none."""
    if one.low is None or one.high is None:
        return f"not judged, because {one.because}"
    return f"{in_words(one.name, one.low)} to {in_words(one.name, one.high)}"


def _compare(name: str, a: FigureOfRepetitions, b: FigureOfRepetitions) -> TelephonyComparison:
    because = _why_not_judged(a.of_repetitions) or _why_not_judged(b.of_repetitions)
    ratio = None
    verdict: Verdict = "not judged"
    if because is None:
        ratio = ratio_of_repetitions(a.of_repetitions, b.of_repetitions, same_session=False)
        verdict = "higher" if ratio.low > 1.0 else "lower" if ratio.high < 1.0 else "no difference shown"
    return TelephonyComparison(
        statistic=name,
        a_p50=a.p50,
        b_p50=b.p50,
        ratio=None if ratio is None else ratio.value,
        ratio_low=None if ratio is None else ratio.low,
        ratio_high=None if ratio is None else ratio.high,
        verdict=verdict,
        method=None
        if ratio is None
        else f"t interval on the logarithms of {len(a.of_repetitions)} and {len(b.of_repetitions)} repetitions; a "
        f"variance between sessions is added, {SESSION_SHARE:g} times that between repetitions",
        because=because,
    )


def _figure(name: str, numbers: list[float]) -> FigureOfRepetitions:
    because = _why_not_judged(numbers)
    interval = interval_of_repetitions(numbers) if because is None else None
    return FigureOfRepetitions(
        name=name,
        of_repetitions=numbers,
        p50=median(numbers) if numbers else None,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        because=because,
    )


def _why_not_judged(numbers: Sequence[float]) -> str | None:
    if len(numbers) < REPETITIONS_MIN:
        return f"there are fewer than {REPETITIONS_MIN} repetitions ({len(numbers)})"
    return "it is 0 in a repetition" if min(numbers) <= 0.0 else None


def _time_line(one: RegistrationFailover) -> TimeLine:
    return TimeLine(
        blow_to_detection_ns=one.blow_to_detection_ns,
        blow_to_running_ns=one.blow_to_running_ns,
        blow_to_answer_ns=one.blow_to_answer_ns,
        silence_ns=one.silence_ns,
        over_time=one.over_time,
    )


def _calls(parameters: Mapping[str, JsonValue], results: Sequence[Calls | CallFailover]) -> CallFigures | None:
    interval_ns = parameters.get("interval_ns")
    if not results:
        return None
    load = (
        whole(parameters["streams"]),
        str(parameters["mode"]),
        interval_ns if isinstance(interval_ns, int) else None,
    )
    return figures_of(load, results)


def _limits(results: Sequence[Any]) -> list[str]:
    """Say what limits the figures: a load that was too high is said, not hidden."""
    told = []
    for one in results:
        if isinstance(one, Registrations):
            if one.refused:
                told.append(f"the server refused {one.refused} of {one.sent} registrations: what does its log say?")
            if one.unanswered > one.refused:
                told.append(SATURATED.format(unanswered=one.unanswered - one.refused, sent=one.sent))
            if one.saturation_per_s is not None and one.rate_per_s > one.saturation_per_s:
                told.append(
                    f"{one.rate_per_s:.0f} per second were asked for, and the unprotected server bears "
                    f"{one.saturation_per_s:.0f}"
                )
            if one.offered_per_s < 0.9 * one.rate_per_s:
                told.append(f"of {one.rate_per_s:.0f} per second SIPp offered only {one.offered_per_s:.0f}")
        if isinstance(one, RegistrationRate) and not one.is_bounded:
            told.append(f"no rate was seen to fail: the server may bear more than {one.rate_per_s:.0f} per second")
        if isinstance(one, RegistrationFailover) and one.blow_to_answer_ns is None:
            told.append(f"after the failover no phone was answered any more ({one.unanswered} of {one.sent} were not)")
        if isinstance(one, RegistrationFailover) and one.lost:
            told.append(
                f"{one.lost} of {one.acknowledged} acknowledged registrations were lost with their host, "
                f"such as that of {one.lost_users[0]}"
            )
    told += limits_of([one for one in results if isinstance(one, Calls | CallFailover)])
    lapses = sum(one.lapses for one in results)
    if lapses:
        told.append(f"begun anew {lapses}x, because the guest lost its standby meanwhile on this busy host")
    return list(dict.fromkeys(told))
