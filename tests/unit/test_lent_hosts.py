"""Real hosts over ssh: what a campaign says of them, whose moments are whose, and what a lent host refuses."""

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stealtime.campaigns.file import read_campaign
from stealtime.campaigns.places import HostCpus
from stealtime.campaigns.planner import plan
from stealtime.hosts import lending
from stealtime.hosts.clock_offset import ClockOffset, Exchange
from stealtime.hosts.daemon import daemon_of
from stealtime.hosts.lending import Lending, serve
from stealtime.hosts.lent_hosts import LentHost
from stealtime.hosts.lent_machines import FOLDER_PREFIX, clear_left_over, make_folder
from stealtime.hosts.lent_testbed import address_towards, common_folder, guest_mac, neighbour_of
from stealtime.lab.scenarios.real_hosts import RealHosts
from stealtime.protect.specification import FileRegisterSpec, HostSpec, write_document
from stealtime.protect.state import State, record_process
from stealtime.store.model import PlatformRecord
from stealtime.vocabulary.errors import StealtimeError, UsageError

TERMS = RealHosts(standby="ssh:root@10.0.0.2", guest="10.0.0.100/24")
HOSTS = """
[[define]]
name = "ours"
[define.hosts]
standby = "ssh:root@10.0.0.2"
guest = "10.0.0.100/24"
"""
REGISTER = '[[probes]]\nprobe = "register"\nduration = "1s"\nmode = ["off", "net"]\nrate = [10]\n'
TICK = '[[probes]]\nprobe = "tick"\nduration = "1s"\n'


def usable(*names: str) -> list[PlatformRecord]:
    return [PlatformRecord(name=name, usable=True, reason="") for name in names]


def test_servers_are_measured_on_hosts_over_ssh_in_their_scenario_and_here_in_the_builtin_one() -> None:
    campaign = read_campaign(
        'name = "x"\nplatforms = ["native", "ssh:root@10.0.0.1"]\nscenarios = ["telephony", "ours", "alone"]\n'
        + REGISTER
        + TICK
        + HOSTS,
        "f",
    )
    planned = plan(campaign, usable("native", "ssh:root@10.0.0.1"), HostCpus((0, 1)))
    cells = {(one.cell.platform, one.cell.scenario, one.cell.measurement) for one in planned.cells}
    assert cells == {
        ("native", "telephony", "register-off-10-udp"),
        ("ssh:root@10.0.0.1", "ours", "register-off-10-udp"),
        ("ssh:root@10.0.0.1", "ours", "register-100ms-net-10-udp"),
        # Over ssh a machine is measured by the agent as ever.
        ("native", "alone", "tick-68us"),
        ("ssh:root@10.0.0.1", "alone", "tick-68us"),
    }
    assert planned.places.here["ours"].hosts == TERMS
    assert planned.places.here["telephony"].hosts is None


def test_each_study_borrows_the_hosts_of_one_scenario_by_itself() -> None:
    failover = '[[probes]]\nprobe = "failover"\nduration = "1s"\n'
    text = f'name = "x"\nplatforms = ["ssh:root@10.0.0.1"]\nscenarios = ["ours"]\n{REGISTER}{failover}{HOSTS}'
    planned = plan(read_campaign(text, "f"), usable("ssh:root@10.0.0.1"), HostCpus((0, 1)))
    probes = [{one.cell.probe for one in boot.cells} for boot in planned.boots]
    assert probes == [{"register"}, {"failover"}]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('standby = "10.0.0.2"', "'10.0.0.2' names no ssh host"),
        ('standby = "ssh:a:70000"', "names no ssh host"),
        ('guest = "10.0.0.100"', "is not an IPv4 address with a prefix"),
        ('guest = "10.0.0.0/24"', "the address of the network itself"),
        ('client = "here"', "'here' is not an IPv4 address"),
        ('neighbour = "x"', "unknown key 'hosts.neighbour' in [[define]] 1"),
    ],
)
def test_what_is_wrong_with_hosts_is_named(line: str, message: str) -> None:
    key = line.partition(" ")[0]
    lines = [one for one in HOSTS.splitlines() if not one.startswith(f"{key} ")]
    with pytest.raises(UsageError) as caught:
        read_campaign("\n".join(['name = "x"', REGISTER, *lines, line]), "f")
    assert message in caught.value.message


def test_neighbours_beside_real_hosts_are_refused() -> None:
    with pytest.raises(UsageError, match="no neighbours and no share"):
        read_campaign(f'name = "x"\n{REGISTER}{HOSTS}[define.share]\nquota_percent = 50\n', "f")


@given(
    offset_ns=st.integers(-(10**15), 10**15),
    ways_ns=st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)), min_size=1, max_size=9),
    later_ns=st.integers(-(10**10), 10**10),
    apart_ppm=st.floats(-1000, 1000),
)
def test_a_moment_of_another_clock_lies_within_the_bound(
    offset_ns: int, ways_ns: list[tuple[int, int]], later_ns: int, apart_ppm: float
) -> None:
    exchanges = [Exchange(10**12, 10**12 + there + back, 10**12 + there + offset_ns) for there, back in ways_ns]
    offset = ClockOffset.of(exchanges)
    # The truth: their clock at a moment of ours, having run apart since the exchange.
    ours_ns = 10**12 + later_ns
    theirs_ns = ours_ns + offset_ns + round(1e-6 * apart_ppm * (ours_ns - offset.at_ns))
    assert abs(offset.ours_ns(theirs_ns) - ours_ns) <= offset.error_at_ns(ours_ns) + 1
    assert abs(offset.theirs_ns(ours_ns) - theirs_ns) <= offset.error_at_ns(ours_ns) + 1
    assert offset.error_ns == -(-min(map(sum, ways_ns)) // 2)


def test_the_card_of_a_guest_follows_from_its_address() -> None:
    assert guest_mac("10.0.0.100") == "52:54:00:00:00:64"
    table = (
        "IP address       HW type     Flags       HW address            Mask     Device\n"
        "10.0.0.100       0x1         0x2         52:54:00:00:00:64     *        eth0\n"
        "10.0.0.101       0x1         0x0         00:00:00:00:00:00     *        eth0\n"
    )
    assert neighbour_of(table, "10.0.0.100") == guest_mac(TERMS.guest_address)
    assert neighbour_of(table, "10.0.0.101") is None
    assert neighbour_of(table, "10.0.0.1") is None


def test_this_machine_has_an_address_towards_a_guest() -> None:
    assert address_towards("127.0.0.9").startswith("127.")
    with pytest.raises(StealtimeError, match=r"no way to the guest's address 255\.255\.255\.255"):
        address_towards("255.255.255.255")


class _Host:
    def __init__(self, name: str, *images: str) -> None:
        self.name = name
        self.images = tuple(map(Path, images))


def test_images_go_where_both_hosts_let_machines_boot_from() -> None:
    a: Any = _Host("a", "/srv/images", "/root/.cache/stealtime", "/boot")
    assert common_folder([a, a]) == Path("/srv/images")
    b: Any = _Host("b", "/var/images", "/boot")
    with pytest.raises(StealtimeError, match="no folder that machines may boot from on both hosts") as caught:
        common_folder([a, b])
    assert "b has /var/images, /boot" in caught.value.message
    assert caught.value.hint


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Give a folder whose name leaves room for that of a socket."""
    with tempfile.TemporaryDirectory(prefix="lent-") as folder:
        yield Path(folder)


def lend(folder: Path, **changes: Any) -> State:
    """Make a state whose host is this very process."""
    state, images = State(folder / "state"), folder / "images"
    images.mkdir()
    host = state.host("a")
    told: dict[str, Any] = {
        "name": "a",
        "listen": "tcp:10.0.0.1:7460",
        "bridge": "br0",
        "register_": FileRegisterSpec(file=folder / "register"),
        "identity": None,
        "folder": host.path,
        "qemu": Path("/bin/true"),
        "qemu_user": None,
        "copies": 2,
        "images": (images,),
        "metrics": "127.0.0.1",
        "allow_faults": False,
    }
    write_document(host.config, HostSpec(**{**told, **changes}))
    record_process(host.pid_file, os.getpid())
    return state


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"listen": "unix:/run/a.sock"}, "listens on unix:/run/a.sock, which no other host reaches"),
        ({"bridge": None}, "it has no bridge"),
    ],
)
def test_a_host_that_nobody_reaches_is_not_lent(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StealtimeError, match=message) as caught:
        daemon_of(lend(tmp_path, **changes))
    assert "host.toml" in (caught.value.hint or "")


def test_a_machine_without_a_daemon_is_not_lent(tmp_path: Path) -> None:
    with pytest.raises(StealtimeError, match="no daemon receives machines on") as caught:
        daemon_of(State(tmp_path))
    assert "systemctl start stealtime-host" in (caught.value.hint or "")


def asked(host: Lending, command: str, **fields: Any) -> dict[str, Any]:
    answer = host.answer(json.dumps({"number": 7, "command": command, **fields}))
    assert answer.pop("number") == 7
    return answer


def test_a_lent_host_touches_only_what_was_lent(short_path: Path) -> None:
    host = Lending(lend(short_path))
    assert "was not lent" in asked(host, "end", vm="sip-00000001-1")["error"]
    for folder in ("/etc", str(short_path / "images"), str(short_path / f"images/x/{FOLDER_PREFIX}sip-00000001")):
        assert "may not boot from" in asked(host, "lend", prefix="sip-00000001", folder=folder)["error"]
    ours = short_path / f"images/{FOLDER_PREFIX}sip-00000001"
    assert "do not begin with 'phone'" in asked(host, "lend", prefix="phone", folder=str(ours))["error"]
    assert asked(host, "lend", prefix="sip-00000001", folder=str(ours)) == {}
    for name in ("phone", "sip-00000002-1", "sip-00000001-../../etc", "sip-00000001"):
        assert "was not lent" in asked(host, "end", vm=name)["error"]
    for command, more in (("die", {"pid": 1, "kind": "silent"}), ("kill", {}), ("epochs", {"from_ns": 0})):
        assert "was not lent" in asked(host, command, vm="phone", **more)["error"]
    assert asked(host, "status", vm="sip-00000001-1") == {"member": None}
    assert asked(host, "cpu")["server_ns"] == 0
    assert "is no question" in host.answer("nonsense")["error"]
    host.end()
    assert not ours.exists()


def test_what_was_lent_is_removed_when_the_other_side_is_gone(tmp_path: Path) -> None:
    state, ours = lend(tmp_path), tmp_path / f"images/{FOLDER_PREFIX}sip-00000001"
    reader, writer = os.pipe()
    question = {"number": 1, "command": "lend", "prefix": "sip-00000001", "folder": str(ours)}
    # The second one is not whole, as after a kill -9 of the other side.
    os.write(writer, f"{json.dumps(question)}\n{{".encode())
    os.close(writer)
    with (tmp_path / "answers").open("w") as answers:
        serve(state, reader, answers)
    os.close(reader)
    assert (tmp_path / "answers").read_text() == '{"number": 1}\n'
    assert not ours.exists()


def test_what_was_lent_is_removed_when_the_other_side_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lending, "SILENT_FOR_S", 0.05)
    state, ours = lend(tmp_path), tmp_path / f"images/{FOLDER_PREFIX}sip-00000001"
    reader, writer = os.pipe()
    question = {"number": 1, "command": "lend", "prefix": "sip-00000001", "folder": str(ours)}
    os.write(writer, f"{json.dumps(question)}\n".encode())
    with (tmp_path / "answers").open("w") as answers:
        serve(state, reader, answers)
    os.close(reader)
    os.close(writer)
    assert not ours.exists()


def test_what_a_killed_process_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    left, lives = (tmp_path / f"{FOLDER_PREFIX}sip-{name}" for name in ("left", "lives"))
    make_folder(left)
    make_folder(lives)
    (left / "owner").write_text((left / "owner").read_text().rsplit(":", 1)[0] + ":1")
    clear_left_over(State(tmp_path / "state"), [tmp_path])
    assert not left.exists()
    assert lives.exists()


class _EndedAtOnce:
    """A program over ssh that has ended before anything was asked: what is written to it finds a closed channel."""

    def __init__(self, exit_status: int | None) -> None:
        self.exit_status = exit_status
        self.stdin = self

    def write(self, _text: str) -> None:
        raise BrokenPipeError("Channel not open for sending")

    async def wait_closed(self) -> None:
        if self.exit_status is None:
            raise TimeoutError  # a connection that is lost ends with no exit code


@pytest.mark.parametrize(
    ("exit_status", "message"),
    [
        (127, "stealtime is not to be found at 10.0.0.1"),
        (2, "cannot lend its host"),
        (1, "answers no more"),
        (None, "the connection to 10.0.0.1 was lost: Channel not open for sending"),
    ],
)
def test_a_program_that_ended_before_it_was_asked_is_no_lost_connection(
    tmp_path: Path, exit_status: int | None, message: str
) -> None:
    (tmp_path / "log").write_text("sh: 1: exec: /no/stealtime: not found\n")

    async def greet() -> None:
        process: Any = _EndedAtOnce(exit_status)
        connection: Any = None
        await LentHost("10.0.0.1", connection, process, tmp_path / "log").greet()

    with pytest.raises(StealtimeError, match=message):
        asyncio.run(greet())
