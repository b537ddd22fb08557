"""Whether what is said of cells may be trusted: what speaks against them, in few words, and what to do about it."""

from collections.abc import Iterable, Sequence

from stealtime.campaigns.file import builtin_names
from stealtime.report.cells.model import CellFigures
from stealtime.report.interval import REPETITIONS_MIN
from stealtime.report.plain_table import cell_title
from stealtime.report.summary import RunSummary


def doubts(summary: RunSummary, quoted: Sequence[CellFigures], own: Sequence[CellFigures]) -> list[str]:
    """Say why an answer may not be trusted; nothing where all that is known is in its favour.

    That repetitions are too few for an interval only their study knows.

    Args:
        summary: Of the run.
        quoted: The cells whose figures are quoted.
        own: All cells of the study: one that is invalid is left out, and might have been the worst.
    """
    told = _unusable(own)
    for number, cell in enumerate(quoted):
        name = named(cell)
        told += [f"{name} is not what was asked for: {reason}" for reason in cell.fell_short]
        if cell.strangers is not None and cell.not_alone is not None:
            where = f"the CPUs of {name}" if number else "its CPUs"
            told.append(f"others had {cell.strangers.taken_percent_median:.0f} % of the time on {where}")
    if summary.missing_trials is None:
        told.append(f"the run is {summary.state}, and cells may be missing")
    elif summary.missing_trials:
        told.append(f"{summary.missing_trials} planned trials were not measured")
    return list(dict.fromkeys(told))


def remedy(summary: RunSummary, cells: Iterable[CellFigures]) -> str:
    """Say what to do about what speaks against the figures of some cells."""
    own = list(cells)
    if summary.missing_trials is None or summary.missing_trials:
        return f"measure what is missing: stealtime run --resume {summary.run_id}"
    if any(cell.not_alone is not None for cell in own):
        return "end what else runs there, or name other CPUs (-a), and run again"
    if any(not cell.valid for cell in own):
        return f"see `stealtime doctor`, and measure them again: stealtime run --resume {summary.run_id}"
    return more_repetitions(summary)


def more_repetitions(summary: RunSummary) -> str:
    """Say how to get intervals."""
    return f"{_run(summary)} --repetitions {REPETITIONS_MIN}"


def beside_native(summary: RunSummary, platform: str) -> str:
    """Say how to get what a machine is held against."""
    return f"measure native beside it: {_run(summary)} -P native,{platform}"


def _run(summary: RunSummary) -> str:
    """Give the command that does its campaign again; a file may be anywhere."""
    return f"stealtime run {summary.campaign if summary.campaign in builtin_names() else 'FILE.toml'}"


def named(cell: CellFigures) -> str:
    """Name a cell in few words, so that no other of the run is meant."""
    scenario = "" if cell.scenario == "alone" else f" in {cell.scenario}"
    return f"{cell.platform} {cell_title(cell.probe, cell.parameters)}{scenario}"


def _unusable(cells: Iterable[CellFigures]) -> list[str]:
    """Say of each cell that must not be used, or failed, why."""
    return [
        f"{named(cell)} {'is invalid' if cell.is_measured else 'failed'}: {reason}"
        for cell in cells
        for reason in cell.reasons
    ]


def why_nothing(summary: RunSummary, cells: Sequence[CellFigures]) -> tuple[list[str], str]:
    """Say why of cells nothing can be said, none of which is valid, and what to do.

    Returns:
        The reasons, at least one, and the hint.
    """
    if not cells:
        return ["nothing was measured"], _run(summary)
    reasons = _unusable(cells)
    if reasons:
        return list(dict.fromkeys(reasons)), remedy(summary, cells)
    return ["nothing was measured"], _run(summary)
