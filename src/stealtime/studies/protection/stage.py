"""The stage ``protected``: two hosts in network namespaces, guests that count on them, and their clients.

All of it is what operators run: the members, the link with mutual TLS, the register in a folder, the default deadlines.
It blocks, so it goes on in threads; these, and all that they start, run on the CPUs that the scenario gives the guest.
"""

import asyncio
import os
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from stealtime.campaigns.beside import placement_record
from stealtime.campaigns.planner import PlannedBoot, PlannedCell
from stealtime.campaigns.trial import Measured
from stealtime.lab.platforms import below
from stealtime.lab.platforms.qemu_flavour import FLAVOURS
from stealtime.lab.scenarios.placement import Placement
from stealtime.protect.blow import kill_protected, last_state
from stealtime.protect.epochs import read_epochs
from stealtime.protect.laboratory import NETWORKS, Laboratory
from stealtime.protect.stand import COUNTER_PORT, EMULATED_TIMING, HOSTS, Client, CountingGuest, Stand, other
from stealtime.protect.status import MemberStatus
from stealtime.store.model import TrialRecord
from stealtime.store.results import Result
from stealtime.studies.protection.results import Checkpoints, Failover, RoundTrips
from stealtime.vocabulary.errors import StealtimeError

_TAKEN_WITHIN_S = 30.0
_AFTER_S = 1.0
"""The client counts so long after the guest runs again: what it was told before must still be true."""
_TRIES = 3
"""A guest that has just lost its standby, as on a crowded host, rightly does not outlive its host: no failover."""
_LOG = "agent.log"


class NotProtectedError(StealtimeError):
    """The host died when its guest was just not protected."""


class LapsedError(StealtimeError):
    """The guest lost its standby while it was measured, as on a crowded host; it goes on, and gets another."""


@asynccontextmanager
async def protected(boot: PlannedBoot, placement: Placement, folder: Path) -> AsyncIterator["ProtectedStage"]:
    """Set up the two hosts; see ``campaigns.probe.Stage``."""
    accelerator = next(
        (one.accelerator for one in FLAVOURS if (one.name, one.style) == (boot.platform, "paravirt")), None
    )
    if accelerator is None:
        raise StealtimeError(
            f"a protected machine is not to be had as {boot.platform}", hint="choose the platform `paravirt`"
        )
    cpus = {cpu for cpus in (*placement.vcpu_cpus, placement.emulator_cpus) for cpu in cpus}
    laboratory = Laboratory(HOSTS)
    await asyncio.to_thread(laboratory.__enter__)
    try:
        stage = ProtectedStage(boot, placement, folder, laboratory, accelerator, cpus)
        await asyncio.to_thread(stage.open)
        yield stage
    finally:
        await asyncio.to_thread(laboratory.__exit__, None, None, None)


class ProtectedStage:
    """Two hosts, and a guest as the last cell wanted it."""

    def __init__(
        self,
        boot: PlannedBoot,
        placement: Placement,
        folder: Path,
        laboratory: Laboratory,
        accelerator: str,
        cpus: set[int],
    ) -> None:
        self._boot = boot
        self._placement = placement
        self._log = folder / _LOG
        self._laboratory = laboratory
        self._accelerator = accelerator
        self._cpus = cpus
        self._guest: CountingGuest | None = None
        self._guests = 0

    def open(self) -> None:
        """Have both hosts receive machines."""
        with _on(self._cpus):
            self._stand = Stand(self._laboratory)

    async def measure(self, cell: PlannedCell) -> Measured:
        """Carry out one trial; see ``campaigns.executor.Booted``."""
        return await asyncio.to_thread(self._measure, cell)

    async def is_alive(self) -> bool:
        """The hosts live; a guest with which a trial failed was given up."""
        return True

    def end(self) -> str | None:
        """Nothing is known to have ended."""
        return None

    def _measure(self, cell: PlannedCell) -> Measured:
        started_at, begin = datetime.now(UTC), time.monotonic()
        with _on(self._cpus):
            try:
                result = self._carry_out(cell)
            except (StealtimeError, subprocess.TimeoutExpired, psutil.Error, OSError) as error:
                self._log.write_text(self._stand.last_words())
                self._give_up()
                if isinstance(error, StealtimeError):
                    raise
                raise StealtimeError(f"{type(error).__name__}: {error}") from error
        record = TrialRecord(
            cell=cell.cell,
            repetition=cell.repetition,
            host=self._boot.host,
            state="measured",
            started_at=started_at,
            elapsed_s=time.monotonic() - begin,
            result=result,
            placement=placement_record(self._placement),
        )
        return Measured(record, None)

    def _carry_out(self, cell: PlannedCell) -> Result:
        duration_s, lapses = cell.duration_ns / 1e9, 0
        while True:
            guest = self._guest_for(cell)
            try:
                if cell.cell.probe == "roundtrip":
                    found: Result = _count_round_trips(guest, duration_s)
                else:
                    found = _strike(guest, str(cell.cell.parameters["blow"]), duration_s)
                return found.model_copy(update={"lapses": lapses})
            except (LapsedError, NotProtectedError) as error:
                lapses += 1
                if lapses == _TRIES:
                    raise
                if isinstance(error, NotProtectedError):
                    self._give_up()

    def _guest_for(self, cell: PlannedCell) -> CountingGuest:
        """Give a guest that is ready, booted anew if the last cell wanted another one."""
        mode, interval_ns = cell.cell.parameters["mode"], cell.cell.parameters.get("interval_ns")
        wanted: dict[str, Any] = {"mode": mode} | ({} if interval_ns is None else {"interval": f"{interval_ns}ns"})
        if self._guest is not None and (self._guest.vm.mode, self._guest.vm.interval) != (
            mode,
            interval_ns or self._guest.vm.interval,
        ):
            self._give_up()
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

    def _give_up(self) -> None:
        guest, self._guest = self._guest, None
        if guest is not None:
            self._laboratory.mend_all()
            for name in HOSTS:
                self._laboratory.power_off(name)
                self._stand.start_daemon(name)


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
    standby, folder = other(active.host), guest.member(active.host)
    member = _process(active)
    with _client(guest, "--check") as client:
        from_ns = time.monotonic_ns()
        time.sleep(duration_s)
        refuse_lapse(guest, active, from_ns, client)
        checkpoints = _checkpoints(guest, active, from_ns)
        gone = {member.pid}
        if blow == "killed":
            blown_ns = kill_protected(
                member, lambda: last_state(folder, member.pid) == "Protected", lambda: _still(guest, active)
            )
        else:
            blown_ns = time.monotonic_ns()
            for network in NETWORKS:
                stand.laboratory.cut(active.host, network)
            gone |= set(stand.laboratory.power_off(active.host))
            if last_state(folder, member.pid) != "Protected":
                raise NotProtectedError(f"{active.host} fell silent when its guest was just not protected")
        after = guest.await_that(
            lambda: status if (status := guest.running(standby)) and status.resume_ns is not None else None,
            lambda: f"{standby} did not take the guest over",
            _TAKEN_WITHIN_S,
        )
        running_ns = _running_since(guest, standby, blown_ns)
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
        tcp_lived=bool(seen["tcp_lived"]),
        pages_wrong=int(seen["check"]["mismatches"]),
    )


def refuse_lapse(guest: CountingGuest, active: MemberStatus, from_ns: int, client: Client) -> None:
    """See that the guest was protected all the time: else its output was not held, and it is another measurement.

    Raises:
        LapsedError: It was not.
        StealtimeError: It was not, and its client saw what must not happen even so: that is not to be tried again.
    """
    if guest.vm.mode == "off":
        return
    states = [one for one in guest.events(active.host) if one["event"] == "state" and one["pid"] == active.pid]
    lapsed = [str(one["state"]) for one in states if int(one["monotonic_ns"]) >= from_ns]
    if not lapsed:
        return
    violations = _counted(client.end())["violations"]
    if violations:
        raise StealtimeError(f"the guest lost its standby, and its client saw what must not happen: {violations}")
    raise LapsedError(
        f"the guest was not protected all the time while it was measured (its member was {', '.join(lapsed)})",
        hint="this host is too busy for the default deadlines",
    )


def _still(guest: CountingGuest, active: MemberStatus) -> None:
    if guest.await_ready().pid != active.pid:
        raise NotProtectedError(f"the guest left {active.host} before the blow")


def _process(active: MemberStatus) -> psutil.Process:
    if active.pid is None:
        raise StealtimeError(f"the member on {active.host} does not say its pid")
    return psutil.Process(active.pid)


def _running_since(guest: CountingGuest, host: str, after_ns: int) -> int:
    times = [int(event["monotonic_ns"]) for event in guest.events(host) if event["event"] == "guest-continued"]
    return min(at_ns for at_ns in times if at_ns > after_ns)


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


@contextmanager
def _on(cpus: set[int]) -> Iterator[None]:
    """Let this thread, and what it starts, run on other CPUs than the control plane is kept on."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
