"""How often a disturbance is found, over all pairs of an equal and a disturbed run. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from equality.disturbances import COMPANY, Disturbance
from equality.tally import compared
from stealtime.report.circumstances.company import differences_of_company
from stealtime.studies.latency.analysis.model import RunSummary


def found_of(disturbance: Disturbance, pairs: Iterable[tuple[RunSummary, RunSummary]]) -> dict[str, Any]:
    """Tell by platform in which share of pairs a disturbance was found.

    Args:
        disturbance: What was done to the second run of each pair.
        pairs: Of equal and disturbed runs.

    Returns:
        By platform: ``pairs``, the share ``found`` in one of the figures that it must change, and the share that each
        of them found alone; a figure that was not judged has found nothing.
    """
    verdicts: dict[str, list[dict[str, bool]]] = {}
    for a, b in pairs:
        seen: dict[str, dict[str, bool]] = {}
        company = {where for one in differences_of_company(a.cells, b.cells) for where in one.where}
        for cell in compared(a, b):
            if COMPANY in disturbance.figures(cell.platform):
                seen.setdefault(cell.platform, {})[COMPANY.statistic] = cell.platform in company
            for one in cell.statistics:
                for figure in disturbance.figures(cell.platform):
                    if (cell.probe, one.statistic) == (figure.probe, figure.statistic):
                        name = f"{figure.probe} {figure.statistic}"
                        seen.setdefault(cell.platform, {})[name] = one.verdict == figure.verdict
        for platform, figures in seen.items():
            verdicts.setdefault(platform, []).append(figures)
    return {platform: _shares(all_pairs) for platform, all_pairs in verdicts.items()}


def _shares(pairs: Sequence[dict[str, bool]]) -> dict[str, Any]:
    names = dict.fromkeys(name for figures in pairs for name in figures)
    return {
        "pairs": len(pairs),
        "found": sum(any(figures.values()) for figures in pairs) / len(pairs),
        "by_figure": {name: sum(figures.get(name, False) for figures in pairs) / len(pairs) for name in names},
    }
