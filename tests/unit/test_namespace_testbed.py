"""Guests of a testbed in namespaces, without its hosts."""

import fcntl
import ipaddress
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography import x509

from stealtime.hosts.laboratory import CLIENT
from stealtime.hosts.namespace_testbed import NamespaceGuest, NamespaceTestbed
from stealtime.protect.endpoint import StandbyHost
from stealtime.protect.vm_file import Identity
from stealtime.vocabulary.errors import StealtimeError

ADDRESSES = {"a": "10.77.2.1", "b": "10.77.2.2", "c": "10.77.2.3", "d": "10.77.2.4"}


class WithoutDaemons(NamespaceTestbed):
    """Its hosts receive nothing."""

    def start_daemon(self, name: str) -> None:
        """Start nothing."""


@pytest.fixture
def testbed(tmp_path: Path) -> NamespaceTestbed:
    node = SimpleNamespace(address=lambda _: "10.77.1.9")
    laboratory = SimpleNamespace(
        folder=tmp_path,
        has_ended=False,
        nodes={CLIENT: node},
        start=lambda *_: None,
        host=lambda name: SimpleNamespace(address=lambda _: ADDRESSES[name], surroundings=None),
    )
    return WithoutDaemons(cast(Any, laboratory))


def addresses(identity: Identity) -> list[str]:
    """Give those that a host's certificate is for."""
    certificate = x509.load_pem_x509_certificate(identity.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(one) for one in names.get_values_for_type(x509.IPAddress) if isinstance(one, ipaddress.IPv4Address)]


def test_a_guest_has_the_identity_of_the_host_where_it_begins(testbed: NamespaceTestbed) -> None:
    for name in ADDRESSES:
        NamespaceGuest(testbed, f"guest-{name}", known_as=name, node=name, mode="off", program="counter")
    assert {name: addresses(testbed.identity(name)) for name in ADDRESSES} == {
        name: [address] for name, address in ADDRESSES.items()
    }
    guest = NamespaceGuest(testbed, "guest", known_as="b", node="b", mode="off", program="counter")
    assert guest.vm.identity is not None
    assert addresses(guest.vm.identity) == ["10.77.2.2"]


def test_members_of_all_hosts_take_turns_as_those_of_one_host_do(testbed: NamespaceTestbed) -> None:
    testbed.admit("c")
    # As `turn.rs` takes one; hosts that were told anew still have the same.
    testbed.describe("c")
    first, second, third = (testbed.state.host(name).path / "turn.0" for name in ("a", "b", "c"))
    with first.open("w") as held, second.open("w") as wanted, third.open("w") as wanted_too:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for one in (wanted, wanted_too):
            with pytest.raises(BlockingIOError):
                fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    ("admitted", "home", "kept_by"),
    [("ab", "a", "ba"), ("abc", "a", "ba"), ("abc", "c", "bc"), ("ab", "c", "b"), ("ab", "b", "b")],
)
def test_one_host_backs_the_guests_of_all_others(
    testbed: NamespaceTestbed, admitted: str, home: str, kept_by: str
) -> None:
    testbed.hosts = [StandbyHost(name=name, endpoint=f"tcp:{ADDRESSES[name]}:7300") for name in admitted]
    guest = NamespaceGuest(testbed, f"guest-{home}", known_as=home, node=home, program="counter")
    assert [host.name for host in guest.vm.standby_hosts] == list(kept_by)


@pytest.mark.parametrize(("standby", "kept_by"), [(1, "ba"), (3, "da")])
def test_a_guest_may_have_another_standby(testbed: NamespaceTestbed, standby: int, kept_by: str) -> None:
    guest = testbed.guest("guest", standby=standby, program="counter")
    assert [host.name for host in guest.vm.standby_hosts] == list(kept_by)
    assert [host.name for host in guest.hosts] == list(reversed(kept_by))
    # It receives machines, as the usual two do.
    assert kept_by[0] in [host.name for host in testbed.hosts]


def test_nobody_makes_a_folder_of_a_laboratory_that_has_ended(testbed: NamespaceTestbed, tmp_path: Path) -> None:
    guest = NamespaceGuest(testbed, "guest", mode="off", program="counter")
    shutil.rmtree(tmp_path / "state")
    testbed.laboratory.has_ended = True
    for ask in (lambda: guest.member("a"), guest.members):
        with pytest.raises(StealtimeError, match="the laboratory has ended"):
            ask()
    assert not (tmp_path / "state").exists()
