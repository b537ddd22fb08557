"""Drives the scenario ``protected``: two hosts, in namespaces or real ones, guests that count on them, and clients.

All of it is what operators run: the members, the link with mutual TLS, the register, the default deadlines. A guest
that has just lost its standby, as on a crowded host, rightly does not outlive its host: that is no failover.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from stealtime.campaigns.planned import PlannedBoot, PlannedCell
from stealtime.hosts.checkpoints import checkpoints_of
from stealtime.hosts.counting import ask, counting, counting_machine, counts_of, watch
from stealtime.hosts.guest import Guest, lose_host
from stealtime.hosts.host import FaultKind
from stealtime.hosts.moments import moments_of, read_clocks
from stealtime.hosts.reusing_driver import GuestDriver
from stealtime.hosts.setting_up import refuse_hosts, set_up_hosts
from stealtime.hosts.silences import answered_again, unanswered_protocols
from stealtime.lab.scenarios.placement import Placement
from stealtime.studies.protection.probes import FailoverParameters, ProtectedParameters
from stealtime.studies.protection.results import Failover, RoundTrips

_WHAT = "a protected machine"
_AFTER_S = 1.0
"""The client counts so long after the guest runs again: what it was told before must still be true."""


def refuse(boot: PlannedBoot, placement: Placement) -> None:
    """See that the two hosts can be set up; see ``campaigns.probe.Driver``."""
    refuse_hosts(boot, placement, _WHAT)


@asynccontextmanager
async def set_up(boot: PlannedBoot, placement: Placement, folder: Path) -> AsyncIterator["ProtectedDriver"]:
    """Set up the two hosts, or borrow those of the scenario; see ``campaigns.probe.Driver``."""
    async with set_up_hosts(boot, placement, folder, _WHAT) as testbed:
        yield ProtectedDriver(boot, placement, folder, testbed)


class ProtectedDriver(GuestDriver[ProtectedParameters]):
    """Two hosts, and a guest as the last cell wanted it."""

    def make(self, serial: int, wanted: ProtectedParameters) -> Guest:
        machine = counting_machine(wanted.mode)
        if wanted.interval_ns is not None:
            machine["interval"] = f"{wanted.interval_ns}ns"
        return self.testbed.guest(f"counter{serial}", **machine)

    def begin(self, kept: Guest) -> None:
        super().begin(kept)
        ask(kept, "status")

    def carry_out(self, cell: PlannedCell) -> RoundTrips | Failover:
        guest, duration_s = self.kept_for(ProtectedParameters.of(cell.cell)), cell.duration_ns / 1e9
        if cell.cell.probe == "roundtrip":
            return _count_round_trips(guest, duration_s)
        return _fail_over(guest, FailoverParameters.of(cell.cell).fault, duration_s)


def _count_round_trips(guest: Guest, duration_s: float) -> RoundTrips:
    active, before = guest.await_ready(), read_clocks()
    with counting(guest) as client:
        watched = watch(guest, active, duration_s, client)
        seen = client.end()
    trips = {
        f"{name}_p{share}_ns": seen["round_trip_ns"][name][f"p{share}"] for name in ("tcp", "udp") for share in (50, 99)
    }
    moments = moments_of(watched, before)
    return RoundTrips(
        **counts_of(seen), checkpoints=checkpoints_of([watched.epochs], watched.elapsed_ns), moments=moments, **trips
    )


def _fail_over(guest: Guest, kind: FaultKind, duration_s: float) -> Failover:
    active, before = guest.await_ready(), read_clocks()
    with counting(guest, 1, "--check") as client:
        watched = watch(guest, active, duration_s, client)
        fault = lose_host([guest], [active], [guest.other_host(active.host)], kind)
        time.sleep(_AFTER_S)
        seen = client.end()
    if kind == "silent":
        guest.revive(active.host)
    guest.await_ready(unlike=frozenset({active.pid or 0}))
    return Failover(
        **counts_of(seen),
        checkpoints=checkpoints_of([watched.epochs], watched.elapsed_ns),
        moments=moments_of(watched, before, fault),
        host=active.host,
        **{f"silence_{name}_ns": seen["longest_outage_ns"][name] for name in ("tcp", "udp")},
        fault_to_running_ns=fault.running_ns - fault.struck_ns,
        decision_to_running_ns=fault.running_ns - fault.detected_ns,
        **answered_again(seen["flows"], fault.struck_ns),
        clock_error_ns=fault.error_ns,
        unanswered_protocols=unanswered_protocols(seen["flows"], _AFTER_S / 2),
        tcp_lived=bool(seen["tcp_lived"]),
        pages_wrong=int(seen["check"]["mismatches"]),
    )
