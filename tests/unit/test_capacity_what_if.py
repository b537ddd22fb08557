"""What one more guest does to all, from counters of hosts whose right answer is known."""

import json
from pathlib import Path

import pytest
from command import make_command
from rich.console import Console
from synthetic_use import guest, use
from syrupy.assertion import SnapshotAssertion

from stealtime.capacity.counters.weights import group_weights
from stealtime.capacity.guest import Guest
from stealtime.capacity.prediction import accuracy, what_if
from stealtime.capacity.prediction.accuracy import Accuracy, live_accuracies, live_factor
from stealtime.capacity.prediction.addition import read_addition
from stealtime.capacity.prediction.document import Changes, predict
from stealtime.capacity.prediction.terminal import PredictionPage
from stealtime.capacity.prediction.what_if import Estimate, Node, named_apart, node_of
from stealtime.capacity.use import GuestUse, Use
from stealtime.lab.platforms.cgroup import CpuHierarchy
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.readings import Absent

CPUS = frozenset({0, 1})


def host(*guests: GuestUse, busy: tuple[float, ...] = (0.0, 0.0)) -> list[Use]:
    return [use(guests, busy=busy)] * 10


def node(uses: list[Use], weights: dict[str, float] | None = None) -> Node:
    guests = [one.guest for one in uses[-1].guests.values()]
    named = named_apart(guests)
    found = node_of(uses, {key: weights[name] for key, name in named.items() if weights and name in weights}, named)
    assert isinstance(found, Node)
    return found


def value(one: Estimate | Absent) -> float:
    assert isinstance(one, Estimate), one
    return one.value


def test_on_an_idle_host_one_more_takes_nothing_from_anybody() -> None:
    found = node(host(guest("web", run=[50.0]))).with_more(read_addition("1vcpu,busy=50%", CPUS))
    assert {name: value(one) for name, one in found.stretch.items()} == pytest.approx({"web": 1.0, "added": 1.0})
    assert found.pressure == pytest.approx(0.0, abs=1e-6)


def test_busy_guests_have_the_stretch_of_their_shares() -> None:
    calm = node(host(guest("web", run=[100.0], cpus=[0]), busy=(100.0, 0.0)))
    assert calm.now().pressure == pytest.approx(0.0)
    more = calm.with_more(read_addition("1vcpu,busy=100%,cpus=0", CPUS))
    assert {name: value(one) for name, one in more.stretch.items()} == pytest.approx({"web": 2.0, "added": 2.0})
    assert more.pressure == pytest.approx(0.5)
    pair = node(host(*(guest(name, run=[50.0], wait=[50.0], cpus=[0]) for name in "ab"), busy=(100.0, 0.0)))
    assert pair.now().pressure == pytest.approx(0.5)
    assert value(pair.now().stretch["a"]) == pytest.approx(2.0)
    assert value(pair.without("b").stretch["a"]) == pytest.approx(1.0)
    assert pair.without("b").pressure == pytest.approx(0.0)
    three = pair.with_more(read_addition("1vcpu,busy=100%,cpus=0", CPUS))
    assert [value(one) for one in three.stretch.values()] == pytest.approx([3.0, 3.0, 3.0], rel=0.01)


def test_groups_of_guests_share_by_weight_however_many_virtual_cpus_they_have() -> None:
    wide = guest("wide", run=[25.0, 25.0], wait=[75.0, 75.0], cpus=[0])
    narrow = guest("narrow", run=[50.0], wait=[50.0], cpus=[0])
    uses = host(wide, narrow, busy=(100.0, 0.0))
    alone = node(uses, {"wide": 1.0, "narrow": 1.0}).with_more(read_addition("1vcpu,busy=100%,cpus=0,weight=100", CPUS))
    assert value(alone.stretch["narrow"]) == pytest.approx(3.0, rel=0.02)
    assert value(alone.stretch["wide"]) == pytest.approx(6.0, rel=0.02)
    by_thread = node(uses).with_more(read_addition("1vcpu,busy=100%,cpus=0", CPUS))
    assert value(by_thread.stretch["added"]) == pytest.approx(4.0, rel=0.02)


def test_a_quota_holds_a_guest_and_leaves_the_rest_to_the_new_one() -> None:
    # It would never sleep, and its quota is half a CPU.
    held = node(host(guest("held", run=[50.0], throttled=50.0, quota_cpus=0.5, cpus=[0]), busy=(50.0, 0.0)))
    assert value(held.now().stretch["held"]) == pytest.approx(1.0)
    more = held.with_more(read_addition("1vcpu,busy=100%,cpus=0", CPUS))
    # With its half of the CPU it has what its quota gives; the new one has the other half.
    assert {name: value(one) for name, one in more.stretch.items()} == pytest.approx(
        {"held": 2.0, "added": 2.0}, rel=0.01
    )


def test_what_is_no_guest_takes_its_cpu_too() -> None:
    hog = node(host(guest("web", run=[50.0], wait=[50.0], cpus=[0]), busy=(100.0, 0.0)))
    assert value(hog.now().stretch["web"]) == pytest.approx(2.0)
    more = hog.with_more(read_addition("1vcpu,busy=100%,cpus=1", CPUS))
    assert value(more.stretch["web"]) == pytest.approx(2.0, rel=0.02)
    assert value(more.stretch["added"]) == pytest.approx(1.0, rel=0.02)


def test_where_the_network_is_wrong_now_its_interval_is_as_wide() -> None:
    # Waits that the model does not explain: the other CPU is idle.
    odd = node(host(guest("web", run=[20.0], wait=[20.0])))
    one = odd.with_more(read_addition("1vcpu,busy=10%", CPUS)).stretch["web"]
    assert isinstance(one, Estimate)
    assert one.value == pytest.approx(2.0, rel=0.02)
    assert one.low <= 1.01
    assert one.high >= 3.9
    measured = odd.now().stretch["web"]
    assert isinstance(measured, Estimate)
    assert (measured.low, measured.high) == (measured.value, measured.value)


def test_a_guest_of_which_nothing_is_known_says_so_and_spoils_no_other() -> None:
    lost = guest("lost", unreadable=Absent(absent="its virtual CPUs cannot be told from its other threads"))
    found = node(host(guest("web"), lost)).now()
    assert isinstance(found.stretch["web"], Estimate)
    assert found.stretch["lost"] == Absent(absent="its virtual CPUs cannot be told from its other threads")
    too_short = node_of(host(guest("web"))[:9], {}, {})
    assert isinstance(too_short, Absent)
    assert "only 9 of the 10 samples" in too_short.absent


def test_guests_of_one_name_are_told_apart() -> None:
    pair = [Guest("web", "qemu", 1, 1), Guest("web", "qemu", 2, 1), Guest("db", "qemu", 3, 1)]
    assert list(named_apart(pair).values()) == ["web (pid 1)", "web (pid 2)", "db"]


def test_the_document_has_each_change_alone_and_the_page_shows_it(
    snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How wide intervals are is measured, and no matter of this page.
    monkeypatch.setattr(what_if, "live_factor", lambda kind: 1.3)
    uses = host(*(guest(name, run=[50.0], wait=[50.0], cpus=[0]) for name in ("db", "web")), guest("calm", run=[0.0]))
    changes = Changes([read_addition("2vcpu,busy=60%", CPUS)], ["db"])
    found = predict(node(uses), changes)
    assert [(one.added, one.removed) for one in found.scenarios] == [("2vcpu,busy=60%", None), (None, "db")]
    assert "db" not in [one.guest for one in found.scenarios[1].guests]
    json.loads(found.model_dump_json())
    with Path("/dev/null").open("w") as nowhere:
        console = Console(width=110, record=True, file=nowhere)
        console.print(PredictionPage(found))
        console.print(PredictionPage(predict(node(uses), Changes(changes.add, remove_each=True))))
    assert console.export_text() == snapshot


def test_a_guest_that_is_not_there_cannot_be_removed() -> None:
    with pytest.raises(UsageError) as refused:
        predict(node(host(guest("web"))), Changes(remove=["wbe"]))
    assert "--remove wbe: no guest is called so" in refused.value.message
    assert "web" in str(refused.value.hint)


def test_a_wrong_guest_is_refused_before_anything_is_watched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = make_command(monkeypatch, capsys)("advise", "--add", "2vcpu,busy=60")
    assert ended.code == 2
    assert "write busy=60% if percent is meant" in ended.err


@pytest.mark.parametrize("version", [1, 2])
def test_the_weight_of_a_guests_own_group_is_read_and_that_of_a_shared_one_is_not(tmp_path: Path, version: int) -> None:
    file, default = ("cpu.shares", 1024) if version == 1 else ("cpu.weight", 100)
    controllers = "4:cpu,cpuacct:" if version == 1 else "0::"
    own = tmp_path / "cgroup/machine.slice/a.scope"
    (own / "libvirt").mkdir(parents=True)
    (own / file).write_text(str(3 * default))
    (tmp_path / "cgroup/machine.slice/b.scope").mkdir()
    (tmp_path / "cgroup/machine.slice/b.scope" / file).write_text(str(default))
    threads = {}
    for pid, path in ((1, "/machine.slice/a.scope/libvirt"), (2, "/machine.slice/b.scope"), (3, "/"), (4, "/")):
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "cgroup").write_text(f"{controllers}{path}\n")
        threads[pid, 0] = (Guest(str(pid), "qemu", pid, 0), ())
    hierarchy = CpuHierarchy(1 if version == 1 else 2, tmp_path / "cgroup")
    assert group_weights(threads, hierarchy, tmp_path / "proc") == {(1, 0): 3.0, (2, 0): 1.0}
    assert group_weights(threads, None, tmp_path / "proc") == {}


def test_intervals_are_those_of_the_benchmark_and_of_an_unknown_kind_the_widest() -> None:
    known = live_accuracies()
    assert all(one.factor >= 1.0 for one in known.values())
    assert live_factor("uml") == known["uml"].factor
    assert live_factor("qemu") == known["qemu"].factor


def test_a_kind_that_was_never_judged_has_the_widest_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"uml": Accuracy(guests=1, mape_percent=1.0, factor=1.7, covered_percent=90.0)}
    monkeypatch.setattr(accuracy, "live_accuracies", lambda: known)
    assert live_factor("qemu") == 1.7


def test_without_a_change_only_the_pressure_is_told() -> None:
    found = predict(node(host(*(guest(name, run=[50.0], wait=[50.0], cpus=[0]) for name in ("db", "web")))), Changes())
    with Path("/dev/null").open("w") as nowhere:
        console = Console(width=110, record=True, file=nowhere)
        console.print(PredictionPage(found))
    assert console.export_text().startswith("pressure: 0.50, the share of the CPU time that all guests want")
    assert "stretch" not in console.export_text()
