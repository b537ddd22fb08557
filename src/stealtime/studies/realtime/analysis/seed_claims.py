"""What Aichouch, Prevotet and Nouvel (DASIP 2013) say in words of their measurements, held against a run.

Their figures 4 to 11 are drawings without numbers, so that only what the text says of them can be compared. Each claim
has a rule, which is ours and is said with it; where a run cannot tell, it is not judged.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from stealtime.schedulability.measured import MeasuredCondition
from stealtime.studies.realtime.analysis.quantities import QUANTITIES, series_of

CITATION = (
    "M. Aichouch, J.-C. Prevotet and F. Nouvel, Evaluation of an RTOS on top of a hosted virtual machine system, DASIP "
    "2013"
)
_NEAR = 2.0
"""A guest's average up to so many times the native one is near to it."""
_OUTLIER = 10.0
"""A sample of so many medians is an outlier."""
_FAR = 10.0
"""A worst of so many averages is far above it."""
_LEAST_COUNTS = 5
"""Fewer numbers of tasks show no trend, and all of them on one side is no surprise."""
_SIGNIFICANT = 0.05

Verdict = Literal["holds", "does not hold", "not judged"]


@dataclass(frozen=True)
class SeedClaim:
    """One claim about one guest."""

    machine: str
    name: str
    """As ``published/rtos2013.toml`` has it."""
    claim: str
    """With its rule."""
    verdict: Verdict
    evidence: str
    """The figures, or why it is not judged."""

    @property
    def sentence(self) -> str:
        return f"{self.machine}: {self.claim}: {self.verdict} ({self.evidence})"


def seed_claims(conditions: Sequence[MeasuredCondition]) -> list[SeedClaim]:
    """Judge the claims about each guest of a run that also measured natively; none where it did not.

    Theirs was alone on its host: guests beside neighbours, whose name has the scenario in it, are left out.
    """
    by_machine: dict[str, list[MeasuredCondition]] = {}
    for one in conditions:
        by_machine.setdefault(one.machine, []).append(one)
    native = by_machine.get("native")
    if native is None:
        return []
    claims: tuple[tuple[str, str, Callable[[_Pair], tuple[Verdict, str]]], ...] = (
        ("near", f"on the average every overhead is near the native one (at most {_NEAR:g} times)", _near),
        ("later", "the event latency is longer than natively on the average", _later),
        (
            "flat",
            f"scheduling neither rises nor falls with the number of tasks (Kendall's tau, {_SIGNIFICANT:g}), "
            f"and no average is more than {_NEAR:g} times another one",
            _flat,
        ),
        (
            "rare",
            f"outliers ({_OUTLIER:g} medians) are rarer in scheduling than in event latency and context switch",
            _rare,
        ),
        ("far", f"only virtualized is the worst release far above its average ({_FAR:g} times)", _far),
    )
    return [
        SeedClaim(machine, name, claim, *_judged(judge, _Pair(native, own)))
        for machine, own in by_machine.items()
        if machine != "native" and " " not in machine
        for name, claim, judge in claims
    ]


def _judged(judge: "Callable[[_Pair], tuple[Verdict, str]]", pair: "_Pair") -> tuple[Verdict, str]:
    """Judge a claim, which one or two numbers of tasks bear out as well as chance does."""
    verdict, evidence = judge(pair)
    counts = len(pair.counts())
    if verdict != "not judged" and counts < _LEAST_COUNTS:
        return "not judged", f"of {counts} numbers of tasks, {_LEAST_COUNTS} are needed: {evidence}"
    return verdict, evidence


@dataclass(frozen=True)
class _Pair:
    native: Sequence[MeasuredCondition]
    guest: Sequence[MeasuredCondition]

    def counts(self) -> list[int]:
        """The numbers of tasks that both were measured with."""
        return sorted({one.tasks for one in self.native} & {one.tasks for one in self.guest})

    def averages(self, quantity: str) -> Mapping[int, tuple[float, float]] | None:
        """Native and guest averages by the number of tasks; None where some is not known."""
        found = {}
        for count in self.counts():
            both = [
                series_of(next(one for one in machine if one.tasks == count), quantity, self.everything)
                for machine in (self.native, self.guest)
            ]
            if any(one is None for one in both):
                return None
            found[count] = (float(np.mean(both[0])), float(np.mean(both[1])))  # type: ignore[arg-type]
        return found or None

    @property
    def everything(self) -> list[MeasuredCondition]:
        return [*self.native, *self.guest]


def _ratios(pair: _Pair, quantity: str) -> list[float] | None:
    averages = pair.averages(quantity)
    return None if averages is None else [guest / native for native, guest in averages.values() if native > 0]


def _near(pair: _Pair) -> tuple[Verdict, str]:
    ratios = {quantity: _ratios(pair, quantity) for quantity in QUANTITIES}
    lacking = [quantity for quantity, one in ratios.items() if not one]
    if lacking:
        return _unknown(lacking)
    medians = {quantity: float(np.median(one)) for quantity, one in ratios.items() if one}
    words = ", ".join(f"{quantity.replace('_', ' ')} {ratio:.1f}" for quantity, ratio in medians.items())
    return _verdict(max(medians.values()) <= _NEAR), f"times the native one, median over the numbers of tasks: {words}"


def _later(pair: _Pair) -> tuple[Verdict, str]:
    ratios = _ratios(pair, "event_latency")
    if not ratios:
        return _unknown(["event_latency"])
    words = f"{min(ratios):.2f} to {max(ratios):.2f} times the native one"
    longer = sum(ratio > 1 for ratio in ratios)
    if stats.binomtest(longer, len(ratios), alternative="greater").pvalue < _SIGNIFICANT:
        return "holds", words
    if stats.binomtest(longer, len(ratios), alternative="less").pvalue < _SIGNIFICANT:
        return "does not hold", words
    return "not judged", f"{longer} of {len(ratios)} numbers of tasks are longer: {words}"


def _flat(pair: _Pair) -> tuple[Verdict, str]:
    averages = pair.averages("scheduling")
    if averages is None:
        return _unknown(["scheduling"])
    words, has_trend, furthest = [], False, 1.0
    for which, name in enumerate(("native", "guest")):
        own = [both[which] for both in averages.values()]
        furthest = max(furthest, max(own) / min(own))
        found = stats.kendalltau(list(averages), own)
        tau, chance = float(found.statistic), float(found.pvalue)
        has_trend |= chance < _SIGNIFICANT
        words.append(f"{name} tau {tau:.2f}, p {chance:.3f}")
    evidence = f"{len(averages)} numbers of tasks; {'; '.join(words)}"
    if not has_trend and furthest > _NEAR:
        # So few numbers show a trend only where each is beyond the one before.
        return "not judged", f"no trend is seen, but averages are up to {furthest:.1f} times another one: {evidence}"
    return _verdict(not has_trend), evidence


def _rare(pair: _Pair) -> tuple[Verdict, str]:
    counted: dict[str, tuple[int, int]] = {}
    for quantity in ("scheduling", "event_latency", "context_switch"):
        series = [found for one in pair.guest if (found := series_of(one, quantity, pair.everything)) is not None]
        if len(series) < len(pair.guest):
            return _unknown([quantity])
        outliers = sum(int(np.count_nonzero(one > _OUTLIER * np.median(one))) for one in series)
        counted[quantity] = outliers, sum(map(len, series)) - outliers
    words = ", ".join(
        f"{quantity.replace('_', ' ')} {100 * outliers / (outliers + others):.3f} %"
        for quantity, (outliers, others) in counted.items()
    )
    own = counted.pop("scheduling")
    if all(_is_surely_rarer(own, other) for other in counted.values()):
        return "holds", words
    if any(_is_surely_rarer(other, own) for other in counted.values()):
        return "does not hold", words
    return "not judged", f"too few outliers to tell: {words}"


def _is_surely_rarer(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Tell two shares apart, each given by how many are and are not (Fisher's exact test)."""
    return bool(stats.fisher_exact([one, other], alternative="less").pvalue < _SIGNIFICANT)


def _far(pair: _Pair) -> tuple[Verdict, str]:
    releases = [
        [own for one in machine if (own := series_of(one, "release", pair.everything)) is not None]
        for machine in (pair.native, pair.guest)
    ]
    if not all(releases):
        return _unknown(["release"])
    # Of more samples the worst is worse.
    equally = min(len(own) for machine in releases for own in machine)
    native, guest = (
        float(np.median([own[:equally].max() / own[:equally].mean() for own in machine])) for machine in releases
    )
    return _verdict(guest >= _FAR > native), f"median over the numbers of tasks: native {native:.1f}, guest {guest:.1f}"


def _unknown(quantities: Sequence[str]) -> tuple[Verdict, str]:
    return "not judged", f"not measured with the same numbers of tasks: {', '.join(quantities).replace('_', ' ')}"


def _verdict(holds: bool) -> Verdict:
    return "holds" if holds else "does not hold"


def sentences(claims: Sequence[SeedClaim]) -> Iterator[str]:
    """Give the claims as lines, under their source."""
    if claims:
        yield f"What others found, held against this run ({CITATION}):"
    yield from (one.sentence for one in claims)
