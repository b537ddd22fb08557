"""The exporter: reads virtual CPUs each second, everything else each five, and judges each minute, until it is ended.

What a verdict on some minutes needs is in samples of five seconds; what happens within a second is in the counters of
``seconds``. Nothing of the screen is loaded, nor what reads tables: it is to live on every host, for little
(``benchmarks/capacity_exporter.py``).
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from stealtime.capacity.collector import PROC, Collector, hidden_processes
from stealtime.capacity.exporter.blamed import Blamed
from stealtime.capacity.exporter.exposition import write
from stealtime.capacity.exporter.families import Exported, OtherTotals, families
from stealtime.capacity.exporter.kept import Keeper, Line
from stealtime.capacity.exporter.predicting import Predicting
from stealtime.capacity.exporter.seconds import GuestSeconds, Seconds
from stealtime.capacity.exporter.server import serving
from stealtime.capacity.gather import Turns, spare_the_garbage_collector
from stealtime.capacity.guests.identity import Identity, identity_of
from stealtime.capacity.guests.view import GuestViews
from stealtime.capacity.prediction.document import Changes
from stealtime.capacity.rules import RuleBook
from stealtime.capacity.sample import Sample
from stealtime.capacity.use import GuestUse, Use, between
from stealtime.capacity.watch.state import Neighbours, Snapshot, State
from stealtime.vocabulary.readings import Absent

SAMPLE_EVERY_S = 5
WINDOW_SAMPLES = 24
"""Verdicts look back on two minutes."""
JUDGE_EVERY_SAMPLES = 12
"""And are given each minute."""
STALE_S = 30.0
"""Figures that are older are not told: whoever reads them is stuck (docs/decisions/2026-11-26-metrics-server.md)."""


@dataclass(frozen=True)
class Export:
    """What to export."""

    rules: RuleBook
    serve_at: tuple[str, int]
    ways: Mapping[str, str]
    """Into guests, for their own view of their queue."""
    ask_guests: bool
    trace: bool
    """Whether to look for whom guests wait, which takes the host's trace."""
    version: str
    keep: Path | None = None
    """Where verdicts of the last day are kept."""
    changes: Changes = field(default_factory=Changes)
    """Of which it is predicted what they do."""
    proc: Path = PROC


class Exporter:
    """Keeps what is exported up to date.

    Args:
        order: What to export.
        collector: Reads everything.
        tell: Told once what goes wrong beside.
    """

    def __init__(self, order: Export, collector: Collector, tell: Callable[[str], None] = lambda _: None) -> None:
        self._order = order
        self._tell = tell
        self._told: set[str] = set()
        self._collector = collector
        self._state = State(order.rules, WINDOW_SAMPLES, JUDGE_EVERY_SAMPLES, keep_figures=False)
        self._seconds = Seconds(str(order.proc))
        self._others: dict[tuple[int, int], OtherTotals] = {}
        self._identities: dict[tuple[int, int], Identity] = {}
        self._blamed = Blamed() if order.trace else None
        self._before: Sample | None = None
        self._began_s = self._fresh_s = time.monotonic()
        self._exported: Exported | None = None
        self._predicting = Predicting(order.changes, order.proc)
        # Who asks does so in a thread of his own.
        self._lock = threading.Lock()
        self._text: bytes | None = None
        self._keeper = None if order.keep is None else Keeper(order.keep)
        self._kept_s = self._began_s
        self._kept: dict[tuple[int, int], _Summed] = {}

    def close(self) -> None:
        self._seconds.close()
        if self._keeper is not None:
            self._keeper.close()

    def read_second(self) -> None:
        """Read what is read each second."""
        with self._lock:
            self._seconds.read(time.monotonic_ns())
            self._fresh_s = time.monotonic()
            self._text = None

    def read_all(self) -> Snapshot | None:
        """Read everything, and judge if it is time; None the first time."""
        # Guests are asked, too, and one that does not answer holds nobody up who asks us.
        sample = self._collector.sample()
        with self._lock:
            return self._take(sample)

    def _take(self, sample: Sample) -> Snapshot | None:
        before, self._before = self._before, sample
        self._seconds.follow(self._collector.threads())
        if before is None:
            return None
        use = between(before, sample)
        snapshot = self._state.take(use)
        self._add_others(use)
        self._know(use)
        for key, seen in self._seconds.guests.items():
            if (own := use.guests.get(key)) is not None:
                seen.net_share = _net_share(own)
        self._exported = Exported(
            sample=sample,
            snapshot=snapshot,
            seconds=self._seconds.guests,
            others=self._others,
            identities=self._identities,
            blamed=self._blamed,
            watched_s=time.monotonic() - self._began_s,
            version=self._order.version,
            prediction=self._predicting.latest,
        )
        if snapshot.samples % JUDGE_EVERY_SAMPLES == 0:
            self._predicting.begin(snapshot.uses, self._collector)
        if self._keeper is not None and snapshot.samples % JUDGE_EVERY_SAMPLES == 0:
            # A disk that is full is no reason to serve nothing any more.
            try:
                self._keeper.add(list(self._lines(snapshot)))
            except OSError as error:
                self._tell_once(f"--keep {self._order.keep}: verdicts are not kept: {error.strerror}")
        return snapshot

    def _tell_once(self, words: str) -> None:
        if words not in self._told:
            self._told.add(words)
            self._tell(words)

    def _lines(self, snapshot: Snapshot) -> Iterator[Line]:
        """Give what is to be kept of the time since the last lines."""
        now_s = time.monotonic()
        elapsed_s, self._kept_s = now_s - self._kept_s, now_s
        before, self._kept = self._kept, {key: _summed(one) for key, one in self._seconds.guests.items()}
        at_s = round(time.time())
        for key, advice in [(None, snapshot.host), *snapshot.guests.items()]:
            judgement = advice.judgement
            guest = None if key is None else judgement.guest
            identity = Identity() if key is None else self._identities.get(key, Identity())
            run_ns, wait_ns, watched, crowded = (
                (0, 0.0, 0, 0) if key is None else _gained(before.get(key), self._kept.get(key))
            )
            yield Line(
                at_s=at_s,
                elapsed_s=round(elapsed_s, 3),
                guest="" if guest is None else guest.name,
                name="" if guest is None else identity.name or guest.name,
                uuid=identity.uuid,
                verdict=judgement.verdict,
                rule="" if judgement.outcome is None else judgement.outcome.rule.id,
                run_s=round(run_ns / 1e9, 3),
                wait_s=round(wait_ns / 1e9, 3),
                watched_seconds=watched,
                crowded_seconds=crowded,
            )

    def blame(self, neighbours: Neighbours) -> None:
        """Take what a window of the trace told."""
        with self._lock:
            self._state.blame(neighbours)
            if self._blamed is not None:
                waited_s = {
                    seen.guest.name: sum(one.wait_ns for one in seen.vcpus.values()) / 1e9
                    for seen in self._seconds.guests.values()
                }
                self._blamed.add(neighbours, waited_s)

    def render(self) -> bytes | None:
        """Give the text for Prometheus; None where nothing fresh is known.

        Whoever asks again within the second gets the same text: nobody can take the exporter's CPU by asking.
        """
        with self._lock:
            exported = self._exported
            if exported is None or time.monotonic() - self._fresh_s > STALE_S:
                return None
            if self._text is None:
                self._text = write(families(exported))
            return self._text

    def _add_others(self, use: Use) -> None:
        self._others = {key: self._more(self._others.get(key), one, use.elapsed_s) for key, one in use.guests.items()}

    @staticmethod
    def _more(known: OtherTotals | None, use: GuestUse, elapsed_s: float) -> OtherTotals:
        known = known or OtherTotals({}, {})
        run_s, wait_s = dict(known.run_s), dict(known.wait_s)
        for role, threads in (("emulator", use.emulator), ("io", use.io)):
            if not isinstance(threads, Absent) and use.unreadable is None:
                run_s[role] = run_s.get(role, 0.0) + threads.run_percent / 100 * elapsed_s
                wait_s[role] = wait_s.get(role, 0.0) + threads.wait_percent / 100 * elapsed_s
        throttled = 0.0 if isinstance(use.throttled_percent, Absent) else use.throttled_percent
        return OtherTotals(run_s, wait_s, known.throttled_s + throttled / 100 * elapsed_s)

    def _know(self, use: Use) -> None:
        for ended in self._identities.keys() - use.guests.keys():
            del self._identities[ended]
        for key, one in use.guests.items():
            if key not in self._identities:
                self._identities[key] = identity_of(one.guest, self._order.proc)


_Summed = tuple[int, float, int, int]


def _summed(one: GuestSeconds) -> _Summed:
    vcpus = one.vcpus.values()
    run_ns, wait_ns = sum(vcpu.run_ns for vcpu in vcpus), sum(vcpu.wait_ns for vcpu in vcpus)
    return run_ns, wait_ns, one.watched_seconds, one.crowded_seconds


def _gained(before: _Summed | None, after: _Summed | None) -> _Summed:
    first, last = before or (0, 0.0, 0, 0), after or (0, 0.0, 0, 0)
    return last[0] - first[0], last[1] - first[1], last[2] - first[2], last[3] - first[3]


def _net_share(use: GuestUse) -> float:
    """Give how much of a guest's waiting its quota did not take; kernels count that as waiting, too."""
    waited = sum(one.wait_percent for one in use.vcpus.values())
    if waited <= 0:
        return 1.0
    if isinstance(use.throttled_percent, Absent):
        return 0.0  # nobody knows how much of it is the host's
    return max(0.0, 1 - use.throttled_percent * len(use.vcpus) / waited)


async def export(order: Export, on_ready: Callable[[str], None] = lambda _: None) -> None:
    """Read and serve until cancelled.

    Args:
        order: What to export.
        on_ready: Told the address, and what is not seen.

    Raises:
        StealtimeError: Metrics cannot be served there.
    """
    spare_the_garbage_collector()
    views = GuestViews(dict(order.ways))
    with ExitStack() as stack:
        stack.callback(views.close)
        collector = stack.enter_context(Collector(order.proc, guest_view=views.of if order.ask_guests else None))
        exporter = Exporter(order, collector, on_ready)
        stack.callback(exporter.close)
        address = stack.enter_context(serving(exporter.render, order.serve_at))
        on_ready(f"metrics: {address}")
        if (hidden := hidden_processes(order.proc)) is not None:
            on_ready(f"{hidden}; run it as root")
        tracing = asyncio.create_task(_follow(collector, exporter, on_ready)) if order.trace else None
        try:
            turns, second = Turns(1.0), 0
            while True:
                if second % SAMPLE_EVERY_S == 0:
                    exporter.read_all()
                exporter.read_second()
                second += 1
                await asyncio.sleep(turns.until_next_s())
        finally:
            if tracing is not None:
                tracing.cancel()
                with suppress(asyncio.CancelledError):
                    await tracing


async def _follow(collector: Collector, exporter: Exporter, tell: Callable[[str], None]) -> None:
    # What reads traces takes 0.3 s and 60 MB to load: only where it was asked for.
    from stealtime.capacity.watch.following import follow_neighbours

    told: set[str] = set()

    def take(window: Neighbours) -> None:
        exporter.blame(window)
        if window.absent is not None and window.absent.absent not in told:
            told.add(window.absent.absent)
            tell(f"neighbours: not known, because {window.absent.absent}")

    await follow_neighbours(collector, take)
