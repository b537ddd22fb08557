"""Known disturbances, each of which must land on the right cause with the right name (``docs/truth.md``).

Natively, under User-Mode Linux and under QEMU: a hog of higher priority on the CPU, a neighbour switched on and off, a
quota, a thief inside the machine, RT throttling. Of the injected lost time at least 95 % must land where it belongs,
and less than 10 % of the excess may stay unexplained. What breaks this rule is measured once more and must break it
again: the host of a virtual machine takes what it likes, and does not say so.
"""

import functools
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from attributed import Attributed, injected_ns, load_on_ns, lost_beside_load_ns, measure_attributed, measured_ns
from machines import needs_root, require_usable

from stealtime.analysis.attribution.model import Cause
from stealtime.wire.message import Reading, Value

pytestmark = [pytest.mark.guest, pytest.mark.asyncio(loop_scope="session"), needs_root]

PLATFORMS = ["native", "uml", "qemu-tcg-paravirt"]
LANDED_SHARE_MIN = 0.95
LANDED_SHARE_MAX = 1.10
"""More than was injected may not land there either: other time would have been called by its name."""
UNEXPLAINED_SHARE_MAX = 0.10
TICK = {"probe": "tick", "loop": "68us", "duration": "4s"}
THROTTLED_NS = 50_000_000
"""What the kernel's default limit takes of each second; what begins later in one second lasts longer in the next."""
TICK_MAX_NS = 10_000_000
"""Of a kernel with HZ=100, such as Debian's User-Mode Linux."""
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
    text = f"injected {truth_ns / 1e6:.1f} ms, landed {landed_ns / 1e6:.1f} ms; {attributed.text()}"
    assert truth_ns > 50e6, text
    assert LANDED_SHARE_MIN * truth_ns <= landed_ns <= LANDED_SHARE_MAX * truth_ns, text
    assert attributed.unexplained_share < UNEXPLAINED_SHARE_MAX, text
    return text


Test = Callable[[str, Path, Callable[[str], None]], Coroutine[Any, Any, None]]


def must_break_twice(test: Test) -> Test:
    """Measure once more if the rule was broken."""

    @functools.wraps(test)
    async def tried(platform: str, tmp_path: Path, tell: Callable[[str], None]) -> None:
        try:
            await test(platform, tmp_path / "first", tell)
        except AssertionError as broken:
            tell(f"attribution, measured again: {str(broken).splitlines()[0][:200]}")
            await test(platform, tmp_path / "second", tell)

    return tried


def value_ns(reading: Reading) -> float:
    assert isinstance(reading, Value), reading
    assert isinstance(reading.value, int | float)
    return reading.value


@pytest.fixture(params=PLATFORMS)
async def platform(request: pytest.FixtureRequest) -> str:
    await require_usable(str(request.param))
    return str(request.param)


@must_break_twice
async def test_a_hog_of_higher_priority_is_named(platform: str, tmp_path: Path, tell: Callable[[str], None]) -> None:
    hog = {"kind": "process", "load": "cpu-load", "cpus": "measured", "priority": 90, "on": "5ms", "off": "45ms"}
    attributed = await measure_attributed(campaign(platform, {"neighbours": [hog]}), tmp_path)
    kind = "thread" if platform == "native" else "host_preempted"
    text = judge(attributed, load_on_ns(attributed), lambda cause: (cause.kind, cause.name) == (kind, "neighbour 1"))
    tell(f"attribution, hog: {text}")


@must_break_twice
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


@must_break_twice
async def test_a_quota_is_found(platform: str, tmp_path: Path, tell: Callable[[str], None]) -> None:
    scenario = {"share": {"quota_percent": 50}, **({"priority": 0} if platform == "native" else {})}
    attributed = await measure_attributed(campaign(platform, scenario), tmp_path)
    views = attributed.trial.record.host_views
    assert views is not None
    # What always wants to run loses what the quota leaves out. The kernel's own count covers more than the trial.
    text = judge(attributed, 0.5 * measured_ns(attributed.trial), lambda cause: cause.kind == "quota_throttling")
    assert value_ns(views.throttled_ns) >= 0.45 * measured_ns(attributed.trial), views
    tell(f"attribution, quota of 50 %: {text}; cpu.stat around the trial {value_ns(views.throttled_ns) / 1e6:.1f} ms")


@must_break_twice
async def test_a_thief_inside_the_machine_is_named(platform: str, tmp_path: Path, tell: Callable[[str], None]) -> None:
    injection = {"every": "50ms", "steal": "5ms"}
    attributed = await measure_attributed(campaign(platform, {}, injection=injection), tmp_path)
    text = judge(
        attributed,
        injected_ns(attributed.trial),
        lambda cause: (cause.layer, cause.kind, cause.name) == ("machine", "thread", "injection"),
    )
    tell(f"attribution, thief inside: {text}")


@must_break_twice
async def test_rt_throttling_is_found(platform: str, tmp_path: Path, tell: Callable[[str], None]) -> None:
    # Natively somebody must wait for the CPU: newer kernels hold a real-time thread back only then.
    waiting = {"kind": "process", "load": "cpu-load", "cpus": "measured"}
    scenario = {"neighbours": [waiting]} if platform == "native" else {}
    document = campaign(platform, scenario, lift_rt_throttling=False)
    attributed = await measure_attributed(document, tmp_path)
    stalls = [spike for spike in attributed.attribution.worst if spike.excess_ns > STALL_NS]
    assert 3 <= len(stalls) <= 5, attributed.text()
    parts = [part for stall in stalls for part in stall.parts]
    held_back_ns = sum(part.ns for part in parts if part.cause.kind == "rt_throttling")
    unexplained_ns = sum(part.ns for part in parts if part.cause.kind == "unexplained")
    truth_ns = sum(min(stall.excess_ns, THROTTLED_NS) for stall in stalls)
    figures = f"injected {truth_ns / 1e6:.1f} ms, landed {held_back_ns / 1e6:.1f} ms"
    text = f"{len(stalls)} stalls, {figures}; {attributed.text()}"
    assert held_back_ns >= LANDED_SHARE_MIN * truth_ns, text
    # A stall lasts until a tick ends it; nothing else may have been called by this name.
    assert held_back_ns <= (THROTTLED_NS + TICK_MAX_NS) * len(stalls), text
    assert unexplained_ns < UNEXPLAINED_SHARE_MAX * sum(stall.excess_ns for stall in stalls), text
    tell(f"attribution, RT throttling: {text}")
