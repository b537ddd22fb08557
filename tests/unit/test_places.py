"""Where a campaign's platforms are measured: on this host, and on hosts over ssh by the CPUs of those."""

import pytest

from stealtime.campaigns.file import read_campaign
from stealtime.campaigns.places import HostCpus, find_places
from stealtime.lab.processors import CpuSets
from stealtime.vocabulary.errors import StealtimeError, UsageError

BOARD = "ssh:board"
CAMPAIGN = read_campaign(
    """
    name = "both"
    platforms = ["native", "ssh:board"]
    scenarios = ["alone", "two-to-all-memory"]
    [[probes]]
    probe = "tick"
    duration = "1s"
    """,
    "f",
)
HERE = HostCpus((0, 1))
FOUR = CpuSets((0, 1, 2, 3), (0, 1, 2, 3))


def test_a_board_is_placed_by_its_own_cpus() -> None:
    places = find_places(CAMPAIGN, ["native", BOARD], HERE, {BOARD: FOUR})
    here, there = places.of("native", "alone"), places.of(BOARD, "alone")
    assert here is not None
    assert there is not None
    assert (here.measured_cpu, there.measured_cpu) == (1, 3)
    assert places.of("native", "two-to-all-memory") is None
    assert places.of(BOARD, "two-to-all-memory") is not None
    assert places.skipped == ()


def test_a_cpu_that_is_named_is_one_of_the_board_where_only_that_is_measured() -> None:
    places = find_places(CAMPAIGN, [BOARD], HostCpus((0, 1), measured=3), {BOARD: FOUR})
    there = places.of(BOARD, "alone")
    assert there is not None
    assert there.measured_cpu == 3
    # The loop is calibrated here, on a CPU that there is.
    assert places.own.measured_cpu == 1


def test_a_cpu_that_the_board_lacks_is_refused_with_its_name() -> None:
    with pytest.raises(UsageError, match="CPU 4 does not exist or may not be used on ssh:board"):
        find_places(CAMPAIGN, [BOARD], HostCpus((0, 1), measured=4), {BOARD: FOUR})
    with pytest.raises(UsageError, match=r"CPU 3 does not exist or may not be used$"):
        find_places(CAMPAIGN, ["native", BOARD], HostCpus((0, 1), measured=3), {BOARD: FOUR})


def test_a_scenario_that_neither_can_have_is_skipped_once() -> None:
    two = CpuSets((0, 1), (0, 1))
    places = find_places(CAMPAIGN, ["native", BOARD], HERE, {BOARD: two})
    assert [one.name for one in places.skipped] == ["two-to-all-memory"]
    only = CAMPAIGN.model_copy(update={"scenarios": ("two-to-all-memory",)})
    with pytest.raises(StealtimeError, match="no scenario of both is possible here"):
        find_places(only, ["native", BOARD], HERE, {BOARD: two})


def test_a_board_with_an_isolated_cpu_is_measured_there() -> None:
    isolated = CpuSets((0, 2, 3), (0, 1, 2, 3), (1,))
    places = find_places(CAMPAIGN, [BOARD], HERE, {BOARD: isolated})
    there = places.of(BOARD, "alone")
    assert there is not None
    assert there.measured_cpu == 1


def test_fewer_cpus_than_are_granted_are_told_of_though_one_was_named() -> None:
    """What is not measured, and each scenario that means every CPU, still goes by those that were inherited."""
    confined = CpuSets(inherited=(0, 1), granted=(0, 1, 2, 3))
    for measured in (None, 1, 3):
        places = find_places(CAMPAIGN, ["native"], HostCpus((0, 1), measured=measured, sets=confined), {})
        [remark] = places.remarks
        assert remark.startswith("this host: started on CPU 0-1 alone (taskset?), though the kernel grants CPU 0-3")


def test_that_the_kernel_keeps_a_cpu_free_is_told_where_it_decides() -> None:
    isolated = CpuSets((0, 2, 3), (0, 1, 2, 3), (1,))
    here = HostCpus(isolated.usable, sets=isolated)
    assert "free (isolcpus)" in str(find_places(CAMPAIGN, ["native"], here, {}).remarks)
    named = HostCpus(isolated.usable, measured=0, sets=isolated)
    assert find_places(CAMPAIGN, ["native"], named, {}).remarks == ()
