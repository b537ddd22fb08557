"""The figure of a cell that others publish of real-time tasks."""

from stealtime.report.claims.measurement import Measurement
from stealtime.studies.realtime.analysis.model import RealTimeCell


def measurement(cell: RealTimeCell, figure: str) -> Measurement:
    """Give the share of missed deadlines, over all jobs and in each repetition."""
    if figure != "missed_share":
        raise ValueError(f"{figure!r} is no figure of realtime")
    return Measurement(
        value=None if cell.missed_share is None else cell.missed_share.share,
        of_repetitions=tuple(one.missed / one.released for one in cell.repetitions if one.released),
    )
