"""What the exporter tells, and how: Prometheus' conventions, identities, seconds, bounds."""

import re
import shutil
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fabricated_guests import FabricatedProc, FabricatedThread
from prometheus_client.parser import text_string_to_metric_families

from stealtime.capacity.collector import Collector
from stealtime.capacity.exporter.blamed import OTHER, UNKNOWN, Blamed
from stealtime.capacity.exporter.export import JUDGE_EVERY_SAMPLES, Export, Exporter
from stealtime.capacity.exporter.exposition import gauge, labels, write
from stealtime.capacity.exporter.families import MOST_SERIES, MOST_VCPUS
from stealtime.capacity.exporter.kept import CURRENT
from stealtime.capacity.exporter.seconds import CROWDED_SHARE, Seconds
from stealtime.capacity.exporter.server import LOOPBACK, read_address, serving
from stealtime.capacity.guest import Guest, GuestThread, Kind
from stealtime.capacity.rules import load_rules
from stealtime.capacity.watch.state import Blame, Neighbours
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.readings import Absent

QEMU = "/usr/bin/qemu-system-x86_64"
UUID = "3f0c1a52-9c1e-4f4e-8f57-0d1c2b3a4f5e"
SECOND_NS = 1_000_000_000


class Host:
    """A made-up host and its exporter, which is let read whenever the test says."""

    def __init__(self, folder: Path, *, trace: bool = False, keep: Path | None = None) -> None:
        self.proc = FabricatedProc(folder, cpus=2)
        self.said: list[str] = []
        order = Export(
            load_rules(), (LOOPBACK, 1), {}, ask_guests=False, trace=trace, version="1.2.3", keep=keep, proc=folder
        )
        self._collector = Collector(folder, now_ns=lambda: self.now_ns)
        self.exporter = Exporter(order, self._collector, self.said.append)
        self.now_ns = SECOND_NS
        self._threads: dict[int, list[FabricatedThread]] = {}

    def add(self, pid: int, argv: list[str], vcpus: int = 1) -> None:
        names = ["main", *(f"CPU {number}/KVM" for number in range(vcpus)), "IO iothread0"]
        self._threads[pid] = [FabricatedThread(name, run_ns=1) for name in names]
        self.proc.add_process(pid, argv, self._threads[pid])

    def run(self, pid: int, vcpu: int, *, run_ns: int, wait_ns: int) -> None:
        before = self._threads[pid][1 + vcpu]
        after = FabricatedThread(
            before.name,
            run_ns=before.run_ns + run_ns,
            wait_ns=before.wait_ns + wait_ns,
            dispatches=before.dispatches + 1,
        )
        self._threads[pid][1 + vcpu] = after
        self.proc.write_thread(pid, pid + 1 + vcpu, after)

    def pass_second(self, *, read_all: bool = False) -> None:
        self.now_ns += SECOND_NS
        self.proc.pass_time([20.0, 20.0])
        if read_all:
            self.exporter.read_all()
        self.exporter.read_second()

    def told(self) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
        text = self.exporter.render()
        assert text is not None
        return parsed(text)


def parsed(text: bytes) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """Read the text with Prometheus' own parser: the series by metric."""
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            series = found.setdefault(sample.name, {})
            assert frozenset(sample.labels.items()) not in series, sample
            series[frozenset(sample.labels.items())] = sample.value
    return found


def of(series: Mapping[frozenset[tuple[str, str]], float], **wanted: str) -> float:
    found = [value for known, value in series.items() if known >= set(wanted.items())]
    assert len(found) == 1, (wanted, series)
    return found[0]


def qemu(name: str, *more: str) -> list[str]:
    return [QEMU, "-name", f"guest={name},debug-threads=on", "-m", "512", *more]


def test_counters_go_on_from_what_is_seen_and_are_exact(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.add(1000, qemu("web", "-uuid", UUID), vcpus=2)
    host.run(1000, 0, run_ns=10**15, wait_ns=10**15)  # long ago
    for _ in range(2):
        host.pass_second(read_all=True)
    for _ in range(10):
        host.run(1000, 0, run_ns=40_000_000, wait_ns=60_000_000)
        host.run(1000, 1, run_ns=10_000_000, wait_ns=0)
        host.pass_second()
    told = host.told()
    assert of(told["stealtime_guest_run_seconds_total"], guest="web") == pytest.approx(0.5)
    assert of(told["stealtime_guest_wait_seconds_total"], guest="web") == pytest.approx(0.6)
    assert of(told["stealtime_vcpu_wait_seconds_total"], guest="web", vcpu="0") == pytest.approx(0.6)
    assert of(told["stealtime_vcpu_dispatches_total"], guest="web", vcpu="1") == 10


def test_a_burst_within_a_second_is_a_crowded_second(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.add(1000, qemu("web"))
    for _ in range(2):
        host.pass_second(read_all=True)
    begun = of(host.told()["stealtime_guest_watched_seconds_total"], guest="web")
    for second in range(10):
        # Runs and waits for a twentieth of the second: 5 % of the time, and half of what it wanted.
        busy_ns = 50_000_000 if second < 4 else 0
        host.run(1000, 0, run_ns=busy_ns, wait_ns=busy_ns)
        host.pass_second()
    told = host.told()
    assert of(told["stealtime_guest_crowded_seconds_total"], guest="web") == 4
    assert of(told["stealtime_guest_watched_seconds_total"], guest="web") - begun == 10


def test_a_thread_that_cannot_be_read_has_no_totals() -> None:
    seconds = Seconds("/nowhere")
    seconds.follow({(1, 1): (Guest("web", "qemu", 1, 1), [GuestThread(7, "vcpu", 0)])})
    assert seconds.guests[1, 1].vcpus == {}


def test_what_a_quota_took_is_told_apart(tmp_path: Path) -> None:
    thread = FabricatedThread("CPU 0/KVM", run_ns=1)
    proc = FabricatedProc(tmp_path, cpus=1)
    proc.add_process(7, [QEMU], [thread])
    seconds = Seconds(str(tmp_path))
    seconds.follow({(7, 1): (Guest("web", "qemu", 7, 1), [GuestThread(7, "vcpu", 0)])})
    seconds.read(SECOND_NS)
    seconds.guests[7, 1].net_share = 0.25
    proc.write_thread(7, 7, FabricatedThread("CPU 0/KVM", run_ns=100_000_001, wait_ns=400_000_000, dispatches=3))
    seconds.read(2 * SECOND_NS)
    assert seconds.guests[7, 1].vcpus[0].wait_ns == pytest.approx(100_000_000)


def test_a_counter_that_runs_backwards_takes_nothing_back(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.add(1000, qemu("web"))
    for _ in range(2):
        host.pass_second(read_all=True)
    host.run(1000, 0, run_ns=500_000_000, wait_ns=0)
    host.pass_second()
    before = of(host.told()["stealtime_guest_run_seconds_total"], guest="web")
    host.run(1000, 0, run_ns=-400_000_000, wait_ns=0)
    host.pass_second()
    assert of(host.told()["stealtime_guest_run_seconds_total"], guest="web") == before


def test_series_of_a_guest_that_ended_are_dropped(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.add(1000, qemu("web"))
    host.add(2000, qemu("db"))
    for _ in range(2):
        host.pass_second(read_all=True)
    assert b'guest="db"' in (host.exporter.render() or b"")
    shutil.rmtree(tmp_path / "2000")
    for _ in range(11):
        host.pass_second(read_all=True)
    text = host.exporter.render() or b""
    assert b'guest="db"' not in text
    assert b'guest="web"' in text


def test_two_guests_of_one_name_stay_apart(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.add(1000, qemu("web", "-uuid", UUID))
    host.add(2000, qemu("web", "-uuid", UUID.replace("3f", "4e")))
    for _ in range(2):
        host.pass_second(read_all=True)
    told = host.told()  # no series is there twice
    infos = [dict(known) for known in told["stealtime_guest_info"]]
    assert {info["name"] for info in infos} == {"web"}
    assert len({info["guest"] for info in infos}) == len({info["uuid"] for info in infos}) == 2
    assert len(told["stealtime_guest_run_seconds_total"]) == 2


@pytest.mark.parametrize("vcpus", [1, MOST_VCPUS, MOST_VCPUS + 1, 64])
def test_a_guest_has_a_bounded_number_of_series(tmp_path: Path, vcpus: int) -> None:
    host = Host(tmp_path, trace=True)
    host.add(1000, qemu("web", "-uuid", UUID), vcpus=vcpus)
    for _ in range(14):
        host.pass_second(read_all=True)
    for number in range(10):
        host.run(1000, 0, run_ns=0, wait_ns=SECOND_NS)
        host.pass_second()
        blames = tuple(Blame("web", 0, f"hog{'abcdefghij'[number % 10] * 3}", 10.0, tid=one) for one in range(3))
        host.exporter.blame(Neighbours(blames, 0.2, {("web", 0): 80.0}))
    series = [line for line in (host.exporter.render() or b"").splitlines() if b'guest="web"' in line]
    assert 15 < len(series) <= MOST_SERIES
    assert any(b"stealtime_vcpu_run" in line for line in series) == (vcpus <= MOST_VCPUS)


def test_neighbours_add_up_to_what_was_waited_and_the_traced_share_is_told() -> None:
    blamed = Blamed()
    blamed.add(Neighbours((), 0.2, {}), {"web": 0.0})
    window = Neighbours(
        (Blame("web", 0, "guest db", 40.0), Blame("web", 0, "kworker/3:1-events", 10.0, tid=7)), 0.2, {("web", 0): 60.0}
    )
    blamed.add(window, {"web": 6.0})
    # Ten seconds passed, in which it waited for 6 s: two thirds for the guest, a sixth for the worker.
    assert blamed.wait_s["web"] == pytest.approx({"guest db": 4.0, "kworker": 1.0, UNKNOWN: 1.0})
    blamed.add(Neighbours(absent=Absent(absent="no trace")), {"web": 8.0})
    assert blamed.wait_s["web"][UNKNOWN] == pytest.approx(3.0)
    assert sum(blamed.wait_s["web"].values()) == pytest.approx(8.0)
    assert blamed.traced_s == pytest.approx(0.4)
    blamed.add(Neighbours((), 0.2, {}), {"db": 1.0})
    assert blamed.wait_s.keys() == {"db"}


def test_neighbours_beyond_the_first_few_share_a_name() -> None:
    blamed = Blamed()
    for number in range(20):
        blames = (Blame("web", 0, f"guest g{number}", 50.0),)
        blamed.add(Neighbours(blames, 0.2, {("web", 0): 50.0}), {"web": float(number + 1)})
    assert len(blamed.wait_s["web"]) <= 6
    assert blamed.wait_s["web"][OTHER] == pytest.approx(16.0)


def test_names_and_units_are_prometheus_own(tmp_path: Path) -> None:
    host = Host(tmp_path, trace=True)
    host.add(1000, qemu("web"))
    for _ in range(14):
        host.pass_second(read_all=True)
    host.exporter.blame(Neighbours((), 0.2, {}))
    text = (host.exporter.render() or b"").decode()
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    assert {name for name in kinds if name.endswith("_total")} == {
        name for name, kind in kinds.items() if kind == "counter"
    }
    units = ("_seconds_total", "_bytes", "_info", "_verdict", "_threads", "_dispatches_total", "_ratio")
    assert [name for name in kinds if not name.endswith(units)] == []
    assert set(kinds) == set(re.findall(r"^# HELP (\w+) \S", text, re.MULTILINE))


def test_names_cannot_break_out_of_their_labels() -> None:
    family = gauge("a", "b")
    name = 'x"} 1\nevil{a="\\ \udc80'
    family.add(labels(guest=name), 1)
    (series,) = parsed(write([family]))["a"]
    assert dict(series) == {"guest": name.replace("\udc80", "?")}


def test_what_is_absent_has_no_series() -> None:
    family = gauge("a", "b")
    family.add("", Absent(absent="no"))
    family.add("", None)
    assert write([family]) == b""


def test_asking_twice_within_a_second_costs_once(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for _ in range(2):
        host.pass_second(read_all=True)
    first = host.exporter.render()
    assert host.exporter.render() is first
    host.pass_second()
    assert host.exporter.render() is not first


def test_figures_that_are_old_are_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(tmp_path)
    assert host.exporter.render() is None
    for _ in range(2):
        host.pass_second(read_all=True)
    assert host.exporter.render() is not None
    later = time.monotonic() + 31
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert host.exporter.render() is None


@pytest.fixture(name="port")
def _port() -> int:
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        number: int = free.getsockname()[1]
        return number


def get(url: str) -> Any:
    return urllib.request.urlopen(url, timeout=10)  # noqa: S310 - loopback


def test_metrics_are_served_and_the_port_is_free_afterwards(port: int) -> None:
    with serving(lambda: b"a 1\n", (LOOPBACK, port)) as url, get(url) as answer:
        assert answer.read() == b"a 1\n"
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    with pytest.raises(ConnectionRefusedError), socket.create_connection((LOOPBACK, port)):
        pass


def test_before_the_first_reading_and_elsewhere_there_is_an_error(port: int) -> None:
    with serving(lambda: None, (LOOPBACK, port)) as url:
        for path, code in (("", 503), ("/../etc/passwd", 404)):
            with pytest.raises(urllib.error.HTTPError) as caught:
                get(f"{url}{path}")
            assert caught.value.code == code


def test_clients_that_say_nothing_are_hung_up(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stealtime.capacity.exporter.server._PATIENCE_S", 0.2)
    with serving(lambda: b"a 1\n", (LOOPBACK, port)) as url:
        silent = [socket.create_connection((LOOPBACK, port)) for _ in range(9)]
        try:
            with get(url) as answer:
                assert answer.read() == b"a 1\n"
            assert silent[0].recv(1) == b""
        finally:
            for one in silent:
                one.close()


def test_a_port_that_is_taken_is_said() -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        with (
            pytest.raises(StealtimeError, match="Address already in use") as caught,
            serving(lambda: None, (LOOPBACK, taken.getsockname()[1])),
        ):
            pass
    assert caught.value.hint == "choose another port"


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9105", ("127.0.0.1", 9105)), ("9105", (LOOPBACK, 9105)), (":9105", (LOOPBACK, 9105)),
     ("[::1]:80", ("::1", 80)), ("192.0.2.1:9105", ("192.0.2.1", 9105))],
)  # fmt: skip
def test_addresses_are_on_loopback_unless_told_otherwise(text: str, address: tuple[str, int]) -> None:
    assert read_address(text) == address


@pytest.mark.parametrize("text", ["", "localhost", "localhost:http", "1.2.3.4:0", "1.2.3.4:65536"])
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(UsageError, match=r"no address with a port|which is none from 1 to 65535"):
        read_address(text)


@pytest.mark.parametrize(("kind", "rule_id"), [("qemu", "vcpu-wait"), ("kvm", "vcpu-wait"), ("uml", "vcpu-wait-uml")])
def test_a_second_is_crowded_by_the_limit_of_the_builtin_rule(kind: Kind, rule_id: str) -> None:
    (rule,) = (one for one in load_rules().rules if one.id == rule_id)
    above = [one.above for one in rule.conditions if one.figure == "vcpu_wait_share_percent"]
    assert above == [pytest.approx(100 * CROWDED_SHARE[kind])]


def test_a_full_disk_is_told_once_and_metrics_are_served_on(tmp_path: Path) -> None:
    keep = tmp_path / "keep"
    host = Host(tmp_path / "proc", keep=keep)
    host.add(1000, qemu("web"))
    keep.mkdir(exist_ok=True)
    (keep / CURRENT).symlink_to("/dev/full")
    for _ in range(3 * JUDGE_EVERY_SAMPLES):
        host.pass_second(read_all=True)
    assert host.said == [f"--keep {keep}: verdicts are not kept: No space left on device"]
    assert host.exporter.render() is not None
