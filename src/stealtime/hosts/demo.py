"""``make protect-demo``: a guest that counts, a client that believes it, and a host that dies under it.

Everything is real but the distance: two hosts in network namespaces with a link between them (TCP with mutual TLS), the
guest's memory in each, a client on the guests' network. The member of host ``a`` and its QEMU are killed with SIGKILL;
the client's connection must live on at host ``b``, and the machine must be protected again, now by ``a``.
"""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from stealtime.hosts.blow import kill_protected, last_state
from stealtime.hosts.demo_result import Demonstration
from stealtime.hosts.laboratory import Laboratory
from stealtime.hosts.stand import COUNTER_PORT, EMULATED_TIMING, HOSTS, PATIENCE_S, Client, CountingGuest, Stand
from stealtime.lab.platforms import below
from stealtime.protect.members import await_status
from stealtime.protect.showing import show_full_copy
from stealtime.protect.state import MemberFolder
from stealtime.protect.status import MemberStatus
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from rich.console import Console

_PRIMARY, _STANDBY = HOSTS
_OUR_STDERR = 2
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
    with Laboratory(HOSTS) as laboratory:
        stand = Stand(laboratory)
        guest = CountingGuest(
            stand,
            mode=mode,
            interval=interval,
            bypass=[{"protocol": "udp", "source_port": COUNTER_PORT}] if mode == "net+bypass" else [],
            accelerator=accelerator,
            timing=EMULATED_TIMING if below.is_emulated() else {},
        )
        process, primary = guest.start(), guest.member(_PRIMARY)
        tell(f"a guest of {guest.vm.memory_bytes >> 20} MiB boots on host a; all its memory is copied to host b")
        with show_full_copy(console) as update:
            protected = await_status(
                primary, process, until=lambda status: status.protected, within_s=PATIENCE_S, on_status=update
            )
        if protected is None:
            raise StealtimeError(f"the guest was not protected within {PATIENCE_S:g} s", hint=_last_lines(primary.log))
        guest.ask("status")
        tell(f"protected by {_STANDBY}; the client counts over TCP and UDP, mode {mode}, a checkpoint every {interval}")
        # What it says of its progress goes where ours goes.
        client = Client(guest, 1, "--check", stderr=_OUR_STDERR)
        _watch(client.process, _COUNTS_FOR_S)
        before, killed_ns = _strike(primary, process)
        tell(f"SIGKILL of the primary: its member (pid {process.pid}) and with it QEMU are gone")
        process.wait(timeout=30)
        standby = guest.member(_STANDBY)
        after = guest.await_that(lambda: guest.running(_STANDBY), lambda: "host b did not take the guest over")
        tell("the guest runs at b")
        again = await_status(standby, None, until=lambda status: status.protected, within_s=PATIENCE_S)
        if again is not None:
            tell(f"protected again, by {again.standby.name if again.standby is not None else _PRIMARY}")
        _watch(client.process, _COUNTS_FOR_S)
        return Demonstration(
            mode=mode,
            interval=interval,
            seen=client.end(),
            before=before,
            after=again or after,
            killed_monotonic_ns=killed_ns,
            runs_again_monotonic_ns=_active_since(standby, killed_ns),
        )


def _strike(primary: MemberFolder, process: psutil.Process) -> tuple[MemberStatus, int]:
    """Kill the primary while it is protected; give how it stood just before, and when it was struck."""
    seen: list[MemberStatus] = []

    def await_protected() -> None:
        status = await_status(primary, process, until=lambda one: one.protected, within_s=PATIENCE_S)
        if status is None:
            raise StealtimeError(
                f"the guest lost its standby and was not protected again within {PATIENCE_S:g} s",
                hint="this host is too busy for the deadlines; see `stealtime doctor`",
            )
        seen.append(status)

    struck_ns = kill_protected(process, lambda: last_state(primary, process.pid) == "Protected", await_protected)
    return seen[-1], struck_ns


def _watch(client: psutil.Popen, seconds: float) -> None:
    """Let the client count for a while; that it ends by itself is an error."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if client.poll() is not None:
            return
        time.sleep(0.05)


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
