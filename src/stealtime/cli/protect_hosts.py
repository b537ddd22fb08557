"""``stealtime protect``: the commands for hosts, and the demonstration; those for machines are in ``protect``."""

import os
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from stealtime.cli.parameters import AsJson
from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError

MinInterval = Annotated[
    str | None,
    typer.Option(
        "--min-interval",
        metavar="DURATION",
        help="Make a checkpoint as soon as output waits for one, this long after the last at the earliest: e.g. 5ms.",
    ),
]


class Mode(StrEnum):
    """What ``--mode`` takes."""

    OFF = "off"
    NO_NET = "no-net"
    NET = "net"
    NET_BYPASS = "net+bypass"


class Accelerator(StrEnum):
    """What ``--accelerator`` takes."""

    TCG = "tcg"
    KVM = "kvm"


def host(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[HOST.toml]", help="Describes the host: name, listen, bridge, register, identity."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen", metavar="ENDPOINT", help="Where to accept other hosts: tcp:ADDRESS:PORT or unix:/PATH."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="This host's name in the register.")
    ] = None,
    bridge: Annotated[
        str | None, typer.Option("--bridge", metavar="NAME", help="Bridge to which received machines are connected.")
    ] = None,
) -> None:
    """Run the daemon of a standby host: receive checkpoints from other hosts, until interrupted.

    Each machine gets a process of its own, which resumes the machine when its host dies.
    """
    from stealtime.protect.host_file import HostFile, host_spec, read_host_file
    from stealtime.protect.members import host_command, replace_this_process
    from stealtime.protect.session import first_fault
    from stealtime.protect.specification import write_document
    from stealtime.protect.state import default_state, record_process, recorded_process

    described = read_host_file(file) if file is not None else HostFile()
    options = {"listen": listen, "name": name, "bridge": bridge}
    changes = {key: value for key, value in options.items() if value is not None}
    try:
        chosen = HostFile.model_validate({**described.model_dump(mode="json", by_alias=True), **changes})
    except ValueError as error:
        raise UsageError(
            first_fault(error), hint="see `stealtime protect host -h` and `stealtime schema host`"
        ) from None
    state = default_state()
    told = host_spec(chosen, state)
    folder = state.host(told.name)
    with state.starting():
        if recorded_process(folder.pid_file) is not None:
            raise UsageError(f"the host {told.name!r} already runs here", hint=f"see {folder.log} and {folder.config}")
        write_document(folder.config, told)
        record_process(folder.pid_file, os.getpid())
    replace_this_process(host_command(folder))


def serve() -> None:
    """Lend this host to a campaign on another machine, which starts this command over ssh (docs/telephony.md).

    Commands come on stdin and are answered on stdout, a JSON object a line. With the end of stdin the campaign's
    machines end, and its images are removed. As the only command of a key: command="stealtime protect serve",restrict
    before it in authorized_keys.
    """
    import signal

    from stealtime.hosts.daemon import daemon_of
    from stealtime.hosts.forced_command import ORIGINAL, Taking, read_request, take_file
    from stealtime.hosts.lending import serve as lend
    from stealtime.protect.state import default_state

    if original := os.environ.get(ORIGINAL):
        request = read_request(original)
        if isinstance(request, Taking):
            _, told = daemon_of(default_state())
            take_file(request.target, sys.stdin.buffer, told.images)
            return
        sys.stdout.write(request.beginning)
        sys.stdout.flush()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # An exception: what was lent is taken back on the way out.
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    lend(default_state(), sys.stdin.fileno(), sys.stdout)


def leave(
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="How long to wait for the machines to move.")
    ] = "100s",
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="NAME", help="Only this host, if the daemons of several run here."),
    ] = None,
    back: Annotated[
        bool, typer.Option("--back", help="Let this host take machines again: it stays after all.")
    ] = False,
) -> None:
    """Move all machines that run here to their standbys, one after the other, before this host is shut down.

    From now until it is booted, or `stealtime protect leave --back`, this host takes no machines: machines that stand
    by here look for another standby, and one whose standby is on a host that is left, too, waits for another one. A
    machine that is not protected yet moves as soon as it is.

    Exit codes: 0 no machine runs here any more; 3 at least one still does.
    """
    from stealtime.cli.output import message_console, tell_error
    from stealtime.cli.parameters import duration_of
    from stealtime.protect.leaving import hand_over_all, hosts_to_leave, what_came_of
    from stealtime.protect.state import MemberFolder, default_state

    hosts = hosts_to_leave(default_state(), host)
    if not hosts:
        message_console().print("there is no host here that takes machines, and no machine", soft_wrap=True)
    if back:
        for one in hosts:
            said = "takes machines again" if one.stay() else "was not left"
            message_console().print(f"{one.host} {said}", markup=False)
        return
    for one in hosts:
        try:
            one.leave()
        except StealtimeError as error:
            # A host that goes down goes down all the same: its machines are to leave it.
            tell_error(error.message, error.hint)
    folders = [folder for one in hosts for folder in one.members()]

    def say(folder: MemberFolder) -> None:
        message_console().print(what_came_of(folder), markup=False, soft_wrap=True)

    _, staying = hand_over_all(folders, (duration_of("--timeout", timeout) or 0) / 1e9, say)
    for folder in staying:
        text = f"{folder.vm} is still here: no standby has taken it over; it goes as soon as one can"
        message_console().print(text, style="yellow", markup=False, soft_wrap=True)
    raise typer.Exit(ExitCode.THRESHOLD if staying else ExitCode.FINE)


def systemd(
    install: Annotated[
        Path | None,
        typer.Option("--install", metavar="DIR", help="Write them to this folder, such as /etc/systemd/system."),
    ] = None,
) -> None:
    """Print the systemd units for standby hosts and protected machines."""
    from stealtime.cli.output import message_console
    from stealtime.protect.systemd import UNITS, unit_text, write_units

    if install is not None:
        for path in write_units(install):
            message_console().print(f"wrote {path}", markup=False, soft_wrap=True)
        return
    sys.stdout.write("\n".join(f"### {name}\n{unit_text(name)}" for name in UNITS))


def identity(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the certificate authority, created if missing.")
    ],
    host: Annotated[str, typer.Option("--host", metavar="NAME", help="The host that the certificate is for.")],
    address: Annotated[
        list[str] | None,
        typer.Option("--address", metavar="ADDRESS", help="A DNS name or IP address of the host; repeatable."),
    ] = None,
    revoke: Annotated[
        bool,
        typer.Option("--revoke", help="Instead, put all certificates that the host was given on a revocation list."),
    ] = False,
) -> None:
    """Create a host's certificate for the link between hosts, and the certificate authority if there is none."""
    from stealtime.cli.output import message_console
    from stealtime.protect.endpoint import HOST_NAME
    from stealtime.protect.identity import make_identity, revoke_identity

    if revoke and address:
        raise UsageError("--revoke takes no --address", hint="all certificates that the host was given are revoked")
    if not re.fullmatch(HOST_NAME, host):
        raise UsageError(f"--host: {host!r} is not a host name", hint="use letters, digits, '.' and '-'")
    if revoke:
        path = revoke_identity(folder.absolute(), host)
        message_console().print(
            f'copy to all hosts: {path}, and name it as revoked = "{path.name}" in their [identity]; it holds from the '
            "next link on",
            markup=False,
            soft_wrap=True,
        )
        return
    made = make_identity(folder.absolute(), host, address or [])
    message_console().print(
        f"copy to host {host}: {made.ca}, {made.certificate}, {made.key}", markup=False, soft_wrap=True
    )


def etcd_access(
    machines: Annotated[
        list[str] | None, typer.Argument(metavar="[VM]...", help="Names of machines.", show_default=False)
    ] = None,
    host: Annotated[
        list[str] | None, typer.Option("--host", metavar="NAME", help="A host that may hold them; repeatable.")
    ] = None,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="Take the machines from the hosts again; without VM, the hosts' users.")
    ] = False,
) -> None:
    """Print the lines of etcdctl that give each host a user, which may write the records of its machines only.

    For a shell that has etcd's root: ETCDCTL_USER=root:PASSWORD, then
    stealtime protect etcd-access counter --host a --host b | sh. They leave a file with a password for each host: copy
    it there, and name it and the user in [register] of VM.toml and HOST.toml.
    """
    from stealtime.protect.endpoint import HOST_NAME
    from stealtime.protect.etcd_access import lines_to_grant, lines_to_revoke
    from stealtime.protect.vm_file import VM_NAME

    for name in machines or ():
        if not re.fullmatch(VM_NAME, name):
            raise UsageError(f"{name!r} is not the name of a machine", hint="as `name` in its VM.toml")
    for name in host or ():
        if not re.fullmatch(HOST_NAME, name):
            raise UsageError(f"--host: {name!r} is not a host name", hint="use letters, digits, '.' and '-'")
    if not host or not (machines or revoke):
        raise UsageError("name machines and hosts", hint="stealtime protect etcd-access counter --host a --host b")
    lines = lines_to_revoke(machines or (), host) if revoke else lines_to_grant(machines or (), host)
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def demo(
    mode: Annotated[Mode, typer.Option("--mode", help="What happens to the guest's output.")] = Mode.NET,
    interval: Annotated[
        str, typer.Option("--interval", "-i", metavar="DURATION", help="Time between checkpoints.")
    ] = "100ms",
    min_interval: MinInterval = None,
    accelerator: Annotated[Accelerator, typer.Option("--accelerator", help="Runs the guest's code.")] = Accelerator.TCG,
    costs: Annotated[
        bool, typer.Option("--costs", help="Measure then what each mode costs a guest that computes: 2 minutes more.")
    ] = False,
    disk: Annotated[
        bool, typer.Option("--disk", help="A Debian guest with PostgreSQL on its disk, instead: two minutes.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Demonstrate a failover: two hosts in network namespaces, a guest that counts, a client, and SIGKILL. Needs root.

    With --disk the guest is a Debian with PostgreSQL, whose client commits transactions. With --costs also what each
    mode costs at 5, 25 and 100 ms, as `stealtime protect plan` tells of your own guest.

    Exit codes: 0 the client continued and nothing was lost; 1 the demonstration failed; 3 something was lost.
    """
    from stealtime.cli.output import data_console, message_console, print_document
    from stealtime.cli.protect_plan import costs_of_demonstration, show_costs
    from stealtime.hosts.demo import demonstrate
    from stealtime.hosts.mode_costs_shown import costs_document
    from stealtime.protect.session import checked_interval, checked_min_interval

    if min_interval is not None and mode is Mode.NO_NET:
        raise UsageError("--min-interval: no output waits in the mode no-net", hint="--mode net")
    if mode is Mode.OFF:
        raise UsageError("--mode off protects nothing, so there is no failover to show", hint="net, no-net, net+bypass")
    intervals = {"interval": checked_interval(interval)}
    if min_interval is not None:
        intervals["min_interval"] = checked_min_interval(min_interval)
    if disk:
        from stealtime.hosts.database.demo import demonstrate_disk

        if costs:
            raise UsageError("--costs is of a guest that computes, and --disk has another one", hint="give one of them")
        database = demonstrate_disk(mode.value, intervals, accelerator.value, message_console())
        if json:
            print_document(database.document())
        else:
            data_console().print(database.table())
        raise typer.Exit(ExitCode.FINE if database.is_whole() else ExitCode.THRESHOLD)
    shown = demonstrate(mode.value, intervals, accelerator.value, message_console())
    if not json:
        data_console().print(shown.table())
    ways = costs_of_demonstration(accelerator.value) if costs else None
    if json:
        print_document(shown.document() | ({} if ways is None else {"costs": costs_document(ways)}))
    elif ways is not None:
        show_costs(ways)
    raise typer.Exit(ExitCode.FINE if shown.is_whole() else ExitCode.THRESHOLD)
