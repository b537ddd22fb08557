"""Who besides us used CPUs between two looks, on fabricated tables of processes."""

from pathlib import Path

import pytest

from stealtime.campaigns.strangers import (
    BACKGROUND,
    BUSY_HOST,
    LIMITS_FROM,
    NOT_ALONE,
    NOT_ALONE_FROM,
    findings_of,
    names_of,
    shares_its_cpus,
    shares_of,
    taken_share,
)
from stealtime.lab.platforms.share import Share
from stealtime.lab.scenarios.placement import PlacedNeighbour, Placement
from stealtime.lab.strangers.before_run import BeforeRun, finding_of, look_before
from stealtime.lab.strangers.look import Seen, Stranger, StrangerLook, between, look
from stealtime.lab.strangers.processes import TICK_NS, parse_process, parse_processor
from stealtime.report.strangers import strangers_figures
from stealtime.store.strangers import StrangersRecord
from stealtime.vocabulary.readings import Absent, Reading, Value

INITIAL, INNER = "pid:[4026531836]", "pid:[4026532999]"
SECOND = 1_000_000_000


class FabricatedHost:
    """A ``/proc`` that holds what a look reads; this process is number 100."""

    def __init__(self, folder: Path, namespace: str = INITIAL) -> None:
        self.folder = folder
        (folder / "100" / "ns").mkdir(parents=True)
        (folder / "100" / "ns" / "pid").symlink_to(namespace)
        (folder / "self").symlink_to("100")
        self.process(1, 0, "init", 0)
        self.process(100, 1, "stealtime", 0, cpu=0)
        self.cpus({0: (0, 0), 1: (0, 0)}, elapsed=0)

    def process(
        self, pid: int, parent: int, name: str, ticks: int, *, children: int = 0, cpu: int = 1, kernel: bool = False
    ) -> None:
        """Write a process with one thread, all of whose time is user time."""
        flags = 0x0020_0000 if kernel else 0
        middle = f"S {parent} 0 0 0 0 {flags} 0 0 0 0 {ticks} 0 {children} 0 20 0 1 0 {pid * 7} "
        stat = f"{pid} ({name}) {middle}{' '.join('0' for _ in range(16))} {cpu} 0 0\n"
        task = self.folder / str(pid) / "task" / str(pid)
        task.mkdir(parents=True, exist_ok=True)
        (self.folder / str(pid) / "stat").write_text(stat)
        (task / "stat").write_text(stat)
        (task / "schedstat").write_text(f"{ticks * TICK_NS} 0 1\n")

    def environment(self, pid: int, **variables: str) -> None:
        text = "\0".join(f"{name}={value}" for name, value in variables.items())
        (self.folder / str(pid) / "environ").write_text(text)

    def end(self, pid: int) -> None:
        for path in sorted((self.folder / str(pid)).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (self.folder / str(pid)).rmdir()

    def cpus(self, used: dict[int, tuple[int, int]], elapsed: int = 200) -> None:
        """Write busy and stolen ticks of each CPU, of so many that went by; the rest was idle."""
        self.now_ns = elapsed * TICK_NS
        rows = [f"cpu{cpu} 0 0 0 {elapsed - busy - steal} 0 0 0 {steal} 0 0" for cpu, (busy, steal) in used.items()]
        (self.folder / "stat").write_text("\n".join(["cpu 0 0 0 0 0 0 0 0 0 0", *rows, "intr 1"]) + "\n")

    def look(self, *cpus: int) -> StrangerLook:
        return look(cpus, self.folder, lambda: self.now_ns)

    def seen_since(self, before: StrangerLook) -> Seen:
        return between(before, self.look(*before.cpus), self.folder)


def number(reading: Reading) -> object:
    assert isinstance(reading, Value), reading
    return reading.value


def test_a_name_with_spaces_and_parentheses_does_not_shift_the_fields() -> None:
    stat = b"7 (a (b) c) S 3 0 0 0 0 0 0 0 0 0 11 22 33 44 20 0 1 0 500 " + b"0 " * 16 + b"5 0 0"
    process = parse_process(stat)
    assert process is not None
    assert (process.pid, process.name, process.parent, process.cpu_ticks, process.children_ticks) == (
        7,
        "a (b) c",
        3,
        33,
        77,
    )
    assert parse_processor(stat) == 5
    assert parse_process(b"no such file") is None


def test_what_ours_ran_there_is_taken_off_and_the_stranger_is_named(tmp_path: Path) -> None:
    host = FabricatedHost(tmp_path)
    host.process(200, 100, "qemu", 0)
    host.process(201, 100, "our emulator, elsewhere", 0, cpu=0)
    host.process(300, 1, "cargo", 500)
    host.process(400, 1, "elsewhere", 0, cpu=0)
    before = host.look(1)
    host.process(200, 100, "qemu", 60)
    host.process(201, 100, "our emulator, elsewhere", 35, cpu=0)
    host.process(300, 1, "cargo", 540)
    host.process(400, 1, "elsewhere", 90, cpu=0)
    host.cpus({0: (90, 0), 1: (100, 3)})
    seen = host.seen_since(before)
    assert number(seen.strangers_ns) == 40 * TICK_NS
    assert number(seen.steal_ns) == 3 * TICK_NS
    assert [(one.name, one.cpu_ns) for one in seen.who] == [("cargo", 40 * TICK_NS)]


def test_a_stranger_that_ran_elsewhere_only_is_not_named(tmp_path: Path) -> None:
    host = FabricatedHost(tmp_path)
    host.process(300, 1, "elsewhere", 0, cpu=0)
    before = host.look(1)
    host.process(300, 1, "elsewhere", 90, cpu=0)
    host.cpus({0: (90, 0), 1: (0, 0)})
    seen = host.seen_since(before)
    assert number(seen.strangers_ns) == 0
    assert seen.who == ()


def test_compilers_that_came_and_went_are_in_who_waited_for_them(tmp_path: Path) -> None:
    host = FabricatedHost(tmp_path)
    host.process(300, 1, "make", 1, children=1000)
    host.process(301, 300, "cc1", 20)
    before = host.look(1)
    host.end(301)
    # The child that was there had used 20 ticks before; 30 are of the time between.
    host.process(300, 1, "make", 1, children=1050)
    host.cpus({0: (0, 0), 1: (30, 0)})
    seen = host.seen_since(before)
    assert number(seen.strangers_ns) == 30 * TICK_NS
    assert [(one.name, one.cpu_ns) for one in seen.who] == [("make", 30 * TICK_NS)]


def test_a_measuring_thread_that_has_ended_is_ours(tmp_path: Path) -> None:
    host = FabricatedHost(tmp_path)
    host.process(200, 100, "stealtime-agent", 2, cpu=0)
    before = host.look(1)
    host.process(200, 100, "stealtime-agent", 102, cpu=0)
    # Its living thread has not run on: the 100 ticks are of one that began and ended within.
    (tmp_path / "200/task/200/schedstat").write_text(f"{2 * TICK_NS} 0 1\n")
    host.process(300, 1, "idler", 50)
    host.cpus({0: (0, 0), 1: (100, 0)})
    seen = host.seen_since(before)
    assert number(seen.strangers_ns) == 0


def test_what_a_killed_machine_of_ours_ran_is_not_a_strangers(tmp_path: Path) -> None:
    host = FabricatedHost(tmp_path)
    host.process(200, 100, "qemu", 10)
    before = host.look(1)
    host.end(200)
    host.process(1, 0, "init", 0, children=90)
    host.cpus({0: (0, 0), 1: (80, 0)})
    seen = host.seen_since(before)
    assert number(seen.strangers_ns) == 0


def test_strangers_of_other_namespaces_are_seen_by_their_time_alone(tmp_path: Path) -> None:
    host = FabricatedHost(tmp_path, namespace=INNER)
    before = host.look(1)
    host.cpus({0: (0, 0), 1: (80, 0)})
    seen = host.seen_since(before)
    assert number(seen.strangers_ns) == 80 * TICK_NS
    assert seen.who == ()


def test_a_machine_of_another_run_is_told_as_one(tmp_path: Path) -> None:
    host = FabricatedHost(tmp_path)
    host.process(300, 1, "qemu-system-x86", 0)
    host.environment(300, STEALTIME_RUN="1:2:3")
    before = host.look(1)
    host.process(300, 1, "qemu-system-x86", 50)
    host.cpus({0: (0, 0), 1: (50, 0)})
    (stranger,) = host.seen_since(before).who
    assert (stranger.name, stranger.is_of_a_run) == ("qemu-system-x86", True)


def test_a_cpu_that_is_offline_makes_the_share_absent(tmp_path: Path) -> None:
    host = FabricatedHost(tmp_path)
    seen = host.seen_since(host.look(1, 7))
    assert isinstance(seen.strangers_ns, Absent)
    assert isinstance(seen.steal_ns, Absent)


def record(
    strangers: float | None = 0.0,
    steal: float | None = 0.0,
    waited: float | None = None,
    who: tuple[str, ...] = (),
    cpus: tuple[int, ...] = (1,),
) -> StrangersRecord:
    """Make a record of a second by its shares."""

    def reading(share: float | None, whole_ns: int) -> Reading:
        return Absent(absent="not read") if share is None else Value(value=round(share * whole_ns))

    whole_ns = SECOND * len(cpus)
    return StrangersRecord(
        cpus=list(cpus),
        elapsed_ns=SECOND,
        strangers_ns=reading(strangers, whole_ns),
        steal_ns=reading(steal, whole_ns),
        run_ns=reading(None if waited is None else 1.0 - waited, SECOND),
        run_delay_ns=reading(waited, SECOND),
        who=[Stranger(name=name, pid=7, cpu_ns=10) for name in who],
    )


def test_the_largest_of_the_three_shares_counts() -> None:
    assert shares_of(record(0.3, 0.04, 0.32)) == pytest.approx({"strangers": 0.3, "steal": 0.04, "waited": 0.32})
    assert taken_share(record(0.3, 0.04, 0.32)) == pytest.approx(0.32)
    assert taken_share(record(0.2, 0.02)) == pytest.approx(0.2)
    assert taken_share(record(0.0, 0.3)) == pytest.approx(0.3)
    assert taken_share(record(None, None)) is None


def test_what_was_waited_while_no_stranger_ran_was_waited_for_ours() -> None:
    assert shares_of(record(0.01, 0.04, 0.32))["waited"] == pytest.approx(0.05 - BACKGROUND)
    # Where strangers are not seen, nothing says so.
    assert taken_share(record(None, 0.02, 0.32)) == pytest.approx(0.32)


def test_who_mostly_sleeps_waits_much_of_the_little_that_it_wants() -> None:
    sleeper = record(0.05 + BACKGROUND).model_copy(
        update={"run_ns": Value(value=SECOND // 20), "run_delay_ns": Value(value=SECOND // 20)}
    )
    assert taken_share(sleeper) == pytest.approx(0.5)
    # What every quiet host has is nobody that it waits for.
    idle = sleeper.model_copy(update={"strangers_ns": Value(value=round(BACKGROUND * SECOND))})
    assert taken_share(idle) == pytest.approx(BACKGROUND)


def test_a_share_of_two_cpus_is_a_share_of_both() -> None:
    assert taken_share(record(0.25, cpus=(0, 1))) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("share", "codes"),
    [
        (0.0, []),
        (LIMITS_FROM - 0.001, []),
        (LIMITS_FROM + 0.001, [BUSY_HOST]),
        (NOT_ALONE_FROM - 0.001, [BUSY_HOST]),
        (NOT_ALONE_FROM + 0.001, [NOT_ALONE]),
        (1.0, [NOT_ALONE]),
    ],
)
def test_from_one_share_on_it_limits_and_from_a_larger_one_it_was_not_alone(share: float, codes: list[str]) -> None:
    for one in (record(share), record(0.0, share), record(None, None, share)):
        assert [finding.code for finding in findings_of(one)] == codes


def test_nothing_known_is_no_finding() -> None:
    assert findings_of(None) == []
    assert findings_of(record(None, None)) == []


def placement(**changes: object) -> Placement:
    given = {
        "scenario": "alone",
        "measured_cpu": 1,
        "vcpu_cpus": ((1,),),
        "emulator_cpus": (0,),
        "housekeeping_cpus": (0,),
    } | changes
    return Placement(**given)  # type: ignore[arg-type]


def test_who_waits_for_others_of_ours_is_known() -> None:
    neighbour = PlacedNeighbour("neighbour 1", "machine", "cpu-load", (1,))
    assert not shares_its_cpus(placement())
    assert not shares_its_cpus(placement(neighbours=(PlacedNeighbour("neighbour 1", "machine", "cpu-load", (2,)),)))
    assert shares_its_cpus(placement(neighbours=(neighbour,)))
    assert shares_its_cpus(placement(emulator_cpus=(1,)))
    assert shares_its_cpus(placement(housekeeping_cpus=(0, 1)))
    assert shares_its_cpus(placement(share=Share(quota_percent=50)))
    assert shares_its_cpus(placement(vcpu_cpus=((0, 1), (0, 1)), emulator_cpus=(2,), housekeeping_cpus=(2,)))


def test_strangers_of_several_trials_are_named_by_what_they_used() -> None:
    first = record(0.5, who=("cargo", "rustc"))
    second = record(0.5, who=("rustc",))
    assert names_of([first, second]) == ["rustc", "cargo"]


def test_a_cell_tells_in_how_many_trials_it_was_not_alone() -> None:
    figures = strangers_figures([record(0.01), record(0.06, who=("sh",)), record(0.4, who=("cargo",)), record(0.3)])
    assert figures is not None
    assert (figures.trials, figures.limited, figures.not_alone) == (4, 3, 1 + 1)
    assert figures.words == (
        "not alone in 3 of 4 trials: others had 18 % (median; most 40 %) of the time on CPU 1: cargo, sh"
    )
    quiet = strangers_figures([record(0.01)])
    assert quiet is not None
    assert quiet.words is None
    assert strangers_figures([record(None, None)]) is None


def seen(strangers: float, steal: float = 0.0) -> BeforeRun:
    who = (Stranger("cargo", 812, 10, is_kernel=False, is_of_a_run=False),)
    return BeforeRun(
        Seen((1,), SECOND, Value(value=round(strangers * SECOND)), Value(value=round(steal * SECOND)), who), 7.44, 41.2
    )


def test_a_busy_host_is_named_before_the_run_with_load_cpu_and_programs() -> None:
    finding = finding_of(seen(0.83))
    assert finding is not None
    assert finding.text == (
        "the host is busy: other programs had 83 % of CPU 1 just before the run (load 7.4, CPU pressure 41 %); "
        "the busiest: cargo (pid 812)"
    )
    stolen = finding_of(seen(0.02, 0.3))
    assert stolen is not None
    assert "the host of this machine had 30 % of CPU 1" in stolen.text
    assert finding_of(seen(0.05)) is None


def test_the_look_before_a_run_reads_load_and_pressure(tmp_path: Path) -> None:
    host = FabricatedHost(tmp_path)
    (tmp_path / "loadavg").write_text("3.50 1.00 0.50 2/300 4711\n")
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure/cpu").write_text("some avg10=12.50 avg60=1.00 avg300=0.00 total=5\n")
    host.process(300, 1, "cargo", 0)

    def meanwhile(_: float) -> None:
        host.process(300, 1, "cargo", 30)
        host.cpus({0: (0, 0), 1: (30, 0)})

    before = look_before((1,), tmp_path, meanwhile, lambda: host.now_ns)
    assert (before.load_average, before.stalled_percent) == (3.5, 12.5)
    assert number(before.seen.strangers_ns) == 30 * TICK_NS
