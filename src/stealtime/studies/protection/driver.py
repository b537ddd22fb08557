"""Drives the scenario ``protected``: two hosts, in namespaces or real ones, guests that count on them, and clients.

All of it is what operators run: the members, the link with mutual TLS, the register, the default deadlines. A guest
that has just lost its standby, as on a crowded host, rightly does not outlive its host: that is no failover.
"""

import time

from stealtime.campaigns.planned import PlannedCell
from stealtime.hosts.counted_result import counted
from stealtime.hosts.counting import ask, counting, counting_machine, round_trips_of, watch
from stealtime.hosts.guest import Guest, lose_host
from stealtime.hosts.host import FaultKind
from stealtime.hosts.moments import read_clocks
from stealtime.hosts.reusing_driver import GuestDriver
from stealtime.hosts.silences import silences_of
from stealtime.studies.protection.probes import FailoverParameters, ProtectedParameters
from stealtime.studies.protection.results import Failover, RoundTrips

_AFTER_S = 1.0
"""The client counts so long after the guest runs again: what it was told before must still be true."""


class ProtectedDriver(GuestDriver[ProtectedParameters]):
    """Two hosts, and a guest as the last cell wanted it."""

    what = "a protected machine"

    def make(self, serial: int, wanted: ProtectedParameters) -> Guest:
        machine = counting_machine(wanted.mode, wanted.interval_ns, wanted.min_interval_ns)
        return self.testbed.guest(f"counter{serial}", **machine)

    def begin(self, kept: Guest) -> None:
        super().begin(kept)
        ask(kept, "status")

    def carry_out(self, cell: PlannedCell) -> RoundTrips | Failover:
        guest, duration_s = self.kept_for(ProtectedParameters.of(cell.cell)), cell.duration_ns / 1e9
        if cell.cell.probe == "roundtrip":
            return _count_round_trips(guest, duration_s)
        return _fail_over(guest, FailoverParameters.of(cell.cell).fault, duration_s)


refuse, set_up = ProtectedDriver.refuse, ProtectedDriver.set_up


def _count_round_trips(guest: Guest, duration_s: float) -> RoundTrips:
    active, before = guest.await_ready(), read_clocks()
    with counting(guest) as client:
        watched = watch(guest, active, duration_s, client)
        seen = client.end()
    return RoundTrips(**counted(seen, watched, before), **round_trips_of(seen))


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
        **counted(seen, watched, before, fault),
        host=active.host,
        **silences_of(seen, fault, _AFTER_S / 2),
        fault_to_running_ns=fault.running_ns - fault.struck_ns,
        decision_to_running_ns=fault.running_ns - fault.detected_ns,
        clock_error_ns=fault.error_ns,
        tcp_lived=bool(seen["tcp_lived"]),
        pages_wrong=int(seen["check"]["mismatches"]),
    )
