"""What may be asked of a host that is lent: which keys of a machine, which files, and which other hosts.

A guest can show all that it was booted from, and its member is root's. So a campaign has words only for the machine
itself. What names something of the host (register, identity, TAP, metrics, who runs QEMU) is the host's own, as it is
for machines that come from other hosts (``crates/replicator/src/assignment.rs``).
"""

import socket
import ssl
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stealtime.protect.endpoint import StandbyHost, tcp_address
from stealtime.protect.session import first_fault
from stealtime.protect.specification import HostSpec
from stealtime.protect.vm_file import IdentityFiles, VmFile
from stealtime.vocabulary.errors import StealtimeError

_KEYS = frozenset(
    {
        "name",
        "memory",
        "vcpus",
        "accelerator",
        "machine",
        "cpu",
        "kernel",
        "initramfs",
        "kernel_arguments",
        "virtio",
        "devices",
        "network",
        "mode",
        "interval",
        "min_interval",
        "overhead",
        "bypass",
        "tracker",
        "device_state",
        "longest_first_pause",
        "longest_hold",
        "copy_order",
        "epochs_in_flight",
        "hold",
        "standby_hosts",
    }
)
_NETWORK_KEYS = frozenset({"mac", "address", "gateway"})
_ANSWERS_WITHIN_S = 20.0
"""A handshake takes milliseconds; on a host that is itself emulated, seconds."""


def read_machine(machine: Mapping[str, Any], told: HostSpec, timing: Mapping[str, str]) -> VmFile:
    """Give the machine that a campaign wants to be started here.

    Args:
        machine: What the campaign says, as in ``VM.toml``.
        told: What the daemon of this host was told.
        timing: This host's deadlines, as in ``VM.toml``.

    Raises:
        StealtimeError: It names what is not the campaign's, or cannot be had.
    """
    _refuse_own(machine, _KEYS, told.name)
    network = machine.get("network", {})
    _refuse_own(network, _NETWORK_KEYS, told.name, "network.")
    identity = None if told.identity is None else told.identity.model_dump()
    own = {"network": {**network, "bridge": told.bridge}, "identity": identity, "timing": timing}
    try:
        vm = VmFile.model_validate({**machine, **own})
    except ValidationError as error:
        raise StealtimeError(f"the machine cannot be had on {told.name!r}: {first_fault(error)}") from error
    for path in (Path(vm.kernel), *([] if vm.initramfs is None else [vm.initramfs])):
        if not _is_below(path, told.images):
            raise StealtimeError(
                f"machines of the host {told.name!r} may not boot from {path}",
                hint="only from what the campaign has copied there, or what is below `images` of host.toml",
            )
    for host in vm.standby_hosts:
        if not _is_known(host, told):
            raise StealtimeError(
                f"the host {told.name!r} knows no {host.name!r} at {host.endpoint}",
                hint="a host shows a certificate of the same authority, for its name and address; does its daemon run?",
            )
    return vm


def _refuse_own(table: Mapping[str, Any], keys: Collection[str], host: str, before: str = "") -> None:
    if not isinstance(table, dict):
        raise StealtimeError(f"{table!r} is no table of a machine")
    for key in table:
        if key not in keys:
            raise StealtimeError(
                f"{before}{key} of a machine is not for a campaign to say", hint=f"it is the own matter of {host}"
            )


def _is_below(path: Path, folders: Collection[Path]) -> bool:
    """Tell whether a path leads to a file in one of these folders, wherever its links lead (``host_facts.rs``)."""
    try:
        found = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return False
    return path.is_absolute() and found.is_file() and any(found.is_relative_to(one.resolve()) for one in folders)


def _is_known(host: StandbyHost, told: HostSpec) -> bool:
    """Tell whether a host is this one, or one that shows a certificate of this one's authority, as members do later.

    Why not is not told: who asks would learn which ports are open on this host's networks.
    """
    if (host.name, host.endpoint) == (told.name, told.listen):
        return True
    if host.is_local or told.identity is None:
        return False
    address, port = tcp_address(host.endpoint)
    try:
        context = _context_of(told.identity)
        with (
            socket.create_connection((address, port), _ANSWERS_WITHIN_S) as connection,
            context.wrap_socket(connection, server_hostname=address) as link,
        ):
            shown = link.getpeercert() or {}
    except (OSError, ValueError):
        return False
    named: Any = shown.get("subjectAltName", ())
    return any(name == host.name for _, name in named)


def _context_of(identity: IdentityFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(identity.ca))
    context.load_cert_chain(identity.certificate, identity.key)
    if identity.revoked is not None:
        context.load_verify_locations(cafile=str(identity.revoked))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context
