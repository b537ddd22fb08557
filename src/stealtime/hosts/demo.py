"""``make protect-demo``: a guest that counts, a client that believes it, and a host that dies under it.

Everything is real but the distance: two hosts in network namespaces with a link between them (TCP with mutual TLS), the
guest's memory in each, a client on the guests' network. The member of host ``a`` and its QEMU are killed with SIGKILL;
the client's connection must live on at host ``b``, and the machine must be protected again, now by ``a``.

What that costs the client is measured, too: its round trip to the protected guest, and to the same guest unprotected.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import psutil

from stealtime.hosts.counting import CountingClient, ask, counting, counting_machine
from stealtime.hosts.demo_result import Demonstration, MedianTrips
from stealtime.hosts.guest import Guest, ProtectionLostError
from stealtime.hosts.laboratory import Laboratory
from stealtime.hosts.namespace_testbed import HOSTS, NamespaceTestbed
from stealtime.lab.platforms import below
from stealtime.protect.members import await_status
from stealtime.protect.showing import show_full_copy

if TYPE_CHECKING:
    from rich.console import Console

_STANDBY = HOSTS[1]
_OUR_STDERR = 2
_COUNTS_FOR_S = 4.0
"""Before the kill, and after the machine is protected again: long enough to watch."""
_TRIPS_FOR_S = 2.0
"""The shortest trips take half a millisecond, those of a held answer up to an epoch: some twenty of the latter."""
_TRIES = 3
"""On a crowded host a guest may lose its standby now and then, and gets it again."""
_AGAIN_WITHIN_S = 120.0


def demonstrate(mode: str, intervals: Mapping[str, str], accelerator: str, console: "Console") -> Demonstration:
    """Show a failover.

    Args:
        mode: What happens to the guest's output.
        intervals: Between checkpoints, as in ``VM.toml``: ``interval``, and ``min_interval`` where it is given.
        accelerator: Runs the guest's code.
        console: Where to tell how it goes.

    Raises:
        StealtimeError: It could not be shown: no root, a program is missing, the guest did not come up.
    """

    def tell(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    if below.is_emulated():
        tell(f"{below.EMULATED}, and the deadlines are longer")
    tell("two hosts, a switch and a client, in network namespaces")
    with Laboratory(HOSTS) as laboratory:
        testbed = NamespaceTestbed(laboratory, accelerator=accelerator)
        unprotected = testbed.guest("plain", number=1, **counting_machine("off"))
        tell("a guest without protection boots on host a; the client's round trip to it is measured")
        unprotected.start()
        unprotected.await_ready()
        ask(unprotected, "status")
        trips_without = _count_trips(unprotected)
        unprotected.end()
        guest = testbed.guest("counter", **{**counting_machine(mode), **intervals})
        guest.start()
        tell(f"the same guest of {guest.vm.memory_bytes >> 20} MiB boots there; all its memory is copied to host b")
        with show_full_copy(console) as update:
            guest.await_ready(on_status=update)
        ask(guest, "status")
        tell(f"protected by {_STANDBY}; the client counts over TCP and UDP, mode {mode}, {_words(intervals)}")
        # What it says of its progress goes where ours goes.
        client = CountingClient(guest, 1, "--check", stderr=_OUR_STDERR)
        _watch(client.process, _COUNTS_FOR_S - _TRIPS_FOR_S)
        # By a client of its own: after the kill nothing is held until there is a standby again.
        trips_protected = _count_trips_protected(guest)
        before = guest.await_ready()
        killed = guest.lose_host(before)
        tell(f"SIGKILL of the primary: its member (pid {before.pid}) and with it QEMU are gone")
        # On a crowded host it may have moved before.
        survivor = guest.other_host(before.host)
        after = guest.await_taken(survivor)
        tell(f"the guest runs at {survivor}")
        again = await_status(
            guest.member(survivor), None, until=lambda status: status.protected, within_s=_AGAIN_WITHIN_S
        )
        if again is not None:
            tell(f"protected again, by {again.standby.name if again.standby is not None else before.host}")
        _watch(client.process, _COUNTS_FOR_S)
        return Demonstration(
            mode=mode,
            interval=intervals["interval"],
            min_interval=intervals.get("min_interval"),
            seen=client.end(),
            trips_without=trips_without,
            trips_protected=trips_protected,
            before=before,
            after=again or after,
            killed_monotonic_ns=killed.at_ns,
            runs_again_monotonic_ns=guest.first(survivor, "active", killed).at_ns,
        )


def _words(intervals: Mapping[str, str]) -> str:
    words = f"a checkpoint every {intervals['interval']}"
    least = intervals.get("min_interval")
    return words if least is None else f"{words}, and {least} after the last one as soon as output waits"


def _count_trips(guest: Guest) -> MedianTrips:
    """Give the median round trips of another client of a guest."""
    with counting(guest) as client:
        _watch(client.process, _TRIPS_FOR_S)
        trips = client.end()["round_trip_ns"]
    return MedianTrips(tcp_ns=trips["tcp"]["p50"], udp_ns=trips["udp"]["p50"])


def _count_trips_protected(guest: Guest) -> MedianTrips | None:
    """Give the same of a guest that was protected all the time: otherwise its output was not always held."""
    for _ in range(_TRIES):
        active, from_ns = guest.await_ready(), time.monotonic_ns()
        trips = _count_trips(guest)
        try:
            guest.check_protected(active, from_ns)
        except ProtectionLostError:
            continue
        return trips
    return None


def _watch(client: psutil.Popen, seconds: float) -> None:
    """Let the client count for a while; that it ends by itself is an error."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if client.poll() is not None:
            return
        time.sleep(0.05)
