"""Real hosts that are lent to a campaign, the addresses of their guests, and this machine as the client."""

import asyncio
import ipaddress
import secrets
import shutil
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

from stealtime.hosts.client import LocalClient
from stealtime.hosts.guest import Guest
from stealtime.hosts.host import CpuTimes
from stealtime.hosts.lent_hosts import LentHost, lent_hosts
from stealtime.hosts.lent_machines import FOLDER_PREFIX
from stealtime.hosts.waiting import Waiting
from stealtime.lab.image.cache import hash_file
from stealtime.lab.image.kernel import find_kernel
from stealtime.lab.platforms.leftovers import make_short_folder
from stealtime.lab.platforms.ssh import SshPlatform
from stealtime.lab.scenarios.real_hosts import RealHosts
from stealtime.protect.machine import pack_agent, run_argument
from stealtime.vocabulary.errors import StealtimeError, UsageError

_KERNEL = "cloud"
"""Of guests, as ``VM.toml`` names it."""
_STANDBY = 1
"""The number of the host that takes guests over, unless they have another one."""
_POLL_S = 0.1
_HASH_SHOWN = 16
_BOOT = Path("/boot")
_NEIGHBOURS = Path("/proc/net/arp")
_COMPLETE = 0x2
"""ATF_COM of linux/if_arp.h: somebody has said that the address is his."""
_PROBED_PORT = 5060
"""Whoever has an address refuses, or takes, a connection to any port; SIP's is as good as another one."""
_REFUSED_WITHIN_S = 1.5


@asynccontextmanager
async def lent_testbed(primary: str, terms: RealHosts, logs: Path) -> AsyncIterator["LentTestbed"]:
    """Borrow all hosts, and see that the guests' addresses are free; what is blocking is done in threads.

    Args:
        primary: The platform, over ssh, where guests begin.
        terms: What the scenario says of the hosts.
        logs: For what the hosts say.

    Raises:
        StealtimeError: They are not to be had.
    """
    platforms = [SshPlatform.parse(name) for name in (primary, terms.standby, *terms.more_hosts)]
    client = LocalClient(terms.client or address_towards(terms.guest_address))
    for address in terms.guest_addresses:
        await asyncio.to_thread(refuse_taken, address, terms.guest_addresses)
    folder = make_short_folder()
    try:
        async with lent_hosts(platforms, terms.stealtime, logs) as hosts:
            refuse_unlike(hosts)
            testbed = LentTestbed(hosts, terms, client, folder)
            try:
                await asyncio.to_thread(testbed.open)
                yield testbed
                await asyncio.to_thread(testbed.clear)
            finally:
                # Whoever waits for a guest in another thread waits no more.
                client.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class LentTestbed:
    """Keeps :class:`stealtime.hosts.testbed.Testbed`.

    Args:
        hosts: Where guests begin, their standby, and where further guests begin.
        terms: What the scenario says of them.
        client: Who talks with the guests.
        folder: For files of trials.
    """

    def __init__(self, hosts: Sequence[LentHost], terms: RealHosts, client: LocalClient, folder: Path) -> None:
        self.hosts = hosts
        self.terms = terms
        self.client = client
        self.folder = folder
        self._waiting = Waiting(client, self.log_tail, _POLL_S)
        self._addresses = terms.guest_addresses
        self._prefix = f"lent-{secrets.token_hex(4)}"
        self._folder_there = Path()
        self._there: set[Path] = set()
        self._guests: list[Guest] = []

    def open(self) -> None:
        """Have the hosts lend a folder, at the same path, and copy the kernel there."""
        self._folder_there = common_folder(self.hosts) / f"{FOLDER_PREFIX}{self._prefix}"
        for host in self.hosts:
            host.ask("lend", prefix=self._prefix, folder=str(self._folder_there))
        self._copied(find_kernel(_KERNEL).boot_image)

    @property
    def prefix_length(self) -> int:
        return ipaddress.IPv4Interface(self.terms.guest).network.prefixlen

    def guest(self, name: str, *, number: int = 0, home: int = 0, standby: int = _STANDBY, **machine: Any) -> Guest:
        """Describe a guest; what it boots is brought to the hosts, whose own deadlines it has."""
        address, hosts = self.address(number), self._kept_by(home, standby)
        network = {"gateway": self.terms.gateway, "mac": guest_mac(address)}
        described = {
            **self._booted(machine),
            "name": f"{self._prefix}-{name}",
            "accelerator": self.terms.accelerator,
            "network": {"address": f"{address}/{self.prefix_length}", **network},
            # Where it began comes last: it goes back there after a failover.
            "standby_hosts": [{"name": host.name, "endpoint": host.endpoint} for host in reversed(hosts)],
        }
        self._guests.append(Guest(hosts, described, address, self._waiting))
        return self._guests[-1]

    def address(self, number: int) -> str:
        try:
            return self._addresses[number]
        except IndexError:
            raise UsageError(
                f"the scenario names the addresses of {len(self._addresses)} guests, and {number + 1} are needed",
                hint="name others as `media_guest` or `more_guests` under [define.hosts]",
            ) from None

    def cpu_times(self) -> CpuTimes:
        return CpuTimes.sum(self.times_by_host().values())

    def times_by_host(self) -> dict[str, CpuTimes]:
        return {host.name: host.cpu_times() for host in self.hosts}

    def standby_memory(self) -> None:
        """Give None: lent hosts are not asked for it."""

    def clear(self) -> None:
        guests, self._guests = self._guests, []
        for host in self.hosts:
            host.revive()
        for guest in guests:
            guest.end()

    def log_tail(self) -> str:
        said = []
        for host in self.hosts:
            try:
                said.append(str(host.ask("words")["words"]))
            except StealtimeError as error:
                said.append(error.message)
        return "\n".join(said)

    def _kept_by(self, home: int, standby: int) -> list[LentHost]:
        """Give the host where a guest begins, and its standby."""
        if (highest := max(home, standby)) >= len(self.hosts):
            raise UsageError(
                f"the scenario names {len(self.hosts)} hosts, and {highest + 1} are needed",
                hint="name others as `more_hosts` under [define.hosts]",
            )
        return [self.hosts[home], self.hosts[standby if home != standby else 0]]

    def _booted(self, machine: Mapping[str, Any]) -> dict[str, Any]:
        """Say what a machine boots, by paths on the hosts: of these only files may be named, and no program."""
        told, kernel = dict(machine), find_kernel(_KERNEL)
        if (program := told.pop("program", None)) is not None:
            told["kernel_arguments"] = run_argument(program, told.pop("program_arguments", ()))
            told["initramfs"] = pack_agent(kernel).path
        return {
            **told,
            "kernel": str(self._copied(kernel.boot_image)),
            "initramfs": str(self._copied(Path(told["initramfs"]))),
        }

    def _copied(self, source: Path) -> Path:
        """Bring a file to all hosts, once; its name there tells its content."""
        target = self._folder_there / f"{hash_file(source)[:_HASH_SHOWN]}-{source.name}"
        if target not in self._there:
            for host in self.hosts:
                host.copy(source, target)
            self._there.add(target)
        return target


def guest_mac(address: str) -> str:
    """Give the address of a guest's card: the same for every guest at its IP address, and no other's on its network.

    52:54:00 is QEMU's own prefix.
    """
    return "52:54:00:" + ":".join(f"{int(part):02x}" for part in address.split(".")[1:])


def refuse_unlike(hosts: Sequence[LentHost]) -> None:
    """See that a guest can move from one host to another.

    Raises:
        UsageError: Two are the same one.
        StealtimeError: They have different QEMUs.
    """
    for one, another in combinations(hosts, 2):
        if one.name == another.name:
            raise UsageError(
                f"the hosts at {one.address} and {another.address} have the same name {one.name!r}",
                hint="name another machine as `standby`, or give each its own `name` in host.toml",
            )
        if one.qemu != another.qemu:
            raise StealtimeError(
                f"no guest moves from QEMU {one.qemu} on {one.name} to {another.qemu} on {another.name}",
                hint="install the same build on both, or name it as `qemu` in host.toml",
            )


def common_folder(hosts: Sequence[LentHost]) -> Path:
    """Give a folder that machines may boot from on both hosts; those that ``host.toml`` names come first.

    Raises:
        StealtimeError: There is none.
    """
    common = [one for one in hosts[0].images if one != _BOOT and all(one in host.images for host in hosts)]
    if not common:
        told = "; ".join(f"{host.name} has {', '.join(map(str, host.images))}" for host in hosts)
        raise StealtimeError(
            f"there is no folder that machines may boot from on both hosts: {told}",
            hint='give both the same one in host.toml, as images = ["/srv/images"], and start their daemons anew',
        )
    return common[0]


def address_towards(guest: str) -> str:
    """Give the address that the kernel would send from to a guest.

    Raises:
        StealtimeError: It knows no way.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((guest, _PROBED_PORT))
        except OSError as error:
            raise StealtimeError(
                f"this machine knows no way to the guest's address {guest}: {error.strerror}",
                hint="give it an address on the guests' network, or a route there and the guest a `gateway`",
            ) from error
        return str(asking.getsockname()[0])


def refuse_foreign(address: str) -> None:
    """See that an address is one of this machine's.

    Raises:
        UsageError: It is not.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trying:
        try:
            trying.bind((address, 0))
        except OSError:
            raise UsageError(
                f"{address} is no address of this machine", hint=f"give it that one: ip address add {address}/..."
            ) from None


def refuse_taken(address: str, guests: Sequence[str]) -> None:
    """See that nobody has a guest's address.

    Args:
        address: The one.
        guests: All that our guests have: what is still known of their cards is no sign of anybody else.

    Raises:
        StealtimeError: Somebody answers there.
    """
    taken = StealtimeError(
        f"the guest's address {address} is taken: somebody answers there",
        hint="name a free one under [define.hosts]; is another campaign using the hosts?",
    )
    try:
        with socket.create_connection((address, _PROBED_PORT), _REFUSED_WITHIN_S):
            raise taken
    except ConnectionRefusedError:
        raise taken from None
    except OSError:
        pass  # nobody is there, or nobody who wants to be found by TCP
    if neighbour_of(_NEIGHBOURS.read_text(), address) not in (None, *map(guest_mac, guests)):
        raise taken


def neighbour_of(table: str, address: str) -> str | None:
    """Give the card that has an address, of the text of ``/proc/net/arp`` (proc(5)); None if none is known."""
    for line in table.splitlines()[1:]:
        words = line.split()
        if words[0] == address and int(words[2], 16) & _COMPLETE:
            return words[3].lower()
    return None
