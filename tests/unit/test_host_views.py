"""What the host's kernel counts of time that was not given, read from a made-up /proc."""

from pathlib import Path

from stealtime.campaigns.host_views import with_guest_steal
from stealtime.lab.platforms.host_views import between, look
from stealtime.store.model import HostViews
from stealtime.studies.latency.attribution.views import steal_at_most_ns
from stealtime.vocabulary.readings import Absent, Value


def write_proc(proc: Path, delays_ns: dict[int, int], steal_ticks: dict[int, int]) -> None:
    for thread, delay in delays_ns.items():
        folder = proc / str(thread) / "task" / str(thread)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"{2 * delay} {delay} 7\n")
        # Field 43 is the time of a guest, in ticks of 10 ms; the name may hold what ends it elsewhere.
        (folder / "stat").write_text(f"{thread} (a ) name) R {'0 ' * 39}{delay // 100} 0 0\n")
    rows = [f"cpu{cpu} 1 2 3 4 5 6 7 {ticks} 0 0" for cpu, ticks in steal_ticks.items()]
    (proc / "stat").write_text("\n".join(["cpu 9 9 9 9 9 9 9 9 9 9", *rows, "intr 1"]) + "\n")


def test_what_threads_and_cpus_gained_is_summed(tmp_path: Path) -> None:
    write_proc(tmp_path, {10: 1_000, 11: 5_000}, {0: 3, 1: 100})
    before = look([10, 11], [1], tmp_path)
    write_proc(tmp_path, {10: 1_500, 11: 5_070}, {0: 99, 1: 102})
    delays = between(before, look([10, 11], [1], tmp_path))
    assert delays.run_delay_ns == Value(value=570)
    assert delays.run_ns == Value(value=1140)
    assert delays.guest_ns == Value(value=50_000_000)
    # Two ticks of 10 ms; the other CPU's do not count.
    assert delays.steal_ns == Value(value=20_000_000)


def test_a_thread_that_has_ended_makes_the_sum_absent_and_not_smaller(tmp_path: Path) -> None:
    write_proc(tmp_path, {10: 1_000}, {0: 0})
    before = look([10, 12], [0], tmp_path)
    delays = between(before, before)
    assert isinstance(delays.run_delay_ns, Absent)
    assert "thread 12" in delays.run_delay_ns.absent
    assert delays.steal_ns == Value(value=0)


def test_a_count_that_went_backwards_is_absent(tmp_path: Path) -> None:
    write_proc(tmp_path, {10: 1_000}, {0: 8})
    before = look([10], [0], tmp_path)
    write_proc(tmp_path, {10: 999}, {0: 7})
    delays = between(before, look([10], [0], tmp_path))
    assert delays.run_delay_ns == Absent(absent="thread 10: the count went backwards, from 1000 to 999 ns")
    assert isinstance(delays.run_ns, Absent)
    assert isinstance(delays.steal_ns, Absent)


def test_a_kernel_that_does_not_count_says_so(tmp_path: Path) -> None:
    write_proc(tmp_path, {10: 0}, {})
    (tmp_path / "10" / "task" / "10" / "schedstat").write_text("0\n")
    looked = look([10], [0], tmp_path)
    delays = between(looked, looked)
    assert isinstance(delays.run_delay_ns, Absent)
    assert "CONFIG_SCHED_INFO" in delays.run_delay_ns.absent
    assert isinstance(delays.steal_ns, Absent)
    assert "no steal of this CPU" in delays.steal_ns.absent
    (tmp_path / "10" / "task" / "10" / "stat").write_text("10 (old) R 1 2\n")
    looked = look([10], [0], tmp_path)
    assert isinstance(absent := between(looked, looked).guest_ns, Absent)
    assert "has no time of a guest" in absent.absent


def test_nothing_looked_at_is_absent_and_not_zero(tmp_path: Path) -> None:
    write_proc(tmp_path, {}, {})
    delays = between(look([], [], tmp_path), look([], [], tmp_path))
    assert delays.run_delay_ns == Absent(absent="no thread was looked at")
    assert delays.steal_ns == Absent(absent="no CPU was looked at")


def test_a_steal_of_0_may_hide_a_step_of_its_counter() -> None:
    nothing = Absent(absent="not read")
    views = HostViews(run_delay_ns=nothing, host_steal_ns=Value(value=0), guest_steal_ns=nothing)
    assert steal_at_most_ns(views, 1, 25e6) == 10e6
    assert steal_at_most_ns(views, 2, 25e6) == 20e6
    assert steal_at_most_ns(views, 2, 3e6) == 3e6
    assert steal_at_most_ns(views.model_copy(update={"host_steal_ns": nothing}), 1, 25e6) is None


def test_what_a_guest_knows_of_stolen_time_is_taken_where_it_can_know() -> None:
    nothing = Absent(absent="not read")
    views = HostViews(run_delay_ns=nothing, host_steal_ns=nothing, guest_steal_ns=nothing)
    known = with_guest_steal(views, "qemu-kvm-paravirt", {"steal_ns": 30_000_000})
    assert known.guest_steal_ns == Value(value=30_000_000)
    # Under TCG the counter exists and always says 0.
    assert with_guest_steal(views, "qemu-tcg-paravirt", {"steal_ns": 0}) == views
    assert with_guest_steal(views, "qemu-kvm-paravirt", {}) == views
