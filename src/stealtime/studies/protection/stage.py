"""The stage ``protected``: two hosts in network namespaces, guests that count on them, and their clients.

All of it is what operators run: the members, the link with mutual TLS, the register in a folder, the default deadlines.
A guest that has just lost its standby, as on a crowded host, rightly does not outlive its host: that is no failover.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from stealtime.campaigns.blocking_stage import BlockingStage, entered_in_thread
from stealtime.campaigns.planned import PlannedBoot, PlannedCell
from stealtime.hosts.blow import last_state
from stealtime.hosts.laboratory import NETWORKS, Laboratory, refuse_without_root
from stealtime.hosts.stand import (
    COUNTER_PORT,
    EMULATED_TIMING,
    HOSTS,
    Client,
    CountingGuest,
    NotProtectedError,
    Stand,
    other,
)
from stealtime.lab.platforms import below
from stealtime.lab.platforms.qemu_flavour import paravirtual_accelerator
from stealtime.lab.scenarios.placement import Placement
from stealtime.protect.epochs import read_epochs
from stealtime.protect.programs import find_pagetrack, find_replicator
from stealtime.protect.status import MemberStatus
from stealtime.store.results import Result
from stealtime.studies.protection.results import Checkpoints, Failover, RoundTrips
from stealtime.vocabulary.errors import StealtimeError

_TAKEN_WITHIN_S = 30.0
_AFTER_S = 1.0
"""The client counts so long after the guest runs again: what it was told before must still be true."""


class LapsedError(StealtimeError):
    """The guest lost its standby while it was measured, as on a crowded host; it goes on, and gets another."""


def refuse(boot: PlannedBoot, _placement: Placement) -> None:
    """See that the two hosts can be set up, without doing so; see ``campaigns.probe.Stage``.

    Raises:
        StealtimeError: The platform cannot be protected, or rights or programs are missing.
    """
    _accelerator_of(boot.platform)
    refuse_without_root()
    find_replicator()
    find_pagetrack()


@asynccontextmanager
async def protected(boot: PlannedBoot, placement: Placement, folder: Path) -> AsyncIterator["ProtectedStage"]:
    """Set up the two hosts; see ``campaigns.probe.Stage``."""
    accelerator = _accelerator_of(boot.platform)
    async with entered_in_thread(Laboratory(HOSTS)) as laboratory:
        stage = ProtectedStage(boot, placement, folder, laboratory, accelerator)
        await asyncio.to_thread(stage.open)
        yield stage


def _accelerator_of(platform: str) -> str:
    accelerator = paravirtual_accelerator(platform)
    if accelerator is None:
        raise StealtimeError(
            f"a protected machine is not to be had as {platform}", hint="choose the platform `paravirt`"
        )
    return accelerator


class ProtectedStage(BlockingStage):
    """Two hosts, and a guest as the last cell wanted it."""

    lapses = (LapsedError, NotProtectedError)

    def __init__(
        self, boot: PlannedBoot, placement: Placement, folder: Path, laboratory: Laboratory, accelerator: str
    ) -> None:
        super().__init__(boot, placement, folder)
        self._laboratory = laboratory
        self._accelerator = accelerator
        self._guest: CountingGuest | None = None
        self._guests = 0

    def open(self) -> None:
        """Have both hosts receive machines."""
        with self.on_its_cpus():
            self._stand = Stand(self._laboratory)

    def carry_out(self, cell: PlannedCell) -> Result:
        """Count with a guest, or let its host die."""
        guest, duration_s = self._guest_for(cell), cell.duration_ns / 1e9
        if cell.cell.probe == "roundtrip":
            return _count_round_trips(guest, duration_s)
        return _strike(guest, str(cell.cell.parameters["blow"]), duration_s)

    def last_words(self) -> str:
        """Give the end of all logs."""
        return self._stand.last_words()

    def after_lapse(self, error: StealtimeError) -> None:
        """Take the same guest once more, which gets another standby, unless its host has died."""
        if isinstance(error, NotProtectedError):
            self.give_up()

    def give_up(self) -> None:
        """End the guest, and give its hosts their power back."""
        guest, self._guest = self._guest, None
        if guest is not None:
            self._laboratory.mend_all()
            for name in HOSTS:
                self._laboratory.power_off(name)
                self._stand.start_daemon(name)

    def _guest_for(self, cell: PlannedCell) -> CountingGuest:
        """Give a guest that is ready, booted anew if the last cell wanted another one."""
        mode, interval_ns = cell.cell.parameters["mode"], cell.cell.parameters.get("interval_ns")
        wanted: dict[str, Any] = {"mode": mode} | ({} if interval_ns is None else {"interval": f"{interval_ns}ns"})
        if self._guest is not None and (self._guest.vm.mode, self._guest.vm.interval) != (
            mode,
            interval_ns or self._guest.vm.interval,
        ):
            self.give_up()
        if self._guest is None:
            self._guests += 1
            guest = CountingGuest(
                self._stand,
                # The register remembers the last one of a name.
                f"counter{self._guests}",
                accelerator=self._accelerator,
                bypass=[{"protocol": "udp", "source_port": COUNTER_PORT}] if mode == "net+bypass" else [],
                timing=EMULATED_TIMING if below.is_emulated() else {},
                **wanted,
            )
            guest.start()
            self._guest = guest
            guest.await_ready()
            guest.ask("status")
        self._guest.await_ready()
        return self._guest


def _count_round_trips(guest: CountingGuest, duration_s: float) -> RoundTrips:
    active = guest.await_ready()
    with _client(guest) as client:
        from_ns = time.monotonic_ns()
        time.sleep(duration_s)
        refuse_lapse(guest, active, from_ns, client)
        checkpoints = _checkpoints(guest, active, from_ns)
        seen = client.end()
    trips = seen["round_trip_ns"]
    return RoundTrips(
        **_counted(seen),
        checkpoints=checkpoints,
        tcp_p50_ns=trips["tcp"]["p50"],
        tcp_p99_ns=trips["tcp"]["p99"],
        udp_p50_ns=trips["udp"]["p50"],
        udp_p99_ns=trips["udp"]["p99"],
    )


def _strike(guest: CountingGuest, blow: str, duration_s: float) -> Failover:
    """Let the host of a guest die under its client."""
    stand, active = guest.stand, guest.await_ready()
    standby = other(active.host)
    if active.pid is None:
        raise StealtimeError(f"the member on {active.host} does not say its pid")
    with _client(guest, "--check") as client:
        from_ns = time.monotonic_ns()
        time.sleep(duration_s)
        refuse_lapse(guest, active, from_ns, client)
        checkpoints = _checkpoints(guest, active, from_ns)
        gone = {active.pid}
        if blow == "killed":
            blown_ns = guest.kill_member(active)
        else:
            blown_ns = time.monotonic_ns()
            for network in NETWORKS:
                stand.laboratory.cut(active.host, network)
            gone |= set(stand.laboratory.power_off(active.host))
            if last_state(guest.member(active.host), active.pid) != "Protected":
                raise NotProtectedError(f"{active.host} fell silent when its guest was just not protected")
        after = guest.await_taken(standby, _TAKEN_WITHIN_S)
        running_ns = guest.continued_ns(standby, blown_ns)
        time.sleep(_AFTER_S)
        seen = client.end()
    if blow == "silent":
        stand.laboratory.mend_all()
        stand.start_daemon(active.host)
    guest.await_ready(unlike=frozenset(gone))
    return Failover(
        **_counted(seen),
        checkpoints=checkpoints,
        host=active.host,
        silence_tcp_ns=seen["longest_outage_ns"]["tcp"],
        silence_udp_ns=seen["longest_outage_ns"]["udp"],
        blow_to_running_ns=running_ns - blown_ns,
        decision_to_running_ns=after.resume_ns or 0,
        unanswered_protocols=unanswered_protocols(seen["flows"]),
        tcp_lived=bool(seen["tcp_lived"]),
        pages_wrong=int(seen["check"]["mismatches"]),
    )


def unanswered_protocols(flows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Name the protocols of which a flow was never answered, or not any more when the client ended.

    Args:
        flows: As ``stealtime-agent count --json`` tells them, with their longer silences.
    """
    silent = [flow["protocol"] for flow in flows if not flow["acknowledged"] or any(map(_is_open, flow["silences"]))]
    return tuple(sorted(set(silent)))


def _is_open(silence: Mapping[str, Any]) -> bool:
    # The last answer may be waiting for its epoch.
    return not silence["ended"] and silence["length_ns"] / 1e9 > _AFTER_S / 2


def refuse_lapse(guest: CountingGuest, active: MemberStatus, from_ns: int, client: Client) -> None:
    """See that the guest was protected all the time: else its output was not held, and it is another measurement.

    Raises:
        LapsedError: It was not.
        StealtimeError: It was not, and its client saw what must not happen even so: that is not to be tried again.
    """
    if guest.vm.mode == "off":
        return
    lapsed = guest.states_since(active, from_ns)
    if not lapsed:
        return
    violations = _counted(client.end())["violations"]
    if violations:
        raise StealtimeError(f"the guest lost its standby, and its client saw what must not happen: {violations}")
    raise LapsedError(
        f"the guest was not protected all the time while it was measured (its member was {', '.join(lapsed)})",
        hint="this host is too busy for the default deadlines",
    )


def _checkpoints(guest: CountingGuest, active: MemberStatus, from_ns: int) -> Checkpoints | None:
    """Say what the epochs took that began since a moment; None where the guest is not protected."""
    if guest.vm.mode == "off":
        return None
    elapsed_ns = time.monotonic_ns() - from_ns
    rows = [row for row in read_epochs(guest.member(active.host).epochs) if row["begin_ns"] >= from_ns]
    if not rows:
        raise StealtimeError(f"{active.host} made no checkpoint within {elapsed_ns / 1e9:.1f} s")
    return Checkpoints(
        epochs=len(rows),
        elapsed_ns=elapsed_ns,
        pause_p50_ns=_median(rows, "pause_ns"),
        pause_max_ns=max(row["pause_ns"] for row in rows),
        pause_total_ns=sum(row["pause_ns"] for row in rows),
        hold_p50_ns=_median(rows, "hold_ns"),
        shipped_bytes=sum(row["shipped_bytes"] for row in rows),
        pages=sum(row["pages"] for row in rows),
    )


def _median(rows: Sequence[dict[str, int]], column: str) -> int:
    return round(median(row[column] for row in rows))


def _counted(seen: dict[str, Any]) -> dict[str, Any]:
    """Give what every client counts; a kind that is not listed any more is ``others``."""
    kinds = Counter(str(finding["kind"]) for finding in seen["violations"])
    unlisted = int(seen["violations_total"]) - kinds.total()
    return {
        "requests": seen["requests"],
        "acknowledged": seen["acknowledged"],
        "violations": dict(kinds) | ({"others": unlisted} if unlisted > 0 else {}),
    }


@contextmanager
def _client(guest: CountingGuest, *options: str) -> Iterator[Client]:
    client = Client(guest, 1, "--quiet", *options)
    try:
        yield client
    finally:
        if client.process.poll() is None:
            client.process.kill()
            client.process.wait()
