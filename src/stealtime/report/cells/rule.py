"""What holds for a cell whatever its study says of it: what speaks against it, and its circumstances."""

from collections.abc import Sequence
from typing import TypeVar

from stealtime.report.cells.model import CellFigures
from stealtime.report.cells.records import cell_figures, measured_trials
from stealtime.report.cells.surroundings import MeasuredTrial
from stealtime.store.model import TrialRecord

_Cell = TypeVar("_Cell", bound=CellFigures)


def under_the_rule(cell: _Cell, records: Sequence[TrialRecord]) -> _Cell:
    """Put into a cell what its records say; a study may have found more against it, but not less.

    Args:
        cell: As its study gave it.
        records: Of all its trials, in the order of their repetitions.
    """
    own = {trial.repetition: trial for trial in cell.trials}
    trials = [_joined(own.get(trial.repetition, trial), trial) for trial in measured_trials(records)]
    figures = cell_figures(records, trials)
    reasons = list(dict.fromkeys([*figures["reasons"], *cell.reasons]))
    limits = list(dict.fromkeys([*figures["limits"], *cell.limits]))
    return cell.model_copy(update=figures | {"valid": not reasons, "reasons": reasons, "limits": limits})


def _joined(own: MeasuredTrial, told: MeasuredTrial) -> MeasuredTrial:
    reasons = list(dict.fromkeys([*told.reasons, *own.reasons]))
    circumstances = {name: getattr(told, name) for name in MeasuredTrial.model_fields}
    return own.model_copy(update=circumstances | {"valid": not reasons, "reasons": reasons})
