"""Who wants, who has and who waits: it adds up, whoever it is, and says whom to move."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from fabricated_guests import FabricatedProc
from hypothesis import given
from hypothesis import strategies as st
from synthetic_use import guest, use

from stealtime.capacity.advice import advise
from stealtime.capacity.blame import Ledger
from stealtime.capacity.counters.takers import Taker, read_times, takers_between
from stealtime.capacity.counters.topology import Topology, read_topology
from stealtime.capacity.judgement import judge
from stealtime.capacity.placement import idle_elsewhere_percent
from stealtime.capacity.rules import load_rules
from stealtime.capacity.use import Use

RULES = load_rules()
N = 20
HOG = Taker("python3", 77, 0.5, frozenset({0}))


def told(seen: Use, *takers: Taker, topology: Topology | None = None) -> tuple[str, str, str]:
    """Give the host's verdict, why, and what to change."""
    uses = [replace(seen, topology=topology or Topology())] * N
    host, guests = judge(uses, RULES)
    advice, _ = advise(uses, host, guests, takers)
    return advice.judgement.verdict, advice.why or "", advice.change or ""


def busy_with(cpus: int, *busy: float) -> list[float]:
    return [*busy, *([2.0] * (cpus - len(busy)))]


def test_a_misplaced_pair_on_a_large_host_is_a_misplaced_pair() -> None:
    pair = [guest(name, run=[50.0], wait=[50.0], cpus=[0]) for name in "ab"]
    verdict, why, change = told(use(pair, busy=busy_with(64, 100.0)))
    assert verdict == "misplaced guests"
    assert why.endswith("of 1.00 CPUs a has 0.50 and waits for 0.50, b has 0.50 and waits for 0.50, "
                        "others have 0.00, 0.00 stand idle")  # fmt: skip
    assert "CPU 1 (98 % idle)" in change
    assert "and 58 more" in change


def test_a_pair_that_would_not_fit_elsewhere_either_is_an_over_committed_host() -> None:
    six = [guest(name, run=[16.0], wait=[84.0], cpus=[0]) for name in "abcdef"]
    assert told(use(six, busy=(100.0, 2.0)))[0] == "over-committed host"


def test_a_host_with_misplaced_guests_and_others_that_lack_a_cpu_is_over_committed() -> None:
    pair = [guest(name, run=[50.0], wait=[50.0], cpus=[0]) for name in "ab"]
    lacking = [guest(name, run=[40.0], wait=[60.0], cpus=range(64)) for name in "cd"]
    seen = use([*pair, *lacking], busy=[*[100.0] * 8, *[2.0] * 56])
    host, guests = judge([seen] * N, RULES)
    assert host.verdict == "over-committed host"
    assert {one.subject: one.verdict for one in guests} == {
        "a": "misplaced guests", "b": "misplaced guests", "c": "over-committed host", "d": "over-committed host",
    }  # fmt: skip


def test_a_full_host_whose_hog_is_no_guest_is_told_to_stop_the_hog() -> None:
    both = Taker("python3", 77, 1.0, frozenset({0, 1}))
    one = guest("a", run=[50.0], wait=[50.0], cpus=[0, 1])
    verdict, why, change = told(use([one], busy=(100.0, 100.0)), both)
    assert verdict == "over-committed host"
    assert "python3 (process 77, no guest) has 1.00" in why
    assert "stop python3 (process 77)" in change
    assert "move a guest" not in change


def test_a_hog_beside_idle_cpus_is_moved() -> None:
    _, _, change = told(use([guest("a", run=[50.0], wait=[50.0], cpus=[0])], busy=(100.0, 2.0)), HOG)
    assert "move python3 (process 77) there, or let a use CPU 1" in change


def test_guests_that_lack_a_cpu_of_a_full_host_are_told_to_go() -> None:
    three = [guest(name, run=[66.0], wait=[34.0]) for name in "abc"]
    assert "move a guest to another host" in told(use(three, busy=(100.0, 100.0)))[2]


@given(
    runs=st.lists(st.tuples(st.floats(0, 60), st.floats(0, 40), st.sampled_from([(0,), (1,), (0, 1)])), max_size=5),
    busy=st.tuples(st.floats(0, 100), st.floats(0, 100)),
    takers=st.lists(st.tuples(st.floats(0, 2), st.sampled_from([(0,), (0, 1), (1,)])), max_size=4),
)
def test_what_all_have_and_what_stands_idle_is_what_is_there(
    runs: Sequence[tuple[float, float, tuple[int, ...]]],
    busy: tuple[float, float],
    takers: Sequence[tuple[float, tuple[int, ...]]],
) -> None:
    guests = [guest(str(n), run=[run], wait=[wait], cpus=cpus) for n, (run, wait, cpus) in enumerate(runs)]
    others = [Taker(f"t{n}", 1_000_000 + n, used, frozenset(cpus)) for n, (used, cpus) in enumerate(takers)]
    account = Ledger([use(guests, busy=busy)] * 3, others).account(frozenset({0}))
    had = sum(one.has_cpus for one in account.claims) + account.rest_cpus + account.idle_cpus
    assert had == pytest.approx(account.there_cpus)
    wanted = sum(one.wants_cpus for one in account.claims) + account.rest_cpus
    assert wanted == pytest.approx(account.wanted_cpus)
    assert all(one.has_cpus >= 0 for one in account.claims)


def test_who_used_a_cpu_is_told_by_name(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")

    def write(pid: int, ticks: int) -> None:
        proc.add_process(pid, ["x"])
        fields = ["S", "1", *["0"] * 9, str(ticks), "0", *["0"] * 6, str(1000 + pid), *["0"] * 30]
        (proc.root / f"{pid}/stat").write_text(f"{pid} (a (name)) {' '.join(fields)}\n")
        (proc.root / f"{pid}/status").write_text("Name:\tx\nCpus_allowed_list:\t1\n")

    for pid in (100, 200, 300):
        write(pid, 5000)
    before = read_times(proc.root)
    write(100, 5000 + 500)
    write(200, 5000 + 900)
    write(400, 250)
    found = takers_between(before, read_times(proc.root), 10.0, {200}, proc.root)
    assert [(one.pid, one.name, one.used_cpus, one.allowed_cpus) for one in found] == [
        (100, "a (name)", 0.5, frozenset({1})), (400, "a (name)", 0.25, frozenset({1})),
    ]  # fmt: skip


def test_threads_of_one_core_are_not_two_cpus(tmp_path: Path) -> None:
    for cpu in range(4):
        folder = tmp_path / f"cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text("0,2\n" if cpu % 2 == 0 else "1,3\n")
    for node, cpus in (("node0", "0,2"), ("node1", "1,3")):
        (tmp_path / "node" / node).mkdir(parents=True)
        (tmp_path / "node" / node / "cpulist").write_text(f"{cpus}\n")
    topology = read_topology(tmp_path)
    assert (topology.cores({0, 1, 2, 3}), topology.worth_cpus({0, 1, 2, 3}), topology.worth_cpus({0, 1})) == (2, 2.5, 2)
    assert topology.is_near(2, {0})
    assert not topology.is_near(1, {0})
    assert read_topology(tmp_path / "nowhere") == Topology()
    pair = [guest(name, run=[50.0], wait=[50.0], cpus=[0]) for name in "ab"]
    # CPU 2 is of the same node: it is named, although the CPUs of the other one are idle as well.
    _, _, change = told(use(pair, busy=busy_with(4, 100.0)), topology=topology)
    assert change.endswith("let a use CPU 2 (98 % idle) too")
    # Where all of node 0 is busy, both threads of the other core are idle: one is a CPU, the other a quarter of one.
    assert idle_elsewhere_percent(
        replace(use(pair, busy=(100.0, 2.0, 100.0, 2.0)), topology=topology), pair[0]
    ) == pytest.approx(98 * 1.25)
    wide = [guest(name, run=[60.0, 60.0], wait=[40.0, 40.0], cpus=range(4)) for name in "abc"]
    _, _, change = told(use(wide, busy=(100.0,) * 4), topology=topology)
    assert "CPU 0, 1, 2, 3: 2 cores, worth 2.5 where all of their threads are busy" in change


@pytest.mark.parametrize(
    ("cpus", "room"),
    [
        ((0, 1), "there is CPU for 6 more"),
        ((1,), "there is CPU for 3 more such guests on CPU 1, where a may run, until"),
    ],
)
def test_room_is_where_such_a_guest_may_run(cpus: tuple[int, ...], room: str) -> None:
    verdict, _, change = told(use([guest("a", run=[10.0], cpus=cpus)], busy=(10.0, 10.0)))
    assert verdict == "over-provisioned host"
    assert change.startswith(room)
