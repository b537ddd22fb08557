"""Campaigns: what is wrong in a file is named with its line; a plan is interleaved and honest."""

from pathlib import Path

import pytest

from stealtime.campaigns.aliases import wanted_platforms
from stealtime.campaigns.estimate import History, estimate
from stealtime.campaigns.file import builtin_names, find_campaign, read_campaign
from stealtime.campaigns.model import Campaign
from stealtime.campaigns.overrides import Overrides, apply_overrides, refuse_difference, shorten
from stealtime.campaigns.places import HostCpus
from stealtime.campaigns.planner import plan
from stealtime.campaigns.probe_options import probe_options
from stealtime.store.model import PlatformRecord
from stealtime.vocabulary import quantities
from stealtime.vocabulary.errors import StealtimeError, UsageError

HOST = HostCpus((0, 1))
LOOP, THREADS, _ = probe_options()
TICK = '[[probes]]\nprobe = "tick"\nduration = "5s"\n'


def usable(*names: str) -> list[PlatformRecord]:
    return [PlatformRecord(name=name, usable=True, reason="") for name in names]


@pytest.mark.parametrize("name", builtin_names())
def test_a_builtin_campaign_is_read_and_written_back_the_same(name: str) -> None:
    campaign = find_campaign(name)
    assert campaign.name == name
    assert Campaign.model_validate(campaign.document()) == campaign


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('name = "x"\nplatform = ["native"]\n' + TICK, "f.toml, line 2: unknown key 'platform'", "'platforms'"),
        ('name = "x"\n' + TICK + 'interval = "1ms"\n', "line 5: unknown key 'interval' in [[probes]] 1", "known here"),
        (f'name="x"\n{TICK}[[probes]]\nprobe="wakeup"\nduraton=""', "7: unknown key 'duraton' in [[probes]] 2",
         "'duration'"),
        ('name = "x"\n' + TICK.replace("5s", "5"), "line 4: duration in [[probes]] 1: '5' has no unit", None),
        ('name = "x"\n' + TICK.replace("tick", "tack"), "line 2: probe in [[probes]] 1 is 'tack'", "'tick'"),
        ('name = "x"\n[[probes]]\nduration = "1s"', "line 2: the key 'probe' in [[probes]] 1 is missing", "tick"),
        ('name = "x"\n', "the key 'probes' is missing", None),
        ('name = "x"\nrepetitions = 0\n' + TICK, "line 2: repetitions = 0", None),
        ('name = "x"\nscenarios = ["crowd"]\n' + TICK, "line 2: scenarios: there is no scenario 'crowd'", None),
        ('name = "x"\nmemory = 3\n' + TICK, "line 2: memory: 3 is not text", None),
        (f'name="x"\ntracing="maybe"\n{TICK}', "line 2: tracing = 'maybe': it must be 'off', 'on' or 'both'", None),
        (f'name="x"\n{TICK}[short.tik]\nduration="1s"', "line 5: unknown key 'short.tik'", "'tick'"),
        (f'name="x"\n{TICK}[short.tick]\ndurtion="1s"', "line 6: unknown key 'short.tick.durtion'", "'duration'"),
        (f'name="x"\n{TICK}[[define]]\nname="alone"', "line 5: define: the scenario 'alone' is builtin", None),
        (f'name="x"\n{TICK}[[define]]\nname="y"\n[[define.neighbours]]\nkind="machine"\nlode="cpu-load"',
         "line 9: unknown key 'lode' in [[define.neighbours]] 1 in [[define]] 1", "'load'"),
        ("name = ", "f.toml is not TOML", "toml.io"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_campaign_is_named_with_its_place(text: str, message: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        read_campaign(text, "f.toml")
    assert message in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")


def test_an_unknown_campaign_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'quik'") as caught:
        find_campaign("quik")
    assert "'quick'" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="there is no campaign"):
        find_campaign(str(tmp_path))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        find_campaign(str(tmp_path / "binary.toml"))


def test_repetitions_are_interleaved_and_the_order_is_that_of_the_seed() -> None:
    campaign = read_campaign('name = "x"\nrepetitions = 4\n' + TICK, "f")
    planned = plan(campaign, usable("native", "uml", "b", "c", "d"), HOST)
    assert [boot.platform for boot in planned.boots[:5]] == ["native", "uml", "b", "c", "d"]
    for repetition in range(1, 5):
        boots = [boot.platform for boot in planned.boots if boot.repetition == repetition]
        assert sorted(boots) == ["b", "c", "d", "native", "uml"]
    assert planned == plan(campaign, usable("native", "uml", "b", "c", "d"), HOST)
    other = campaign.model_copy(update={"seed": 2})
    assert plan(other, usable("native", "uml", "b", "c", "d"), HOST).boots != planned.boots


def test_what_cannot_be_used_is_skipped_with_its_reason() -> None:
    campaign = read_campaign('name = "x"\nplatforms = ["usable", "uml"]\n' + TICK, "f")
    absent = PlatformRecord(name="uml", usable=False, reason="linux.uml is not installed")
    planned = plan(campaign, [*usable("native"), absent], HOST)
    assert planned.skipped == (absent,)
    assert planned.skipped_by_name == [absent]
    with pytest.raises(StealtimeError, match=r"uml: linux\.uml is not installed"):
        plan(campaign, [absent], HOST)


def test_usable_stands_for_all_platforms_each_once() -> None:
    campaign = read_campaign('name = "x"\nplatforms = ["uml", "usable", "ssh:here"]\n' + TICK, "f")
    assert wanted_platforms(campaign.platforms, ["native", "uml"]) == ["uml", "native", "ssh:here"]


def test_a_cell_that_is_asked_for_twice_is_refused() -> None:
    campaign = read_campaign('name = "x"\n' + TICK + TICK, "f")
    with pytest.raises(UsageError, match=r"native\.alone\.tick-68us twice"):
        plan(campaign, usable("native"), HOST)


def test_a_plan_without_what_is_there_has_no_empty_boots() -> None:
    planned = plan(read_campaign('name = "x"\nrepetitions = 2\n' + TICK, "f"), usable("native"), HOST)
    left = planned.without({"native.alone.tick-68us.r1"})
    assert [cell.trial_id for cell in left.cells] == ["native.alone.tick-68us.r2"]
    assert len(left.boots) == 1


def test_the_estimate_adds_up_and_says_what_was_guessed() -> None:
    planned = plan(read_campaign('name = "x"\n' + TICK, "f"), usable("native", "uml"), HOST)
    expected = estimate(
        planned, History({"native": 0.25}, {("native", "tick", False): 0.125, ("uml", "tick", False): 1.0})
    )
    assert expected.measuring_s == 10
    assert expected.overhead_s == 1.125
    assert expected.booting_s == 2.25
    assert expected.total_s == 13.375
    assert expected.guessed == ("uml",)


def test_the_estimate_of_a_driver_is_what_its_trials_took_or_what_its_probe_says() -> None:
    text = 'name = "x"\nscenarios = ["telephony"]\n[[probes]]\nprobe = "call"\nduration = "5s"\nmode = ["off"]\n'
    planned = plan(read_campaign(text, "f"), usable("native"), HOST)
    unknown = estimate(planned, History())
    assert (unknown.booting_s, unknown.guessed) == (0, ("native",))
    # 5 calls, of two streams each: 0.2 s to register and to call; and a server that is set up before.
    assert unknown.overhead_s == pytest.approx(6.2 + 8.0)
    known = estimate(planned, History({}, {("native", "call", False): 2.5}))
    assert (known.total_s, known.guessed) == (7.5, ())


def test_cells_can_be_left_out_of_the_short_form() -> None:
    both = 'name = "x"\n' + TICK + "short = false\n" + TICK.replace("tick", "wakeup") + "[short]\n"
    assert [cells.probe for cells in shorten(read_campaign(both, "f")).probes] == ["wakeup"]
    with pytest.raises(UsageError, match="nothing left"):
        shorten(read_campaign('name = "x"\n' + TICK + "short = false\n[short]\n", "f"))


def test_options_change_the_campaign() -> None:
    changed = apply_overrides(
        find_campaign("quick"),
        Overrides(
            platforms=("native",), probes=("switch",), duration_ns=10**9, of_probes={THREADS: [2, 4]}, priority=90
        ),
    )
    assert changed.platforms == ["native"]
    (switch,) = changed.probes
    assert switch.duration_ns == 10**9
    assert [one.stored["threads"] for one in switch.parameter_sets()] == [2, 4]
    assert changed.priority == 90


def test_durations_and_sizes_that_were_read_are_not_turned_to_text_and_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    campaign = find_campaign("hyperv2013")
    monkeypatch.delattr(quantities, "_parse")
    changed = apply_overrides(campaign, Overrides(duration_ns=10**9, of_probes={LOOP: 5_000}, repetitions=3))
    assert {cells.duration_ns for cells in changed.probes} == {10**9}
    assert changed.memory_bytes == campaign.memory_bytes


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (Overrides(probes=("tack",)), "'tack'"),
        (Overrides(probes=("tick",), of_probes={THREADS: [2]}), "--threads"),
        (Overrides(of_probes={THREADS: [1]}), "threads cannot be 1"),
        (Overrides(priority=100), "priority cannot be 100"),
    ],
)
def test_an_option_that_cannot_be_is_refused(overrides: Overrides, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        apply_overrides(find_campaign("quick"), overrides)


def test_a_run_is_not_resumed_with_another_campaign() -> None:
    campaign = find_campaign("quick")
    refuse_difference(campaign.document(), campaign.document())
    changed = apply_overrides(campaign, Overrides(repetitions=3))
    with pytest.raises(UsageError, match="'repetitions': 3 instead of 4"):
        refuse_difference(campaign.document(), changed.document())


def test_a_known_disturbance_leaves_something_to_measure() -> None:
    text = 'name = "x"\n[injection]\nevery = "5ms"\nsteal = "{}"\n[[probes]]\nprobe = "tick"\nduration = "1s"\n'
    campaign = read_campaign(text.format("1ms"), "x.toml")
    assert campaign.injection is not None
    assert (campaign.injection.every_ns, campaign.injection.steal_ns) == (5_000_000, 1_000_000)
    with pytest.raises(UsageError, match="5ms cannot be stolen every 5ms"):
        read_campaign(text.format("5ms"), "x.toml")


def test_the_short_form_leaves_out_what_bounds_the_long_one() -> None:
    full = find_campaign("hyperv2013")
    short = apply_overrides(full, Overrides(short=True, scenarios=("one-to-one",)))
    assert [cells.max_samples for cells in full.probes] == [12_500_000, 2_500_000]
    assert [cells.max_samples for cells in short.probes] == [None, None]
    assert max(cells.duration_ns for cells in short.probes) <= 10 * 10**9
    assert short.scenarios == ["one-to-one"]
    assert Campaign.model_validate(short.document()) == short
    with pytest.raises(UsageError, match="quick has no short form"):
        apply_overrides(find_campaign("quick"), Overrides(short=True))


def test_the_short_form_of_hyperv2013_takes_at_most_twelve_minutes_of_measuring_and_booting() -> None:
    campaign = apply_overrides(find_campaign("hyperv2013"), Overrides(short=True))
    records = usable("native", "qemu-tcg-emulated", "qemu-tcg-paravirt")
    planned = plan(campaign, records, HOST)
    assert estimate(planned, History()).total_s < 12 * 60
    assert {cell.cell.scenario for cell in planned.cells} == set(campaign.scenarios) - {"two-to-all-memory"}
    assert [one.name for one in planned.skipped_scenarios] == ["two-to-all-memory"]
    assert any("needs 3 CPUs, here are 2" in words for words in planned.skipped_words)


@pytest.mark.parametrize(("cpus", "counts"), [(1, [0]), (2, [0, 1]), (6, [0, 1, 2, 3, 5])])
def test_the_machine_under_test_never_shares_its_cpu_with_a_neighbour_that_copies(cpus: int, counts: list[int]) -> None:
    planned = plan(
        apply_overrides(find_campaign("copying"), Overrides(short=True)), usable("native"), HostCpus(tuple(range(cpus)))
    )
    placements = {boot.scenario: planned.placement(boot.platform, boot.scenario) for boot in planned.boots}
    assert [len(one.neighbours) for one in placements.values()] == counts
    for one in placements.values():
        assert one.vcpu_cpus == ((cpus - 1,),)
        assert all(cpus - 1 not in neighbour.cpus for neighbour in one.neighbours)
    assert len(planned.skipped_scenarios) == len(find_campaign("copying").scenarios) - len(counts)


def test_an_alias_stands_for_kvm_where_it_works_and_else_for_tcg_and_says_so() -> None:
    campaign = read_campaign('name = "x"\nplatforms = ["native", "emulated"]\n' + TICK, "f")
    names = wanted_platforms(campaign.platforms, ["native", "uml"])
    assert names == ["native", "qemu-kvm-emulated", "qemu-tcg-emulated"]
    no_kvm = PlatformRecord(name="qemu-kvm-emulated", usable=False, reason="there is no /dev/kvm")
    planned = plan(campaign, [*usable("native", "qemu-tcg-emulated"), no_kvm], HOST)
    assert [boot.platform for boot in planned.boots] == ["native", "qemu-tcg-emulated"]
    assert planned.alias_words == (
        "emulated stands for qemu-tcg-emulated (qemu-kvm-emulated cannot be used: there is no /dev/kvm)",
    )
    assert planned.skipped == ()
    planned = plan(campaign, usable("native", "qemu-kvm-emulated", "qemu-tcg-emulated"), HOST)
    assert [boot.platform for boot in planned.boots] == ["native", "qemu-kvm-emulated"]
    assert planned.alias_words == ("emulated stands for qemu-kvm-emulated",)
    no_tcg = PlatformRecord(name="qemu-tcg-emulated", usable=False, reason="QEMU is not installed")
    planned = plan(campaign, [*usable("native"), no_kvm, no_tcg], HOST)
    assert [record.name for record in planned.skipped_by_name] == ["qemu-tcg-emulated"]


def test_a_campaign_defines_scenarios_and_ordinary_priority() -> None:
    text = """name = "x"
priority = 0
scenarios = ["alone", "bursts"]
[[define]]
name = "bursts"
cpus = "all"
[[define.neighbours]]
kind = "process"
load = "memory-load"
cpus = "measured"
on = "5s"
off = "5s"
"""
    campaign = read_campaign(text + TICK, "f")
    assert Campaign.model_validate(campaign.document()) == campaign
    assert campaign.priority == 0
    placement = plan(campaign, usable("native"), HOST).places.here["bursts"]
    assert placement.neighbours[0].on_ns == 5 * 10**9
    with pytest.raises(UsageError, match="there is no scenario 'burst'") as caught:
        apply_overrides(campaign, Overrides(scenarios=("burst",)))
    assert "'bursts'" in (caught.value.hint or "")


def test_a_probe_is_traced_as_it_says_itself() -> None:
    campaign = read_campaign('name = "x"\ntracing = "both"\n' + TICK + 'tracing = "off"\n', "f")
    assert [cell.cell.traced for cell in plan(campaign, usable("native"), HOST).cells] == [False]
    forced = apply_overrides(campaign, Overrides(tracing="on"))
    assert [cell.trial_id for cell in plan(forced, usable("native"), HOST).cells] == [
        "native.alone.tick-68us.traced.r1"
    ]


def test_a_switch_at_ordinary_priority_is_refused_before_anything_is_measured() -> None:
    switch = '[[probes]]\nprobe = "switch"\nduration = "1s"\n'
    campaign = read_campaign('name = "x"\npriority = 0\n' + switch, "f")
    with pytest.raises(UsageError, match="switch needs SCHED_FIFO, and the campaign has priority 0"):
        plan(campaign, usable("native"), HOST)
    own = 'name = "x"\nscenarios = ["calm"]\n[[define]]\nname = "calm"\npriority = 0\n'
    with pytest.raises(UsageError, match="the scenario calm has priority 0"):
        plan(read_campaign(own + switch, "f"), usable("native"), HOST)
    assert plan(read_campaign(own + TICK, "f"), usable("native"), HOST).boots


@pytest.mark.parametrize(
    ("written", "lifted"),
    [("false", []), ("true", ["native", "uml", "ssh:box"]), ('"guests"', ["uml"])],
)
def test_rt_throttling_is_lifted_where_the_campaign_says(written: str, lifted: list[str]) -> None:
    text = f'name = "x"\nlift_rt_throttling = {written}\n[[probes]]\nprobe = "tick"\nduration = "1s"\n'
    campaign = read_campaign(text, "x.toml")
    assert [name for name in ("native", "uml", "ssh:box") if campaign.lifts_rt_throttling(name)] == lifted


def test_a_key_of_an_earlier_version_is_read_with_a_hint(caplog: pytest.LogCaptureFixture) -> None:
    table = '[[probes]]\nprobe = "failover"\nduration = "5s"\n'
    (cells,) = read_campaign(f'name = "x"\n{table}blow = ["silent"]\n', "mine.toml").probes  # old name
    assert [one.stored["fault"] for one in cells.parameter_sets()] == ["silent"]
    assert "hint: mine.toml: the key `blow` of the probe failover is called `fault` now" in caplog.text
