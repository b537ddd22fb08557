"""The stage ``telephony`` on real hosts: both are lent over ssh, phones are on this machine."""

import asyncio
import secrets
import shutil
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import JsonValue

from stealtime.campaigns.planned import PlannedBoot
from stealtime.hosts.lent_hosts import LentHost, lent_hosts
from stealtime.hosts.lent_machines import FOLDER_PREFIX
from stealtime.lab.image.cache import hash_file
from stealtime.lab.image.kernel import find_kernel
from stealtime.lab.platforms.leftovers import make_short_folder
from stealtime.lab.platforms.ssh import SshPlatform
from stealtime.lab.scenarios.placement import Placement
from stealtime.lab.scenarios.real_hosts import RealHosts
from stealtime.studies.telephony.appliance.configuration import SIP_PORT
from stealtime.studies.telephony.client import LocalClient
from stealtime.studies.telephony.place.guest import KERNEL
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.place.remote import RemotePlace, guest_mac
from stealtime.studies.telephony.place.remote_guest import Loan
from stealtime.studies.telephony.server_stage import ServerStage
from stealtime.vocabulary.errors import StealtimeError, UsageError

_HASH_SHOWN = 16
_BOOT = Path("/boot")
_NEIGHBOURS = Path("/proc/net/arp")
_COMPLETE = 0x2
"""ATF_COM of linux/if_arp.h: somebody has said that the address is his."""
_REFUSED_WITHIN_S = 1.5


@asynccontextmanager
async def remote_stage(
    boot: PlannedBoot, placement: Placement, terms: RealHosts, folder: Path
) -> AsyncIterator["RemoteStage"]:
    """Borrow both hosts, and see that the guest's address is free; see ``campaigns.probe.Stage``."""
    platforms = [SshPlatform.parse(boot.platform), SshPlatform.parse(terms.standby)]
    client = LocalClient(terms.client or address_towards(terms.guest_address))
    for address in terms.guest_addresses:
        await asyncio.to_thread(refuse_taken, address)
    trials = make_short_folder()
    try:
        async with lent_hosts(platforms, terms.stealtime, folder) as (primary, standby):
            refuse_unlike(primary, standby)
            stage = RemoteStage(boot, placement, (folder, trials), Loan(primary, standby, terms), client)
            try:
                await asyncio.to_thread(stage.open)
                yield stage
                await asyncio.to_thread(stage.give_up)
            finally:
                # Whoever waits for a phone in another thread waits no more.
                client.end()
    finally:
        shutil.rmtree(trials, ignore_errors=True)


class RemoteStage(ServerStage):
    """Two lent hosts, and a server as the last cell wanted it.

    Args:
        boot: Whose cells are carried out.
        placement: Of the scenario.
        folders: For logs, until they are stored, and for the files of trials.
        loan: The hosts.
        client: Where the phones are.
    """

    def __init__(
        self,
        boot: PlannedBoot,
        placement: Placement,
        folders: tuple[Path, Path],
        loan: Loan,
        client: LocalClient,
    ) -> None:
        super().__init__(boot, placement, *folders)
        self._loan = loan
        self._client = client
        self._prefix = f"sip-{secrets.token_hex(4)}"
        self._folder_there = Path()
        self._kernel = Path()
        self._there: set[Path] = set()

    def open(self) -> None:
        """Have both hosts lend a folder, at the same path, and copy the kernel there."""
        self._folder_there = common_folder(self._loan.hosts) / f"{FOLDER_PREFIX}{self._prefix}"
        for host in self._loan.hosts:
            host.ask("lend", prefix=self._prefix, folder=str(self._folder_there))
        self._kernel = self._copied(find_kernel(KERNEL).boot_image)

    def new_place(self, serial: int, wanted: Mapping[str, JsonValue]) -> Place:
        """Give a place for another server on the hosts."""
        if wanted["mode"] == "replicated":
            raise UsageError(
                "the mode replicated is not to be had on real hosts: its store and its address need a third one",
                hint="measure it in the scenario telephony, or choose off, no-net, net or net+bypass",
            )
        if "primaries" in wanted:
            raise UsageError(
                "two stages are not to be had on real hosts: their fronts and further primaries need more than two",
                hint="measure them in the scenario telephony",
            )
        name = f"{self._prefix}-{serial}"
        return RemotePlace(self._loan, self._client, name, wanted, self._kernel, self._copied)

    def _copied(self, source: Path) -> Path:
        """Bring a file to both hosts, once; its name there tells its content."""
        target = self._folder_there / f"{hash_file(source)[:_HASH_SHOWN]}-{source.name}"
        if target not in self._there:
            for host in self._loan.hosts:
                host.copy(source, target)
            self._there.add(target)
        return target


def refuse_unlike(primary: LentHost, standby: LentHost) -> None:
    """See that a guest can move from one host to the other.

    Raises:
        UsageError: They are the same one.
        StealtimeError: They have different QEMUs.
    """
    if primary.name == standby.name:
        raise UsageError(
            f"the hosts at {primary.address} and {standby.address} have the same name {primary.name!r}",
            hint="name another machine as `standby`, or give each its own `name` in host.toml",
        )
    if primary.qemu != standby.qemu:
        raise StealtimeError(
            f"no guest moves from QEMU {primary.qemu} on {primary.name} to {standby.qemu} on {standby.name}",
            hint="install the same build on both, or name it as `qemu` in host.toml",
        )


def common_folder(hosts: tuple[LentHost, LentHost]) -> Path:
    """Give a folder that machines may boot from on both hosts; those that ``host.toml`` names come first.

    Raises:
        StealtimeError: There is none.
    """
    primary, standby = hosts
    common = [folder for folder in primary.images if folder in standby.images and folder != _BOOT]
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
            asking.connect((guest, SIP_PORT))
        except OSError as error:
            raise StealtimeError(
                f"this machine knows no way to the guest's address {guest}: {error.strerror}",
                hint="give it an address on the guests' network, or a route there and the guest a `gateway`",
            ) from error
        return str(asking.getsockname()[0])


def refuse_taken(address: str) -> None:
    """See that nobody has a guest's address.

    Raises:
        StealtimeError: Somebody answers there.
    """
    taken = StealtimeError(
        f"the guest's address {address} is taken: somebody answers there",
        hint="name a free one under [define.hosts]; is another campaign using the hosts?",
    )
    try:
        with socket.create_connection((address, SIP_PORT), _REFUSED_WITHIN_S):
            raise taken
    except ConnectionRefusedError:
        raise taken from None
    except OSError:
        pass  # nobody is there, or nobody who wants to be found by TCP
    if neighbour_of(_NEIGHBOURS.read_text(), address) not in (None, guest_mac(address)):
        raise taken


def neighbour_of(table: str, address: str) -> str | None:
    """Give the card that has an address, of the text of ``/proc/net/arp`` (proc(5)); None if none is known."""
    for line in table.splitlines()[1:]:
        words = line.split()
        if words[0] == address and int(words[2], 16) & _COMPLETE:
            return words[3].lower()
    return None
