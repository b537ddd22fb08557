"""Long-term operation: bounded logs, metrics on every host, no endless wait for a QEMU."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from two_hosts import HOSTS, Counting, TwoHosts, assert_unharmed, await_that, laboratory_or_skip, other

from stealtime.protect.status import MemberStatus

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

FIRST_OWN_USER = 0x7000_0000
"""As in ``crates/capture/src/rights.rs``."""
METRICS = "127.0.0.1:9464"
LOG_BYTES = 64 << 10
# An ordinary user who opens all the connections that he may and says nothing on any of them.
_CROWD = """
import resource, socket, sys, time
host, port = sys.argv[1].rsplit(":", 1)
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[2])
    sys.exit("the control socket is open to everybody")
except PermissionError:
    pass
held, until = [], time.monotonic() + float(sys.argv[3])
while time.monotonic() < until:
    one = socket.socket()
    one.settimeout(0.05)
    try:
        one.connect((host, int(port)))
    except OSError:
        time.sleep(0.01)
    held.append(one)
    if len(held) > 4000:
        held.pop(0).close()
print(len(held))
"""
CROWDED_S = 8.0
NOBODY = "65534"
_FETCH = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())"


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    """A machine that says all that its kernel has to say on its console."""
    with laboratory_or_skip() as laboratory:
        hosts = TwoHosts(
            laboratory,
            interval="25ms",
            metrics=METRICS,
            log=f"{LOG_BYTES >> 10}KiB",
            kernel_arguments="ignore_loglevel initcall_debug",
        )
        hosts.boot()
        yield hosts


def metrics(hosts: TwoHosts, host: str) -> dict[str, float]:
    """Ask as Prometheus does, on a host; without the labels that tell machines apart."""
    argv = [sys.executable, "-c", _FETCH, f"http://{METRICS}/metrics"]
    asking = hosts.laboratory.start(host, argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    text, said = asking.communicate(timeout=60)
    assert asking.returncode == 0, said.decode()
    lines = [line for line in text.decode().splitlines() if line and not line.startswith("#")]
    values = {}
    for line in lines:
        name, value = line.rsplit(" ", 1)
        values[re.sub(r'(vm|host|mode)="[^"]*",?', "", name).replace(",}", "}").replace("{}", "")] = float(value)
    return values


def settled(hosts: TwoHosts) -> MemberStatus:
    status = hosts.settled()
    assert status.pid is not None
    return status


def test_what_qemu_tells_is_taken_off_its_queue(hosts: TwoHosts) -> None:
    active = settled(hosts)
    await_that(lambda: settled(hosts).epoch > active.epoch + 200, lambda: "no epochs are captured")
    status = settled(hosts)
    # Two events an epoch; those of the last ones may be under way.
    for name in ("STOP", "RESUME"):
        assert status.qemu_events[name] > status.epoch - active.epoch, status.qemu_events
    assert status.qemu_events["STOP"] >= 200


def test_logs_stay_within_their_bound_under_a_flood(hosts: TwoHosts) -> None:
    active = settled(hosts)
    folder = hosts.member(active.host).path
    await_that(lambda: (folder / "epochs.csv.1").exists(), lambda: f"no log of {LOG_BYTES} bytes is full: {folder}")
    assert (folder / "console.log.1").exists(), "the guest has not said enough for a test"
    for name in ("epochs.csv", "console.log", "events.jsonl"):
        parts = [part for part in (folder / name, folder / f"{name}.1") if part.exists()]
        assert sum(part.stat().st_size for part in parts) <= LOG_BYTES, name
    for part in (folder / "epochs.csv", folder / "epochs.csv.1"):
        assert part.read_text().startswith("term,epoch,")


def test_a_qemu_that_does_not_answer_is_given_up_and_figures_go_on(hosts: TwoHosts) -> None:
    counting = Counting(hosts, linear_timeouts=True)
    counting.await_answers()
    active = settled(hosts)
    first = metrics(hosts, active.host)
    assert first["stealtime_protect_pause_seconds_count"] > 0
    assert first["stealtime_protect_guest_time_lost_seconds_total"] > 0
    assert first['stealtime_protect_pause_seconds_bucket{le="+Inf"}'] == first["stealtime_protect_pause_seconds_count"]
    assert active.qemu_pid is not None
    os.kill(active.qemu_pid, signal.SIGSTOP)
    hosts.await_running(other(active.host))
    assert active.pid is not None
    hosts.await_end(active.pid)
    hosts.await_end(active.qemu_pid)
    after = hosts.settled(unlike=frozenset({active.pid}))
    assert after.host == other(active.host)
    counting.await_answers()
    assert_unharmed(counting.end())

    def is_counted() -> bool:
        return metrics(hosts, after.host).get("stealtime_protect_pause_seconds_count", 0) > 0

    await_that(is_counted, lambda: "the member that took over tells no figures")
    assert metrics(hosts, after.host)["stealtime_protect_protected"] == 1


def test_a_standby_tells_what_is_true_of_it(hosts: TwoHosts) -> None:
    active = settled(hosts)
    told = metrics(hosts, other(active.host))
    assert told['stealtime_protect_role{role="standby"}'] == 1
    assert told['stealtime_protect_alarm{alarm="memory"}'] == 0
    assert told["stealtime_protect_acknowledged_epoch"] > 0
    # That is for who has the machine to say.
    assert "stealtime_protect_protected" not in told


@pytest.mark.truth
def test_a_crowd_of_strangers_takes_neither_figures_nor_control_nor_the_guest(hosts: TwoHosts) -> None:
    counting = Counting(hosts)
    counting.await_answers()
    active = settled(hosts)
    assert active.pid is not None
    member = psutil.Process(active.pid)
    before = member.num_fds()
    crowd = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", sys.executable, "-c", _CROWD]
    crowd += [METRICS, str(hosts.member(active.host).control_socket), str(CROWDED_S)]
    crowding = hosts.laboratory.start(active.host, crowd, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    most = 0
    while crowding.poll() is None:
        assert hosts.status(active.host) is not None
        most = max(most, member.num_fds())
    told, said = crowding.communicate()
    assert crowding.returncode == 0, said.decode()
    assert int(told) > 100, "there was no crowd"
    assert most <= before + 16, f"strangers took {most - before} descriptors"
    assert metrics(hosts, active.host)["stealtime_protect_protected"] == 1
    (serving,) = (task for task in _threads(member.pid) if task[0] == "metrics")
    assert serving[1] == 0, "it answers before what protects the guest"
    assert settled(hosts).pid == active.pid, "nobody moved for a stranger"
    assert_unharmed(counting.end())


def _threads(pid: int) -> list[tuple[str, int]]:
    """Give the name and the nice value of each thread of a process."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    halves = [stat[stat.index("(") + 1 :].rsplit(") ", 1) for stat in stats]
    return [(name, int(rest.split()[16])) for name, rest in halves]


def test_a_qemu_has_a_user_of_its_own_and_dies_with_its_member(hosts: TwoHosts) -> None:
    active = settled(hosts)
    members = [hosts.status(name) for name in HOSTS]
    qemus = [psutil.Process(member.qemu_pid) for member in members if member is not None and member.qemu_pid]
    assert len(qemus) == len(HOSTS)
    users = {qemu.uids() for qemu in qemus}
    assert len(users) == len(HOSTS)
    assert all(min(user) > FIRST_OWN_USER for user in users), users
    # Its change of user must not cost the signal that ends it.
    hosts.strike("kill")
    for pid in (active.pid, active.qemu_pid):
        assert pid is not None
        hosts.await_end(pid)
    hosts.settled()
