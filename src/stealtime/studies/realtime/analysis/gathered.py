"""What takes longer to find out than the figures of cells: overheads, latencies in parts, and what they cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stealtime.schedulability.curve import CurveRequest, trace_curve
from stealtime.schedulability.document import CurveDocument
from stealtime.schedulability.measured import MeasuredCondition, Unmeasured, compared_models
from stealtime.studies.realtime.analysis.decomposition import Decomposition, decompose
from stealtime.studies.realtime.analysis.overhead_source import conditions_of, measured_trials
from stealtime.studies.realtime.analysis.tracing_shift import tracing_sentences
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from stealtime.store.run import Run

_CURVE_LAW, _CURVE_SETS = "light-uniform", 400
"""The sets of the page's curve; `stealtime sched curve --overheads RUN` draws others."""


@dataclass(frozen=True)
class Gathered:
    """Of the traced trials of a run."""

    conditions: Sequence[MeasuredCondition]
    decompositions: Sequence[Decomposition]
    curve: CurveDocument | None
    """Under the worst overheads of each machine."""
    absent_because: str | None
    """Why there is nothing, or no curve."""
    unmeasured: Sequence[Unmeasured] = ()
    """Of the run, what is not in the conditions."""
    tracing: Sequence[str] = ()
    """What tracing cost, as far as the run tells."""


def gather(run: "Run") -> Gathered:
    """Measure all traced trials of a run once."""
    measured = measured_trials(run)
    if not measured.of_condition:
        sentences = "; ".join(one.sentence for one in measured.unmeasured)
        return Gathered((), (), None, sentences or "no trial was traced", measured.unmeasured)
    conditions = conditions_of(measured.of_condition)
    try:
        curve, because = curve_of(run.run_id, conditions), None
    except StealtimeError as error:
        curve, because = None, error.message
    return Gathered(
        conditions, decompose(measured.of_condition), curve, because, measured.unmeasured, tracing_sentences(run)
    )


def curve_of(source: str, conditions: Sequence[MeasuredCondition]) -> CurveDocument:
    """Draw which share of random sets is schedulable under the worst overheads of each machine.

    Raises:
        StealtimeError: There are none.
    """
    models = compared_models(source, conditions, "worst")
    return trace_curve(CurveRequest(_CURVE_LAW, sets=_CURVE_SETS, overheads=tuple(models.values())))
