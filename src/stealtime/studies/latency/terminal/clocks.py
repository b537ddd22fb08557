"""The clock checks of a run in words: a line for each platform."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from stealtime.studies.latency.analysis.model import CellSummary
from stealtime.vocabulary.clock_agreement import ClockAgreement, worst


def clock_lines(cells: Sequence[CellSummary]) -> list[RenderableType]:
    """Say how the clock of each platform's samples compared with the host's, with the worst trial's figures."""
    compared: dict[str, dict[str, list[ClockAgreement]]] = {}
    for cell in cells:
        if cell.clock is not None and cell.clock.host is not None:
            states = compared.setdefault(cell.platform, {})
            states.setdefault(cell.clock.host.state, []).append(cell.clock.host)
    if not compared:
        return []
    lines = [Text(f"  {platform}: {_words(states)}") for platform, states in compared.items()]
    return [Text("\nClock of the samples beside the host's, worst trial", style="bold"), *lines]


def _words(states: dict[str, list[ClockAgreement]]) -> str:
    """Give each state once, and in how many cells where there are several."""
    parts = []
    for state, agreements in states.items():
        of_all = f" in {len(agreements)} cell{'' if len(agreements) == 1 else 's'}" if len(states) > 1 else ""
        told = worst(agreements)
        parts.append(f"{state}{of_all}" + (f" ({told.reason})" if told is not None else ""))
    return "; ".join(parts)
