"""Which of the runs that were given belong together, and what is missing, double or doubtful about them. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from stealtime.merging.again import PartOfMerged, parts_of
from stealtime.store.identity import HostIdentity
from stealtime.store.run import Run
from stealtime.store.spread import Shard
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.readings import Facts, Value

APART = timedelta(hours=1)
"""Parts of one campaign that have longer than this between them were measured one after the other, or their hosts'
clocks differ. Batch systems start an array's tasks within minutes where there is room."""
AHEAD = timedelta(minutes=1)
"""More than hosts that keep their clocks by NTP differ."""
_TELLING = ("cpu_model", "memory_total_bytes", "microcode")
"""Facts in which two machines may differ and one machine does not within a day."""


@dataclass(frozen=True)
class Part:
    """A run that is merged, with the host that it is counted for."""

    run: Run
    host: str
    """As the merged run calls it."""

    @property
    def facts(self) -> Facts:
        return self.run.manifest.host

    @property
    def identity(self) -> HostIdentity | None:
        return self.run.manifest.identity


@dataclass(frozen=True)
class Chosen:
    """The runs that are merged."""

    parts: tuple[Part, ...]
    remarks: tuple[str, ...]
    """What was left out, is missing, double or doubtful, a sentence each."""


def choose(runs: Sequence[Run], now: datetime) -> Chosen:
    """Leave out what does not belong to the rest, and say so.

    Args:
        runs: As they were given; the first one says what campaign it is about.
        now: By the clock of this host.

    Raises:
        UsageError: There is nothing that can be merged.
    """
    remarks: list[str] = []
    once: dict[str, Run] = {}
    for run in runs:
        if run.manifest.merged is None:
            if run.run_id in once and not isinstance(once[run.run_id], PartOfMerged):
                remarks.append(f"{run.run_id} was given twice and counts once")
            once.setdefault(run.run_id, run)
            continue
        within = list(parts_of(run))
        once = {part.run_id: part for part in within} | once
        # What is still true is found again; what nobody can find any more, as of damaged trials, stays true.
        found = choose(within, run.manifest.merged.at).remarks
        remarks += [f"{one} (when {run.run_id} was merged)" for one in run.manifest.merged.remarks if one not in found]
    kept = list(_of_one_campaign(list(once.values()), remarks))
    if not kept:
        raise UsageError("there is no run that can be merged", hint="; ".join(remarks) or "give the runs of the hosts")
    kept = _once_a_shard(kept, remarks)
    parts = _named(kept, remarks)
    remarks += _about_clocks(parts, now)
    remarks += [
        f"{part.run.run_id} of {part.host} is not finished ({part.run.manifest.state}): what it has counts"
        for part in parts
        if part.run.manifest.state != "finished"
    ]
    return Chosen(tuple(parts), tuple(remarks))


def _of_one_campaign(runs: Sequence[Run], remarks: list[str]) -> Iterator[Run]:
    for run in runs:
        first = runs[0]
        if run.manifest.campaign_name != first.manifest.campaign_name:
            remarks.append(
                f"{run.run_id} is left out: its campaign is {run.manifest.campaign_name}, that of {first.run_id} "
                f"{first.manifest.campaign_name}"
            )
            continue
        differing = sorted(
            key
            for key in run.manifest.campaign.keys() | first.manifest.campaign.keys()
            if run.manifest.campaign.get(key) != first.manifest.campaign.get(key)
        )
        if differing:
            remarks.append(
                f"{run.run_id} is left out: its {' and '.join(differing)} of {run.manifest.campaign_name} differ from "
                f"those of {first.run_id}; measure all hosts with the same options"
            )
            continue
        yield run


def _once_a_shard(runs: Sequence[Run], remarks: list[str]) -> list[Run]:
    """Leave one run for each shard: that which measured most."""
    shards = [(run, run.manifest.spread) for run in runs if isinstance(run.manifest.spread, Shard)]
    if not shards:
        return list(runs)
    count = Counter(shard.count for _, shard in shards).most_common(1)[0][0]
    best: dict[int, Run] = {}
    for run, shard in shards:
        if shard.count != count:
            remarks.append(f"{run.run_id} is left out: it is shard {shard}, and the others are parts of {count}")
            continue
        other = best.get(shard.index)
        if other is None:
            best[shard.index] = run
            continue
        kept, left = (run, other) if len(run.whole) > len(other.whole) else (other, run)
        best[shard.index] = kept
        remarks.append(
            f"shard {shard} is there twice: {kept.run_id} is taken, which measured {len(kept.whole)} trials, and "
            f"{left.run_id} is left out"
        )
    missing = [str(index) for index in range(1, count + 1) if index not in best]
    if missing:
        remarks.append(
            f"of {count} shards {len(missing)} {'is' if len(missing) == 1 else 'are'} missing: {', '.join(missing)}; "
            f"measure {'it' if len(missing) == 1 else 'them'} with --shard {missing[0]}/{count}"
        )
    taken = {run.run_id for run in best.values()}
    return [run for run in runs if not isinstance(run.manifest.spread, Shard) or run.run_id in taken]


def _named(runs: Sequence[Run], remarks: list[str]) -> list[Part]:
    """Give each run the name of its host; two hosts have two names, whatever they call themselves."""
    named: list[Part] = []
    for run in runs:
        identity = run.manifest.identity
        if identity is None:
            name = f"host of {run.run_id}"
            remarks.append(f"{run.run_id} does not say which host it was measured on: it counts as a host of its own")
            named.append(Part(run, name))
            continue
        same = [part for part in named if part.identity is not None and part.identity.id == identity.id]
        doubt = next((why for part in same if (why := _not_one_host(part.run, run)) is not None), None)
        name = identity.name
        if doubt is not None:
            remarks.append(
                f"{run.run_id} and {same[0].run.run_id} say that they are one host ({identity.name}, {identity.id}), "
                f"but {doubt}: they count as two; give each host a name of its own in $STEALTIME_HOST"
            )
            name = _free(f"{identity.name}-{len(same) + 1}", named)
        elif same:
            name = same[0].host
        elif any(part.host == name for part in named):
            name = _free(f"{name}-{identity.id[-4:]}", named)
        named.append(Part(run, name))
    return named


def _free(name: str, named: Sequence[Part]) -> str:
    taken = {part.host for part in named}
    number, free = 2, name
    while free in taken:
        free, number = f"{name}.{number}", number + 1
    return free


def _not_one_host(first: Run, second: Run) -> str | None:
    """Say why two runs with one identity cannot be of one host; None where they may be."""
    a, b = first.manifest, second.manifest
    if a.identity is not None and b.identity is not None and a.identity.name != b.identity.name:
        return f"the one is called {a.identity.name} and the other {b.identity.name}"
    for key in _TELLING:
        before, after = a.host.get(key), b.host.get(key)
        if key == "microcode" and abs(a.created_at - b.created_at) > timedelta(days=1):
            continue
        if isinstance(before, Value) and isinstance(after, Value) and before.value != after.value:
            return f"their {key.replace('_', ' ')} differs"
    if a.finished_at is None or b.finished_at is None:
        return None
    overlap = min(a.finished_at, b.finished_at) - max(a.created_at, b.created_at)
    cpus = [one.host.get("measured_cpu") for one in (a, b)]
    if overlap > timedelta(0) and cpus[0] == cpus[1]:
        return "both measured at the same time on the same CPU, which runs refuse"
    return None


def _about_clocks(parts: Sequence[Part], now: datetime) -> list[str]:
    remarks = []
    for part in parts:
        ahead = part.run.manifest.created_at - now
        if ahead > AHEAD:
            remarks.append(
                f"the clock of {part.host} is ahead: {part.run.run_id} began {_span(ahead)} from now; days and the "
                "order of runs follow it: set it by NTP"
            )
    spread = [part for part in parts if part.run.manifest.spread is not None]
    ordered = sorted(spread, key=lambda part: part.run.manifest.created_at)
    for before, after in pairwise(ordered):
        end = max(
            (one.run.manifest.finished_at or one.run.manifest.created_at)
            for one in ordered
            if one.run.manifest.created_at <= before.run.manifest.created_at
        )
        gap = after.run.manifest.created_at - end
        if gap > APART and before.host != after.host:
            remarks.append(
                f"{after.host} began {_span(gap)} after {before.host} had ended: either they were measured one after "
                "the other, or their clocks differ; compare `date -u` on both"
            )
    return remarks


def _span(length: timedelta) -> str:
    minutes = round(length.total_seconds() / 60)
    return f"{minutes / 60:.1f} h" if minutes >= 60 else f"{minutes} min"


def without(chosen: Chosen, remarks: Sequence[str]) -> Chosen:
    """Add remarks."""
    return replace(chosen, remarks=(*chosen.remarks, *remarks))
