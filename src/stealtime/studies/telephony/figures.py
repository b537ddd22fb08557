"""From the results of a cell's repetitions to its figures, and from those of two runs to their differences.

A repetition gives one value of each figure; the interval is that of ``report.repetitions``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import JsonValue, ValidationError

from stealtime.campaigns.probe import whole
from stealtime.report.cells.figures import Figures
from stealtime.report.cells.model import Bounded, CellFigures
from stealtime.report.cells.records import cell_figures, used_trials
from stealtime.report.comparison import CellComparison
from stealtime.report.repetitions import ComparisonOfRepetitions, FigureOfRepetitions, compared_repetitions
from stealtime.store.model import TrialRecord
from stealtime.store.results import read_as
from stealtime.store.run import Trial
from stealtime.studies.telephony.calls.figures import CallFigures, CallLoad, figures_of
from stealtime.studies.telephony.calls.results import CallFailover, Calls, Voice
from stealtime.studies.telephony.limits import limits
from stealtime.studies.telephony.quantities import KINDS, count_names, figure_names, in_words, label_of
from stealtime.studies.telephony.results import (
    AnswersOverTime,
    RegistrationFailover,
    Registrations,
    ResponseTimes,
    TwoStageFailover,
)
from stealtime.vocabulary.errors import StealtimeError

_WITH_VOICE = tuple(name for name, kind in KINDS.items() if issubclass(kind.model, Calls | CallFailover))
"""Probes that make calls."""


_LOST = ("lost", "registrations_lost", "lost_while_added")
"""Counts of what was acknowledged and is known to nobody any more, by the probes."""


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

    @property
    def silences_ns(self) -> list[int | None]:
        """The longest silence of the users of each kind of primary; None has no end."""
        return [self.silence_ns, *([] if self.others_over_time is None else [self.others_silence_ns])]


class TelephonyFigures(CellFigures):
    """A cell of this study."""

    study: Literal["telephony"] = "telephony"
    repetitions: int
    """The valid ones; where none is, all that were measured."""
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

    def bounded(self) -> Bounded:
        """Give the longest registration, or the longest time in which phones were not answered or nothing was heard."""
        if lost := sum(self.counts.get(name, 0) for name in _LOST):
            # Who is forgotten is not reached in any time.
            return Bounded(None, endless=f"{lost} acknowledged registrations were lost")
        if self.calls is not None:
            if self.calls.unheard:
                return Bounded(None, endless=f"of {self.calls.unheard} streams of voice nothing was heard")
            if self.calls.failover is not None and (cut := self.calls.answered - self.calls.ended):
                return Bounded(None, endless=f"{cut} of {self.calls.answered} calls were not kept")
            if self.calls.unended:
                return Bounded(None, endless=f"{self.calls.unended} streams of voice fell silent and stayed so")
            return Bounded(self.calls.silence_ns)
        if self.time_lines:
            return _longest_silence(self.time_lines)
        if unanswered := self.counts.get("unanswered"):
            return Bounded(None, endless=f"{unanswered} of {self.counts['sent']} registrations were not acknowledged")
        return Bounded(max((one.max_ns for one in self.responses), default=None))

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
    results: list[Any] = [trial.result(kind.model) for trial in used_trials(trials)]
    values = {name: [quantity.take(one) for one in results] for name, quantity in kind.quantities.items()}
    called = [one for one in results if isinstance(one, Calls | CallFailover)]
    cell_of_all = cell_figures([trial.record for trial in trials])
    return TelephonyFigures(
        **cell_of_all | {"limits": [*cell_of_all["limits"], *limits(results)]},
        repetitions=len(results),
        counts={name: sum(int(getattr(one, name)) for one in results) for name in kind.counts},
        figures=[one for name, own in values.items() if (one := FigureOfRepetitions.of(name, own)).of_repetitions],
        responses=[one.response for one in results if isinstance(one, Registrations) and one.response is not None],
        time_lines=[_time_line(one) for one in results if isinstance(one, RegistrationFailover | TwoStageFailover)],
        calls=_calls(cell.parameters, called),
    )


def _longest_silence(failovers: Sequence[TimeLine]) -> Bounded:
    """Give the longest silence of the users of any primary; one that nobody has answered since has no end."""
    silences = [silence for one in failovers for silence in one.silences_ns]
    if silent := sum(one.blow_to_answer_ns is None or None in one.silences_ns for one in failovers):
        return Bounded(None, endless=f"after {silent} of {len(failovers)} failovers phones were not answered any more")
    return Bounded(max(one for one in silences if one is not None))


def unusable(records: Sequence[TrialRecord]) -> list[list[str]]:
    """Say of each measured trial what speaks against the voice that was heard in it.

    Raises:
        StealtimeError: A result is damaged.
    """
    return [list(_voice(record).invalid) if record.cell.probe in _WITH_VOICE else [] for record in records]


def _voice(record: TrialRecord) -> Voice:
    assert record.result is not None  # noqa: S101 - the rule asks about trials that have one
    try:
        result = read_as(record.result, KINDS[record.cell.probe].model)
    except ValidationError as error:
        message = f"the result of {record.trial_id} is damaged: {error.errors()[0]['msg']}"
        raise StealtimeError(message, hint="measure it again with --resume") from error
    assert isinstance(result, Calls | CallFailover)  # noqa: S101 - as the probe's kind has it
    return result.voice


def compare_cells(a: TelephonyFigures, b: TelephonyFigures) -> CellComparison:
    """Compare each figure that both have."""
    both = [(one, other) for one in a.figures if (other := b.figure(one.name)).of_repetitions]
    return compared_repetitions(TelephonyComparison, (a, b), both)


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
