"""The periods that the samples show, matched with traced events."""

from collections.abc import Callable, Mapping, Sequence

from stealtime.store.run import Run, Trial
from stealtime.studies.latency.analysis.model import Period, RunSummary
from stealtime.studies.latency.attribution.model import PeriodicCause
from stealtime.studies.latency.attribution.periodic_causes import periodic_causes
from stealtime.studies.latency.probes.catalogue import PROBES
from stealtime.studies.latency.wording.cause_wording import periodic_in_words
from stealtime.vocabulary.errors import StealtimeError

Match = Callable[[list[Period], Trial], Sequence[PeriodicCause]]
Periodic = Mapping[tuple[str, str, str], tuple[str, ...]]
"""By platform, scenario and probe title: a sentence for each period."""


def gather_periodic(summary: RunSummary, run: Run, match: Match = periodic_causes) -> Periodic:
    """Match the periods of each cell.

    Args:
        summary: Of the cells that are drawn: where both were measured, their samples are from trials without tracing.
        run: The first traced repetition of each cell is asked for what happened in its periods.
        match: Gives a cause for each of some periods.
    """
    traced: dict[str, Trial] = {}
    for trial in run.measured:
        if trial.record.cell.traced:
            traced.setdefault(trial.record.cell.untraced.name, trial)
    matched = {}
    for cell in summary.cells:
        trial_of_cell = traced.get(cell.stored.untraced.name)
        if not cell.periods or trial_of_cell is None:
            continue
        try:
            sentences = tuple(periodic_in_words(one) for one in match(cell.periods, trial_of_cell))
        except StealtimeError as error:
            sentences = (f"not matched with traced events: {error.message}",)
        matched[cell.platform, cell.scenario, PROBES[cell.probe].describe(cell.parameters)] = sentences
    return matched
