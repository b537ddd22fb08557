"""Statistics over series of samples, the causes of their spikes, and schedulability, in Rust (``crates/core``)."""

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

EVENT_KINDS: tuple[str, ...]
"""What the column ``kind`` of a trace counts from 0 (``crates/wire/src/event_kind.rs``, ``docs/run-format.md``)."""

JOB_PARTS: list[str]
"""The parts of a job's latency, in the order of the bits of ``interrupted`` and ``taken``."""

JOB_DISCARDS: list[str]
"""What the column ``discard`` of chains counts from 0; the first is none."""

TAKER_CLASSES: list[str]
OVERHEAD_SAMPLES: list[str]
"""What the column ``kind`` of samples counts from 0."""

OVERHEAD_FLAGS: dict[str, int]
"""The bits of ``flags``."""

class EventsDict(TypedDict):
    """The table ``trace`` (``docs/run-format.md``); all arrays are equally long."""

    time: NDArray[np.uint64]
    cpu: NDArray[np.uint16]
    kind: NDArray[np.uint8]
    thread: NDArray[np.int32]
    value: NDArray[np.int64]
    other: NDArray[np.int32]
    priority: NDArray[np.int16]
    name: NDArray[np.uint32]
    names: list[str]
    """What ``name`` counts from 0."""
    covered: tuple[int, int]
    """When the recording began and ended, on the same counter."""

REQUEST_PARTS: list[str]
"""The parts of a disk request's duration, in the order of its way; the last is what is unexplained."""

class RequestsDict(TypedDict):
    """Requests to a disk on the counter of their machine; all arrays are equally long."""

    submitted: NDArray[np.uint64]
    returned: NDArray[np.uint64]
    offset_bytes: NDArray[np.uint64]
    """Where on the disk each begins."""

class SplitRequestsDict(TypedDict):
    """The way of each request."""

    parts: dict[str, NDArray[np.uint64]]
    """Each of ``REQUEST_PARTS`` in cycles; they add up to the duration of each request."""
    seen: NDArray[np.uint16]
    """Which of the nine moments were seen, a bit each (``crates/iopath/src/moment.rs``)."""
    offsets: tuple[int, int]
    """The smallest and the largest ``guest's counter - host's counter`` that is possible after all that was seen."""
    out_of_order: int
    """Moments that were left out, as they stood out of order by more than the error of the clocks."""

def split_requests(
    requests: RequestsDict,
    guest: EventsDict | None,
    host: EventsDict | None,
    virtual_cpus: Sequence[int],
    raised: tuple[NDArray[np.uint64], int],
    offsets: tuple[int, int],
) -> SplitRequestsDict:
    """Split the way of each request by the traces of its guest, its host and its emulator.

    Args:
        requests: In any order.
        guest: Its own trace, in the order of time; with the group ``block``.
        host: That of the emulator's threads, in the order of time; with the group ``calls``.
        virtual_cpus: The host's thread of each virtual CPU.
        raised: When the emulator raised interrupts, on the host's counter, sorted, and how far that may be off.
        offsets: The smallest and the largest ``guest's counter - host's counter`` that the clocks allow.

    Raises:
        ValueError: Columns do not fit each other, or a request ends before it begins.
    """

class StampedJobsDict(TypedDict):
    """Jobs on the counter of the trace, each thread's in their order; all arrays are equally long."""

    thread: NDArray[np.int32]
    release: NDArray[np.uint64]
    start: NDArray[np.uint64]
    finish: NDArray[np.uint64]

class OverheadSamplesDict(TypedDict):
    """Pairs of events on one CPU, in cycles; all arrays are equally long."""

    kind: NDArray[np.uint8]
    cpu: NDArray[np.uint16]
    thread: NDArray[np.int32]
    start: NDArray[np.uint64]
    duration: NDArray[np.uint64]
    flags: NDArray[np.uint8]
    expiries: NDArray[np.uint16]
    releases: NDArray[np.uint16]
    """Of an interrupt: callbacks that woke a thread of the jobs."""
    ticks: NDArray[np.uint16]

class InterferenceDict(TypedDict):
    """What took the CPUs of the jobs and is in no sample, in cycles; all arrays are equally long."""

    cls: NDArray[np.uint8]
    """Counts in ``TAKER_CLASSES``."""
    cpu: NDArray[np.uint16]
    name: NDArray[np.uint32]
    """Counts in the names of the trace; 4294967295 is none."""
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    net: NDArray[np.uint64]
    """Without what came on top of it."""

class DiscardsDict(TypedDict):
    """Counts by reason."""

    jobs: dict[str, int]
    pairs: dict[str, int]

class OverheadsDict(TypedDict):
    """What a trace tells of a kernel's overheads."""

    chains: dict[str, NDArray[np.integer]]
    """A row for each job: each of ``JOB_PARTS`` in cycles, ``flags``, ``discard``, ``interrupted`` and ``taken`` (bits
    of parts), ``interrupt`` (the whole interrupt of its timer, in cycles)."""
    samples: OverheadSamplesDict
    interference: InterferenceDict
    discards: DiscardsDict

def measure_overheads(trace: EventsDict, jobs: StampedJobsDict, taken: Sequence[tuple[int, int]]) -> OverheadsDict:
    """Pair the events of a trace into samples, and split the latency of each job into parts that add up.

    Args:
        trace: In the order of time on each CPU.
        jobs: On the same counter.
        taken: Stretches in which the host is known to have taken the CPU.

    Raises:
        ValueError: The columns are no trace, or do not fit each other.
    """

ARRIVALS: list[str]
"""How jobs may arrive: ``arrival`` of an ``ExtractedDict``."""

class SporadicDict(TypedDict):
    """Arrivals on no grid."""

    period_ns: int
    """In the mean."""
    jitter_ns: int
    """With it no ``k`` arrivals were closer than ``(k - 1) * period - jitter``."""
    least_distance_ns: int
    curve: list[tuple[int, int]]
    """So many jobs arrived within so many ns at the closest."""

class ExtractedDict(TypedDict):
    """A thread as a task (``crates/extract/src/task.rs``)."""

    thread: int
    name: str | None
    priorities: list[int]
    """The kernel's, that it was woken or switched to with."""
    cpus: list[tuple[int, int]]
    """How long it ran on each, in ns."""
    ran_ns: int
    tells_calls: bool
    activations: int
    activations_by_timer: int
    arrival: Literal["programmed", "observed", "sporadic", "too few"]
    period_ns: int | None
    period_error_ns: int
    spread_ns: int
    missed_periods: int
    restarts: int
    arrivals: int
    sporadic: SporadicDict | None
    counted: int
    """Jobs that the figures are of."""
    holed: int
    merged: int
    unseen: int
    touched: int
    touched_most_ns: int
    counts_touched: bool
    own_ns: tuple[int, int, int]
    """Of all jobs, of the first and of the second half."""
    ran_most_ns: int
    interrupts_most_ns: int
    taken_most_ns: int
    suspended_most_ns: int
    suspending: int
    response_most_ns: int
    lateness_most_ns: int | None
    lateness_median_ns: int | None
    jobs: dict[str, NDArray[Any]]
    """A row for each job, times in cycles: ``woken``, ``own_started``, ``own_ended``, ``own``, ``ran``, ``interrupts``,
    ``taken``, ``suspended``, ``activations``, ``preemptions``, ``counts``, ``may_be_taken``."""

def extract_tasks(
    trace: EventsDict,
    threads: Sequence[int],
    clocks: tuple[tuple[int, int], tuple[int, int]],
    taken: Sequence[tuple[Sequence[tuple[int, int]], int]],
) -> list[ExtractedDict]:
    """Find the tasks of threads in a trace.

    Args:
        trace: In the order of time on each CPU.
        threads: Those that are looked for.
        clocks: ``(tsc, monotonic_ns)`` at the beginning and the end.
        taken: For each CPU the stretches that the host took, and by how much their ends may be wrong, in cycles.

    Raises:
        ValueError: The columns are no trace, or do not fit each other.
    """

class SummaryDict(TypedDict):
    """Figures of one series or of several pooled."""

    count: int
    floor_ns: float
    min_ns: float
    mean_ns: float
    sd_ns: float
    p50_ns: float
    p90_ns: float
    p99_ns: float
    p999_ns: float
    p9999_ns: float
    p99999_ns: float
    max_ns: float
    max_index: int
    max_at_s: float
    max_part: int
    max_overhead_ns: float
    span_s: float
    unresolved: list[str]

class PercentileCurveDict(TypedDict):
    """Exact values at log-spaced tail shares, from nearly 1 down to 0, where the value is the maximum."""

    tail_share: NDArray[np.float64]
    value_ns: NDArray[np.float64]

class HistogramDict(TypedDict):
    """Counts in log-spaced bins over everything, and in equal bins from the minimum to the 99th percentile.

    There is one edge more than counts; a bin holds ``edge[i] <= value < edge[i + 1]``.
    """

    log_edge_ns: NDArray[np.float64]
    log_count: NDArray[np.uint64]
    linear_edge_ns: NDArray[np.float64]
    linear_count: NDArray[np.uint64]
    above_linear: int

class EnvelopeDict(TypedDict):
    """Extremes over equal stretches of time; only those that hold a sample; all arrays are equally long."""

    bucket_s: float
    bucket: NDArray[np.uint32]
    """The stretch starts at ``bucket * bucket_s``."""
    count: NDArray[np.uint32]
    min_ns: NDArray[np.float64]
    max_ns: NDArray[np.float64]
    max_at_s: NDArray[np.float64]

class WorstSampleDict(TypedDict):
    """One of the longest samples."""

    index: int
    start_s: float
    duration_ns: float

class PeriodDict(TypedDict):
    """A periodic cause of lost time."""

    period_s: float
    rate_hz: float
    cost_p50_ns: float
    cost_p90_ns: float
    events: int
    coverage: float
    lost_share: float
    level_ns: float

class InjectedMatchDict(TypedDict):
    """Known thefts of the CPU against the samples; errors are absent if none was found."""

    total: int
    found: int
    within_tolerance: int
    not_observable: int
    error_p50_ns: float | None
    error_p99_ns: float | None
    error_max_ns: float | None
    error_p50_percent: float | None
    error_p99_percent: float | None
    error_max_percent: float | None
    start_s: NDArray[np.float64]
    expected_ns: NDArray[np.float64]
    excess_ns: NDArray[np.float64]

class HeldBackDict(TypedDict):
    """What a limit on real-time threads explains, and the longest of the rest."""

    count: int
    longest_ns: float | None
    """Overhead of the longest explained one."""
    unproven: int
    """Samples as long as a pause of which nothing proves that they are one."""
    rest_max_ns: float
    rest_max_overhead_ns: float
    rest_max_at_s: float
    rest_paused_ns: float
    """How much of that sample is such a stretch all the same."""

class FoundSpikesDict(TypedDict):
    """Samples beyond a threshold in order of time; all arrays are equally long."""

    total: int
    """The ones left out included."""
    index: NDArray[np.uint64]
    start: NDArray[np.uint64]
    """In clock units from the start of sample 0."""
    duration: NDArray[np.uint64]
    """In clock units."""

class TraceDict(EventsDict):
    """A trace, and who is who in it."""

    tsc_hz: float
    labelled: list[tuple[int, int]]
    """Thread ids with their places in ``labels``."""
    labels: list[str]
    cpus: list[int] | None
    """Whose lost events matter; None: all."""

class FollowedDict(TypedDict):
    """Threads that are followed as one: it runs while any of them does."""

    threads: list[int]
    real_time: bool
    """How to judge a displaced thread whose priority no event tells."""
    limit_lifted: bool
    """Whether the limit of real-time runtime was lifted, so that only the fair server is left."""

class UserModeDict(TypedDict):
    """A User-Mode Linux guest, as its host sees it."""

    kernel_threads: list[int]
    pointers: list[tuple[int, str | None]]
    """Thread pointers of its threads with their names; None is the probe."""
    probe_never_sleeps: bool
    real_time: bool

class SpikesDict(TypedDict):
    """Samples to split; arrays have shape (spikes,), in cycles of the machine's counter."""

    start: NDArray[np.uint64]
    duration: NDArray[np.uint64]
    floor: int
    time_lines_of: list[int]
    """Rows whose segments are wanted."""

class AttributionDict(TypedDict):
    """What took each spike. The parts of spike ``i`` are the rows ``first[i]`` to ``first[i + 1]``."""

    causes: list[tuple[str, str, str | None]]
    """Layer, kind, name."""
    first: NDArray[np.uint64]
    cause: NDArray[np.uint16]
    """Rows of ``causes``, each at most once a spike."""
    cycles: NDArray[np.uint64]
    """Those of a judged spike add up to its excess over the floor; one that is not judged has none."""
    judged: NDArray[np.bool_]
    scaled: int
    """Spikes whose causes took more than the excess and were scaled down together."""
    segments: list[tuple[int, Literal["machine", "host"], int, int, int | None]]
    """Spike, track, start from the spike's start, duration, cause."""
    offsets: tuple[int, int]
    """Machine minus host: the smallest and the largest that are possible."""
    narrowed_by: int
    """How many stretches off the CPU narrowed them."""
    unseen_switches: int
    """Switches between threads that must have happened and were not recorded; spikes there are not judged."""
    wait_start: NDArray[np.uint64]
    """When the probe (natively) or the machine could run and did not, in cycles of the host's counter."""
    wait_end: NDArray[np.uint64]

class Series:
    """A complete series of samples. The columns are borrowed, made read-only, and never copied.

    Args:
        durations: One value a sample, in clock units; contiguous.
        gaps: What lies before each sample (layout ``gapped`` only).
        saturated_index: Rows of ``durations`` whose true value is in ``saturated_value``.
        saturated_value: As long as ``saturated_index``.
        saturated_gap_index: The same for ``gaps``.
        saturated_gap_value: As long as ``saturated_gap_index``.
        layout: As in ``docs/run-format.md``.
        interval: Of layout ``periodic``, in clock units.
        units_per_s: The rate of the clock.
        floor: The cheapest sample of a calibration, in clock units.
        pause_index: The samples before which, and before whose gap, nobody watched ...
        pause_value: ... for so many clock units.

    Raises:
        ValueError: The columns do not fit each other, or there are no samples.
    """

    def __new__(
        cls,
        durations: NDArray[np.uint32],
        gaps: NDArray[np.uint32] | None,
        saturated_index: NDArray[np.uint64] | None,
        saturated_value: NDArray[np.uint64] | None,
        saturated_gap_index: NDArray[np.uint64] | None,
        saturated_gap_value: NDArray[np.uint64] | None,
        layout: Literal["tiled", "gapped", "periodic"],
        interval: int | None,
        units_per_s: float,
        floor: int | None,
        pause_index: NDArray[np.uint64] | None = None,
        pause_value: NDArray[np.uint64] | None = None,
    ) -> Series: ...
    def __len__(self) -> int: ...
    def summary(self) -> SummaryDict:
        """Compute count, floor, moments, exact percentiles and the exact maximum with its time."""

    def digest(self) -> Digest:
        """Keep what a pool needs of it."""

    def percentile_curve(self) -> PercentileCurveDict:
        """Compute the upper tail, 24 exact points a decade."""

    def histogram(self) -> HistogramDict:
        """Count all samples into bins."""

    def envelope(self, buckets: int = 65_536) -> EnvelopeDict:
        """Find the extremes of that many equal stretches of time."""

    def worst(self, count: int = 20) -> list[WorstSampleDict]:
        """Find the longest samples, longest first."""

    def spikes(self, threshold: int, most: int) -> FoundSpikesDict:
        """Find the samples of more than ``threshold`` units; of more than ``most`` only the longest."""

    def periods(self) -> list[PeriodDict]:
        """Find the periodic causes, the one that costs most time first."""

    def held_back(
        self, pause_ns: float, period_ns: float, starts: NDArray[np.uint64], durations: NDArray[np.uint64]
    ) -> HeldBackDict:
        """Find the samples that a limit explains by stretches in which ordinary threads ran, or nobody.

        Args:
            pause_ns: How long real-time threads may be made to stand still in every period.
            period_ns: How long that is.
            starts: Of the stretches, in clock units from the start of sample 0.
            durations: As long as ``starts``.
        """

    def match_injected(self, starts: NDArray[np.uint64], durations: NDArray[np.uint64]) -> InjectedMatchDict:
        """Look up known thefts of the CPU, in clock units from the start of sample 0."""

class Digest:
    """What is left of a series when its samples are gone, to be pooled with others."""

class Pool:
    """The figures of several series as of one, where the samples of one are in memory at a time.

    Args:
        digests: Of all of them, at least one, counted in the same units.

    Raises:
        ValueError: There is none.
    """

    def __new__(cls, digests: Sequence[Digest]) -> Pool: ...
    def add(self, series: Series) -> None:
        """Look at the samples of the next one, in the order of the digests.

        Raises:
            ValueError: It is another one, or there are no more.
        """

    def summary(self) -> SummaryDict:
        """Compute the figures, once; ``max_at_s`` is in the series ``max_part``.

        Raises:
            ValueError: Not all series were added.
        """

def pooled_percentile_curve(parts: Sequence[Series]) -> PercentileCurveDict:
    """Compute the percentile curve of all samples together."""

def pooled_histogram(parts: Sequence[Series]) -> HistogramDict:
    """Count all samples of all parts into the same bins."""

def merged_counts(
    parts: Sequence[tuple[NDArray[np.uint64], NDArray[np.uint64]]],
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Add up how often each duration came in several parts.

    Args:
        parts: Of each its durations and their counts, shape (rows,) each, contiguous.

    Returns:
        All durations in order, each once, and their counts; what came never is left out.

    Raises:
        ValueError: A part has another number of counts than of durations.
    """

def attribute_native(trace: TraceDict, probe: FollowedDict, spikes: SpikesDict) -> AttributionDict:
    """Split the spikes of a machine by its own trace.

    Raises:
        ValueError: The columns do not fit each other or are not sorted by time.
    """

def attribute_virtual(
    host: TraceDict,
    vcpus: list[FollowedDict],
    offsets: tuple[int, int],
    machine: TraceDict | None,
    probe: FollowedDict,
    spikes: SpikesDict,
) -> AttributionDict:
    """Split the spikes of a virtual machine by its host's trace, and by its own where there is one.

    Args:
        host: Of the host.
        vcpus: The threads that are virtual CPU 0, 1 ...
        offsets: Machine minus host in cycles, as the exchanges of clocks allow it.
        machine: Of the machine itself.
        probe: Its measuring threads.
        spikes: On the machine's counter.

    Raises:
        ValueError: As :func:`attribute_native`, or the traces contradict the exchanges.
    """

def hypervisor_signature() -> str | None:
    """Give the signature of the hypervisor below (``KVMKVMKVM``, ``TCGTCGTCGTCG``); None if the CPU tells of none."""

def owner_of(process: int | None = None) -> str:
    """Give the mark of a process, ``NAMESPACE:PID:TICKS``: its PID namespace's inode, its id there, when it started.

    Args:
        process: As ``/proc`` numbers it; None is this one.

    Raises:
        OSError: It has ended (``FileNotFoundError``), or is not ours to look at.
    """

def owner_fate(mark: str) -> Literal["alive", "gone", "not ours to judge"]:
    """Tell whether the process of a mark lives; what is no mark or cannot be seen from here is not ours to judge."""

def attribute_user_mode(host: TraceDict, guest: UserModeDict, spikes: SpikesDict) -> AttributionDict:
    """Split the spikes of a User-Mode Linux guest by its host's trace.

    Raises:
        ValueError: As :func:`attribute_native`.
    """

OVERHEADS: list[str]
"""The kinds of overhead, in the order of tables."""
UTILIZATION_LAWS: list[str]
PERIOD_LAWS: list[str]
PARTS_PER_MILLION: int
"""What factors of costs are counted in."""

class SupplyDict(TypedDict):
    """What a CPU gives its tasks."""

    kind: Literal["dedicated", "periodic", "linear", "observed", "combined", "windows"]
    parameters: list[int]
    """periodic: period, budget, deadline; linear: service, span, delay; observed: of each observation what was missing
    and how long it was; windows: the major frame; all in ns."""
    points: list[tuple[int, int]]
    """observed: windows and the least service in them in ns, as :func:`service_envelope` gives them; windows: start and
    length of each in ns."""
    parts: list[SupplyDict]
    """combined: what each of several would leave alone; none of them linear or combined."""

class QuestionDict(TypedDict):
    """One CPU's tasks; all times in ns."""

    tasks: list[tuple[int, int, int, int, int]]
    """Cost, period, deadline, jitter, blocking; the highest priority first."""
    levels: NotRequired[list[int]]
    """Under fixed priorities, of each task: neighbours of the same one have the same priority, and go first in, first
    out. Left out: each has its own."""
    overheads: list[tuple[str, int]]
    interference: NotRequired[list[tuple[int, int, int]]]
    """What else comes before all tasks: cost, period, and the jitter by which more may come at once."""
    tick_period_ns: int
    interrupts: Literal["here", "on another CPU"]
    policy: Literal["fixed-priority by job", "fixed-priority by stretch", "edf"]
    supply: SupplyDict

class AnswerDict(TypedDict, total=False):
    """Fixed priorities: ``responses`` alone; EDF: all."""

    responses: list[tuple[int | None, int, tuple[bool, str] | None]] | None
    """The bound in ns; what it is at least; where there is none, whether that is an overload, and the reason."""
    demand: Literal["met", "overloaded", "exceeded"]
    deciding: tuple[int, int, int] | None
    """A window, what is due in it and certainly served in it, in ns: the first that exceeds, or the tightest."""
    deciding_because: str | None
    """Why none was found."""

class ConditionDict(TypedDict):
    """What the sets of a curve are analysed under."""

    overheads: list[list[int]]
    """By the number of tasks from 1 on: each of ``OVERHEADS`` in ns."""
    tick_period_ns: int
    interrupts: Literal["here", "on another CPU"]
    policy: Literal["fixed-priority by job", "fixed-priority by stretch", "edf"]
    supply: SupplyDict

class PopulationDict(TypedDict):
    """The sets of a curve, each filled to its utilization."""

    law: str
    periods: str
    deadlines: str
    sets: int
    """Of each utilization."""
    seed: int

class RecipeDict(TypedDict):
    """How to draw a set (``crates/schedulability/src/generate``)."""

    law: str
    """One of ``UTILIZATION_LAWS``, ``uunifast-discard`` or ``randfixedsum``."""
    total: float | None
    """The utilization of the two last ones."""
    periods: str
    deadlines: str
    tasks: int
    cap: float
    over_utilized: str
    attempts: int
    seed: int

class GeneratedDict(TypedDict):
    """A set, and how it came about."""

    tasks: list[tuple[int, int, int]]
    """Cost, period, deadline in ns."""
    drawn_utilization: float
    """Of the last set drawn, before the rule for over-utilized sets was applied."""
    attempts: int

def analyze_tasks(question: QuestionDict) -> AnswerDict:
    """Bound every response time, or test the demand in every window.

    Raises:
        ValueError: A number cannot be, or EDF is not judged; the message says why.
    """

def cost_margin(question: QuestionDict) -> int | None:
    """Find the largest factor of all costs with which the set is schedulable, in millionths; None: not even 0.

    A factor of which it is not known counts as one with which it is not.

    Raises:
        ValueError: As :func:`analyze_tasks`, or it is not known whether the set is schedulable with some factor.
    """

def cost_margin_and_edge(question: QuestionDict) -> tuple[int | None, bool]:
    """Find that factor, and whether it is known that with a millionth more the set is not schedulable.

    Raises:
        ValueError: As :func:`cost_margin`.
    """

def overhead_influences(question: QuestionDict) -> list[tuple[str, int, int | None]]:
    """Give each overhead that is not 0: its name, its ns, and the margin if it alone were 0.

    Raises:
        ValueError: As :func:`cost_margin`.
    """

def blocked_window(question: QuestionDict, levels: list[tuple[int, int]]) -> tuple[int, int, int] | None:
    """Find under EDF the first window that a critical section makes too long: its length, demand and service, in ns.

    Args:
        question: With tasks that have no blocking of their own.
        levels: From which window on, and how long one may be blocked, in ns and in order.

    Raises:
        ValueError: As :func:`analyze_tasks`.
    """

def blocked_responses(
    question: QuestionDict, levels: list[tuple[int, int]]
) -> list[tuple[int | None, int, tuple[bool, str] | None]]:
    """Bound under EDF the response of each task, from arrival to end, with the blocking of :func:`blocked_window`.

    As ``responses`` of :func:`analyze_tasks`.

    Raises:
        ValueError: As :func:`analyze_tasks`.
    """

def blocked_cost_margin(question: QuestionDict, levels: list[tuple[int, int]]) -> tuple[int | None, bool]:
    """Find what :func:`cost_margin_and_edge` finds with the blocking of :func:`blocked_window`.

    Raises:
        ValueError: As :func:`cost_margin`.
    """

def task_sensitivity(
    question: QuestionDict, levels: list[tuple[int, int]], index: int
) -> tuple[int | None, int | None]:
    """Find the longest cost and the shortest period of one task while all others stay, in ns; None: there is none.

    A deadline that equals the period goes with it. ``levels`` as of :func:`blocked_window`, none without blocking.

    Raises:
        ValueError: As :func:`cost_margin`.
    """

def least_budget(question: QuestionDict, period_ns: int) -> int | None:
    """Find the smallest budget in ns of a periodic resource; None: the whole CPU is not enough.

    Raises:
        ValueError: As :func:`cost_margin`.
    """

def service_envelope(
    observations: Sequence[tuple[int, NDArray[np.uint64], NDArray[np.uint64], int]], most_points: int
) -> list[tuple[int, int]]:
    """Find the least service of all windows of some observations, by length of window.

    Args:
        observations: How long each was, begins and lengths of its gaps in order of time, and by how much later each of
            them may have come, in which time there was service after it; all in ns.
        most_points: Between so many points at most, less is claimed than was observed.

    Returns:
        Windows and the service in them in ns, both from 0 on.

    Raises:
        ValueError: Gaps overlap or are beyond the observation, or nothing was observed or served.
    """

def count_schedulable_sets(
    population: PopulationDict, utilizations: list[float], conditions: list[ConditionDict]
) -> list[list[tuple[int, int]]]:
    """Count, by utilization and condition, the schedulable sets and those that are not judged.

    Raises:
        ValueError: A number cannot be, or a set has more tasks than a condition has overheads for.
    """

def generate_tasks(recipe: RecipeDict) -> GeneratedDict:
    """Draw a task set from its seed.

    Raises:
        ValueError: The recipe cannot be, or no set keeps to the cap.
    """

def partition_tasks(tasks: list[tuple[int, int]], cpus: int, fit: str) -> list[int]:
    """Assign tasks, cost and period in ns, to CPUs, larger utilizations first.

    Raises:
        ValueError: A task fits nowhere.
    """
