"""The laboratory itself: what is connected, what a cut loses, and that nothing outlives it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_etcd import Etcd

from stealtime.hosts import network
from stealtime.hosts.laboratory import ARBITER, CLIENT, GUEST_BRIDGE, Laboratory, NetworkName, Node
from stealtime.lab.platforms.process import run_mark

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

# Tells the sender of each datagram where it came from, and on standard output what it said.
ECHO = """
import socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 7))
print("ready", flush=True)
while True:
    said, sender = server.recvfrom(100)
    print(said.decode(), flush=True)
    server.sendto(said, sender)
"""

# Sends each word until it comes back, for so many tries.
ASK = """
import socket, sys
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(0.2)
asking.connect((sys.argv[1], 7))
for _ in range(int(sys.argv[3])):
    try:
        asking.send(sys.argv[2].encode())
        while asking.recv(100) != sys.argv[2].encode():
            pass
        sys.exit(0)
    except (TimeoutError, OSError):
        continue
sys.exit(1)
"""

PATIENT = 100
LOST = 5


class Echo:
    """Answers on a node."""

    def __init__(self, laboratory: Laboratory, node: Node, address: str) -> None:
        self.process = laboratory.start(node.name, [sys.executable, "-c", ECHO, address], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def heard(self) -> list[str]:
        """End it, and give what it was told."""
        self.process.kill()
        said, _ = self.process.communicate()
        return list(said.decode().split())


@pytest.fixture(scope="module")
def laboratory() -> Iterator[Laboratory]:
    with Laboratory() as built:
        yield built


def ask(laboratory: Laboratory, name: str, address: str, word: str, tries: int) -> bool:
    """Tell whether a word comes back from an address."""
    asking = laboratory.start(name, [sys.executable, "-c", ASK, address, word, str(tries)])
    return int(asking.wait(timeout=120)) == 0


def join_guest(laboratory: Laboratory, host: str, address: str) -> None:
    """Put an address on a host's bridge: a guest would have it behind a TAP there."""
    network.batch(laboratory.host(host).namespace, [f"addr add {address}/24 dev {GUEST_BRIDGE}"])


@pytest.mark.parametrize(
    ("asker", "answerer", "on"),
    [("a", "b", "replication"), ("b", "a", "replication"), ("a", ARBITER, "register"), ("b", ARBITER, "register")],
)
def test_each_network_connects_those_who_are_on_it(
    laboratory: Laboratory, asker: str, answerer: str, on: NetworkName
) -> None:
    address = laboratory.nodes[answerer].address(on)
    echo = Echo(laboratory, laboratory.nodes[answerer], address)
    assert ask(laboratory, asker, address, "hello", PATIENT)
    assert "hello" in echo.heard()


def test_the_client_reaches_what_is_on_the_bridge_of_either_host(laboratory: Laboratory) -> None:
    for host, address in (("a", "10.77.1.201"), ("b", "10.77.1.202")):
        join_guest(laboratory, host, address)
        echo = Echo(laboratory, laboratory.host(host), address)
        assert ask(laboratory, CLIENT, address, "hello", PATIENT), host
        echo.heard()


def test_networks_are_apart(laboratory: Laboratory) -> None:
    address = laboratory.arbiter.address("register")
    echo = Echo(laboratory, laboratory.arbiter, address)
    assert not ask(laboratory, CLIENT, address, "hello", LOST)
    assert echo.heard() == []
    with pytest.raises(ValueError, match="no address on the network replication"):
        laboratory.client.address("replication")


def test_a_cut_loses_both_ways_until_it_is_mended(laboratory: Laboratory) -> None:
    address = laboratory.host("b").address("replication")
    echo = Echo(laboratory, laboratory.host("b"), address)
    laboratory.cut("b", "replication")
    assert not ask(laboratory, "a", address, "cut", LOST)
    laboratory.mend("b", "replication")
    assert ask(laboratory, "a", address, "mended", PATIENT)
    assert set(echo.heard()) == {"mended"}


def test_a_cut_one_way_loses_only_that_way(laboratory: Laboratory) -> None:
    address = laboratory.host("b").address("replication")
    # ARP is lost one way too: let both sides know each other first.
    echo = Echo(laboratory, laboratory.host("b"), address)
    assert ask(laboratory, "a", address, "first", PATIENT)
    laboratory.cut("b", "replication", "from")
    assert not ask(laboratory, "a", address, "unanswered", LOST)
    laboratory.cut("b", "replication", "to")
    assert not ask(laboratory, "a", address, "unheard", LOST)
    laboratory.mend_all()
    assert ask(laboratory, "a", address, "last", PATIENT)
    assert set(echo.heard()) == {"first", "unanswered", "last"}


def test_cutting_one_network_leaves_the_others(laboratory: Laboratory) -> None:
    laboratory.cut("a", "replication")
    try:
        address = laboratory.arbiter.address("register")
        echo = Echo(laboratory, laboratory.arbiter, address)
        assert ask(laboratory, "a", address, "hello", PATIENT)
        echo.heard()
    finally:
        laboratory.mend_all()


def test_an_unplugged_cable_takes_the_carrier_away(laboratory: Laboratory) -> None:
    node = laboratory.host("a")

    def carrier() -> str:
        return network.run(*node.prefix, "ip", "-oneline", "link", "show", "replication")

    assert "LOWER_UP" in carrier()
    laboratory.unplug("a", "replication")
    assert "NO-CARRIER" in carrier()
    laboratory.plug("a", "replication")
    assert "LOWER_UP" in carrier()


def test_a_power_cut_kills_everything_on_a_host_and_nothing_elsewhere(laboratory: Laboratory) -> None:
    on_a = [laboratory.start("a", ["sleep", "600"]) for _ in range(3)]
    on_b = laboratory.start("b", ["sleep", "600"])
    killed = laboratory.power_off("a")
    assert set(killed) == {process.pid for process in on_a}
    assert [process.wait(timeout=10) for process in on_a] == [-signal.SIGKILL] * 3
    assert on_b.poll() is None
    on_b.kill()
    on_b.wait(timeout=10)


def test_nothing_is_left_after_a_laboratory() -> None:
    with Laboratory(("a", "b", "c")) as built:
        namespaces = [node.namespace for node in built.nodes.values()]
        folder = built.folder
        process = built.start("c", ["sleep", "600"])
        assert all((network.NAMESPACES / name).exists() for name in namespaces)
    assert not any((network.NAMESPACES / name).exists() for name in namespaces)
    assert not folder.exists()
    assert process.wait(timeout=10) == -signal.SIGKILL


KILLED_LABORATORY = """
import sys
from stealtime.hosts.laboratory import Laboratory
with Laboratory() as built:
    built.start("a", ["sleep", "600"])
    print(built.folder, *(node.namespace for node in built.nodes.values()), flush=True)
    sys.stdin.read()
"""


def test_the_next_laboratory_removes_what_a_killed_one_left() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_LABORATORY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        _, *namespaces = other.stdout.readline().split()
        # While its owner lives, nobody clears it away.
        assert not set(namespaces) & set(network.clear_laboratories())
        other.kill()
        other.wait(timeout=10)
    assert namespaces
    assert all((network.NAMESPACES / name).exists() for name in namespaces)
    assert set(namespaces) <= set(network.clear_laboratories())
    assert not any((network.NAMESPACES / name).exists() for name in namespaces)


def test_a_laboratory_that_cannot_be_built_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(namespace: str, device: str) -> None:
        raise OSError("no filters here")

    monkeypatch.setattr(network, "make_filterable", refuse)
    with pytest.raises(OSError, match="no filters here"), Laboratory():
        pytest.fail("it was built")
    mine = Path(network.NAMESPACES).glob(f"{network.PREFIX}{run_mark()}-*")
    # The laboratory that these tests share may stand.
    assert len({name.name.rsplit("-", 2)[1] for name in mine}) <= 1


# Stores a value in etcd if the key is not there yet (compare and swap), and tells whether that was so.
CREATE = """
import base64, json, sys, urllib.request
code = lambda text: base64.b64encode(text.encode()).decode()
key, value = code("phone"), code(sys.argv[2])
transaction = {
    "compare": [{"key": key, "target": "VERSION", "version": 0}],
    "success": [{"requestPut": {"key": key, "value": value}}],
}
request = urllib.request.Request(sys.argv[1] + "/v3/kv/txn", json.dumps(transaction).encode())
try:
    with urllib.request.urlopen(request, timeout=float(sys.argv[3])) as answer:
        sys.exit(0 if json.load(answer).get("succeeded") else 3)
except OSError:
    sys.exit(4)
"""


def test_etcd_decides_for_both_hosts_and_only_for_those_who_reach_it(laboratory: Laboratory) -> None:
    etcd = Etcd(laboratory)

    def create(host: str, timeout_s: float = 30.0) -> int:
        asking = laboratory.start(host, [sys.executable, "-c", CREATE, etcd.url, host, str(timeout_s)])
        return int(asking.wait(timeout=120))

    won, lost, unreachable = 0, 3, 4
    laboratory.cut("a", "register")
    assert create("a", timeout_s=0.5) == unreachable
    laboratory.mend_all()
    assert create("b") == won
    assert create("a") == lost
    etcd.kill()
    assert create("a", timeout_s=0.5) == unreachable
    etcd.restart()
    assert create("a") == lost
