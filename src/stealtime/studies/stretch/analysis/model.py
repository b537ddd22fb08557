"""The figures of a cell: what its work took in each repetition, and its stretch where the run has what to compare."""

from statistics import fmean, median
from typing import Literal

from pydantic import JsonValue

from stealtime.lab.platforms.traits import traits_of
from stealtime.report.summary import CellFigures, Figures

STUDY_NAME = "stretch"


class Repetition(Figures):
    """One valid repetition. What the tasks did is summed over them, what CPUs did over the CPUs."""

    repetition: int
    elapsed_s: float
    cpu_s: float
    fill_cpu_s: float
    lock_wait_s: float
    io_s: float
    io_asked_s: float
    """What ``io_s`` would be if every sleep had ended in time."""
    uneven_idle_s: float
    idle_s: float | None
    """None where the machine's kernel does not tell."""
    wait_s: float | None
    """Runnable without a CPU of the host: the virtual CPUs of a guest, natively the tasks. Holds ``throttled_s``."""
    host_run_s: float | None
    """What a guest cost its host: run time of the virtual CPUs' threads; None natively and where it was not read."""
    throttled_s: float
    """Held back by its own quota; 0 where it has none."""
    host_steal_s: float | None
    """Taken by the host's own host from the CPUs that the machine may use."""
    guest_steal_s: float | None
    minor_faults: int
    checksum: int


class IterationTimes(Figures):
    """How long single iterations took, of all valid repetitions together."""

    count: int
    p50_ms: float
    p95_ms: float
    max_ms: float


class Guest(Figures):
    """One of those that share the host's CPUs."""

    vcpus: int
    weight: int | None = None
    quota_percent: float | None = None
    """Of one CPU."""


class Stretch(Figures):
    """How many times as long as in the base the work takes."""

    base: str
    """Platform and scenario."""
    ratio: float | None
    """Of the geometric means of the repetitions."""
    low: float | None
    """Of the 95 % interval; None where it was not judged."""
    high: float | None
    because: str | None = None
    """Why it was not judged."""


class LostSeconds(Figures):
    """What makes up the difference of the mean elapsed times; the parts and the rest add up to it exactly."""

    base: str
    elapsed_s: float
    base_elapsed_s: float
    parts_s: dict[str, float]
    """By their names in ``lost.PARTS``; negative where the base lost more."""
    unexplained_s: float
    absent: list[str]
    """Parts that could not be told, and why; they are in ``unexplained_s``."""

    @property
    def lost_s(self) -> float:
        """The whole difference."""
        return self.elapsed_s - self.base_elapsed_s


class Predicted(Figures):
    """What simple models say of the stretch against the same guest alone."""

    utilization: float
    """Of the host's CPUs that all guests together would use if each had its own."""
    all_busy: float
    """The probability that all CPUs are busy at once, if they were so independently."""
    open_queue: float | None
    """1/(1 - utilization^CPUs); None where nothing could hold the load."""
    erlang_c: float | None
    """Response time over service time in the queue M/M/m."""
    closed: float
    """All guests always busy, all with the same right to a CPU."""
    entitled: float
    """What quota, weights and idle time leave to this guest."""
    shared: float
    """The closed queueing network in which guests share CPUs by weight."""
    residual: float | None
    """Measured over ``shared``, less 1; None where nothing was measured."""
    one_more: float | None
    """``shared`` with one more guest of the kind that is there."""
    one_more_low: float | None
    one_more_high: float | None
    because: str | None = None
    """Why ``residual`` and ``one_more`` were not judged."""


class StretchCell(CellFigures):
    """A cell of ``contend``."""

    study: Literal["stretch"] = "stretch"
    repetitions: list[Repetition]
    """The valid ones."""
    iterations: IterationTimes | None
    vcpus: int
    host_cpus: int
    """On which they may run."""
    itself: Guest
    beside: list[Guest]
    against_native: Stretch | None = None
    """None for the base itself, and where there is none."""
    against_alone: Stretch | None = None
    """The same machine without neighbours and without a share; as above."""
    lost: LostSeconds | None = None
    """Against native."""
    predicted: Predicted | None = None

    @property
    def is_measured(self) -> bool:
        """Whether there is a result, valid or not."""
        return bool(self.repetitions)

    @property
    def is_alone(self) -> bool:
        """Whether nothing keeps it from the CPUs: no neighbour, no quota, no weight."""
        return not self.beside and self.itself.weight is None and self.itself.quota_percent is None

    @property
    def is_native(self) -> bool:
        """Whether it is the host itself."""
        return traits_of(self.platform).is_native

    @property
    def title(self) -> str:
        """Platform and scenario."""
        return f"{self.platform} {self.scenario}"

    @property
    def elapsed_s(self) -> list[float]:
        """Of each valid repetition."""
        return [one.elapsed_s for one in self.repetitions]

    @property
    def cpu_s(self) -> float:
        """The CPU time of all tasks as their machine counts it, in the mean."""
        return fmean(one.cpu_s for one in self.repetitions)

    @property
    def cost_s(self) -> float:
        """The CPU time that the work cost the host, in the mean; that of the tasks where nothing else is known."""
        return fmean(one.cpu_s if one.host_run_s is None else one.host_run_s for one in self.repetitions)

    @property
    def lines(self) -> list[str]:
        """The figures that are told of it where there is no table, a line each."""
        if not self.repetitions:
            return []
        lines = [f"elapsed {median(self.elapsed_s):.3f} s (median of {len(self.repetitions)})"]
        for against in (self.against_native, self.against_alone):
            if against is not None and against.ratio is not None:
                lines.append(f"stretch against {against.base} {against.ratio:.3f}")
        return lines

    @property
    def columns(self) -> dict[str, JsonValue]:
        """Its figures as a line of a table."""
        parts = self.lost
        return {
            "elapsed_median_s": median(self.elapsed_s) if self.repetitions else None,
            **{
                f"stretch_{name}_{key}": None if one is None else getattr(one, key)
                for name, one in (("native", self.against_native), ("alone", self.against_alone))
                for key in ("ratio", "low", "high")
            },
            "predicted": None if self.predicted is None else self.predicted.shared,
            "unexplained_s": None if parts is None else parts.unexplained_s,
        }


def own_cells(cells: object) -> list[StretchCell]:
    """Give the cells that are of this study."""
    return [cell for cell in cells if isinstance(cell, StretchCell)]  # type: ignore[attr-defined]
