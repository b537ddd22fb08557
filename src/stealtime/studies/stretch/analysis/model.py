"""The figures of a cell: what its work took in each repetition, and its stretch where the run has what to compare."""

from collections.abc import Mapping
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

from pydantic import Field, JsonValue

from stealtime.lab.platforms.traits import traits_of
from stealtime.report.cells.figures import Figures
from stealtime.report.cells.model import Bounded, CellFigures

if TYPE_CHECKING:
    from stealtime.report.interval import Interval


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
    fault_cpu_s: float | None = None
    """Of ``fill_cpu_s``, for having pages come."""
    cycles: int | None = None
    """Of the tasks, outside of ``fill_cpu_s``; so are the instructions."""
    instructions: int | None = None
    outside_guest_s: float | None = None
    """That its virtual CPUs ran without executing instructions of the guest and without polling for work (KVM)."""
    exits: int | None = None
    """How often its virtual CPUs left the guest (KVM)."""


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
    is_alike: bool = False
    """Whether it does the same work as the machine; other neighbours are always busy."""


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


class Priority(Figures):
    """What weights and quotas are worth: elapsed times with them, against those of the same guests without.

    In each repetition the mean over the guests of a side is taken.
    """

    favoured: Stretch
    favoured_guests: int
    others: Stretch
    other_guests: int


class LostSeconds(Figures):
    """What makes up the difference of the mean elapsed times; the parts and the rest add up to it exactly."""

    base: str
    elapsed_s: float
    base_elapsed_s: float
    parts_s: dict[str, float]
    """By their names in ``lost.PARTS``, without those that could not be told; negative where the base lost more."""
    unexplained_s: float
    absent: list[str]
    """Parts that could not be told, and why: what each of them is, another part or ``unexplained_s`` holds."""

    @property
    def lost_s(self) -> float:
        return self.elapsed_s - self.base_elapsed_s

    @property
    def largest_part(self) -> str | None:
        """The name of what most of them are; None where none were lost, or no part took any."""
        name = max(self.parts_s, key=self.parts_s.__getitem__, default=None)
        return name if name is not None and self.lost_s > 0.0 and self.parts_s[name] > 0.0 else None


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


class AlikeGuest(Figures):
    """A neighbour that did the same work, started together with the machine."""

    name: str
    """``neighbour 1`` ..."""
    guest: Guest
    repetitions: list[Repetition]
    """The same ones as those of the machine."""
    against_native: Stretch | None = None
    """None where native was not measured alone."""
    against_alone: Stretch | None = None
    """Against the machine alone, which it is like; None where that was not measured."""
    lost: LostSeconds | None = None
    """Against native."""

    @property
    def elapsed_s(self) -> list[float]:
        """Of each valid repetition."""
        return [one.elapsed_s for one in self.repetitions]


class Provisioning(Figures):
    """Whether the host, or the machine under test, had too many or too few CPUs while the work was done."""

    subject: str
    """``host`` or ``machine``."""
    verdict: str
    """One of ``capacity.rules.Verdict``."""
    samples: int
    """Of all valid repetitions together, a second each."""
    rule: str | None
    """By which; None where none held."""
    because: str | None
    """Why it is not judged."""
    evidence: list[str]
    """The figures that decided, with their limits."""


class StretchCell(CellFigures):
    """A cell of ``contend``."""

    study: Literal["stretch"] = "stretch"
    repetitions: list[Repetition]
    """The valid ones."""
    iterations: IterationTimes | None
    vcpus: int
    own_cpus: int
    """Of the host, on which they may run."""
    host_cpus: int
    """Of the host, which it shares with its neighbours: ``own_cpus`` and those of its emulator."""
    itself: Guest
    beside: list[Guest]
    is_base: bool = False
    """Whether it is the native machine alone, which the others are held against."""
    native_floor_s: float | None = None
    """The shortest repetition of that base; None for itself, and where there is none that did the same work."""
    against_native: Stretch | None = None
    """None for the base itself, and where there is none."""
    against_alone: Stretch | None = None
    """The same machine without neighbours and without a share; as above."""
    company: str | None = None
    """Who ran that nobody asked for, beside it or beside the native machine that it is held against."""
    alike: list[AlikeGuest] = Field(default_factory=list)
    """Of its neighbours those that did the same work."""
    priority: Priority | None = None
    """None where all guests have the same right, or were not measured without their shares."""
    lost: LostSeconds | None = None
    """Against native."""
    predicted: Predicted | None = None
    provisioning: list[Provisioning] = Field(default_factory=list)
    """None of a run whose version recorded no counters of the host."""
    not_counted: dict[str, str] = Field(default_factory=dict)
    """Why figures of ``repetitions`` are None, by their names."""

    @property
    def is_alone(self) -> bool:
        """Whether nothing keeps it from the CPUs: no neighbour, no quota, no weight."""
        return not self.beside and self.itself.weight is None and self.itself.quota_percent is None

    @property
    def is_native(self) -> bool:
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
    def fastest_s(self) -> list[float]:
        """Of each valid repetition the shortest time of all guests that did the work."""
        return [min(times) for times in zip(self.elapsed_s, *(one.elapsed_s for one in self.alike), strict=True)]

    @property
    def cpu_s(self) -> float:
        """The CPU time of all tasks as their machine counts it, in the mean."""
        return fmean(one.cpu_s for one in self.repetitions)

    @property
    def cost_s(self) -> float:
        """The CPU time that the work cost the host, in the mean; that of the tasks where nothing else is known."""
        return fmean(one.cpu_s if one.host_run_s is None else one.host_run_s for one in self.repetitions)

    def bounded(self) -> Bounded | None:
        """Give how much longer its longest repetition took than the shortest one natively alone; None for the latter.

        That is an overhead as everywhere: over the cheapest that is possible.
        """
        if self.is_base:
            return None
        if self.native_floor_s is None:
            return Bounded(None, unknown_because="the same work was not measured natively alone")
        return Bounded((max(self.elapsed_s) - self.native_floor_s) * 1e9)

    @property
    def lines(self) -> list[str]:
        if not self.repetitions:
            return []
        lines = [f"elapsed {median(self.elapsed_s):.3f} s (median of {len(self.repetitions)})"]
        for against in (self.against_native, self.against_alone):
            if against is not None and against.ratio is not None:
                lines.append(f"stretch against {against.base} {against.ratio:.3f}")
        return lines

    @property
    def intervals(self) -> "Mapping[str, Interval]":
        from stealtime.report.interval import Interval

        return {
            f"stretch_{name}_ratio": Interval(one.ratio, one.low, one.high)
            for name, one in (("native", self.against_native), ("alone", self.against_alone))
            if one is not None and one.ratio is not None and one.low is not None and one.high is not None
        }

    @property
    def columns(self) -> dict[str, JsonValue]:
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
            **{f"{which}_guest_median_s": value for which, value in self._extremes().items()},
        }

    def _extremes(self) -> dict[str, float | None]:
        times = [median(one) for one in (self.elapsed_s, *(one.elapsed_s for one in self.alike)) if one and self.alike]
        return {"fastest": min(times, default=None), "slowest": max(times, default=None)}
