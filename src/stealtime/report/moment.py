"""The first sample of a trial over the threshold that was asked for, and what took its time: of any study."""

from collections.abc import Mapping

from pydantic import Field

from stealtime.report.cells.figures import Figures


class MomentShare(Figures):
    """What one cause took of the sample."""

    cause: str
    """In words."""
    kind: str
    lost_ns: float
    percent: float


class Moment(Figures):
    """One sample, explained."""

    trial_id: str
    sample: int
    at_s: float | None = None
    """From the start of sample 0; None where it is not explained."""
    duration_ns: float
    threshold_ns: int
    samples_over: int
    """This one among them."""
    is_stopped: bool
    """Whether the run ended there."""
    excess_ns: float
    """Over the floor; what is split into causes."""
    shares: list[MomentShare] = Field(default_factory=list)
    """The largest first; they add up to the excess. None where it is not explained."""
    not_explained: str | None = None
    """Why not."""
    hint: str | None = None

    @property
    def largest(self) -> MomentShare | None:
        """The cause that took most, what is unexplained aside."""
        return next((share for share in self.shares if share.kind != "unexplained"), None)

    def environment(self, folder: str) -> Mapping[str, str]:
        """Give what the command of ``--on-threshold-run`` is told.

        Args:
            folder: Of the trial.
        """
        largest = self.largest
        return {
            "STEALTIME_TRIAL": self.trial_id,
            "STEALTIME_FOLDER": folder,
            "STEALTIME_SAMPLE": str(self.sample),
            "STEALTIME_SAMPLE_NS": f"{self.duration_ns:.0f}",
            "STEALTIME_EXCESS_NS": f"{self.excess_ns:.0f}",
            "STEALTIME_THRESHOLD_NS": str(self.threshold_ns),
            "STEALTIME_CAUSE": "" if largest is None else largest.cause,
            "STEALTIME_CAUSE_PERCENT": "" if largest is None else f"{largest.percent:.1f}",
        }
