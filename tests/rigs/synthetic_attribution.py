"""Made-up attributions whose right answers are known, for tests of how causes are shown.

Nothing in them was traced. Every spike has three parts and what is left unexplained; its tracks tile it from its start
to its end, with a burst of segments that are too short to be drawn one by one.
"""

from functools import cache

from stealtime.store.run import Run, Trial
from stealtime.studies.latency.analysis.model import Period
from stealtime.studies.latency.attribution.model import (
    AttributedSpike,
    Cause,
    CauseShare,
    Part,
    PeriodicCause,
    Segment,
    Shift,
    TimeLine,
    TraceQuality,
    TracingOverhead,
    TrialAttribution,
    Views,
)
from stealtime.vocabulary.readings import Absent, Value

TICK = Cause(layer="machine", kind="timer_tick")
NEIGHBOUR = Cause(layer="host", kind="host_preempted", name="neighbour 1")
KERNEL_THREAD = Cause(layer="host", kind="host_preempted", name="kworker/1:2")
VM_EXIT = Cause(layer="host", kind="vm_exit", name="EPT_VIOLATION")
UNEXPLAINED = Cause(layer="above", kind="unexplained")
SHORT_ONES = 400
"""Segments of a burst in every spike."""
RULE = "The outer layer wins over the inner one; each moment has one cause; what is left of the excess is unexplained."
EVENTS_LOST = 1_234
WORST = 20
JUDGED = 18
"""Of the longest spikes; in the stretch of the others events were lost."""


def synthetic_attribution(trial: Trial) -> TrialAttribution:
    """Make a trial's attribution up: its repetition makes it longer, its platform shifts who is to blame."""
    cell = trial.record.cell
    factor = trial.record.repetition * (1.0 if cell.platform == "native" else 3.0)
    spikes = [_spike(number, factor, cell.platform) for number in range(WORST)]
    judged = [spike for spike in spikes if spike.judged]
    excess_ns = sum(spike.excess_ns for spike in judged)
    shares = []
    for cause in dict.fromkeys(part.cause for spike in judged for part in spike.parts):
        own = [part.ns for spike in judged for part in spike.parts if part.cause == cause]
        shares.append(
            CauseShare(cause=cause, lost_ns=sum(own), share=sum(own) / excess_ns, spikes=len(own), largest_ns=max(own))
        )
    native = cell.platform == "native"
    return TrialAttribution(
        trial_id=trial.record.trial_id,
        threshold_ns=70_000.0,
        spikes=WORST,
        judged=len(judged),
        not_judged=WORST - len(judged),
        excess_ns=excess_ns,
        total_lost_ns=sum(spike.excess_ns for spike in spikes),
        shares=shares,
        worst=spikes,
        time_line=TimeLine(offset_cycles=0 if native else -8_123_456, error_ns=0.0 if native else 412.0,
                           method="the same counter" if native else "exchanges, refined by 812 paired events"),
        trace=TraceQuality(
            host_events=120_000, host_lost=EVENTS_LOST, machine_events=0 if native else 80_000, machine_lost=0,
            steps=[] if native else ["vectors are not traced in the machine: no such group of events"],
        ),
        views=Views(
            guest_steal=Absent(absent="this kernel reports no steal time"),
            host_run_delay=Value(value=12_500_000.0),
            traced_off_cpu=Value(value=12_611_000.0),
            agreement="run_delay and traced off-CPU agree to 0.9 %",
        ),
        rule=RULE,
    )  # fmt: skip


def _spike(number: int, factor: float, platform: str) -> AttributedSpike:
    duration_ns = factor * (3_000_000.0 - 120_000.0 * number)
    floor_ns = 68_000.0
    excess_ns = duration_ns - floor_ns
    by = TICK if platform == "native" else NEIGHBOUR if number % 2 == 0 else KERNEL_THREAD
    parts = [
        Part(cause=by, ns=0.7 * excess_ns),
        Part(cause=TICK if by != TICK else VM_EXIT, ns=0.2 * excess_ns),
        Part(cause=UNEXPLAINED, ns=0.1 * excess_ns),
    ]
    judged = number < JUDGED
    return AttributedSpike(
        index=1000 + number,
        start_s=0.011 * (number + 1),
        duration_ns=duration_ns,
        excess_ns=excess_ns,
        judged=judged,
        parts=parts if judged else [],
        segments=[*_host(duration_ns, by), *_machine(duration_ns)]
        if platform != "native"
        else [*_machine(duration_ns)],
    )


def _host(duration_ns: float, by: Cause) -> list[Segment]:
    return [
        Segment(track="host", start_ns=0, duration_ns=0.1 * duration_ns, cause=None, text="the vCPU ran"),
        Segment(track="host", start_ns=0.1 * duration_ns, duration_ns=0.7 * duration_ns, cause=by, text=by.label),
        Segment(track="host", start_ns=0.8 * duration_ns, duration_ns=0.2 * duration_ns, cause=None, text="it ran"),
    ]


@cache
def _machine(duration_ns: float) -> tuple[Segment, ...]:
    short_ns = 0.2 * duration_ns / SHORT_ONES / 4
    burst = [
        Segment(track="machine", start_ns=0.8 * duration_ns + 4 * index * short_ns, duration_ns=short_ns, cause=TICK,
                text="local_timer")
        for index in range(SHORT_ONES)
    ]  # fmt: skip
    before = Segment(track="machine", start_ns=0, duration_ns=0.8 * duration_ns, cause=None, text="the probe ran")
    return before, *burst


def synthetic_tracing_overhead(run: Run) -> list[TracingOverhead]:
    """Make the cost of tracing up: a clear one of the floor, none that could be told of the maximum."""
    names = dict.fromkeys(trial.record.cell.untraced.name for trial in run.measured if trial.record.cell.traced)
    return [
        TracingOverhead(
            cell=name,
            pairs=7,
            floor_shift_ns=Shift(median_ns=24.0, min_ns=11.0, max_ns=31.0),
            p999_shift_ns=Shift(median_ns=1_900.0, min_ns=1_200.0, max_ns=2_500.0),
            max_shift_ns=Shift(median_ns=-40_000.0, min_ns=-900_000.0, max_ns=700_000.0),
        )
        for name in names
    ]


def synthetic_periodic(periods: list[Period], trial: Trial) -> list[PeriodicCause]:
    """Say of every period that the timer tick is behind it."""
    del trial
    return [
        PeriodicCause(
            period=period, cause=TICK, share=0.99, text=f"every {period.period_s * 1e3:.3f} ms: timer tick (99 %)"
        )
        for period in periods
    ]
