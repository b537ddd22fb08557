"""From the trials of a run to its figures."""

import contextlib
from collections.abc import Sequence

from stealtime.campaigns.threshold import parse_thresholds
from stealtime.report.answers import with_answers
from stealtime.report.cells.model import CellFigures
from stealtime.report.cells.rule import under_the_rule
from stealtime.report.gate import hold
from stealtime.report.moment import Moment
from stealtime.report.studies import studies, study_of
from stealtime.report.summary import RunSummary
from stealtime.store.run import Run, Trial
from stealtime.vocabulary.errors import StealtimeError


def summarize(run: Run) -> RunSummary:
    """Compute the figures of every cell of ``run``, in the order in which they were first measured.

    A trial whose samples cannot be read is invalid and says why; the others are not touched by that.

    Raises:
        StealtimeError: A document of the run is damaged, or a probe belongs to no study of this version.
    """
    cells: dict[str, list[Trial]] = {}
    for trial in run.trials:
        cells.setdefault(trial.record.cell.name, []).append(trial)
    missing = run.missing
    summary = RunSummary(
        run_id=run.manifest.run_id,
        created_at=run.manifest.created_at,
        campaign=run.manifest.campaign_name,
        host=run.manifest.host,
        cells=_related([_summarized(trials) for trials in cells.values()]),
        state=run.manifest.state,
        missing=list({cell.name: cell for cell, _ in missing or ()}.values()),
        missing_trials=None if missing is None else len(missing),
        unobtainable=run.manifest.unobtainable,
        aliases=run.manifest.aliases,
        findings=run.manifest.findings,
        moments=_moments(run.measured),
        skipped={record.name: record.skipped for record in run.manifest.scenarios if record.skipped is not None},
    )
    return with_answers(held(summary, run.manifest.thresholds))


def held(summary: RunSummary, thresholds: Sequence[str]) -> RunSummary:
    """Hold a run against thresholds, as they are written; those that it was held against before count no more.

    Raises:
        StealtimeError: The run's own are damaged.
    """
    if not thresholds:
        return summary
    try:
        parsed = parse_thresholds(thresholds)
    except ValueError as error:
        raise StealtimeError(
            f"the thresholds of {summary.run_id} are damaged: {error}", hint="mend max_overhead in its manifest.json"
        ) from None
    return summary.model_copy(update={"gate": hold(summary.cells, parsed)})


def _summarized(trials: Sequence[Trial]) -> CellFigures:
    ordered = sorted(trials, key=lambda trial: trial.record.repetition)
    cell = study_of(ordered[0].record.cell.probe).summarize_cell(ordered)
    return under_the_rule(cell, [trial.record for trial in ordered])


def _moments(trials: Sequence[Trial]) -> list[Moment]:
    told = []
    for trial in trials:
        # What cannot be read makes the trial invalid, which its cell tells.
        with contextlib.suppress(StealtimeError):
            told.append(study_of(trial.record.cell.probe).moment(trial))
    return [moment for moment in told if moment is not None]


def _related(cells: Sequence[CellFigures]) -> list[CellFigures]:
    """Have each study relate its own cells, which stay where they are in the order."""
    own = {study.name: iter(study.relate([cell for cell in cells if cell.study == study.name])) for study in studies()}
    return [next(own[cell.study]) for cell in cells]
