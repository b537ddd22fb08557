"""What a run comes to: a sentence for all that is not fine, and the exit code of ``run`` and ``show`` alike."""

from collections.abc import Callable, Sequence

from stealtime.report.cells.model import CellFigures
from stealtime.report.cells.surroundings import MeasuredTrial
from stealtime.report.summary import RunSummary
from stealtime.vocabulary.errors import ExitCode

_NAMED = 5
"""Of the missing cells; a long campaign that has just begun misses hundreds."""


def remarks_on(summary: RunSummary) -> list[str]:
    """Say what failed, must not be used, or is not what was asked for, each with its trials; nothing where all is fine.

    Args:
        summary: Of the whole run; with its gate, where it was held against a threshold.
    """
    cells = summary.cells
    beside = what_is_missing(summary)
    if not cells:
        return [*beside, "the run has no cell: nothing was measured"]
    remarks = [*([] if summary.gate is None else summary.gate.remarks), *beside]
    for words, is_meant in (
        ("failed", lambda one: not one.is_measured),
        ("are invalid", lambda one: one.is_measured and not one.valid),
    ):
        if names := _trials(cells, is_meant):
            remarks = [f"{len(names)} cells {words}: {', '.join(names)}", *remarks]
    if unnamed := [one.stored.name for one in cells if not one.valid and all(trial.valid for trial in one.trials)]:
        remarks = [f"{len(unnamed)} cells are invalid: {', '.join(unnamed)}", *remarks]
    if short := [f"{one.stored.name}: {'; '.join(one.fell_short)}" for one in cells if one.fell_short]:
        remarks.append(f"{len(short)} cells are not what was asked for: {', '.join(short)}")
    return remarks


def exit_code(summary: RunSummary, remarks: Sequence[str]) -> ExitCode:
    """Give 0 where nothing is to be remarked, 3 where a threshold was exceeded, and 4 for everything else."""
    if summary.gate is not None and summary.gate.verdict == "exceeded":
        return ExitCode.THRESHOLD
    return ExitCode.NOT_JUDGED if remarks else ExitCode.FINE


def what_is_missing(summary: RunSummary) -> list[str]:
    """Say what of a run is not there though it was asked for or planned; nothing where it is whole."""
    if summary.missing_trials is None:
        return [*summary.unobtainable, f"the run is {summary.state}, and cells may be missing"]
    if not summary.missing:
        return summary.unobtainable
    names = [cell.name for cell in summary.missing]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    told = f"{summary.missing_trials} planned cells were not measured: {', '.join(names[:_NAMED])}{more}"
    return [*summary.unobtainable, told]


def _trials(cells: Sequence[CellFigures], is_meant: Callable[[MeasuredTrial], bool]) -> list[str]:
    return [cell.stored.trial_id(one.repetition) for cell in cells for one in cell.trials if is_meant(one)]
