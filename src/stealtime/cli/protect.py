"""``stealtime protect``: keep virtual machines running when their host dies."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stealtime.cli import commands, protect_hosts
from stealtime.cli.parameters import AsJson, duration_of
from stealtime.cli.protect_describe import describe
from stealtime.cli.protect_doctor import doctor
from stealtime.cli.protect_hosts import MinInterval, Mode
from stealtime.cli.protect_machine import (
    Bridge,
    Destinations,
    From,
    FromLibvirt,
    HostName,
    MachineFile,
    Source,
    read_machine,
)
from stealtime.cli.protect_plan import plan
from stealtime.cli.protect_recover import recover
from stealtime.cli.protect_upgrade import upgrade
from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError
from stealtime.vocabulary.visible import visible_in_json

if TYPE_CHECKING:
    from stealtime.protect.state import MemberFolder, State
    from stealtime.protect.status import StatusDocument
    from stealtime.protect.vm_file import VmFile

Machine = Annotated[str, typer.Argument(metavar="VM", help="The machine's name.", show_default=False)]
Interval = Annotated[
    str | None,
    typer.Option("--interval", "-i", metavar="DURATION", help="Time between checkpoints: e.g. 100ms, or auto."),
]


OutputMode = Annotated[
    Mode | None,
    typer.Option(
        "--mode",
        help="The guest's output: net = held until its checkpoint is committed (nothing a peer saw is lost); "
        "net+bypass = the same, except flows that the rules let pass; no-net = released at once (what a peer saw may "
        "be lost); off = no protection.",
    ),
]

SHORT = "Keep virtual machines running when their host dies"
_WATCH_EVERY_S = 0.5


def application() -> typer.Typer:
    group = typer.Typer(
        help=f"{SHORT}, by continuous checkpoints to another host.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    machine_commands = (start, status, failover, stop, recover, export, describe, doctor, plan, spec)
    host_commands = (
        protect_hosts.host,
        protect_hosts.serve,
        protect_hosts.leave,
        upgrade,
        protect_hosts.identity,
        protect_hosts.etcd_access,
        protect_hosts.systemd,
        protect_hosts.demo,
    )
    commands.add(group, *machine_commands, *host_commands)
    return group


def start(
    file: MachineFile = None,
    to: Destinations = None,
    interval: Interval = None,
    min_interval: MinInterval = None,
    mode: OutputMode = None,
    from_: From = None,
    from_libvirt: FromLibvirt = False,
    bridge: Bridge = None,
    host: HostName = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the machine is protected.")] = True,
    timeout: Annotated[
        str,
        typer.Option("--timeout", metavar="DURATION", help="How long to wait; the member keeps running either way."),
    ] = "2m",
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Run the member in the foreground, for a supervisor such as systemd.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Start even if the register says that the machine runs elsewhere, unless that is renewed."
        ),
    ] = False,
) -> None:
    """Boot a machine and protect it.

    The process that does so, the member, keeps running after this command; `stealtime protect status` shows its log.
    With `--to local` this machine is the standby host too:

        stealtime protect start VM.toml --to local --interval 100ms --mode net

    With --from a machine of libvirt or Proxmox that is shut off is started by stealtime instead. What of it is replaced
    or dropped is told, and what cannot be protected is refused by name; `stealtime protect doctor` tells it before.

    Exit codes: 0 it is protected (with --no-wait: started); 1 it did not start; 2 wrong usage; 3 it runs but is not
    protected yet.
    """
    from stealtime.cli.output import message_console
    from stealtime.protect import session
    from stealtime.protect.members import active_command, replace_this_process
    from stealtime.protect.showing import UNPROVED_UNDER_KVM, remarks, show_full_copy
    from stealtime.protect.state import default_state, record_process, this_host

    timeout_ns = duration_of("--timeout", timeout)
    vm = _chosen(Source(file, from_, from_libvirt), to, (interval, min_interval), mode, bridge)
    name = host or this_host()
    state = default_state()
    is_local = session.LOCAL in (to or ())
    if foreground:
        import os

        session.check_destination(vm, name, is_local=is_local)
        with state.starting():
            folder, _ = session.prepare(vm, state, name, is_local=is_local)
            record_process(folder.pid_file, os.getpid())
        replace_this_process(active_command(folder, force=force))
    folder, process = session.start(vm, state, name, is_local=is_local, force=force)
    console = message_console()
    if vm.accelerator == "kvm":
        console.print(UNPROVED_UNDER_KVM, style="yellow", markup=False, soft_wrap=True)
    if not wait:
        console.print(f"started {vm.name} on {name}; its log: {folder.log}", markup=False, soft_wrap=True)
        return
    try:
        with show_full_copy(console) as update:
            reached = session.await_protection(folder, process, vm.mode, (timeout_ns or 0) / 1e9, update)
    except StealtimeError:
        session.give_up(state)
        raise
    if reached is None:
        from stealtime.protect.members import read_status

        now = read_status(folder)
        for line in remarks([now]):
            console.print(line, style="yellow", markup=False, soft_wrap=True)
        console.print(
            f"{vm.name} is {now.role} on {name} and not protected after {timeout}; see {folder.log}",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )
        raise typer.Exit(ExitCode.THRESHOLD)
    where = f"protected by {reached.standby.name}" if reached.standby is not None else "running"
    console.print(f"{vm.name} on {name}: {where}, mode {vm.mode}", markup=False, soft_wrap=True)


def status(
    vm: Annotated[str | None, typer.Argument(metavar="[VM]", help="Show only this machine.")] = None,
    json: AsJson = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until interrupted.")] = False,
    all_hosts: Annotated[
        Path | None,
        typer.Option(
            "--all-hosts",
            metavar="FILE",
            help="Ask these hosts over ssh, a line each: [user@]host[:port], then stealtime's path if it needs one.",
        ),
    ] = None,
) -> None:
    """Show the state of the protected machines on this host, or on many.

    Exit codes: 0 every machine there (or VM) is protected; 1 a host could not be asked; 3 at least one machine is not
    protected, or there is none; 4 all are, and somebody must see to an alarm, such as a register that gives no answer.
    """
    from stealtime.cli.output import message_console, print_document, print_table
    from stealtime.protect.showing import remarks, status_table

    if all_hosts is not None:
        if watch:
            raise UsageError("--watch and --all-hosts do not go together", hint="call it repeatedly")
        _show_all_hosts(all_hosts, vm, as_json=json)
        return
    if watch and json:
        raise UsageError(
            "--watch and --json do not go together", hint="call `stealtime protect status --json` repeatedly"
        )
    if watch:
        _watch(vm)
        return
    document = _status_document(vm)
    if json:
        print_document(document)
    elif document.members:
        print_table(status_table(document.members))
        for line in remarks(document.members):
            message_console().print(line, style="yellow", markup=False, soft_wrap=True)
    else:
        what = f"no member of the VM {vm!r}" if vm is not None else "no member"
        message_console().print(f"there is {what} on this host", markup=False)
    raise typer.Exit(document.exit_code())


def failover(
    vm: Machine,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="On the standby's host: take over after the register was reset and the active host died."
        ),
    ] = False,
) -> None:
    """Move a machine to its standby without loss, for example before maintenance of this host.

    On the standby's host, the machine is handed over to it.
    """
    from stealtime.cli.output import message_console
    from stealtime.protect.calling import call
    from stealtime.protect.control import ControlClient
    from stealtime.protect.members import read_status, running_member
    from stealtime.protect.state import default_state
    from stealtime.protect.status import RUNNING_ROLES

    members = [(one, read_status(one).role) for one in default_state().members(vm)]
    standby = next((one for one, role in members if role == "standby"), None)
    if force:
        if standby is None:
            raise StealtimeError(
                f"the VM {vm!r} has no standby on this host", hint="run this command on its standby's host"
            )
        ControlClient(standby.control_socket).failover(force=True)
        message_console().print(f"{vm} will run on {standby.host} as soon as the register answers", markup=False)
        return
    if standby is not None and not any(role in RUNNING_ROLES for _, role in members):
        call(standby)
        message_console().print(f"{vm} runs on {standby.host}", markup=False)
        return
    folder, before = running_member(default_state(), vm)
    if before.standby is None or not before.protected:
        raise UsageError(
            f"the VM {vm!r} is not protected, so no standby can take it over",
            hint="wait until `stealtime protect status` says that it is",
        )
    ControlClient(folder.control_socket).failover()
    message_console().print(f"{vm} moves to {before.standby.name}", markup=False)


def stop(
    vm: Machine,
    detach: Annotated[
        bool, typer.Option("--detach", help="Only end the protection; the machine keeps running here.")
    ] = False,
) -> None:
    """End a machine on both hosts, or clean up after one that has already ended.

    If the register cannot be told, the standby may run the machine: exit code 1, and the host is named. There, this
    command ends a standby that has lost the host which ran the machine.
    """
    from stealtime.cli.output import message_console
    from stealtime.protect.control import ControlClient
    from stealtime.protect.members import running_member
    from stealtime.protect.state import default_state
    from stealtime.protect.stopping import end_machine, end_standby, find_lone_standby

    state = default_state()
    members = state.members(vm)
    if members and not detach and not any(member.lives() for member in members):
        _clear(state, members)
        message_console().print(f"{vm} does not run here any more; its files are removed", markup=False)
        return
    if not detach and (standby := find_lone_standby(state, vm)) is not None:
        stood_by = end_standby(standby)
        _clear(state, [standby])
        told = f"the standby of {vm} on {standby.host} has ended: it takes nothing over any more"
        message_console().print(told if stood_by else f"{vm} has ended", markup=False, soft_wrap=True)
        return
    folder, before = running_member(state, vm)
    if detach:
        ControlClient(folder.control_socket).detach()
        message_console().print(f"{vm} runs on {before.host}, unprotected", markup=False)
        return
    remark = end_machine(folder, state.members(vm))
    _clear(state, state.members(vm))
    message_console().print(f"{vm} has ended" + (f": {remark}" if remark else ""), markup=False, soft_wrap=True)


def export(
    vm: Machine,
    out: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write: *.parquet or *.csv.")],
    host: HostName = None,
) -> None:
    """Write what each checkpoint cost: the time of every step, pages and bytes."""
    from stealtime.cli.output import message_console
    from stealtime.protect.epochs import export_epochs
    from stealtime.protect.state import default_state

    found = [
        member
        for member in default_state().members(vm)
        if member.epochs.exists() and (host is None or member.host == host)
    ]
    if not found:
        raise StealtimeError(f"there are no epochs of the VM {vm!r} here", hint="see `stealtime protect status`")
    # Where this machine plays several hosts, the one that wrote last.
    latest = max(found, key=lambda member: member.epochs.stat().st_mtime_ns)
    count = export_epochs(latest.epochs, out, vm=vm, host=latest.host)
    message_console().print(f"{count} epochs of {vm} on {latest.host}: {out}", markup=False, soft_wrap=True)


def spec(
    file: MachineFile = None,
    to: Destinations = None,
    interval: Interval = None,
    min_interval: MinInterval = None,
    mode: OutputMode = None,
    from_: From = None,
    from_libvirt: FromLibvirt = False,
    bridge: Bridge = None,
    host: HostName = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="The member's folder.  [default: below /run]")
    ] = None,
) -> None:
    """Print the member's complete specification as JSON, without starting anything."""
    from stealtime.protect import session
    from stealtime.protect.state import default_state, this_host

    vm = _chosen(Source(file, from_, from_libvirt), to, (interval, min_interval), mode, bridge)
    told = session.make_spec(vm, default_state(), host or this_host(), folder.absolute() if folder else None)
    sys.stdout.write(visible_in_json(told.text()))


def _chosen(
    source: Source,
    to: list[str] | None,
    intervals: tuple[str | None, str | None],
    mode: Mode | None,
    bridge: str | None,
) -> "VmFile":
    """Give the machine of a file as the command line has it; of its intervals the least one is the second."""
    from stealtime.protect import session

    interval, min_interval = intervals
    choices = session.Choices(
        to=tuple(to or ()),
        interval=session.checked_interval(interval) if interval is not None else None,
        min_interval=session.checked_min_interval(min_interval) if min_interval is not None else None,
        mode=mode.value if mode is not None else None,
        bridge=bridge,
    )
    return read_machine(source, choices)


def _status_document(vm: str | None) -> "StatusDocument":
    from stealtime.protect.members import read_statuses
    from stealtime.protect.state import default_state
    from stealtime.protect.status import StatusDocument

    return StatusDocument(members=tuple(read_statuses(default_state().members(vm))))


def _show_all_hosts(file: Path, vm: str | None, *, as_json: bool) -> None:
    from stealtime.cli.output import message_console, print_document, print_table
    from stealtime.protect.all_hosts import ask_all, read_hosts
    from stealtime.protect.showing import remarks, remarks_on_hosts, status_table

    hosts = read_hosts(file)
    with message_console().status(f"asking {len(hosts)} hosts"):
        document = ask_all(hosts)
    if vm is not None:
        chosen = tuple(member for member in document.members if member.vm == vm)
        document = document.model_copy(update={"members": chosen})
    if as_json:
        print_document(document)
    elif document.members:
        print_table(status_table(document.members))
    else:
        what = f"no member of the VM {vm!r}" if vm is not None else "no member"
        message_console().print(f"there is {what} on these hosts", markup=False)
    if not as_json:
        for line in [*remarks_on_hosts(document), *remarks(document.members)]:
            message_console().print(line, style="yellow", markup=False, soft_wrap=True)
    raise typer.Exit(document.exit_code())


def _watch(vm: str | None) -> None:
    from rich.live import Live

    from stealtime.cli.output import data_console
    from stealtime.cli.streams import lost_output
    from stealtime.protect.showing import status_table

    with Live(console=data_console(), auto_refresh=False) as live:
        while lost_output() is None:
            live.update(status_table(_status_document(vm).members), refresh=True)
            time.sleep(_WATCH_EVERY_S)


def _clear(state: "State", members: "list[MemberFolder]") -> None:
    from stealtime.protect.members import end_idle_hosts

    with state.starting():
        for member in members:
            member.clear()
        end_idle_hosts(state)
