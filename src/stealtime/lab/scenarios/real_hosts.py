"""``[define.hosts]``: a scenario on hosts of the user's, two or more, which keep guests, instead of namespaces here.

The primary host is the platform, ``ssh:...``; the standby stands here. All that the hosts' daemons were told (names,
endpoints, bridge, register, identities, folders of images) is asked of them, and so is no key.
"""

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from stealtime.lab.platforms.ssh_name import SshName
from stealtime.vocabulary.errors import UsageError


def _ssh_name(text: str) -> str:
    try:
        SshName.parse(text)
    except UsageError:
        raise ValueError(f"{text!r} names no ssh host; expected ssh:[user@]host[:port]") from None
    return text


def _interface(text: str) -> str:
    try:
        interface = ipaddress.IPv4Interface(text)
    except ValueError:
        interface = None
    if interface is None or "/" not in text:
        raise ValueError(f"{text!r} is not an IPv4 address with a prefix such as 10.0.0.100/24")
    if interface.ip in (interface.network.network_address, interface.network.broadcast_address):
        raise ValueError(f"{text!r} is the address of the network itself, not of a machine in it")
    return text


def _address(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise ValueError(f"{text!r} is not an IPv4 address such as 10.0.0.1") from None


class RealHosts(BaseModel):
    """Two hosts that are lent to the campaign."""

    # The docstrings of the fields are the descriptions that `stealtime schema` prints.
    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True, use_attribute_docstrings=True
    )

    standby: Annotated[str, AfterValidator(_ssh_name)]
    """The host that takes the guest over: ``ssh:[user@]host[:port]``. The platform names the one where it begins."""
    guest: Annotated[str, AfterValidator(_interface)]
    """The guest's address with its prefix, on the network that the bridges of both hosts belong to; nobody else's."""
    media_guest: Annotated[str, AfterValidator(_address)] | None = None
    """The address of a second guest on that network, where signalling and media have a guest each."""
    more_guests: tuple[Annotated[str, AfterValidator(_address)], ...] = ()
    """The addresses of further guests on that network: of further primaries, or of the two servers of the mode
    ``replicated``, as ``guest`` is the one that they share."""
    more_hosts: tuple[Annotated[str, AfterValidator(_ssh_name)], ...] = ()
    """Hosts where the second and the third primary of two stages begin, or media with the roles ``hosts``;
    ``standby`` takes all of them over."""
    fronts: tuple[Annotated[str, AfterValidator(_address)], Annotated[str, AfterValidator(_address)]] | None = None
    """Two addresses of this machine on that network, for the fronts of two stages."""
    name_server: Annotated[str, AfterValidator(_address)] | None = None
    """Another address of this machine there, for the name server that leads phones to the fronts."""
    gateway: Annotated[str, AfterValidator(_address)] | None = None
    """The guest's default route, where this machine is on another network."""
    client: Annotated[str, AfterValidator(_address)] | None = None
    """This machine's own address, where the guest reaches it; default: the one that the kernel takes to get there."""
    accelerator: Literal["tcg", "kvm"] = "tcg"
    """How the guest runs; KVM needs a usable ``/dev/kvm`` on both hosts."""
    stealtime: str = Field(default="stealtime", pattern=r"^[^\x00-\x1f\x7f]+$")
    """The program on both hosts, where a shell that is no login shell does not find it: its path."""

    @property
    def guest_address(self) -> str:
        return str(ipaddress.IPv4Interface(self.guest).ip)

    @property
    def guest_addresses(self) -> list[str]:
        return [self.guest_address, *([] if self.media_guest is None else [self.media_guest]), *self.more_guests]
