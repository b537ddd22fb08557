"""Which hosts are worse than their peers: those with the same CPU model, microcode and kernel, and the same work.

A host is named only where two things hold. Its *trials* lie above those of its peers: were they all of one kind, so
many of the peers' trials would lie above the least of its own only with probability p; this counts ranks and needs no
distribution. And the *host* lies outside the spread that hosts have: by Student's t of the logarithm of its median,
with the median and the median absolute deviation of the peers' medians. p is the larger of the two. Stalls are counted,
and their number is held against sums of as many of the peers' trials (an exact convolution) and against a negative
binomial of the peers' mean and variance; again the larger p counts.

All tests of all hosts are one family: by Y. Benjamini and Y. Hochberg (J. R. Statist. Soc. B 57, 1995) at most
``FALSE_DISCOVERY_RATE`` of those that are named are named wrongly, on average; of hosts that are all alike, somebody is
named at most in that share of the pages. Differences below ``LEAST_FACTOR`` are not worth anybody's time.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb, log
from statistics import median

import numpy as np
from scipy import stats

FALSE_DISCOVERY_RATE = 0.01
PEERS_MIN = 8
"""Fewer hosts do not tell how much hosts differ."""
TRIALS_MIN = 2
LEAST_FACTOR = 1.03
LEVELS = ("floor", "p50", "p99", "p99.9")
STALLS = ("stalls of 1 ms or more", "stalls of 4 ms or more")
_MAD_TO_SD = 1.4826
_MAD_EFFICIENCY = 0.37
"""Of the median absolute deviation beside the standard deviation, for normal values: so many of its degrees of freedom
it has (F. R. Hampel, J. Amer. Statist. Assoc. 69, 1974)."""


@dataclass(frozen=True)
class TrialValues:
    """What a trial gives to the comparison."""

    host: str
    group: tuple[str, ...]
    """Its CPU model, microcode and kernel."""
    cell: str
    work: str
    """The iterations of its loop, where it has one: only the same work is compared."""
    levels: Mapping[str, float | None]
    """In ns."""
    stalls: Mapping[str, int | None]
    watched_s: float
    cause: str | None


@dataclass(frozen=True)
class Finding:
    """One figure of one host in one cell, beside its peers."""

    host: str
    group: tuple[str, ...]
    cell: str
    figure: str
    value: float
    """In ns, or stalls a minute."""
    peers_median: float
    peers: int
    trials: int
    p: float
    cause: str | None
    is_named: bool = False

    @property
    def factor(self) -> float | None:
        return self.value / self.peers_median if self.peers_median > 0 else None


@dataclass(frozen=True)
class Unjudged:
    """A host without enough peers."""

    host: str
    group: tuple[str, ...]
    because: str


@dataclass(frozen=True)
class PeerJudgement:
    """All hosts beside their peers."""

    findings: list[Finding]
    """All tests, those that are named first, the least likely one first."""
    unjudged: list[Unjudged]
    tests: int

    @property
    def named(self) -> list[Finding]:
        return [one for one in self.findings if one.is_named]

    @property
    def named_hosts(self) -> list[str]:
        return list(dict.fromkeys(one.host for one in self.named))


def judge_hosts(trials: Iterable[TrialValues], rate: float = FALSE_DISCOVERY_RATE) -> PeerJudgement:
    """Hold each host against its peers."""
    groups: dict[tuple[tuple[str, ...], str, str], dict[str, list[TrialValues]]] = defaultdict(
        lambda: defaultdict(list)
    )
    hosts_of: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for one in trials:
        groups[one.group, one.cell, one.work][one.host].append(one)
        hosts_of[one.group].add(one.host)
    findings = [found for hosts in groups.values() if len(hosts) > PEERS_MIN for found in _of_group(hosts)]
    unjudged = [
        Unjudged(
            host,
            group,
            f"it has {len(hosts) - 1} peers of its CPU model, microcode and kernel, and {PEERS_MIN} are needed",
        )
        for group, hosts in hosts_of.items()
        if len(hosts) <= PEERS_MIN
        for host in sorted(hosts)
    ]
    judged = {one.host for one in findings}
    for (group, _, work), hosts in groups.items():
        if work and len(hosts) <= PEERS_MIN < len(hosts_of[group]):
            unjudged += [
                Unjudged(host, group, "its loops did other work than its peers': measure with --loop-of one run")
                for host in sorted(hosts)
                if host not in judged
            ]
    return PeerJudgement(_controlled(findings, rate), list(dict.fromkeys(unjudged)), len(findings))


def _of_group(hosts: Mapping[str, Sequence[TrialValues]]) -> Iterable[Finding]:
    for name in LEVELS:
        known = {
            host: values
            for host, own in hosts.items()
            if len(values := [value for one in own if (value := one.levels.get(name)) is not None and value > 0])
            >= TRIALS_MIN
        }
        if len(known) > PEERS_MIN:
            yield from _levels(name, hosts, known)
    for name in STALLS:
        yield from _stalls(name, hosts)


def _levels(
    name: str, hosts: Mapping[str, Sequence[TrialValues]], known: Mapping[str, list[float]]
) -> Iterable[Finding]:
    centres = {host: median(map(log, values)) for host, values in known.items()}
    order = list(known)
    middles = np.array([centres[host] for host in order])
    everything = np.sort(np.concatenate([np.asarray(known[host]) for host in order]))
    for position, host in enumerate(order):
        own, others = known[host], np.delete(middles, position)
        centre = float(np.median(others))
        # Of all trials that are at least as long as the shortest of its own, those that are not its own.
        least = min(own)
        above = int(len(everything) - np.searchsorted(everything, least, side="left")) - len(own)
        by_ranks = comb(len(own) + above, above) / comb(len(everything), len(own))
        scale = _MAD_TO_SD * float(np.median(np.abs(others - centre)))
        yield Finding(
            host=host,
            group=hosts[host][0].group,
            cell=hosts[host][0].cell,
            figure=name,
            value=float(np.exp(centres[host])),
            peers_median=float(np.exp(centre)),
            peers=len(others),
            trials=len(own),
            p=1.0
            if centres[host] - centre < log(LEAST_FACTOR)
            else max(by_ranks, _outside(centres[host] - centre, scale, len(others))),
            cause=_cause(hosts[host]),
        )


def _outside(distance: float, scale: float, peers: int) -> float:
    """Give how likely a host lies that far above its peers, if it is one of them."""
    degrees = max(3.0, _MAD_EFFICIENCY * (peers - 1))
    # The peers' own median is known no better than hosts differ.
    error = max(scale, log(LEAST_FACTOR) / 6) * np.sqrt(1 + np.pi / 2 / peers)
    return float(stats.t.sf(distance / error, degrees))


def _stalls(name: str, hosts: Mapping[str, Sequence[TrialValues]]) -> Iterable[Finding]:
    known = {host: [one for one in own if one.stalls.get(name) is not None] for host, own in hosts.items()}
    known = {
        host: own for host, own in known.items() if len(own) >= TRIALS_MIN and sum(one.watched_s for one in own) > 0
    }
    if len(known) <= PEERS_MIN:
        return
    counts = {host: np.array([one.stalls[name] or 0 for one in own], np.int64) for host, own in known.items()}
    watched = {host: np.array([one.watched_s for one in own]) for host, own in known.items()}
    every, every_s = np.concatenate(list(counts.values())), np.concatenate(list(watched.values()))
    # In order of the hosts: where those of each begin.
    begins = np.cumsum([0, *(len(one) for one in counts.values())])
    for position, (host, own) in enumerate(counts.items()):
        keep = np.ones(len(every), bool)
        keep[begins[position] : begins[position + 1]] = False
        others, others_s = every[keep], every_s[keep]
        own_s, total = float(watched[host].sum()), int(own.sum())
        a_second = float(others.sum()) / float(others_s.sum())
        p = 1.0
        if total > a_second * own_s * LEAST_FACTOR and total > 1:
            p = max(_by_sums(total, len(own), others), _by_negative_binomial(total, own_s, others, others_s))
        yield Finding(
            host=host,
            group=known[host][0].group,
            cell=known[host][0].cell,
            figure=name,
            value=60 * total / own_s,
            peers_median=60 * a_second,
            peers=len(known) - 1,
            trials=len(own),
            p=p,
            cause=_cause(known[host]),
        )


def _by_sums(total: int, trials: int, others: np.ndarray) -> float:
    """Give how likely as many of the peers' trials have so many stalls together; no less than ranks could tell."""
    least = 1 / comb(len(others) + trials, trials)
    if total > trials * int(others.max()):
        return least
    chances = np.bincount(np.minimum(others, total)).astype(np.float64) / len(others)
    together = np.ones(1)
    for _ in range(trials):
        together = np.convolve(together, chances)
        if len(together) > total + 1:
            together = np.append(together[:total], together[total:].sum())
    return max(least, float(together[total:].sum()))


def _by_negative_binomial(total: int, own_s: float, others: np.ndarray, others_s: np.ndarray) -> float:
    """Give how likely a host has so many, if stalls come as they come to its peers: in bursts, perhaps."""
    # Half a stall more than was seen: of peers without any, nobody knows that there are none.
    a_second = (float(others.sum()) + 0.5) / float(others_s.sum())
    expected = a_second * others_s
    excess = float(((others - expected) ** 2 - expected).sum() / (expected**2).sum())
    mean = a_second * own_s
    trials = max(1.0, own_s / float(others_s.mean()))
    if excess <= 0.0:
        return float(stats.poisson.sf(total - 1, mean))
    # The sum of independent trials varies less than one of them that is as long as all.
    size = trials / excess
    return float(stats.nbinom.sf(total - 1, size, size / (size + mean)))


def _controlled(findings: Sequence[Finding], rate: float) -> list[Finding]:
    """Name what remains when at most a share of those that are named may be named wrongly."""
    ordered = sorted(findings, key=lambda one: one.p)
    last = 0
    for rank, one in enumerate(ordered, start=1):
        if one.p <= rate * rank / len(ordered):
            last = rank
    return [_with_name(one, is_named=rank <= last) for rank, one in enumerate(ordered, start=1)]


def _with_name(finding: Finding, *, is_named: bool) -> Finding:
    return Finding(**{**finding.__dict__, "is_named": is_named})


def _cause(trials: Sequence[TrialValues]) -> str | None:
    """Give what most trials tell of what was around them."""
    told = [one.cause for one in trials if one.cause is not None]
    return max(dict.fromkeys(told), key=told.count) if 2 * len(told) >= len(trials) else None
