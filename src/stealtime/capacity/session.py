"""Watches for a while and judges: what ``stealtime advise`` does."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from stealtime.capacity.advice import advise
from stealtime.capacity.collector import PROC, Collector, hidden_processes
from stealtime.capacity.counters import monitor
from stealtime.capacity.counters.takers import Taker, read_times, takers_between
from stealtime.capacity.counters.weights import group_weights
from stealtime.capacity.document import AdviceDocument, HypervisorDocument, Watched, make_document
from stealtime.capacity.gather import spare_the_garbage_collector, uses
from stealtime.capacity.guests.identity import identity_of
from stealtime.capacity.guests.view import GuestViews, read_ways
from stealtime.capacity.judgement import NO_GUEST, judge, unjudged
from stealtime.capacity.prediction.document import Changes, predict, refuse_strange_names
from stealtime.capacity.prediction.what_if import named_apart, node_of
from stealtime.capacity.rules import RuleBook
from stealtime.capacity.use import Use
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import format_duration

SHORTEST_INTERVAL_NS = 1_000_000_000
"""Counters that are brought up to date at the timer tick say nothing of shorter times, and reading them costs more."""
_NO_GUEST_HINT = "start a guest, or run this where /proc shows those that run (not in a container)"


@dataclass(frozen=True)
class Watch:
    """What to watch, and by which rules."""

    rules: RuleBook
    interval_ns: int
    guest_views: Sequence[str] = ()
    """Empty: guests are not asked."""
    rules_from: str = "the builtin rules"
    changes: Changes = field(default_factory=Changes)
    """Of which it is predicted what they do."""
    ways: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        if self.interval_ns < SHORTEST_INTERVAL_NS:
            raise UsageError(
                f"--interval: {format_duration(self.interval_ns)} is too short for these counters",
                hint=f"take {format_duration(SHORTEST_INTERVAL_NS)} or more",
            )
        object.__setattr__(self, "ways", read_ways(list(self.guest_views)))


def watch_for(watch: Watch, duration_ns: int, *, on_progress: Callable[[str], None] = lambda _: None) -> AdviceDocument:
    """Watch this host and its guests, then judge. Ctrl-C ends the watching early.

    Raises:
        UsageError: The time is too short for a single verdict, or no guest is called as one that is to be removed.
    """
    wanted = duration_ns // watch.interval_ns
    if wanted < watch.rules.minimum_samples:
        shortest = format_duration(watch.rules.minimum_samples * watch.interval_ns)
        raise UsageError(
            f"--for: {format_duration(duration_ns)} is time for {wanted} of the {watch.rules.minimum_samples} samples "
            "that a verdict needs",
            hint=f"take {shortest} or more",
        )
    spare_the_garbage_collector()
    views = GuestViews(watch.ways)
    seen: list[Use] = []
    notes = []
    with Collector(guest_view=views.of if watch.guest_views else None) as collector:
        try:
            # Before the minute, not after it.
            refuse_strange_names(watch.changes, named_apart(collector.guests().values()).values())
            before = _look_at_monitors(collector)
            times = read_times()
            try:
                for use in uses(collector, watch.interval_ns / 1e9):
                    seen.append(use)
                    on_progress(f"reading counters: {len(seen)} of {wanted} samples, {len(use.guests)} guests")
                    if len(seen) >= wanted:
                        break
            except KeyboardInterrupt:
                if not seen:
                    raise
                notes.append(f"stopped after {len(seen)} of {wanted} samples")
            after = _look_at_monitors(collector)
            # Those of User-Mode Linux have processes for what runs in them.
            own = {thread.tid for _, threads in collector.threads().values() for thread in threads}
            elapsed_s = sum(use.elapsed_s for use in seen)
            takers = takers_between(times, read_times(), elapsed_s, own)
            weights = group_weights(collector.threads(), collector.hierarchy, PROC)
        finally:
            views.close()
    document = _document(watch, seen, before, after, takers, [*notes, *_notes(watch, views, seen)])
    names = named_apart(one.guest for one in seen[-1].guests.values())
    return document.model_copy(update={"prediction": predict(node_of(seen, weights, names), watch.changes)})


def _document(
    watch: Watch,
    seen: Sequence[Use],
    before: "_Looks",
    after: "_Looks",
    takers: Sequence[Taker],
    notes: Sequence[str],
) -> AdviceDocument:
    host, guests = judge(seen, watch.rules)
    host_advice, guest_advice = advise(seen, host, guests, takers)
    gained = {key: monitor.between(before[key], after[key]) for key in before.keys() & after.keys()}
    hypervisors = {key: HypervisorDocument.of(one, sum(use.elapsed_s for use in seen)) for key, one in gained.items()}
    identities = {key: identity_of(one.guest) for key, one in seen[-1].guests.items()}
    watched = Watched(
        host_name=socket.gethostname(),
        ended_at=datetime.now(UTC).replace(microsecond=0),
        elapsed_s=round(sum(use.elapsed_s for use in seen), 3),
        rules=watch.rules_from,
        notes=[*notes, *unjudged(guests)],
    )
    return make_document(host_advice, guest_advice, watched, hypervisors=hypervisors, identities=identities)


_Looks = dict[tuple[int, int], monitor.MonitorLook]


def _look_at_monitors(collector: Collector) -> _Looks:
    return asyncio.run(monitor.look_at_all(collector.guests()))


def _notes(watch: Watch, views: GuestViews, seen: Sequence[Use]) -> list[str]:
    notes = []
    if (hidden := hidden_processes()) is not None:
        notes.append(f"{hidden}; run it as root")
    ever = {guest.guest.name for use in seen for guest in use.guests.values()}
    last = {guest.guest.name for guest in seen[-1].guests.values()}
    if not last:
        notes.append(f"{NO_GUEST}: no process runs one. hint: {_NO_GUEST_HINT}")
    if ended := sorted(ever - last):
        notes.append(f"ended while watched, and not judged: {', '.join(ended)}")
    if unused := sorted(watch.ways.keys() - views.used):
        notes.append(f"--guest-view names {', '.join(unused)}, and no guest is called so (there are: {_named(last)})")
    return notes


def _named(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
