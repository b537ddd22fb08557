"""Three measurements of one quantity: how long the machine was runnable but did not run."""

import numpy as np

from stealtime.store.model import HostViews
from stealtime.studies.latency.attribution.model import Views
from stealtime.studies.latency.attribution.world import World
from stealtime.vocabulary.readings import Absent, Reading, Value
from stealtime.wire.message import TracingOutcome, TrialOutcome

AGREEMENT_SHARE = 0.05
"""The kernel's and the trace's time differ by the moments between an accounting and its event ..."""
AGREEMENT_NS = 1e6
"""... and the readings are taken a little before and after the trial; less than this apart is agreement too."""


STEAL_STEP_NS = 1e7
"""``/proc/stat`` counts each CPU's steal in clock ticks, of which x86 has 100 in a second: less than one shows as 0."""


def judge_views(views: HostViews | None, tracing: TracingOutcome | None, outcome: TrialOutcome, world: World) -> Views:
    """Put the views beside each other and say whether they agree.

    Args:
        views: What kernel counters said over the trial; None where they were not read.
        tracing: Of the host; its clock readings tell where in the trace the counters were read.
        outcome: Of the trial: it says from when to when.
        world: Has the waits that the host's trace shows.
    """
    not_read = Absent(absent="it was not read over this trial")
    guest_steal: Reading = not_read if views is None else views.guest_steal_ns
    run_delay: Reading = not_read if views is None else views.run_delay_ns
    traced: Reading = Absent(absent="the host was not traced, or its trace does not cover this machine")
    if world.has_host:
        traced = Value(value=round(_traced_ns(_window(views, tracing, outcome, world), outcome, world)))
    return Views(
        guest_steal=guest_steal,
        host_run_delay=run_delay,
        traced_off_cpu=traced,
        agreement=_agreement(guest_steal, run_delay, traced),
    )


def steal_at_most_ns(views: HostViews | None, cpus: int, unexplained_ns: float) -> float | None:
    """Give how much of what is unexplained the host's own host can have taken at most, if it tells what it takes.

    The counter does not say when it was, so no single spike can be blamed on it; and it may be short of the next step.

    Args:
        views: Of the host.
        cpus: How many CPUs' counters were summed.
        unexplained_ns: Of the trial's spikes.
    """
    steal_ns = None if views is None else _number(views.host_steal_ns)
    return None if steal_ns is None else min(steal_ns + cpus * STEAL_STEP_NS, unexplained_ns)


def _window(
    views: HostViews | None, tracing: TracingOutcome | None, outcome: TrialOutcome, world: World
) -> tuple[int, int]:
    """Give from when to when the views count, on the host's counter; where that is not known, the trial itself."""
    if views is None or tracing is None or views.begin_monotonic_raw_ns is None or views.end_monotonic_raw_ns is None:
        offset = world.time_line.offset_cycles
        return outcome.clock.start.tsc - offset, outcome.clock.end.tsc - offset
    begin, end = (
        tracing.start.tsc + round((at_ns - tracing.start.monotonic_raw_ns) * tracing.tsc_hz / 1e9)
        for at_ns in (views.begin_monotonic_raw_ns, views.end_monotonic_raw_ns)
    )
    return begin, end


def _traced_ns(window: tuple[int, int], outcome: TrialOutcome, world: World) -> float:
    start = np.clip(world.found["wait_start"].astype(np.int64), *window)
    until = np.clip(world.found["wait_end"].astype(np.int64), *window)
    return float((until - start).sum() / outcome.clock.tsc_hz * 1e9)


def _agreement(guest_steal: Reading, run_delay: Reading, traced: Reading) -> str:
    reference = _number(traced)
    if reference is None:
        return "not judged: the trace gives no time off the CPU"
    told, is_judged = [], False
    for name, reading, step_ns in (("host run_delay", run_delay, 0.0), ("guest steal", guest_steal, STEAL_STEP_NS)):
        value = _number(reading)
        if value is None:
            continue
        if (value == 0) != (reference == 0):
            zero, other = (name, reference) if value == 0 else ("the traced time off the CPU", value)
            told.append(f"{name} is not compared: {zero} is 0 where the other view has {other / 1e6:.3f} ms")
            continue
        if value == reference == 0:
            told.append(f"{name} is not compared: both are 0")
            continue
        is_judged = True
        allowed_ns = max(AGREEMENT_NS, step_ns)
        agrees = abs(value - reference) <= max(allowed_ns, AGREEMENT_SHARE * max(value, reference))
        verdict = "agrees with" if agrees else "does not agree with"
        told.append(
            f"{name} ({value / 1e6:.3f} ms) {verdict} the traced time off the CPU ({reference / 1e6:.3f} ms) within "
            f"{AGREEMENT_SHARE:.0%} or {allowed_ns / 1e6:.0f} ms"
        )
    if not told:
        return "not judged: neither the host's scheduler nor the guest gave a time to compare the trace with"
    return "; ".join(told) if is_judged else "not judged: " + "; ".join(told)


def _number(reading: Reading) -> float | None:
    if isinstance(reading, Value) and isinstance(reading.value, int | float) and not isinstance(reading.value, bool):
        return float(reading.value)
    return None
