"""Where one platform alone is held back by its kernel's limit, a reader is told before and after."""

from pathlib import Path
from typing import cast

import pytest

from stealtime.campaigns.model import Campaign
from stealtime.campaigns.places import Places
from stealtime.campaigns.planned import PlannedBoot
from stealtime.campaigns.planner import Plan
from stealtime.campaigns.throttling_warning import throttling_warning
from stealtime.lab.scenarios.model import SCENARIOS
from stealtime.lab.scenarios.placing import place
from stealtime.studies.latency.attribution.cells import Attributed, CauseLine, ProbeCauses, TracedCell
from stealtime.studies.latency.attribution.model import TrialAttribution
from stealtime.studies.latency.wording.cause_wording import held_back_alone


def traced(platform: str, lost_ms: float, held_back_ms: float, scenario: str = "contention-cpu") -> TracedCell:
    """Make a cell of four seconds; nothing else is asked of its trial."""
    line = CauseLine("rt_throttling", "RT throttling", held_back_ms * 1e6, held_back_ms / lost_ms, 4, 50e6)
    measured = Attributed(1, is_native=False, measured_s=4.0, told=cast("TrialAttribution", None))
    return TracedCell(
        identity="traced-0", platform=platform, scenario=scenario, probe="Clock tick", attributed=(measured,),
        refused=(), excess_ns=lost_ms * 1e6, not_judged_ns=0.0, lines=(line,) if held_back_ms else (), stack=(),
    )  # fmt: skip


def test_a_platform_that_alone_was_held_back_is_told_without_that() -> None:
    cells = (
        traced("native", 2016.0, 2000.0),
        traced("qemu-tcg-paravirt", 2000.0, 0.0),
        traced("native", 180.0, 160.0, "one-to-one"),
        traced("qemu-tcg-paravirt", 150.0, 0.0, "one-to-one"),
    )
    (words,) = held_back_alone(ProbeCauses("causes-0", "Clock tick", cells))
    assert "native alone was held back by RT throttling" in words
    assert "4.00 ms of 504 ms in contention-cpu, 5.00 ms of 45.0 ms in one-to-one" in words


@pytest.mark.parametrize("held_back_ms", [0.0, 200.0])
def test_where_all_or_none_are_held_back_there_is_nothing_to_say(held_back_ms: float) -> None:
    cells = (traced("native", 300.0, held_back_ms), traced("uml", 300.0, held_back_ms))
    assert held_back_alone(ProbeCauses("causes-0", "Clock tick", cells)) == []


def planned(*platforms: str, **changes: object) -> Plan:
    document = {"name": "x", "probes": [{"probe": "tick", "duration": "1s"}], **changes}
    boots = tuple(PlannedBoot(platform, "alone", 1, ()) for platform in platforms)
    return Plan(Campaign.model_validate(document), boots, Places({}, place(SCENARIOS["alone"], (0, 1), None)))


def limited_to(runtime_us: int, folder: Path) -> Path:
    for name, value in (("runtime", runtime_us), ("period", 1_000_000)):
        (folder / f"sched_rt_{name}_us").write_text(f"{value}\n")
    return folder


def test_a_run_says_beforehand_that_native_will_be_held_back_and_the_guests_not(tmp_path: Path) -> None:
    words = throttling_warning(planned("native", "uml"), limited_to(950_000, tmp_path))
    assert words is not None
    assert words.startswith("native is measured under RT throttling (50 ms of every 1000 ms), the guests without")


@pytest.mark.parametrize(
    "plan",
    [
        planned("native"),
        planned("uml", "qemu-tcg-paravirt"),
        planned("native", "uml", lift_rt_throttling=True),
        planned("native", "uml", lift_rt_throttling=False),
        planned("native", "uml", priority=0),
        planned("native", "uml", probes=[{"probe": "wakeup", "interval": "1ms", "duration": "1s"}]),
    ],
    ids=["native alone", "guests alone", "lifted everywhere", "lifted nowhere", "ordinary threads", "a sleeper"],
)
def test_like_with_like_needs_no_word(plan: Plan, tmp_path: Path) -> None:
    assert throttling_warning(plan, limited_to(950_000, tmp_path)) is None


def test_a_host_without_a_limit_needs_no_word(tmp_path: Path) -> None:
    assert throttling_warning(planned("native", "uml"), limited_to(-1, tmp_path)) is None
