"""What a cell of this study holds beside the declared figures, and what of it is held against a threshold."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from stealtime.report.catalogue.cell import CountedCell
from stealtime.report.cells.figures import Figures
from stealtime.report.cells.model import Bounded
from stealtime.store.model import Cell
from stealtime.studies.telephony.calls.figures import CallFigures, CallLoad, figures_of
from stealtime.studies.telephony.calls.results import CallFailover, Calls
from stealtime.studies.telephony.calls.stage_figures import StageFigures, stage_figures
from stealtime.studies.telephony.calls.stage_results import TwoStageCallFailover
from stealtime.studies.telephony.cost.samples import COUNTED_PROBES, CellCost, samples_of
from stealtime.studies.telephony.limits import limits
from stealtime.studies.telephony.loads import CallParameters
from stealtime.studies.telephony.parameters import ServerParameters
from stealtime.studies.telephony.results import (
    AnswersOverTime,
    EstablishmentRate,
    RegistrationFailover,
    Registrations,
    ResponseTimes,
    SessionFailover,
    TwoStageFailover,
    Unprotected,
)

_FailedOver = RegistrationFailover | SessionFailover | TwoStageFailover
_LOST = ("lost", "lost_of_before", "registrations_lost", "lost_while_added")
"""Counts of what was acknowledged and is known to nobody any more, by the probes."""


class TimeLine(Figures):
    """One loss of a host: times after the fault, and what phones were told meanwhile."""

    fault_to_detection_ns: int | None
    fault_to_running_ns: int | None
    """None of both where no guest had to run again."""
    fault_to_answer_ns: int | None
    """None where no phone was answered any more, or none was left to be answered."""
    silence_ns: int | None
    unanswered: int = 0
    """Registrations that were never acknowledged."""
    over_time: AnswersOverTime
    others_over_time: AnswersOverTime | None = None
    """To the users of what was not lost; None where a server has a place of its own, or all primaries were lost."""
    others_silence_ns: int | None = None
    unprotected: Unprotected | None = None
    """Where the standby was lost."""

    @property
    def silences_ns(self) -> list[int | None]:
        """The longest silence of the users of what was lost, and of the others; None has no end."""
        return [self.silence_ns, *([] if self.others_over_time is None else [self.others_silence_ns])]

    @property
    def is_unheard(self) -> bool:
        """Whether some phones heard nothing after the fault: they were not answered, or had all registered before."""
        return self.fault_to_answer_ns is None or None in self.silences_ns


class TelephonyFigures(CountedCell):
    """A cell of this study."""

    study: Literal["telephony"] = "telephony"
    responses: list[ResponseTimes]
    """Of each repetition of ``register`` that was answered."""
    time_lines: list[TimeLine]
    """Of each failover of registrations."""
    calls: CallFigures | None = None
    """Of all repetitions together, where the probe makes calls."""
    stage: StageFigures | None = None
    """Of all repetitions together, where calls go through two stages."""
    cost: CellCost | None = None
    """What it tells of costs; None where nothing was counted that they could be told from."""
    is_bounded: bool | None = None
    """Whether the rate that was searched is the server's in all repetitions: if not, it bears at least that. None where
    none was searched."""

    @classmethod
    def more(cls, cell: Cell, results: Sequence[Any]) -> Mapping[str, Any]:
        times = [one.response for one in results if isinstance(one, Registrations)]
        failovers = [one for one in results if isinstance(one, _FailedOver)]
        called = [one for one in results if isinstance(one, Calls | CallFailover)]
        rates = [one for one in results if isinstance(one, EstablishmentRate)]
        samples = samples_of(ServerParameters.of(cell), results) if cell.probe in COUNTED_PROBES else []
        return {
            "cost": CellCost(samples=samples) if samples else None,
            "responses": [one for one in times if one is not None],
            "time_lines": [_time_line(one) for one in failovers],
            "is_bounded": all(one.is_bounded for one in rates) if rates else None,
            "stage": stage_figures([one for one in results if isinstance(one, TwoStageCallFailover)]),
            "calls": figures_of(_load(CallParameters.of(cell)), called) if called else None,
        }

    def limits_by(self, results: Sequence[Any]) -> Sequence[str]:
        return limits(results)

    def bounded(self) -> Bounded:
        """Give the longest registration, or the longest time in which phones were not answered or nothing was heard."""
        if lost := sum(self.counts.get(name, 0) for name in _LOST):
            # Who is forgotten is not reached in any time.
            return Bounded(None, endless=f"{lost} acknowledged registrations were lost")
        if half_open := self.counts.get("half_open"):
            return Bounded(None, endless=f"{half_open} sessions were left half open")
        if self.calls is not None:
            if self.calls.unheard:
                return Bounded(None, endless=f"of {self.calls.unheard} streams of voice nothing was heard")
            if self.calls.failover is not None and (cut := self.calls.cut):
                return Bounded(None, endless=f"{cut} of {self.calls.answered} calls were not kept")
            if self.calls.unended:
                return Bounded(None, endless=f"{self.calls.unended} streams of voice fell silent and stayed so")
            return Bounded(self.calls.silence_ns)
        if self.stage is not None:
            return _of_stages(self.stage)
        if self.time_lines:
            return _longest_silence(self.time_lines)
        if unanswered := self.counts.get("unanswered"):
            return Bounded(None, endless=f"{unanswered} of {self.counts['sent']} registrations were not acknowledged")
        return Bounded(max((one.max_ns for one in self.responses), default=None))

    def at_percentile(self, percentile: str) -> Bounded:
        """Give a percentile of the times of registrations, of that repetition in which it is the longest."""
        whole = self.bounded()
        if whole.endless is not None or not self.responses:
            return whole
        name = {"50": "median_ns", "99": "p99_ns"}[percentile]
        fewest = self.counts["acknowledged"] // len(self.responses)
        return Bounded(float(max(getattr(one, name) for one in self.responses)), samples=fewest)


def _of_stages(seen: StageFigures) -> Bounded:
    """Give the longest silence of any end of calls through two stages; what was cut or stayed silent has no end."""
    if seen.unheard:
        return Bounded(None, endless=f"of {seen.unheard} streams of voice nothing was heard")
    if seen.cut:
        return Bounded(None, endless=f"{seen.cut} of {seen.answered} calls were not kept")
    if seen.unended:
        return Bounded(None, endless=f"{seen.unended} streams of voice fell silent and stayed so")
    return Bounded(seen.silence_ns)


def _longest_silence(failovers: Sequence[TimeLine]) -> Bounded:
    """Give the longest silence of any users, of what was lost or of the others.

    One that nobody has answered since has no end. Where nobody was left to be answered its end is not known.
    """
    known = max((silence for one in failovers for silence in one.silences_ns if silence is not None), default=None)
    unheard = [one for one in failovers if one.is_unheard]
    if silent := sum(one.unanswered > 0 for one in unheard):
        return Bounded(None, endless=f"after {silent} of {len(failovers)} failovers phones were not answered any more")
    if unheard:
        times = f"{len(unheard)} of {len(failovers)} failovers"
        return Bounded(known, unknown_because=f"in {times} all phones had registered before the guest ran again")
    return Bounded(known)


def _time_line(one: _FailedOver) -> TimeLine:
    # Those of one server have no others.
    return TimeLine(**{name: getattr(one, name, None) for name in TimeLine.model_fields})


def _load(wanted: CallParameters) -> CallLoad:
    return CallLoad(
        streams=wanted.streams,
        mode=wanted.mode,
        interval_ns=wanted.interval_ns,
        roles=wanted.roles,
        transport=wanted.transport,
        media=wanted.media,
    )
