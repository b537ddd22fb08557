"""The campaign ``stretch``: planned for machines of several sizes, run on scripted ones, stored, shown, compared."""

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command import Command
from scripted_agent import CONTENTION, ScriptedPlatform

from stealtime.campaigns.estimate import History, estimate
from stealtime.campaigns.file import find_campaign
from stealtime.campaigns.overrides import shorten
from stealtime.campaigns.places import HostCpus
from stealtime.campaigns.planner import Plan, plan
from stealtime.capacity.recorder import read_rows
from stealtime.lab.platforms.kvm_counters import CountersGained
from stealtime.report.claims.judgement import Ours, judge
from stealtime.report.claims.library import find_published
from stealtime.report.interval import Interval
from stealtime.store.model import PlatformRecord
from stealtime.store.run import Trial, find_run
from stealtime.studies.stretch.analysis.cell import summarize_cell
from stealtime.studies.stretch.analysis.model import StretchCell
from stealtime.studies.stretch.probes import ContendParameters
from stealtime.studies.stretch.results import Contention
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Absent, Reading, Value


def planned(cpus: int, *platforms: str) -> Plan:
    records = [PlatformRecord(name=name, usable=True, reason="") for name in platforms]
    return plan(find_campaign("stretch"), records, HostCpus(tuple(range(cpus))))


@pytest.mark.parametrize(("cpus", "vcpus", "rest", "twice"), [(2, 1, 1, 3), (4, 2, 1, 3), (5, 2, 1, 4)])
def test_guests_have_half_of_the_cpus_and_guests_like_them_fill_the_host_once_and_twice(
    cpus: int, vcpus: int, rest: int, twice: int
) -> None:
    placements = planned(cpus, "native", "qemu-kvm-paravirt").places.here
    assert len(placements["whole"].vcpu_cpus) == cpus
    counts = {name: (len(one.vcpu_cpus), len(one.neighbours)) for name, one in placements.items() if name != "whole"}
    assert counts == {
        "half": (vcpus, 0), "filled": (vcpus, rest), "overcommitted": (vcpus, twice), "weights": (vcpus, twice),
        "reservation": (vcpus, twice),
    }  # fmt: skip
    beside = [one for placement in placements.values() for one in placement.neighbours]
    assert {(one.load, one.vcpus, one.priority) for one in beside} == {("same-work", vcpus, 0)}
    if cpus % 2 == 0:
        full = placements["overcommitted"]
        pinned = [*full.vcpu_cpus, *(one for neighbour in full.neighbours for one in neighbour.each_vcpu)]
        assert sorted(pinned) == sorted([(cpu,) for cpu in range(cpus)] * 2), "two on each CPU"


def test_two_guests_are_favoured_whatever_the_size_of_the_machine() -> None:
    for cpus in (2, 4, 8):
        placements = planned(cpus, "qemu-kvm-paravirt").places.here
        weights = placements["weights"]
        assert weights.share is not None
        found = [weights.share.weight, *(one.share.weight for one in weights.neighbours if one.share is not None)]
        assert found == [300, 300, 100, 100]
        reservation = placements["reservation"]
        quotas = [0.0 if one.share is None else one.share.quota_percent or 0.0 for one in reservation.neighbours]
        assert (reservation.share, quotas[0]) == (None, 0.0)
        # A third of all CPUs is left to the others together.
        assert sum(quotas) / 100 == pytest.approx(cpus / 3, rel=0.01)


def test_a_plan_expects_as_much_more_time_as_there_are_guests_for_each_cpu() -> None:
    found = planned(2, "native", "uml")
    first = next(one for one in found.cells if one.cell.platform == "uml")
    one_cpu_s = ContendParameters.of(first.cell).expected_ns / 1e9
    # Natively on two CPUs; one guest; two on two; and three times four on two.
    assert estimate(found, History()).measuring_s == pytest.approx(6 * one_cpu_s * (1 / 2 + 1 + 1 + 3 * 2))


def test_native_is_measured_once_and_one_virtual_cpu_is_never_all_of_two() -> None:
    found = planned(2, "native", "uml")
    assert {(boot.platform, boot.scenario) for boot in found.boots if boot.platform == "native"} == {
        ("native", "whole")
    }
    assert ("uml", "whole") not in {(boot.platform, boot.scenario) for boot in found.boots}
    assert found.skipped_words[-1] == ("skipping whole of uml: its machines have 1 virtual CPU, and 2 are wanted")
    assert planned(1, "uml").skipped_pairs == ()


def test_a_campaign_that_is_possible_for_none_of_its_platforms_says_so() -> None:
    campaign = find_campaign("stretch").model_copy(update={"scenarios": ["whole"]})
    with pytest.raises(StealtimeError, match="none of the platforms uml can be had in any scenario of stretch"):
        plan(campaign, [PlatformRecord(name="uml", usable=True, reason="")], HostCpus((0, 1)))


def test_only_the_amount_of_work_and_what_is_not_as_usual_stands_in_the_name_of_a_cell() -> None:
    (cells,) = shorten(find_campaign("stretch")).probes
    assert [one.stored for one in cells.parameter_sets()] == [{"iterations": 16, "tasks": 8}]
    quiet = cells.model_copy(update={"io_mean_ns": "none", "lock_percent": 50})
    (parameters,) = quiet.parameter_sets()
    assert parameters.stored == {"io_mean_ns": 0, "iterations": 16, "lock_percent": 50, "tasks": 8}
    request = parameters.request({}, 1)
    assert request.model_dump() == {
        "name": "contend", "tasks": 8, "iterations": 16, "collection_bytes": 1 << 20, "searches": 60, "io_mean_ns": 0,
        "io_spread_percent": 100, "lock_percent": 50, "lock_searches": 1, "seed": 1, "each_iteration": True,
    }  # fmt: skip


def test_it_is_run_stored_shown_and_held_against_hyper_v(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path
) -> None:
    dry = stealtime("run", "stretch", "--short", "--dry-run")
    # It ends when the work is done: no cell takes its minute.
    assert (dry.code, "measuring" in dry.out + dry.err) == (0, True)
    assert "measuring 2" not in dry.out
    ended = stealtime("run", "stretch", "--short", "--json")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert {cell["study"] for cell in document["cells"]} == {"stretch"}
    by_scenario = {cell["scenario"]: cell for cell in document["cells"]}
    assert by_scenario["half"]["against_native"]["ratio"] == 1.0
    # Its virtual CPUs are pinned, and its neighbours are on all CPUs.
    cpus = len(os.sched_getaffinity(0))
    assert (by_scenario["half"]["own_cpus"], by_scenario["half"]["host_cpus"]) == (max(1, cpus // 2), cpus)
    assert by_scenario["half"]["iterations"] == {"count": 8, "p50_ms": 600.0, "p95_ms": 600.0, "max_ms": 600.0}
    run = find_run("last", tmp_path / "data/stealtime/runs")
    trial = run.measured[0]
    assert trial.result(Contention).elapsed_ns == CONTENTION["elapsed_ns"]
    assert trial.result(Contention).run_delay_ns is None
    assert trial.result(Contention).fault_cpu_ns == CONTENTION["fault_cpu_ns"]
    assert pq.read_metadata(trial.table("iterations")).num_rows == 2
    # It was over at once: no whole second.
    assert read_rows(trial.table("host_counters")) == []
    for scenario, subjects in (("whole", ["host"]), ("half", ["host", "machine"])):
        assert [one["subject"] for one in by_scenario[scenario]["provisioning"]] == subjects
    assert {one["because"] for cell in document["cells"] for one in cell["provisioning"]} == {
        "no repetition lasted for a whole second, which is the shortest interval"
    }
    shown = stealtime("show", "--all")
    assert "Stretch: how many times as long" in shown.out
    assert "Where the seconds went" in shown.out
    assert "Provisioning while the work was done" in shown.out
    assert "not judged, because no repetition lasted" in " ".join(shown.out.split())
    page = (run.folder / "report.html").read_text()
    assert page.index('id="stretch"') < page.index('id="lost-seconds"') < page.index('id="provisioning"')
    assert page.index('id="provisioning"') < page.index('id="environment"')
    compared = stealtime("compare", "last", "--published", "hyperv-stretch")
    assert "147" not in compared.err
    assert "disagrees" in compared.out, compared.out
    # Elapsed times have neither samples nor percentiles.
    assert "p99.99" not in compared.out
    assert "of how many samples" not in compared.out


def test_time_outside_of_the_guest_is_known_where_kvm_tells_all_of_it(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path
) -> None:
    assert stealtime("run", "stretch", "--short", "--repetitions", "1").code in (0, 4)
    trials = find_run("last", tmp_path / "data/stealtime/runs").measured
    guest = next(one for one in trials if one.record.cell.platform == "uml")
    (views,) = [guest.record.host_views]
    assert views is not None
    run_ns, in_guest_ns = Value(value=2_000_000_000), Value(value=1_500_000_000)
    counts = {"exits": 70_000, "halt_poll_success_ns": 100_000_000, "halt_poll_fail_ns": 50_000_000}

    def figures(guest_ns: Reading, counted: dict[str, int] | None) -> StretchCell:
        total: dict[str, Reading] = {name: Value(value=count) for name, count in (counted or {}).items()}
        counters = CountersGained(
            vcpus=(total,), total=total, begin_monotonic_raw_ns=0, end_monotonic_raw_ns=1, reading_ns=1
        )
        update = {
            "host_views": views.model_copy(update={"run_ns": run_ns, "guest_ns": guest_ns}),
            "hypervisor_counters": Absent(absent="not KVM") if counted is None else counters,
        }
        return summarize_cell([Trial(guest.folder, guest.record.model_copy(update=update))])

    whole = figures(in_guest_ns, counts)
    assert whole.repetitions[0].outside_guest_s == pytest.approx(0.35)
    assert whole.repetitions[0].exits == 70_000
    assert "outside_guest_s" not in whole.not_counted
    for lacking, why in (
        (figures(in_guest_ns, None), "not KVM"),
        (figures(in_guest_ns, {"exits": 7}), "KVM gave no time of polling"),
        (figures(Absent(absent="only KVM"), counts), "only KVM"),
    ):
        assert lacking.repetitions[0].outside_guest_s is None
        assert lacking.not_counted["outside_guest_s"] == why
    # The scripted agent has no counters, and says nothing of why.
    assert whole.not_counted["instructions"] == "its agent did not ask for them"


def test_the_published_figures_give_the_stretch_that_was_published() -> None:
    published = find_published("hyperv-stretch")
    stretch = {row.scenario: published.figure(row, "guest") / published.figure(row, "native") for row in published.rows}
    assert {name: round(ratio, 2) for name, ratio in stretch.items()} == {
        "whole": 1.17, "half": 1.63, "overcommitted": 4.11, "weights": 2.56, "reservation": 3.0,
    }  # fmt: skip
    assert all(published.figure(row, "guest") == published.figure(row, "uml") for row in published.rows)


def test_a_stretch_agrees_with_a_published_one_only_where_its_interval_says_the_same() -> None:
    rules = {claims.rule for claims in find_published("hyperv-stretch").claims}
    assert rules == {"equal_ratio"}

    def verdict(value: float, low: float, high: float) -> str:
        return judge(4.11, Ours(value, None, None, Interval(value, low, high)), "equal_ratio").verdict

    assert verdict(6.97, 6.1, 7.9) == "disagrees"
    assert verdict(4.0, 3.9, 4.2) == "agrees"
    assert verdict(4.0, 3.0, 5.0) == "not judged"
    assert verdict(4.6, 4.2, 5.0) == "not judged"
