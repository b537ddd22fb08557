"""Notes on how cells were measured: clock checks, neighbours' rates, scaled and skipped scenarios, lost events."""

from collections.abc import Sequence
from statistics import median

from stealtime.report.cells.model import CellFigures
from stealtime.report.cells.surroundings import NeighbourFigures
from stealtime.report.notation import three_digits
from stealtime.report.summary import RunSummary
from stealtime.vocabulary.clock_agreement import ClockAgreement, worst

_GIGABYTE = 1e9


def notes_of(summary: RunSummary) -> dict[str, list[str]]:
    """Give the lines under each title; titles without lines are left out."""
    cells = summary.cells
    notes = {
        "Clock of the samples beside the host's, worst trial": _clock_lines(cells),
        "Neighbours, while their load was on": _neighbour_lines(cells),
        "Scenarios on this host": scenario_lines(summary),
        "Traces": _trace_lines(cells),
    }
    return {title: lines for title, lines in notes.items() if lines}


def _clock_lines(cells: Sequence[CellFigures]) -> list[str]:
    """Say how the clock of each platform's samples compared with the host's, with the worst trial's figures."""
    compared: dict[str, dict[str, list[ClockAgreement]]] = {}
    for cell in cells:
        if cell.clock is not None and cell.clock.host is not None:
            states = compared.setdefault(cell.platform, {})
            states.setdefault(cell.clock.host.state, []).append(cell.clock.host)
    return [f"{platform}: {_clock_words(states)}" for platform, states in compared.items()]


def _clock_words(states: dict[str, list[ClockAgreement]]) -> str:
    """Give each state once, and in how many cells where there are several."""
    parts = []
    for state, agreements in states.items():
        of_all = f" in {len(agreements)} cell{'' if len(agreements) == 1 else 's'}" if len(states) > 1 else ""
        told = worst(agreements)
        parts.append(f"{state}{of_all}" + (f" ({told.reason})" if told is not None else ""))
    return "; ".join(parts)


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
    return f"{three_digits(middle)} {unit} (n {len(rates)}, {three_digits(low)} to {three_digits(high)})"


def _neighbour_lines(cells: Sequence[CellFigures]) -> list[str]:
    groups: dict[tuple[str, str, str], list[NeighbourFigures]] = {}
    for cell in cells:
        for trial in cell.trials:
            for one in trial.neighbours:
                groups.setdefault((cell.scenario, cell.platform, one.load), []).append(one)
    return [
        f"{scenario}, {platform}: {load if load == 'same work' else f'{load}-load {rate_words(figures)}'}"
        for (scenario, platform, load), figures in groups.items()
    ]


def scenario_lines(summary: RunSummary) -> list[str]:
    """Say what stands for what, and which scenarios are smaller here than they are meant to be, or missing."""
    scaled = {cell.scenario: cell.scaled for cell in summary.cells if cell.scaled is not None}
    return [
        *(f"{alias} stands for {platform}" for alias, platform in summary.aliases.items()),
        *(f"{scenario} was scaled: {how}" for scenario, how in scaled.items()),
        *(f"{scenario} was skipped: {why}" for scenario, why in summary.skipped.items()),
    ]


def _trace_lines(cells: Sequence[CellFigures]) -> list[str]:
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
