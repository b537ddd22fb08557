"""A machine of a ``VM.toml`` on two hosts of a laboratory, to see what protecting it would cost."""

import ipaddress
from collections.abc import Callable, Sequence
from typing import Any

from stealtime.hosts import network
from stealtime.hosts.counting import COMPUTER
from stealtime.hosts.laboratory import CLIENT, GUEST_BRIDGE, GUEST_INTERFACE, Laboratory
from stealtime.hosts.mode_costs import ModeCost, Rehearsal, Way
from stealtime.hosts.namespace_testbed import HOSTS, NamespaceTestbed
from stealtime.protect.machine import resolve_machine
from stealtime.protect.vm_file import VmFile
from stealtime.vocabulary.errors import UsageError

_OF_ITS_HOSTS = frozenset(
    {
        *("name", "network", "mode", "interval", "min_interval_ns", "overhead", "standby_hosts", "identity"),
        *("register_", "timing", "metrics", "qemu_user", "allow_faults", "copy_order"),
    }
)
"""What a machine's file says of how and where it is protected, which the laboratory says instead."""
_LONGEST_PREFIX = 30
"""With room for the guest and a client."""


def machine_of(vm: VmFile) -> dict[str, Any]:
    """Give what a machine is, as in ``VM.toml``, wherever it runs."""
    return vm.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=set(_OF_ITS_HOSTS))


def demonstrated(accelerator: str) -> VmFile:
    """Give the machine of a demonstration: it only computes, and says how much."""
    machine = {
        "name": "computer",
        "program": "counter",
        "program_arguments": list(COMPUTER),
        "accelerator": accelerator,
    }
    return VmFile.model_validate(machine)


def own_interface(vm: VmFile, address: str | None) -> ipaddress.IPv4Interface | None:
    """Give the address that a guest gives itself; None where the laboratory gives it one.

    Args:
        vm: The machine.
        address: With its prefix, where the command line says it.

    Raises:
        UsageError: It is none, or nobody says it of a guest that configures its own.
    """
    if vm.program is not None:
        if address is not None:
            raise UsageError(
                f"--address {address}: the program {vm.program!r} has none of its own", hint="leave it out"
            )
        return None
    told = address or vm.network.address
    if told is None:
        raise UsageError(
            f"the machine {vm.name!r} does not say at which address its guest answers",
            hint="name it: --address 10.0.0.2/24",
        )
    try:
        interface = ipaddress.IPv4Interface(told)
    except ValueError:
        raise UsageError(f"{told!r} is not an IPv4 address", hint="--address 10.0.0.2/24") from None
    if interface.network.prefixlen > _LONGEST_PREFIX:
        raise UsageError(
            f"the address {told} leaves no room for a client beside the guest",
            hint=f"give it with its prefix: --address {interface.ip}/24",
        )
    return interface


def rehearse(
    vm: VmFile,
    ways: Sequence[Way],
    duration_s: float,
    tell: Callable[[str], None],
    *,
    load: str | None = None,
    interface: ipaddress.IPv4Interface | None = None,
) -> list[ModeCost]:
    """Measure what each way of protecting a machine costs on this host.

    Args:
        vm: The machine.
        ways: The unprotected one first, which the others are held against.
        duration_s: How long each is measured.
        tell: Takes how it goes.
        load: A command beside the client, in which ``{address}`` is the guest's; None: none.
        interface: The address that the guest gives itself, of :func:`own_interface`; None: it is given one.

    Raises:
        StealtimeError: It cannot be measured: no root, a program is missing, the guest does not come up.
    """
    machine, spec = machine_of(vm), resolve_machine(vm)
    images = sorted({image.path.parent for image in (spec.kernel, spec.initramfs) if image is not None})
    with Laboratory(HOSTS) as laboratory:
        if interface is not None:
            machine["network"] = {"bridge": GUEST_BRIDGE, "mac": vm.mac}
            _bring_client_to(interface, laboratory)
        testbed = NamespaceTestbed(laboratory, accelerator=vm.accelerator, images=images)
        answers_at = None if interface is None else str(interface.ip)
        rehearsal = Rehearsal(testbed, machine, vm.name, answers_at, duration_s, load)
        return rehearsal.measure(ways, tell)


def _bring_client_to(interface: ipaddress.IPv4Interface, laboratory: Laboratory) -> None:
    """Give the client of a laboratory an address in a guest's network, if it has none there."""
    if interface.network.overlaps(ipaddress.IPv4Interface(GUEST_INTERFACE).network):
        return
    ours = next(one for one in interface.network.hosts() if one != interface.ip)
    prefix = interface.network.prefixlen
    network.batch(laboratory.nodes[CLIENT].namespace, [f"addr add {ours}/{prefix} dev clients"])
