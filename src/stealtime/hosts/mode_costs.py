"""What each way of protecting a guest costs it: measured on two hosts of a laboratory, one way after the other.

Any guest is asked by ICMP echo requests at a set rate. Of the guest that counts it is also known how much of its work
it did.
"""

import math
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stealtime.hosts.checkpoints import Checkpoints, checkpoints_of, within
from stealtime.hosts.client import Client
from stealtime.hosts.copied_disks import with_copied_disks
from stealtime.hosts.counting import verified
from stealtime.hosts.echo import percentile_ns, round_trips
from stealtime.hosts.guest import Guest
from stealtime.hosts.host import CpuTimes
from stealtime.hosts.namespace_testbed import NamespaceTestbed
from stealtime.hosts.waiting import poll
from stealtime.protect.status import REFUSES, MemberStatus
from stealtime.protect.vm_file import HOLDING
from stealtime.report.notation import trimmed_duration
from stealtime.vocabulary.errors import StealtimeError

REQUEST_EVERY_NS = 19_300_000
"""Some 52 a second. Crooked, or each would come at one of a few places between two checkpoints."""
_PROTECTED_WITHIN_S = 90.0
_ANSWERS_WITHIN_S = 90.0
_REFUSED_FOR_S = 15.0
"""A host is asked again each 5 s."""
_SETTLES_S = 1.0
_LONGEST_NAME = 36
"""Of a machine, before the number of the way: names have 40 letters at most."""


@dataclass(frozen=True)
class Way:
    """A mode with its checkpoints."""

    mode: str
    interval_ns: int | None = None
    """From one to the next; None where there are none."""
    min_interval_ns: int | None = None
    """The same where output waits; None: it waits for the next that is due."""

    def keys(self) -> dict[str, str]:
        """Give it as in ``VM.toml``."""
        intervals = {"interval": self.interval_ns, "min_interval": self.min_interval_ns}
        return {"mode": self.mode, **{name: f"{ns}ns" for name, ns in intervals.items() if ns is not None}}

    def checkpoint_words(self) -> str:
        if self.interval_ns is None:
            return "none"
        every, least = trimmed_duration(self.interval_ns), self.min_interval_ns
        return f"every {every}" if least is None else f"on demand, {trimmed_duration(least)} to {every}"


@dataclass(frozen=True)
class Figures:
    """What was measured of a way, in one go."""

    elapsed_ns: int
    trips_ns: Sequence[int | None]
    """Of each request; None where it was not answered."""
    cpu: CpuTimes
    checkpoints: Checkpoints | None
    """None without protection."""
    pages_per_s: float | None
    """How many pages the guest that counts has verified; None of other guests."""

    def round_trip_ns(self, percent: float) -> int | None:
        return percentile_ns(self.trips_ns, percent)

    @property
    def unanswered(self) -> int:
        return sum(trip is None for trip in self.trips_ns)

    @property
    def stopped_share(self) -> float | None:
        """The share of the time in which the guest stood still for checkpoints."""
        return None if self.checkpoints is None else self.checkpoints.pause_total_ns / self.checkpoints.elapsed_ns

    @property
    def shipped_bytes_per_s(self) -> float | None:
        return None if self.checkpoints is None else 1e9 * self.checkpoints.shipped_bytes / self.checkpoints.elapsed_ns

    @property
    def primary_cpus(self) -> float:
        """CPUs that the guest's host is busy with besides its virtual CPUs."""
        return ((self.cpu.host_ns or 0) - (self.cpu.standby_ns or 0)) / self.elapsed_ns

    @property
    def standby_cpus(self) -> float:
        return (self.cpu.standby_ns or 0) / self.elapsed_ns


@dataclass(frozen=True)
class ModeCost:
    """What a way costs, or why that is not known."""

    way: Way
    figures: Figures | None
    reason: str | None = None
    """Why it was not measured."""


def ways_of(modes: Sequence[str], intervals_ns: Sequence[int]) -> list[Way]:
    """Give no protection, each mode with each interval, and where output waits also checkpoints on demand.

    And no protection once more: how far that is from the first time is what this machine does by itself.

    Args:
        modes: Without ``off``.
        intervals_ns: The shortest one is also the least time between checkpoints on demand.
    """
    shortest, longest = min(intervals_ns), max(intervals_ns)
    ways = [Way("off")]
    for mode in modes:
        ways += [Way(mode, interval_ns) for interval_ns in sorted(set(intervals_ns), reverse=True)]
        if mode in HOLDING and shortest < longest:
            ways.append(Way(mode, longest, shortest))
    return [*ways, Way("off")]


@dataclass(frozen=True)
class Rehearsal:
    """A machine that is measured on two hosts here.

    Attributes:
        testbed: The hosts.
        machine: What it is, as in ``VM.toml``, without its name, mode and intervals. Its rules count in ``net+bypass``.
        name: Its own.
        address: Where it answers; None: where its host has put it.
        duration_s: How long each way is measured.
        load: A command that runs beside the client meanwhile, in which ``{address}`` is the guest's.
    """

    testbed: NamespaceTestbed
    machine: Mapping[str, Any]
    name: str
    address: str | None
    duration_s: float
    load: str | None = None

    @property
    def _requests(self) -> int:
        return math.ceil(self.duration_s * 1e9 / REQUEST_EVERY_NS)

    def measure(self, ways: Sequence[Way], tell: Callable[[str], None]) -> list[ModeCost]:
        """Give what each way costs.

        Raises:
            StealtimeError: Not even the first one can be measured.
        """
        costs = []
        for number, way in enumerate(ways):
            tell(f"{number + 1} of {len(ways)}: {way.mode}, checkpoints: {way.checkpoint_words()}")
            try:
                costs.append(ModeCost(way, self._measure(number, way)))
            except StealtimeError as error:
                if not costs:
                    raise
                costs.append(ModeCost(way, None, str(error)))
        return costs

    def _measure(self, number: int, way: Way) -> Figures:
        machine = {key: value for key, value in self.machine.items() if key != "bypass" or way.mode == "net+bypass"}
        name = f"{self.name[:_LONGEST_NAME]}-{number}"
        copies = self.testbed.laboratory.folder / "disks" / name
        machine = with_copied_disks(machine, copies)
        guest = self.testbed.guest(name, **{**machine, **way.keys()})
        counts = self.machine.get("program") == "counter"
        address = self.address or guest.ip_address
        client = self.testbed.client
        try:
            guest.start()
            active = guest.await_ready(within_s=_PROTECTED_WITHIN_S, on_status=refused_for_good())
            _await_answer(guest, client, address)
            with _beside(client, self.load, address) as check_load:
                time.sleep(_SETTLES_S)
                from_ns, cpu = time.monotonic_ns(), self.testbed.cpu_times()
                before = verified(guest) if counts else None
                trips_ns = round_trips(client, address, self._requests, REQUEST_EVERY_NS)
                if trips_ns[-1] is None and not _answers(client, address):
                    raise StealtimeError(
                        "the guest no longer answers: it died, or was ended", hint="see that nothing ends its QEMU"
                    )
                after = verified(guest) if counts else None
                elapsed_ns, cpu = time.monotonic_ns() - from_ns, self.testbed.cpu_times().since(cpu)
                check_load()
            guest.check_protected(active, from_ns)
            epochs = [] if way.mode == "off" else guest.epochs_since(active, from_ns)
        finally:
            guest.end()
            # Of each way there are two of each disk.
            for folder in (copies, *self.testbed.state.path.glob(f".disks/*/{name}")):
                shutil.rmtree(folder, ignore_errors=True)
        return Figures(
            elapsed_ns=elapsed_ns,
            trips_ns=trips_ns,
            cpu=cpu,
            checkpoints=checkpoints_of([within(epochs, elapsed_ns)] if epochs else [], elapsed_ns),
            pages_per_s=before.pages_per_s(after) if before is not None and after is not None else None,
        )


def refused_for_good() -> Callable[[MemberStatus], None]:
    """Give what looks at each status of a machine that waits for its standby.

    It raises a :class:`StealtimeError` with the standby's words once it has said the same for a while: it is refused
    for a moment, too, for example where an earlier member is on its way out.
    """
    since_s: dict[str, float] = {}

    def look(status: MemberStatus) -> None:
        said = [warning for warning in status.warnings if REFUSES in warning]
        for warning in said:
            if time.monotonic() - since_s.setdefault(warning, time.monotonic()) > _REFUSED_FOR_S:
                raise StealtimeError(warning, hint="what the standby host refuses, the hosts that you have would, too")
        for gone in since_s.keys() - set(said):
            del since_s[gone]

    return look


def _await_answer(guest: Guest, client: Client, address: str) -> None:
    if poll(lambda: _answers(client, address), _ANSWERS_WITHIN_S) is None:
        error = guest.waiting.failure(f"the guest does not answer echo requests (ICMP) to {address}")
        error.hint = "is that its address, and does its firewall let ping pass?"
        raise error


def _answers(client: Client, address: str) -> bool:
    return any(trip is not None for trip in round_trips(client, address, 3, 200_000_000))


@contextmanager
def _beside(client: Client, load: str | None, address: str) -> Iterator[Callable[[], None]]:
    """Have a load run where the client is; gives what sees that it still does."""
    if load is None:
        yield lambda: None
        return
    argv = [word.replace("{address}", address) for word in shlex.split(load)]
    running = client.start(argv)

    def check() -> None:
        if running.poll() is not None:
            raise StealtimeError(
                f"the load {load!r} ended before the measurement did, with exit code {running.returncode}",
                hint="have it go on for some seconds longer than --for; it is ended with each way",
            )

    try:
        yield check
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()
