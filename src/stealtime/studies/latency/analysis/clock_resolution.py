"""How far a figure can be off because the clocks of its cells count in units: every interval is widened by that."""

from stealtime.studies.latency.analysis.model import CellSummary


def clock_resolution_ns(*cells: CellSummary) -> float:
    """Give the unit of the coarsest clock that any of some cells was measured with; 0 where none is known."""
    return max((1e9 / cell.clock.units_per_s for cell in cells if cell.clock is not None), default=0.0)
