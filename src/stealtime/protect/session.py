"""What ``stealtime protect start`` does, step by step, without its words."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from stealtime.lab.memory import read_memory_room, refuse_machine_of
from stealtime.lab.platforms.qemu_program import find_qemu
from stealtime.protect.endpoint import StandbyHost, parse_target
from stealtime.protect.host_file import HostFile
from stealtime.protect.machine import resolve_machine
from stealtime.protect.members import await_status, end_idle_hosts, ensure_host_daemon, prepare_member, start_member
from stealtime.protect.specification import MemberHost, MemberSpec, member_spec
from stealtime.protect.state import MemberFolder, State
from stealtime.protect.status import MemberStatus
from stealtime.protect.vm_file import SHORTEST_INTERVAL_NS, VmFile
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import format_duration, parse_duration_ns

LOCAL = "local"
"""What ``--to`` takes for a second host that this machine plays: for a trial."""


@dataclass(frozen=True)
class Choices:
    """What the command line changes in a VM's file."""

    to: tuple[str, ...] = ()
    interval: str | None = None
    min_interval: str | None = None
    mode: str | None = None
    bridge: str | None = None


def apply_choices(vm: VmFile, choices: Choices) -> VmFile:
    """Give the VM with what the command line says instead; whatever it says is checked like the file.

    Raises:
        UsageError: A choice is none.
    """
    changed = vm.model_dump(mode="json", by_alias=True)
    if choices.mode is not None:
        changed["mode"] = choices.mode
        if choices.mode != "net+bypass":
            changed["bypass"] = []
        if not choices.mode.startswith("net"):
            changed["min_interval"] = None
    if choices.interval is not None:
        changed["interval"] = choices.interval
    if choices.min_interval is not None:
        changed["min_interval"] = choices.min_interval
    if choices.bridge is not None:
        changed["network"]["bridge"] = choices.bridge
    try:
        hosts = [parse_target(target, vm.standby_hosts) for target in choices.to if target != LOCAL]
    except ValueError as error:
        raise UsageError(
            f"--to: {first_fault(error)}", hint="a name of VM.toml, NAME=tcp:HOST:PORT, HOST[:PORT], unix:/PATH, local"
        ) from None
    if choices.to:
        # What was asked for goes first; the others of the file are where it may go after that.
        asked = {host.name for host in hosts}
        others = [host for host in vm.standby_hosts if host.name not in asked]
        changed["standby_hosts"] = [host.model_dump() for host in (*hosts, *others)]
    try:
        return VmFile.model_validate(changed)
    except ValueError as error:
        raise UsageError(
            first_fault(error), hint="see `stealtime protect start -h` and `stealtime schema vm`"
        ) from None


def with_local_hosts(vm: VmFile, state: State, host: str) -> VmFile:
    """Let this machine play a second host, and receive what comes back from it."""
    standby = "local" if host != "local" else "local-b"
    for name in (standby, host):
        daemon = HostFile(
            name=name,
            bridge=vm.network.bridge,
            # Who may say hello on its socket may read these files anyway.
            images=[Path("/")],
            register_=vm.register_,
            allow_faults=vm.allow_faults,
        )
        ensure_host_daemon(daemon, state, automatic=True)
    ours = [StandbyHost(name=name, endpoint=f"unix:{state.host(name).socket}") for name in (standby, host)]
    names = {one.name for one in ours}
    others = [one for one in vm.standby_hosts if one.name not in names]
    return vm.model_copy(update={"standby_hosts": [*ours, *others]})


def make_spec(vm: VmFile, state: State, host: str, folder: Path | None = None) -> MemberSpec:
    """Give the specification of a VM's member on a host; fetches kernels and packs images that are missing.

    Args:
        vm: The VM.
        state: Where members live.
        host: The name of this host.
        folder: The member's; None takes its place in ``state``.

    Raises:
        StealtimeError: What the VM needs is not there.
    """
    here = state.host(host) if folder is None else None
    refuse_machine_of(vm.memory_bytes, read_memory_room(), here.promised_bytes(vm.name) if here else 0)
    machine = resolve_machine(vm)
    place = MemberHost(
        host=host,
        folder=folder or state.host(host).member(vm.name).path,
        qemu=Path(find_qemu()),
        register_folder=state.register,
    )
    return member_spec(vm, machine, place)


def check_destination(vm: VmFile, host: str, *, is_local: bool) -> None:
    """Refuse a machine that is to be protected and has nowhere to go.

    Raises:
        UsageError: There is no host but this one.
    """
    if vm.mode == "off" or is_local or any(one.name != host for one in vm.standby_hosts):
        return
    raise UsageError(
        f"the VM {vm.name!r} has no standby host, and the mode is {vm.mode!r}",
        hint="name one with --to HOST or in VM.toml, or try `--to local`; --mode off needs none",
    )


def start(
    vm: VmFile, state: State, host: str, *, is_local: bool, force: bool, only_current_disks: bool = False
) -> tuple[MemberFolder, psutil.Process]:
    """Start a VM's member here, and the daemons that it needs where this machine plays both hosts.

    Args:
        vm: The VM.
        state: Where members live.
        host: The name of this host.
        is_local: Whether this machine plays both hosts.
        force: Also if the register says that it runs elsewhere.
        only_current_disks: But from no disk image that was left behind.

    Raises:
        UsageError: It lives already, or has nowhere to go.
        StealtimeError: What it needs is not there.
    """
    check_destination(vm, host, is_local=is_local)
    with state.starting():
        folder, _ = prepare(vm, state, host, is_local=is_local)
        try:
            return folder, start_member(folder, force=force, only_current_disks=only_current_disks)
        except BaseException:
            end_idle_hosts(state)
            raise


def give_up(state: State) -> None:
    """End what was started for a member that has ended."""
    with state.starting():
        end_idle_hosts(state)


def prepare(vm: VmFile, state: State, host: str, *, is_local: bool) -> tuple[MemberFolder, MemberSpec]:
    """Write a member's specification into its folder.

    Raises:
        UsageError: It lives already.
        StealtimeError: What it needs is not there.
    """
    folder = state.host(host).member(vm.name)
    for member in state.members(vm.name):
        if member.lives():
            raise UsageError(
                f"the VM {vm.name!r} already has a member here, as the host {member.host!r}",
                hint=f"see `stealtime protect status {vm.name}`; end it with `stealtime protect stop {vm.name}`",
            )
    try:
        spec = make_spec(with_local_hosts(vm, state, host) if is_local else vm, state, host)
        prepare_member(folder, spec)
    except BaseException:
        # Daemons that were just started for this machine serve nobody.
        end_idle_hosts(state)
        raise
    return folder, spec


def await_protection(
    folder: MemberFolder, process: psutil.Process, mode: str, within_s: float, on_status: Callable[[MemberStatus], None]
) -> MemberStatus | None:
    """Wait until a machine is protected; in the mode ``off`` until it runs.

    Raises:
        StealtimeError: Its member ended.
    """

    def is_reached(status: MemberStatus) -> bool:
        return status.role == "solo" if mode == "off" else status.protected

    return await_status(folder, process, until=is_reached, within_s=within_s, on_status=on_status)


def checked_interval(text: str) -> str:
    """Give an interval of the command line back if it is one.

    Raises:
        UsageError: It is none.
    """
    if text == "auto":
        return text
    try:
        interval_ns = parse_duration_ns(text)
    except ValueError as error:
        raise UsageError(f"--interval: {error}", hint="a duration such as 100ms, or auto") from None
    if interval_ns < SHORTEST_INTERVAL_NS:
        raise UsageError(
            f"--interval: {text!r} is too short", hint=f"at least {format_duration(SHORTEST_INTERVAL_NS)}, or auto"
        )
    return text


def checked_min_interval(text: str) -> str:
    """Give a least time between checkpoints of the command line back if it is one.

    Raises:
        UsageError: It is none.
    """
    try:
        parse_duration_ns(text)
    except ValueError as error:
        raise UsageError(f"--min-interval: {error}", hint="a duration such as 5ms") from None
    return text


def first_fault(error: ValueError) -> str:
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{key}: {message}" if key and first["type"] != "value_error" else message
