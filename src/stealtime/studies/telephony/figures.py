"""From the results of a cell's repetitions to its figures, and from those of two runs to their differences.

A repetition gives one value of each figure; the interval is that of ``report.repetitions``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import JsonValue

from stealtime.campaigns.probe import whole
from stealtime.report.comparison import CellComparison
from stealtime.report.repetitions import ComparisonOfRepetitions, FigureOfRepetitions
from stealtime.report.summary import CellFigures, Figures
from stealtime.store.run import Trial
from stealtime.studies.telephony.calls.figures import CallFigures, CallLoad, figures_of
from stealtime.studies.telephony.calls.results import CallFailover, Calls
from stealtime.studies.telephony.limits import limits
from stealtime.studies.telephony.quantities import KINDS, count_names, figure_names, in_words, label_of
from stealtime.studies.telephony.results import (
    AnswersOverTime,
    RegistrationFailover,
    Registrations,
    ResponseTimes,
    TwoStageFailover,
)


class TimeLine(Figures):
    """One failover: times after the blow, and what phones were told meanwhile."""

    blow_to_detection_ns: int
    blow_to_running_ns: int
    blow_to_answer_ns: int | None
    """None where no phone was answered any more."""
    silence_ns: int | None
    over_time: AnswersOverTime
    others_over_time: AnswersOverTime | None = None
    """To the users of other primaries, where there were any."""
    others_silence_ns: int | None = None


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
        told = [one.line(label_of(one.name), in_words) for one in self.figures]
        counted = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in self.counts.items())
        return [*told, *([counted] if counted else [])]

    @property
    def columns(self) -> dict[str, JsonValue]:
        """The median of each figure of the study; those of other probes are empty."""
        medians: dict[str, JsonValue] = {name: self.figure(name).p50 for name in figure_names()}
        counted: dict[str, JsonValue] = {name: self.counts.get(name) for name in count_names()}
        return {**medians, **counted, "repetitions": self.repetitions}

    def figure(self, name: str) -> FigureOfRepetitions:
        """Give a figure; one without repetitions where this cell has none."""
        return next((one for one in self.figures if one.name == name), FigureOfRepetitions.of(name, []))


class TelephonyComparison(ComparisonOfRepetitions):
    """A figure in two runs."""

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
        limits=limits(results),
        repetitions=len(results),
        counts={name: sum(int(getattr(one, name)) for one in results) for name in kind.counts},
        figures=[FigureOfRepetitions.of(name, numbers) for name, numbers in values.items() if numbers],
        responses=[one.response for one in results if isinstance(one, Registrations) and one.response is not None],
        time_lines=[_time_line(one) for one in results if isinstance(one, RegistrationFailover | TwoStageFailover)],
        calls=_calls(cell.parameters, called),
    )


def compare_cells(a: TelephonyFigures, b: TelephonyFigures) -> CellComparison:
    """Compare each figure that both have."""
    both = [(one, other) for one in a.figures if (other := b.figure(one.name)).of_repetitions]
    statistics = [TelephonyComparison.of(one, other) for one, other in both]
    return CellComparison.of(a, (a.repetitions, b.repetitions), statistics)


def _time_line(one: RegistrationFailover | TwoStageFailover) -> TimeLine:
    several = one if isinstance(one, TwoStageFailover) else None
    return TimeLine(
        blow_to_detection_ns=one.blow_to_detection_ns,
        blow_to_running_ns=one.blow_to_running_ns,
        blow_to_answer_ns=one.blow_to_answer_ns,
        silence_ns=one.silence_ns,
        over_time=one.over_time,
        others_over_time=several.others_over_time if several else None,
        others_silence_ns=several.others_silence_ns if several else None,
    )


def _calls(parameters: Mapping[str, JsonValue], results: Sequence[Calls | CallFailover]) -> CallFigures | None:
    interval_ns = parameters.get("interval_ns")
    if not results:
        return None
    load = CallLoad(
        streams=whole(parameters["streams"]),
        mode=str(parameters["mode"]),
        interval_ns=interval_ns if isinstance(interval_ns, int) else None,
        placement=str(parameters.get("placement", "together")),
    )
    return figures_of(load, results)
