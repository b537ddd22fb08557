"""Where scenarios put machines and neighbours on hosts of 1 to 8 CPUs, and when they cannot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stealtime.lab.platforms.share import Share
from stealtime.lab.processors import CpuSets
from stealtime.lab.scenarios.model import SCENARIOS, NeighbourSpec, Scenario
from stealtime.lab.scenarios.placement import Placement, ScenarioSkipped
from stealtime.lab.scenarios.placing import place
from stealtime.vocabulary.errors import ExitCode, UsageError

FEWEST_CPUS = {
    "alone": 1,
    "one-to-all": 2,
    "one-to-one": 1,
    "contention-cpu": 1,
    "contention-memory": 1,
    "all-to-all-cpu": 2,
    "all-to-all-memory": 2,
    "two-to-all-memory": 3,
}
"""From how many CPUs on each scenario keeps its meaning."""


def placed_on(name: str, cpu_count: int) -> Placement:
    return place(SCENARIOS[name], tuple(range(cpu_count)), None)


def test_the_papers_seven_scenarios_are_there_in_its_order() -> None:
    numbered = [(scenario.paper_number, name) for name, scenario in SCENARIOS.items() if scenario.paper_number]
    assert numbered == list(enumerate([name for name in FEWEST_CPUS if name != "alone"], start=1))
    assert all(scenario.description for scenario in SCENARIOS.values())


@pytest.mark.parametrize("name", FEWEST_CPUS)
@pytest.mark.parametrize("cpu_count", [1, 2, 3, 4, 8])
def test_a_scenario_is_placed_or_skipped_with_the_numbers(name: str, cpu_count: int) -> None:
    if cpu_count >= FEWEST_CPUS[name]:
        assert placed_on(name, cpu_count).scenario == name
        return
    with pytest.raises(ScenarioSkipped) as caught:
        placed_on(name, cpu_count)
    assert f"{name} needs {FEWEST_CPUS[name]} CPUs, here " in caught.value.reason
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.NOT_JUDGED


def test_what_cannot_be_honest_says_what_it_would_be_instead() -> None:
    with pytest.raises(ScenarioSkipped, match="here are 2: with a neighbour on every other CPU it would be all-to-all"):
        placed_on("two-to-all-memory", 2)
    with pytest.raises(ScenarioSkipped, match="here is 1: a vCPU has nowhere to roam"):
        placed_on("one-to-all", 1)


def test_alone_measures_the_last_cpu_and_keeps_house_on_the_others() -> None:
    placement = placed_on("alone", 3)
    assert placement.vcpu_cpus == ((2,),)
    assert placement.housekeeping_cpus == placement.emulator_cpus == (0, 1)
    assert (placement.findings, placement.scaled, placement.share, placement.neighbours) == ((), None, None, ())


def test_alone_measures_the_cpu_that_was_asked_for() -> None:
    placement = place(SCENARIOS["alone"], (0, 1, 2), 0)
    assert (placement.measured_cpu, placement.vcpu_cpus, placement.housekeeping_cpus) == (0, ((0,),), (1, 2))


def test_on_the_only_cpu_all_is_shared_and_the_result_says_so() -> None:
    placement = place(SCENARIOS["alone"], (3,), None)
    assert placement.housekeeping_cpus == (3,)
    assert [finding.code for finding in placement.findings] == ["shared_cpu"]
    assert placement.findings[0].text.startswith("CPU 3 is the only one, so the control plane")


FOUR_GRANTED = CpuSets(inherited=(1,), granted=(0, 1, 2, 3))


def test_a_process_that_is_confined_to_one_cpu_of_four_is_told_how_to_lift_that() -> None:
    [finding] = place(SCENARIOS["alone"], (1,), None, FOUR_GRANTED).findings
    assert finding.code == "shared_cpu"
    assert finding.text == (
        "the process is confined to CPU 1 (taskset?), so the control plane runs on the measured CPU as well"
    )
    assert finding.hint == "start it without taskset: the kernel grants CPU 0-3"


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        (SCENARIOS["one-to-all"], "needs 2 CPUs, here is 1, since the process is confined to CPU 1 (taskset?): a vCPU"),
        (Scenario(name="pair", vcpus=2), "to a CPU each, here is 1, since the process is confined to CPU 1 (taskset?)"),
        (
            Scenario(name="beside", neighbours=[NeighbourSpec(kind="process", load="cpu-load")]),
            "those are all there are (1), since the process is confined to CPU 1 (taskset?)",
        ),
        (
            Scenario(name="others", neighbours=[NeighbourSpec(kind="process", load="cpu-load", count="others")]),
            "here is one CPU only, since the process is confined to CPU 1 (taskset?)",
        ),
    ],
)
def test_a_scenario_that_is_skipped_for_an_inherited_affinity_says_so(scenario: Scenario, reason: str) -> None:
    with pytest.raises(ScenarioSkipped) as caught:
        place(scenario, (1,), None, FOUR_GRANTED)
    assert reason in caught.value.reason
    assert caught.value.hint == "start it without taskset: the kernel grants CPU 0-3"


def test_where_the_kernel_grants_too_few_as_well_the_affinity_is_not_blamed() -> None:
    with pytest.raises(ScenarioSkipped, match="needs 3 CPUs, here is 1: ") as caught:
        place(SCENARIOS["two-to-all-memory"], (1,), None, CpuSets(inherited=(1,), granted=(0, 1)))
    assert caught.value.hint == "measure it on a machine with more CPUs"


def test_one_to_all_roams_over_two_cpus_that_the_control_plane_shares() -> None:
    placement = placed_on("one-to-all", 2)
    assert placement.vcpu_cpus == ((0, 1),)
    assert (placement.emulator_cpus, placement.housekeeping_cpus) == ((0, 1), (0,))
    [finding] = placement.findings
    assert finding.code == "shared_cpu"
    assert "CPUs 0-1" in finding.text
    assert "share CPU 0: it may run on the CPUs 0-1" in finding.text
    assert placement.scaled == (
        "the paper's host has 4 CPUs, here are 2 (0-1): the vCPU may run on 2 CPUs instead of 4"
    )


def test_one_to_one_puts_the_emulator_on_the_measured_cpu() -> None:
    placement = placed_on("one-to-one", 2)
    assert placement.vcpu_cpus == ((1,),)
    assert (placement.emulator_cpus, placement.housekeeping_cpus) == ((1,), (0,))
    assert (placement.findings, placement.scaled) == ((), None)


@pytest.mark.parametrize("kind", ["cpu", "memory"])
def test_in_contention_two_machines_share_the_measured_cpu_half_and_half(kind: str) -> None:
    placement = placed_on(f"contention-{kind}", 2)
    [neighbour] = placement.neighbours
    assert placement.vcpu_cpus == ((1,),)
    assert (neighbour.name, neighbour.kind, neighbour.load) == ("neighbour 1", "machine", f"{kind}-load")
    assert neighbour.cpus == placement.emulator_cpus == (1,)
    assert placement.share == neighbour.share == Share(quota_percent=50, weight=100)


@pytest.mark.parametrize(("cpu_count", "neighbours"), [(2, 1), (3, 2), (4, 3), (8, 7)])
def test_all_to_all_has_a_roaming_neighbour_for_each_other_cpu(cpu_count: int, neighbours: int) -> None:
    placement = placed_on("all-to-all-memory", cpu_count)
    everywhere = tuple(range(cpu_count))
    assert [neighbour.cpus for neighbour in placement.neighbours] == [everywhere] * neighbours
    assert placement.vcpu_cpus == (everywhere,)
    if cpu_count == 4:
        assert placement.scaled is None
    else:
        assert f"here are {cpu_count} " in str(placement.scaled)
        assert f"{neighbours} neighbour" in str(placement.scaled)
        assert "memory-load instead of 3" in str(placement.scaled)


def test_two_to_all_says_how_many_cpus_stay_idle() -> None:
    assert "1 CPU left idle instead of 2" in str(placed_on("two-to-all-memory", 3).scaled)
    assert len(placed_on("two-to-all-memory", 8).neighbours) == 1


def test_a_cpu_that_may_not_be_used_is_refused_with_those_that_may() -> None:
    with pytest.raises(UsageError, match="CPU 5") as caught:
        place(SCENARIOS["alone"], (0, 1), 5)
    assert "0-1" in str(caught.value.hint)
    with pytest.raises(UsageError, match="CPU 7 of '1,7'"):
        place(Scenario(name="pinned", cpus="1,7"), (0, 1), None)
    listed = Scenario(
        name="listed", neighbours=[NeighbourSpec(kind="process", load="cpu-load", cpus="2-4")], cpus="measured"
    )
    with pytest.raises(UsageError, match="CPU 4 of '2-4'"):
        place(listed, (0, 1, 2, 3), None)


def test_a_set_of_cpus_is_left_to_the_vcpu_and_the_rest_keeps_house() -> None:
    placement = place(Scenario(name="set", cpus="1-2"), (0, 1, 2, 3), None)
    assert placement.vcpu_cpus == ((1, 2),)
    assert (placement.measured_cpu, placement.housekeeping_cpus, placement.findings) == (2, (0, 3), ())


def test_further_vcpus_are_pinned_to_cpus_of_their_own_or_the_scenario_is_skipped() -> None:
    pair = Scenario(name="pair", vcpus=2)
    assert place(pair, (0, 1, 2), None).vcpu_cpus == ((0,), (2,))
    with pytest.raises(ScenarioSkipped, match="pins 2 vCPUs to a CPU each, here is 1"):
        place(pair, (0,), None)


def test_neighbours_on_the_other_cpus_need_another_cpu() -> None:
    beside = Scenario(name="beside", neighbours=[NeighbourSpec(kind="process", load="cpu-load", cpus="others")])
    assert place(beside, (0, 1, 2), None).neighbours[0].cpus == (0, 1)
    with pytest.raises(ScenarioSkipped, match="those are all there are"):
        place(beside, (0,), None)


def test_one_weight_gives_everybody_one() -> None:
    beside = NeighbourSpec(kind="process", load="cpu-load", share=Share(weight=300))
    other = NeighbourSpec(kind="process", load="cpu-load", share=Share(quota_percent=20))
    placement = place(Scenario(name="weighted", neighbours=[beside, other]), (0, 1), None)
    assert placement.share == Share(weight=100)
    assert [neighbour.share for neighbour in placement.neighbours] == [
        Share(weight=300),
        Share(quota_percent=20, weight=100),
    ]


@given(
    st.sets(st.integers(0, 200), min_size=1, max_size=12).map(lambda cpus: tuple(sorted(cpus))),
    st.sampled_from(sorted(SCENARIOS)),
    st.data(),
)
def test_nobody_is_put_where_we_may_not_run(host_cpus: tuple[int, ...], name: str, data: st.DataObject) -> None:
    measured_cpu = data.draw(st.none() | st.sampled_from(host_cpus))
    try:
        placement = place(SCENARIOS[name], host_cpus, measured_cpu)
    except ScenarioSkipped:
        assert len(host_cpus) < FEWEST_CPUS[name]
        return
    sets = [
        *placement.vcpu_cpus,
        placement.emulator_cpus,
        placement.housekeeping_cpus,
        *(neighbour.cpus for neighbour in placement.neighbours),
    ]
    assert all(cpus and set(cpus) <= set(host_cpus) for cpus in sets)
    assert placement.measured_cpu in placement.vcpu_cpus[-1]
    assert measured_cpu in (None, placement.measured_cpu)
    shared = bool(set(placement.housekeeping_cpus) & set(placement.vcpu_cpus[-1]))
    assert shared == bool(placement.findings), "a control plane on a measured CPU must be told, and nothing else"
    is_of_paper = SCENARIOS[name].paper_number is not None and SCENARIOS[name].cpus == "all"
    assert (placement.scaled is not None) == (len(host_cpus) != 4 and is_of_paper), (
        "whatever the paper has on all CPUs is scaled on every host but one like its own"
    )


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_survives_writing_and_reading(name: str) -> None:
    assert Scenario.model_validate(SCENARIOS[name].document()) == SCENARIOS[name]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"on": "5s"}, "'on' is given without 'off'"),
        ({"off": "5s"}, "'off' is given without 'on'"),
        ({"priority": 10, "kind": "machine"}, "priority 10 is only for neighbours of the kind 'process'"),
        ({"block": "9MB", "load": "cpu-load"}, "'block' is only for memory-load"),
        ({"cpus": "3-"}, "'3-' is not a CPU list"),
        ({"count": 0}, "greater than or equal to 1"),
    ],
)
def test_a_neighbour_that_cannot_be_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        NeighbourSpec.model_validate({"kind": "process", "load": "memory-load"} | fields)


def test_phases_are_read_in_nanoseconds() -> None:
    spec = NeighbourSpec.model_validate({"kind": "machine", "load": "cpu-load", "on": "5s", "off": "500ms"})
    assert (spec.on_ns, spec.off_ns) == (5_000_000_000, 500_000_000)


def test_a_neighbour_that_does_the_same_has_as_many_vcpus_and_its_quota_is_for_each_of_them() -> None:
    same = {"kind": "machine", "load": "same-work", "vcpus": "same", "cpus": "all"}
    scenario = Scenario.model_validate(
        {
            "name": "alike", "vcpus": "half", "cpus": "all",
            "neighbours": [same, {**same, "count": "twice", "share": {"quota_percent": 30}}],
        }
    )  # fmt: skip
    for cpus in (2, 4, 8):
        placement = place(scenario, tuple(range(cpus)), None)
        assert [one.vcpus for one in placement.neighbours] == [cpus // 2] * 3
        assert [one.name for one in placement.neighbours] == ["neighbour 1", "neighbour 2", "neighbour 3"]
        quotas = [one.share.quota_percent for one in placement.neighbours if one.share is not None]
        assert quotas == [30 * cpus // 2] * 2


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"kind": "process"}, "kind 'process' cannot do the same-work"),
        ({"on": "1s", "off": "1s"}, "'on' and 'off' are not for same-work"),
        ({"priority": 5}, "priority 5 is only for neighbours of the kind 'process'"),
        ({"load": "cpu-load", "vcpus": 2}, "2 virtual CPUs are only for same-work: a neighbour with cpu-load has one"),
        ({"load": "cpu-load", "vcpus": "same"}, "'same' virtual CPUs are only for same-work"),
        ({"vcpus": 0}, "greater than or equal to 1"),
    ],
)
def test_what_the_same_work_decides_is_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        NeighbourSpec.model_validate({"kind": "machine", "load": "same-work", **keys})


def test_virtual_cpus_are_pinned_in_turn_after_those_of_the_machine() -> None:
    pinned = {"kind": "machine", "load": "same-work", "vcpus": "same", "cpus": "in-turn"}
    scenario = Scenario.model_validate(
        {"name": "turns", "vcpus": 2, "cpus": "measured", "neighbours": [pinned, {**pinned, "vcpus": 1, "count": 2}]}
    )
    placement = place(scenario, (0, 1, 2, 3), 2)
    assert placement.vcpu_cpus == ((0,), (2,))
    assert [one.each_vcpu for one in placement.neighbours] == [((1,), (3,)), ((0,),), ((2,),)]
    assert [one.cpus for one in placement.neighbours] == [(1, 3), (0,), (2,)]
    roaming = place(scenario.model_copy(update={"cpus": "all"}), (0, 1, 2, 3), None)
    assert [one.each_vcpu for one in roaming.neighbours] == [((2,), (3,)), ((0,),), ((1,),)]


CONFINED = CpuSets(inherited=(0, 1), granted=(0, 1, 2, 3), isolated=(2, 3))
"""A process on a host that was booted with isolcpus=2,3."""


def test_an_isolated_cpu_is_measured_and_the_others_are_left_alone() -> None:
    placement = place(SCENARIOS["alone"], CONFINED.usable, None, CONFINED)
    assert (placement.vcpu_cpus, placement.housekeeping_cpus) == (((3,),), (0, 1))
    assert placement.findings == ()


def test_virtual_cpus_that_are_pinned_go_to_the_isolated_cpus() -> None:
    two = Scenario(name="two", description="d", vcpus=2)
    placement = place(two, CONFINED.usable, None, CONFINED)
    assert (placement.vcpu_cpus, placement.housekeeping_cpus) == (((2,), (3,)), (0, 1))


def test_a_vcpu_that_roams_over_isolated_cpus_is_limited_by_that() -> None:
    placement = place(SCENARIOS["one-to-all"], CONFINED.usable, None, CONFINED)
    assert placement.vcpu_cpus == ((0, 1, 2, 3),)
    assert "isolated_cpus_roamed" in [finding.code for finding in placement.findings]


def test_a_named_cpu_may_be_any_that_is_granted_and_a_taskset_is_respected_otherwise() -> None:
    chosen = CpuSets(inherited=(0, 1), granted=(0, 1, 2, 3))
    assert place(SCENARIOS["alone"], chosen.usable, None, chosen).vcpu_cpus == ((1,),)
    named = place(SCENARIOS["alone"], chosen.usable, 3, chosen)
    assert (named.vcpu_cpus, named.housekeeping_cpus) == (((3,),), (0, 1))
    with pytest.raises(UsageError) as refused:
        place(SCENARIOS["alone"], chosen.usable, 4, chosen)
    assert "grants the CPUs 0-3" in str(refused.value.hint)


def test_a_scenario_may_name_a_cpu_that_was_not_inherited() -> None:
    chosen = CpuSets(inherited=(0, 1), granted=(0, 1, 2, 3))
    named = Scenario(
        name="named", description="d", cpus="2-3", neighbours=[NeighbourSpec(kind="machine", load="cpu-load", cpus="3")]
    )
    placement = place(named, chosen.usable, None, chosen)
    assert placement.vcpu_cpus == ((2, 3),)
    assert placement.neighbours[0].cpus == (3,)
