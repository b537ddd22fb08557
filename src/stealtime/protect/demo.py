"""``make protect-demo``: a guest that counts, a client that believes it, and a host that dies under it.

Everything is real but the distance: two hosts in network namespaces with a link between them (TCP with mutual TLS), the
guest's memory in each, a client on the guests' network. The member of host ``a`` and its QEMU are killed with SIGKILL;
the client's connection must live on at host ``b``, and the machine must be protected again, now by ``a``.
"""

import json
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from stealtime.lab.platforms import below
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.protect.blow import kill_protected, last_state
from stealtime.protect.demo_result import Demonstration
from stealtime.protect.endpoint import DEFAULT_PORT, StandbyHost
from stealtime.protect.host_file import HostFile, host_spec
from stealtime.protect.identity import make_identity
from stealtime.protect.laboratory import CLIENT, GUEST_ADDRESS, GUEST_BRIDGE, GUEST_INTERFACE, Laboratory
from stealtime.protect.members import await_status, prepare_member, start_host_daemon, start_member
from stealtime.protect.session import make_spec
from stealtime.protect.showing import show_full_copy
from stealtime.protect.specification import write_document
from stealtime.protect.state import MemberFolder, State
from stealtime.protect.status import MemberStatus
from stealtime.protect.vm_file import VmFile
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from rich.console import Console

_PRIMARY, _STANDBY = "a", "b"
_VM = "counter"
_PORT = 7000

_OUR_STDERR = 2

_PROTECTED_WITHIN_S = 120.0
_ANSWERS_WITHIN_S = 120
"""A translated guest boots in a few seconds on an idle host."""
EMULATED_TIMING = {
    "heartbeat": "200ms",
    "active_deadline": "4s",
    "standby_timeout": "6s",
    "register_deadline": "20s",
    "qemu_deadline": "60s",
}
"""Deadlines for a host that is itself emulated, where a guest's epoch takes a hundred times as long."""
_COUNTS_FOR_S = 4.0
"""Before the kill, and after the machine is protected again: long enough to watch."""


def demonstrate(mode: str, interval: str, accelerator: str, console: "Console") -> Demonstration:
    """Show a failover.

    Args:
        mode: What happens to the guest's output.
        interval: From one checkpoint to the next.
        accelerator: Of the guest, ``tcg`` or ``kvm``.
        console: For what happens meanwhile.

    Raises:
        StealtimeError: It could not be shown: no root, a program is missing, the guest did not come up.
    """

    def tell(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    if below.is_emulated():
        tell(f"{below.EMULATED}, and the deadlines are longer")
    tell("two hosts, a switch and a client, in network namespaces")
    with Laboratory((_PRIMARY, _STANDBY)) as laboratory:
        state = State(laboratory.folder / "state")
        vm = _describe_machine(laboratory, state, mode, interval, accelerator)
        primary, process = _start(laboratory, state, vm)
        tell(f"a guest of {vm.memory_bytes >> 20} MiB boots on host a; all its memory is copied to host b")
        with show_full_copy(console) as update:
            protected = await_status(
                primary,
                process,
                until=lambda status: status.protected,
                within_s=_PROTECTED_WITHIN_S,
                on_status=update,
            )
        if protected is None:
            raise StealtimeError(
                f"the guest was not protected within {_PROTECTED_WITHIN_S:g} s", hint=_last_lines(primary.log)
            )
        _await_counter(laboratory)
        tell(f"protected by {_STANDBY}; the client counts over TCP and UDP, mode {mode}, a checkpoint every {interval}")
        client = _start_client(laboratory)
        _watch(client, _COUNTS_FOR_S)
        before, killed_ns = _strike(primary, process)
        tell(f"SIGKILL of the primary: its member (pid {process.pid}) and with it QEMU are gone")
        process.wait(timeout=30)
        standby = state.host(_STANDBY).member(_VM)
        after = await_status(standby, None, until=_runs, within_s=60.0)
        if after is None:
            raise StealtimeError("host b did not take the guest over", hint=_last_lines(state.host(_STANDBY).log))
        tell("the guest runs at b")
        again = await_status(standby, None, until=lambda status: status.protected, within_s=_PROTECTED_WITHIN_S)
        if again is not None:
            tell(f"protected again, by {again.standby.name if again.standby is not None else _PRIMARY}")
        _watch(client, _COUNTS_FOR_S)
        return Demonstration(
            mode=mode,
            interval=interval,
            seen=_end_client(client),
            before=before,
            after=again or after,
            killed_monotonic_ns=killed_ns,
            runs_again_monotonic_ns=_active_since(standby, killed_ns),
        )


def _strike(primary: MemberFolder, process: psutil.Process) -> tuple[MemberStatus, int]:
    """Kill the primary while it is protected; give how it stood just before, and when it was struck."""
    seen: list[MemberStatus] = []

    def await_protected() -> None:
        status = await_status(primary, process, until=lambda one: one.protected, within_s=_PROTECTED_WITHIN_S)
        if status is None:
            raise StealtimeError(
                f"the guest lost its standby and was not protected again within {_PROTECTED_WITHIN_S:g} s",
                hint="this host is too busy for the deadlines; see `stealtime doctor`",
            )
        seen.append(status)

    struck_ns = kill_protected(process, lambda: last_state(primary, process.pid) == "Protected", await_protected)
    return seen[-1], struck_ns


def _describe_machine(laboratory: Laboratory, state: State, mode: str, interval: str, accelerator: str) -> VmFile:
    certificates = laboratory.folder / "identity"
    hosts = []
    for name in (_PRIMARY, _STANDBY):
        address = laboratory.host(name).address("replication")
        endpoint = f"tcp:{address}:{DEFAULT_PORT}"
        identity = make_identity(certificates, name, [address])
        daemon = HostFile(name=name, listen=endpoint, bridge=GUEST_BRIDGE, identity=identity)
        folder = state.host(name)
        write_document(folder.config, host_spec(daemon, state))
        start_host_daemon(folder, surroundings=laboratory.host(name).surroundings)
        hosts.append(StandbyHost(name=name, endpoint=endpoint))
    document = {
        "name": _VM,
        "program": "counter",
        "program_arguments": [f"tcp={_PORT}", f"udp={_PORT}", "memory=16MiB", "dirty=50/10ms"],
        "network": {"bridge": GUEST_BRIDGE, "address": GUEST_INTERFACE},
        "mode": mode,
        "interval": interval,
        "bypass": [{"protocol": "udp", "source_port": _PORT}] if mode == "net+bypass" else [],
        "standby_hosts": [host.model_dump() for host in reversed(hosts)],
        "identity": make_identity(
            certificates, _PRIMARY, [laboratory.host(_PRIMARY).address("replication")]
        ).model_dump(),
        "register": {"folder": str(state.register)},
        "accelerator": accelerator,
        "timing": EMULATED_TIMING if below.is_emulated() else {},
    }
    return VmFile.model_validate(document)


def _start(laboratory: Laboratory, state: State, vm: VmFile) -> tuple[MemberFolder, psutil.Process]:
    folder = state.host(_PRIMARY).member(vm.name)
    prepare_member(folder, make_spec(vm, state, _PRIMARY))
    return folder, start_member(folder, surroundings=laboratory.host(_PRIMARY).surroundings)


def _await_counter(laboratory: Laboratory) -> None:
    """Wait until the guest has booted and answers."""
    argv = [str(find_agent()), "ask", f"{GUEST_ADDRESS}:{_PORT}", "status", "--wait", f"{_ANSWERS_WITHIN_S}s"]
    asking = laboratory.start(CLIENT, argv, stderr=subprocess.PIPE)
    _, said = asking.communicate(timeout=2 * _ANSWERS_WITHIN_S)
    if asking.returncode != 0:
        lines = said.decode("utf-8", "replace").strip().splitlines()
        raise StealtimeError(f"the guest does not answer: {lines[0] if lines else 'without giving a reason'}")


def _start_client(laboratory: Laboratory) -> psutil.Popen:
    address = f"{GUEST_ADDRESS}:{_PORT}"
    argv = [str(find_agent()), "count", "--tcp", address, "--udp", address, "--check", "--json", "--until-closed"]
    # What it says of its progress goes where ours goes.
    return laboratory.start(CLIENT, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=_OUR_STDERR)


def _watch(client: psutil.Popen, seconds: float) -> None:
    """Let the client count for a while; that it ends by itself is an error."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if client.poll() is not None:
            return
        time.sleep(0.05)


def _end_client(client: psutil.Popen) -> dict[str, Any]:
    output, _ = client.communicate(timeout=120)
    try:
        seen = json.loads(output)
    except ValueError as error:
        raise StealtimeError(f"the client gave no result and ended with {client.returncode}") from error
    return dict(seen)


def _runs(status: MemberStatus) -> bool:
    return status.role in ("solo", "active")


def _active_since(folder: MemberFolder, after_ns: int) -> int | None:
    """Give when a member took the machine over, from its own record; both clocks are this machine's monotonic one."""
    try:
        lines = folder.events.read_text().splitlines()
        events = [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return None
    times = [
        int(event["monotonic_ns"])
        for event in events
        if event.get("event") == "active" and int(event["monotonic_ns"]) > after_ns
    ]
    return min(times, default=None)


def _last_lines(log: Path) -> str | None:
    """Give the end of a log that is about to be removed with the laboratory."""
    try:
        lines = log.read_text("utf-8", "replace").strip().splitlines()
    except OSError:
        return None
    return " | ".join(lines[-3:]) or None
