"""The figure of a cell that others publish of stretch."""

from statistics import geometric_mean

from stealtime.report.claims.measurement import Measurement
from stealtime.studies.stretch.analysis.model import StretchCell


def measurement(cell: StretchCell, figure: str) -> Measurement:
    """Give the elapsed time; of several guests that did the same work that of the fastest, as it is published."""
    if figure != "elapsed":
        raise ValueError(f"{figure!r} is no figure of stretch")
    elapsed_ns = tuple(elapsed_s * 1e9 for elapsed_s in cell.fastest_s)
    return Measurement(value=geometric_mean(elapsed_ns) if elapsed_ns else None, of_repetitions=elapsed_ns)
