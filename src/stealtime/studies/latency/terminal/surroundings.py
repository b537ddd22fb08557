"""What ``show`` prints of the circumstances: scaled and skipped scenarios, neighbours' rates, lost events."""

from collections.abc import Sequence
from statistics import median

from rich.console import RenderableType
from rich.text import Text

from stealtime.report.circumstances.model import NeighbourFigures
from stealtime.studies.latency.analysis.model import CellSummary, RunSummary

_GIGABYTE = 1e9


def surroundings_lines(summary: RunSummary) -> list[RenderableType]:
    """Give the lines; none for a run without scenarios, neighbours and traces."""
    parts: list[RenderableType] = []
    for title, lines in (
        ("Neighbours, while their load was on", _neighbour_lines(summary.cells)),
        ("Scenarios on this host", _scenario_lines(summary)),
        ("Traces", _trace_lines(summary.cells)),
    ):
        if lines:
            parts += [Text(f"\n{title}", style="bold"), *(Text(f"  {line}") for line in lines)]
    return parts


def rate_words(figures: Sequence[NeighbourFigures]) -> str:
    """Say what neighbours of one kind achieved: the median, and the span if there is one.

    Args:
        figures: Of one load; those that died have no rate.
    """
    rates = [one.rate_per_s for one in figures if one.rate_per_s is not None]
    if not rates:
        return "no rate: it died"
    size, unit = (_GIGABYTE, "GB/s") if figures[0].load == "memory" else (1e6, "M loops/s")
    middle, low, high = (value / size for value in (median(rates), min(rates), max(rates)))
    return f"{middle:.3g} {unit} (n {len(rates)}, {low:.3g} to {high:.3g})"


def _neighbour_lines(cells: Sequence[CellSummary]) -> list[str]:
    groups: dict[tuple[str, str, str], list[NeighbourFigures]] = {}
    for cell in cells:
        for trial in cell.trials:
            for one in trial.neighbours:
                groups.setdefault((cell.scenario, cell.platform, one.load), []).append(one)
    return [
        f"{scenario}, {platform}: {load}-load {rate_words(figures)}"
        for (scenario, platform, load), figures in groups.items()
    ]


def _scenario_lines(summary: RunSummary) -> list[str]:
    scaled = {cell.scenario: cell.scaled for cell in summary.cells if cell.scaled is not None}
    return [
        *(f"{alias} stands for {platform}" for alias, platform in summary.aliases.items()),
        *(f"{scenario} was scaled: {how}" for scenario, how in scaled.items()),
        *(f"{scenario} was skipped: {why}" for scenario, why in summary.skipped.items()),
    ]


def _trace_lines(cells: Sequence[CellSummary]) -> list[str]:
    """Tell of lost events only, cell by cell; and in one line of the rest."""
    traces = [(cell, trial.trace) for cell in cells for trial in cell.trials if trial.trace is not None]
    if not traces:
        return []
    events = sum((trace.host_events or 0) + (trace.machine_events or 0) for _, trace in traces)
    lost = sum((trace.host_lost or 0) + (trace.machine_lost or 0) for _, trace in traces)
    lines = [f"{len(traces)} trials were traced: {events:,} events, {lost:,} lost"]
    for cell, trace in traces:
        for who, count in (("the host", trace.host_lost), ("the machine", trace.machine_lost)):
            if count:
                lines.append(f"{cell.platform} {cell.scenario} {cell.probe}: {count:,} events of {who} were lost")
    return lines
