"""Known disturbances, each of which must land on the right cause with the right name (``docs/truth.md``).

Natively, under User-Mode Linux and under QEMU: a hog of higher priority on the CPU, a neighbour switched on and off, a
quota, a thief inside the machine, RT throttling. Of the injected lost time at least 95 % must land where it belongs,
and less than 10 % of the excess may stay unexplained. What falls into a gap of the kernel's trace, 10 % at most, is
counted apart: it has no cause, and is named as not judged. The host of a virtual machine takes what it likes, and does
not say so: what breaks this rule is measured again with its ring (``tools/rings.sh``), and nowhere else.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from attributed import Attributed, injected_ns, load_on_ns, lost_beside_load_ns, measure_attributed, measured_ns
from machines import HOUSEKEEPING_CPU, MEASURED_CPU, needs_root, require_usable
from outside_observer import observing
from truth import some_of

from stealtime.lab.platforms.process import run_mark
from stealtime.store.model import TrialRecord
from stealtime.studies.latency.attribution.model import AttributedSpike, Cause
from stealtime.vocabulary.readings import Reading, Value

pytestmark = [pytest.mark.guest, pytest.mark.asyncio(loop_scope="session"), needs_root]

PLATFORMS = ["native", "uml", "qemu-tcg-paravirt"]
LANDED_SHARE_MIN = 0.95
LANDED_SHARE_MAX = 1.10
"""More than was injected may not land there either: other time would have been called by its name."""
NOT_JUDGED_SHARE_MAX = 0.10
"""Of what was injected: two of the forty gaps of a quota were not judged in one run of CI."""
UNEXPLAINED_SHARE_MAX = 0.10
TICK = {"probe": "tick", "loop": "68us", "duration": "4s"}
PAUSE_NS = 50_000_000
"""What the kernel's limit leaves of each second: real-time threads get 950 ms of it (``sched_rt_runtime_us``)."""
LATE_TO_HALT = {"qemu-tcg-paravirt"}
"""Between the guest's switch to its idle task, by its own trace, and the sleep of its virtual CPU's thread, and in its
first ticks, 12 to 27 ms of a pause went by (means of three pauses, twelve trials, Intel Xeon); what took that long was
not found. Some 6 ms more, before that switch and on the way back, are no event of its trace."""
UNEXPLAINED_SHARE_LATE_MAX = 0.15
GUEST_PROGRAMS = {"uml": "linux.uml", "qemu-tcg-paravirt": "qemu-system"}
STALL_NS = 30_000_000
"""Nothing else here takes as long at once."""


def campaign(platform: str, scenario: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Write a campaign of one traced cell."""
    defined = {"name": "truth", **scenario}
    return {"platforms": [platform], "define": [defined], "probes": [TICK], "lift_rt_throttling": True, **changes}


def judge(
    attributed: Attributed, truth_ns: float, is_meant: Callable[[Cause], bool], *, of_long_ones: bool = False
) -> str:
    """Assert the rule of this module and give the figures."""
    landed_ns = attributed.lost_ns(is_meant, of_long_ones=of_long_ones)
    not_judged_ns = attributed.not_judged_ns(of_long_ones=of_long_ones)
    text = f"injected {truth_ns / 1e6:.1f} ms, landed {landed_ns / 1e6:.1f} ms; {attributed.text()}"
    assert truth_ns > 50e6, text
    # Where the kernel's trace has gaps, what was injected there is named as not judged, not as somebody else's.
    assert not_judged_ns <= NOT_JUDGED_SHARE_MAX * truth_ns, text
    assert LANDED_SHARE_MIN * (truth_ns - not_judged_ns) <= landed_ns, text
    assert landed_ns <= LANDED_SHARE_MAX * truth_ns, text
    assert attributed.unexplained_share < UNEXPLAINED_SHARE_MAX, text
    return text


def value_ns(reading: Reading) -> float:
    assert isinstance(reading, Value), reading
    assert isinstance(reading.value, int | float)
    return reading.value


def on(*always: str) -> pytest.MarkDecorator:
    """Measure on these platforms in ``make test``, and on all of them in ``make truth``."""
    return pytest.mark.parametrize("platform", some_of(PLATFORMS, *always), indirect=True)


@pytest.fixture
async def platform(request: pytest.FixtureRequest) -> str:
    await require_usable(str(request.param))
    return str(request.param)


@on("uml")
async def test_a_hog_of_higher_priority_is_named(platform: str, tmp_path: Path, tell: Callable[[str], None]) -> None:
    hog = {"kind": "process", "load": "cpu-load", "cpus": "measured", "priority": 90, "on": "5ms", "off": "45ms"}
    attributed = await measure_attributed(campaign(platform, {"neighbours": [hog]}), tmp_path)
    kind = "thread" if platform == "native" else "host_preempted"
    text = judge(attributed, load_on_ns(attributed), lambda cause: (cause.kind, cause.name) == (kind, "neighbour 1"))
    tell(f"attribution, hog: {text}")


@on("uml")
async def test_a_neighbour_switched_on_and_off_is_named(
    platform: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    neighbour = {"kind": "machine", "load": "cpu-load", "cpus": "measured", "on": "500ms", "off": "500ms"}
    # Natively the neighbour is an ordinary process, which a real-time thread would not let run at all.
    scenario = {"neighbours": [neighbour], **({"priority": 0} if platform == "native" else {})}
    attributed = await measure_attributed(campaign(platform, scenario), tmp_path)
    kind = "thread" if platform == "native" else "host_preempted"
    # Long ones against long ones: a translated loop is slower for 100 ms now and then, beside anybody.
    text = judge(
        attributed,
        lost_beside_load_ns(attributed),
        lambda cause: (cause.kind, cause.name) == (kind, "neighbour 1"),
        of_long_ones=True,
    )
    tell(f"attribution, neighbour: {text}")


@on("native")
async def test_a_quota_is_found(platform: str, tmp_path: Path, tell: Callable[[str], None]) -> None:
    scenario = {"share": {"quota_percent": 50}, **({"priority": 0} if platform == "native" else {})}
    attributed = await measure_attributed(campaign(platform, scenario), tmp_path)
    views = attributed.trial.record.host_views
    assert views is not None
    outcome = attributed.trial.record.outcome
    assert outcome is not None
    [told] = [finding for finding in outcome.findings if finding.code == "cpu_quota"]
    assert "50 ms in every 100 ms" in told.text
    # What always wants to run loses what the quota leaves out. The kernel's own count covers more than the trial.
    text = judge(attributed, 0.5 * measured_ns(attributed.trial), lambda cause: cause.kind == "quota_throttling")
    assert value_ns(views.throttled_ns) >= 0.45 * measured_ns(attributed.trial), views
    tell(f"attribution, quota of 50 %: {text}; cpu.stat around the trial {value_ns(views.throttled_ns) / 1e6:.1f} ms")


@on()
async def test_a_thief_inside_the_machine_is_named(platform: str, tmp_path: Path, tell: Callable[[str], None]) -> None:
    injection = {"every": "50ms", "steal": "5ms"}
    attributed = await measure_attributed(campaign(platform, {}, injection=injection), tmp_path)
    text = judge(
        attributed,
        injected_ns(attributed.trial),
        lambda cause: (cause.layer, cause.kind, cause.name) == ("machine", "thread", "injection"),
    )
    tell(f"attribution, thief inside: {text}")


@on("native")
async def test_rt_throttling_is_found(platform: str, tmp_path: Path, tell: Callable[[str], None]) -> None:
    # How long the probe was held back is told by who looked on from outside, not by the samples that are judged.
    if platform == "native":
        # It is also the ordinary thread that waits for the CPU: newer kernels hold a real-time thread back only then.
        observer = observing("on-cpu", cpu=MEASURED_CPU)
    else:
        observer = observing("guest", run_mark(), GUEST_PROGRAMS[platform], cpu=HOUSEKEEPING_CPU)
    with observer as seen:
        attributed = await measure_attributed(campaign(platform, {}, lift_rt_throttling=False), tmp_path)
    stalls = [spike for spike in attributed.attribution.worst if spike.excess_ns > STALL_NS]
    spans = [on_host(spike, attributed.trial.record) for spike in stalls]
    truth_ns = sum(seen.within_ns(begin, end) for begin, end in spans)
    unseen = [pause for pause in seen.pauses(*measured_on_host(attributed.trial.record)) if not overlaps(pause, spans)]
    parts = [part for stall in stalls for part in stall.parts]
    held_back_ns = sum(part.ns for part in parts if part.cause.kind == "rt_throttling")
    unexplained_ns = sum(part.ns for part in parts if part.cause.kind == "unexplained")
    figures = f"seen from outside {truth_ns / 1e6:.1f} ms, landed {held_back_ns / 1e6:.1f} ms"
    text = f"{len(stalls)} stalls, {figures}; {attributed.text()}"
    assert 3 <= len(stalls) <= 5, text
    assert unseen == [], f"the probe stood still, and the samples do not show it: {unseen}; {text}"
    # Seen idle is the least that it was held back; where a guest halts late, the kernel's own limit is the most.
    most_ns = max(truth_ns, len(stalls) * PAUSE_NS) if platform in LATE_TO_HALT else truth_ns
    assert LANDED_SHARE_MIN * truth_ns <= held_back_ns <= LANDED_SHARE_MAX * most_ns, text
    unexplained_share_max = UNEXPLAINED_SHARE_LATE_MAX if platform in LATE_TO_HALT else UNEXPLAINED_SHARE_MAX
    assert unexplained_ns < unexplained_share_max * sum(stall.excess_ns for stall in stalls), text
    tell(f"attribution, RT throttling: {text}")


Span = tuple[int, int]
"""Begin and end in ns of the host's CLOCK_MONOTONIC_RAW."""


def on_host(spike: AttributedSpike, record: TrialRecord) -> Span:
    """Put a spike on the host's clock by the exchange of clocks before its trial, not by a trace."""
    assert record.outcome is not None
    assert record.alignment is not None
    clock, before = record.outcome.clock, record.alignment.before
    from_exchange_s = (clock.origin_units - before.machine_tsc) / clock.tsc_hz
    begin_ns = before.host_monotonic_raw_ns + round((from_exchange_s + spike.start_s) * 1e9)
    return begin_ns, begin_ns + round(spike.duration_ns)


def measured_on_host(record: TrialRecord) -> Span:
    """Give when a trial was measured, on the host's clock."""
    assert record.outcome is not None
    assert record.alignment is not None
    clock, before = record.outcome.clock, record.alignment.before
    stamps = (clock.origin_units, clock.end.tsc)
    begin, end = (before.host_monotonic_raw_ns + round((at - before.machine_tsc) / clock.tsc_hz * 1e9) for at in stamps)
    return begin, end


def overlaps(pause: Span, spans: Sequence[Span]) -> bool:
    return any(pause[0] < end and begin < pause[1] for begin, end in spans)
