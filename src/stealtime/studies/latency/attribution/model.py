"""The causes of a trial's spikes, as models. Times are in ns."""

from typing import Literal

from stealtime.report.cells.figures import Figures
from stealtime.studies.latency.analysis.model import Period
from stealtime.vocabulary.readings import Reading

Layer = Literal["machine", "host", "above"]
Kind = Literal[
    "timer_tick",
    "interrupt",
    "softirq",
    "thread",
    "host_preempted",
    "host_interrupt",
    "vm_exit",
    "rt_throttling",
    "quota_throttling",
    "steal",
    "unexplained",
]

_WORDS: dict[Kind, str] = {
    "timer_tick": "timer tick",
    "interrupt": "interrupt",
    "softirq": "softirq",
    "thread": "thread",
    "host_preempted": "preempted by",
    "host_interrupt": "host interrupt",
    "vm_exit": "VM exit:",
    "rt_throttling": "RT throttling",
    "quota_throttling": "CPU quota",
    "steal": "host's own host (steal)",
    "unexplained": "unexplained",
}


class Cause(Figures):
    """What takes time away from a probe; ``docs/attribution.md`` defines each kind, platform by platform."""

    layer: Layer
    """``above`` is what no trace saw."""
    kind: Kind
    name: str | None = None
    """Who or which: a thread, a neighbour, a handler, a reason."""

    @property
    def label(self) -> str:
        """Give it in words: ``host: preempted by neighbour 1``, ``timer tick``, ``softirq NET_RX``."""
        words = _WORDS[self.kind]
        if self.kind == "rt_throttling" and self.name is not None:
            words = f"{words} ({self.name})"
        elif self.name is not None:
            words = f"{words} {self.name}"
        in_words = words.startswith("host")
        return f"host: {words}" if self.layer == "host" and not in_words else words


class CauseShare(Figures):
    """What one cause took of all judged spikes together."""

    cause: Cause
    lost_ns: float
    share: float
    """Of the excess of all judged spikes."""
    spikes: int
    """In how many it has a part."""
    largest_ns: float
    """Its largest part of one spike."""


class Part(Figures):
    """What one cause took of one spike."""

    cause: Cause
    ns: float


class Segment(Figures):
    """A stretch of one track of a spike's time line."""

    track: Literal["machine", "host"]
    start_ns: float
    """From the start of the spike."""
    duration_ns: float
    cause: Cause | None
    """None: the probe ran (machine), or the machine had its CPU (host), or nothing is known."""
    text: str


class AttributedSpike(Figures):
    """One spike, split into causes."""

    index: int
    """Of the sample."""
    start_s: float
    """From the start of sample 0."""
    duration_ns: float
    excess_ns: float
    """Over the floor; the parts add up to it."""
    judged: bool
    """Whether the traces around it lost nothing."""
    parts: list[Part]
    """The largest first; none if it was not judged."""
    segments: list[Segment]


class TimeLine(Figures):
    """How the machine's counter was put on the host's."""

    offset_cycles: int
    """Machine minus host."""
    error_ns: float
    """A bound: the true offset is at most this far away."""
    method: str


class TraceQuality(Figures):
    """What the attribution stands on."""

    host_events: int
    host_lost: int
    machine_events: int
    machine_lost: int
    steps: list[str]
    """What is missing and what that costs, one sentence each."""


class Views(Figures):
    """The time that the machine could run but did not, from three instruments; each in ns or absent with a reason."""

    guest_steal: Reading
    """As the guest's kernel counts it."""
    host_run_delay: Reading
    """As the host's scheduler counts it for the vCPU threads."""
    traced_off_cpu: Reading
    """As the trace shows it."""
    agreement: str


class TrialAttribution(Figures):
    """The spikes of one trial, split into causes."""

    trial_id: str
    threshold_ns: float
    """Samples longer than this are spikes."""
    spikes: int
    """That were looked at: ``judged`` and ``not_judged``."""
    left_out: int = 0
    """Further spikes over the threshold, shorter than all that were looked at."""
    judged: int
    not_judged: int
    """In stretches where events were lost or nothing was traced."""
    scaled: int = 0
    """Judged spikes whose causes took more than the excess, and were scaled down together."""
    excess_ns: float
    """Over the floor, of the judged spikes together; the shares add up to it."""
    total_lost_ns: float
    """Over the floor, of all spikes that were looked at."""
    shares: list[CauseShare]
    """The largest first."""
    worst: list[AttributedSpike]
    """The longest first, judged or not."""
    time_line: TimeLine
    trace: TraceQuality
    views: Views
    steal_at_most_ns: float | None = None
    """How much of ``unexplained`` the host's own host can have taken at most, counted in steps of 10 ms a CPU; None
    where the host does not say."""
    rule: str


class Shift(Figures):
    """What tracing changed, over pairs of a traced and an untraced trial; negative is less with tracing."""

    median_ns: float
    min_ns: float
    max_ns: float


class TracingOverhead(Figures):
    """The same cell with tracing and without."""

    cell: str
    """The untraced cell's name."""
    pairs: int
    floor_shift_ns: Shift
    p999_shift_ns: Shift
    max_shift_ns: Shift


class PeriodicCause(Figures):
    """A period found in the samples, and what is behind it."""

    period: Period
    cause: Cause | None
    """None where no cause has most of the time that is lost in phase."""
    share: float | None
    """Of the excess in phase that is this cause's; None where nothing could be judged."""
    text: str
