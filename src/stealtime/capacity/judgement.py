"""Holds figures against rules; pure. What cannot be decided is not judged, and says why.

A rule holds, does not hold, or is undecided (``None``): a figure is absent, there are too few samples, or the interval
of a mean spans the limit. One part of a rule that does not hold decides it, whatever the others would say. A verdict
needs every rule before it to be decided, but for those that are optional and those that could only say the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stealtime.capacity.figures import Series, SubjectFigures, absent_series, guest_figures, host_figures
from stealtime.capacity.guest import Guest
from stealtime.capacity.rules import OF_EACH_PART, Condition, Rule, RuleBook, Verdict
from stealtime.capacity.stretching import add_stretch
from stealtime.capacity.use import Use
from stealtime.capacity.wording import unit_of
from stealtime.vocabulary.readings import Absent, Model

Holds = bool | None


class Evidence(Model):
    """One condition of a rule, and the figure it was held against."""

    figure: str
    part: str | None
    """Which virtual CPU or CPU; None for the whole."""
    relation: str
    """``above`` or ``below``."""
    limit: float
    holds: Holds
    """None: undecided."""
    mean: float | None
    low: float | None
    high: float | None
    """Of the interval of confidence."""
    samples: int
    percent_of_samples: float | None
    """In how many samples it was so, where that is what counts ..."""
    needed_percent_of_samples: float | None
    """... and in how many it has to be."""
    undecided: str | None
    """Why nothing can be said."""


@dataclass(frozen=True)
class Outcome:
    """What came of one rule."""

    rule: Rule
    holds: Holds
    evidence: tuple[Evidence, ...]
    """Of the part that decided."""
    of_guest: str | None = None
    """Of which guest, where the host is judged by it."""

    @property
    def is_unheard(self) -> bool:
        """Whether it is undecided because figures are absent or too few, and not because they lie about a limit."""
        return any(one.holds is None and one.mean is None for one in self.evidence)

    @property
    def undecided(self) -> str:
        whose = f"guest {self.of_guest}: " if self.of_guest is not None else ""
        reasons = [one.undecided for one in self.evidence if one.holds is None and one.undecided]
        return whose + (reasons[0] if reasons else f"the rule {self.rule.id} is undecided")


@dataclass(frozen=True)
class Judgement:
    """The verdict on the host or on one guest."""

    subject: str
    guest: Guest | None
    verdict: Verdict
    outcome: Outcome | None
    """The rule that gave it; None where no rule held."""
    because: str | None = None
    """Why it is not judged."""
    outcomes: tuple[Outcome, ...] = ()
    """Of every rule, in their order."""
    samples: int = 0
    figures: SubjectFigures = field(default_factory=SubjectFigures)

    @property
    def is_unheard(self) -> bool:
        """Whether nothing is known of how long a guest waited for its host."""
        waits = self._waits
        return bool(waits) and all(one.holds is None and one.is_unheard for one in waits)

    @property
    def why_unheard(self) -> str:
        return self._waits[0].undecided

    @property
    def _waits(self) -> list[Outcome]:
        return [one for one in self.outcomes if one.rule.verdict == "over-committed host" and not one.rule.optional]


MISPLACED: Verdict = "misplaced guests"
_SAID_OF_THE_HOST: tuple[Verdict, ...] = ("over-provisioned host", "over-committed host", MISPLACED)
"""Verdicts on a guest that are also said of its host."""
NO_GUEST = "no guest runs on this host"


def judge(uses: Sequence[Use], book: RuleBook) -> tuple[Judgement, list[Judgement]]:
    """Judge the host and each guest that is there at the end; uses are consecutive, the oldest first."""
    guests = []
    for key in uses[-1].guests:
        guests.append(_judge_guest([use for use in uses if key in use.guests], key, book))
    guests.sort(key=lambda one: one.subject)
    return _judge_host(uses, guests, book), guests


def unjudged(guests: Sequence[Judgement]) -> list[str]:
    """Say how many guests were judged, where not all were; else nothing."""
    without = [one for one in guests if one.verdict == "not judged"]
    if not without:
        return []
    return [f"{len(guests) - len(without)} of {len(guests)} guests judged"]


def _judge_guest(hosts: Sequence[Use], key: tuple[int, int], book: RuleBook) -> Judgement:
    uses = [use.guests[key] for use in hosts]
    guest = uses[-1].guest
    figures = guest_figures(uses, hosts)
    add_stretch(figures, uses)
    own = (rule for rule in book.rules if rule.about == "guest" and rule.kind in (None, guest.kind))
    outcomes = [apply(rule, figures, book) for rule in own]
    return _decide(guest.name, guest, outcomes, figures, len(uses))


def _judge_host(uses: Sequence[Use], guests: Sequence[Judgement], book: RuleBook) -> Judgement:
    figures = host_figures(uses)
    outcomes = []
    for rule in _in_order_of_the_host(book.rules):
        if rule.about == "host":
            outcomes.append(apply(rule, figures, book))
        elif rule.verdict in _SAID_OF_THE_HOST:
            outcomes.extend(_of_guests(rule, guests))
    unheard = [one for one in guests if one.is_unheard]
    because = None
    if not guests:
        because = NO_GUEST
    elif 2 * len(unheard) > len(guests):
        because = f"guest {unheard[0].subject}: {unheard[0].why_unheard}"
        if len(guests) > 1:
            known = len(guests) - len(unheard)
            because = f"the waits of {known or 'none'} of {len(guests)} guests are known; {because}"
    if because is not None and not any(one.holds and one.of_guest for one in outcomes):
        return Judgement("host", None, "not judged", None, because, tuple(outcomes), len(uses), figures)
    return _decide("host", None, outcomes, figures, len(uses))


def _in_order_of_the_host(rules: Sequence[Rule]) -> list[Rule]:
    """Put what is worse for a host first: where some guests are misplaced and others lack a CPU, it is over-committed.

    Of one guest the other order holds: one that is misplaced waits as well.
    """
    misplaced = [one for one in rules if one.verdict == MISPLACED]
    others = [one for one in rules if one.verdict != MISPLACED]
    last = max((place for place, one in enumerate(others) if one.verdict == "over-committed host"), default=-1)
    return [*others[: last + 1], *misplaced, *others[last + 1 :]]


def _of_guests(rule: Rule, guests: Sequence[Judgement]) -> Iterable[Outcome]:
    """Say of the host what a rule said of its guests: of the first of which it holds, else of one that is undecided.

    A guest of which nothing is known, or that has only just come, leaves itself unjudged and not its host.
    """
    found = [
        (guest, one)
        for guest in guests
        for one in guest.outcomes
        if one.rule.id == rule.id and not (one.holds is None and one.is_unheard)
        # One that is misplaced waits too: that it does is said by the other rule.
        if not (one.holds and guest.verdict == MISPLACED != rule.verdict)
    ]
    ranked = sorted(found, key=lambda pair: (True, None, False).index(pair[1].holds))
    for guest, outcome in ranked[:1]:
        yield Outcome(rule, outcome.holds, outcome.evidence, guest.subject)


def _decide(
    subject: str, guest: Guest | None, outcomes: Sequence[Outcome], figures: SubjectFigures, samples: int
) -> Judgement:
    undecided: list[Outcome] = []
    for outcome in outcomes:
        if outcome.holds is None and not outcome.rule.optional:
            undecided.append(outcome)
        if outcome.holds:
            if any(one.rule.verdict != outcome.rule.verdict for one in undecided):
                break
            because = outcome.rule.why if outcome.rule.verdict == "not judged" else None
            return Judgement(subject, guest, outcome.rule.verdict, outcome, because, tuple(outcomes), samples, figures)
    if undecided:
        because = undecided[0].undecided
        return Judgement(subject, guest, "not judged", None, because, tuple(outcomes), samples, figures)
    return Judgement(subject, guest, "efficiently provisioned", None, None, tuple(outcomes), samples, figures)


def apply(rule: Rule, figures: SubjectFigures, book: RuleBook) -> Outcome:
    conditions = [one for one in rule.conditions if not (one.if_known and _is_absent(one, figures))]
    whole = [_hold(one, None, figures.whole.get(one.figure), book) for one in conditions if _is_whole(one, figures)]
    per_part = [one for one in conditions if not _is_whole(one, figures)]
    if not per_part:
        return Outcome(rule, _all(one.holds for one in whole), tuple(whole))
    parts = [_hold_all(per_part, part, series, book) for part, series in figures.parts.items()]
    of_parts = [_all(one.holds for one in evidence) for evidence in parts]
    combined = _any(of_parts) if rule.of == "any" else _all(of_parts)
    holds = _all([combined, *(one.holds for one in whole)])
    return Outcome(rule, holds, (*_deciding(parts, of_parts, combined), *whole))


def _hold_all(
    conditions: Sequence[Condition], part: str, series: Mapping[str, Series[Any]], book: RuleBook
) -> tuple[Evidence, ...]:
    """Hold conditions one after the other; the first that does not hold has decided."""
    evidence: list[Evidence] = []
    for one in conditions:
        evidence.append(_hold(one, part, series.get(one.figure), book))
        if evidence[-1].holds is False:
            break
    return tuple(evidence)


def _deciding(
    parts: Sequence[tuple[Evidence, ...]], of_parts: Sequence[Holds], combined: Holds
) -> tuple[Evidence, ...]:
    """Give the evidence of the first part whose own outcome is that of all."""
    return next((part for part, holds in zip(parts, of_parts, strict=True) if holds is combined), ())


def _is_absent(condition: Condition, figures: SubjectFigures) -> bool:
    series = figures.whole.get(condition.figure)
    return series is None or series.absent is not None


def _is_whole(condition: Condition, figures: SubjectFigures) -> bool:
    return condition.figure not in OF_EACH_PART or condition.figure in figures.whole


def _hold(condition: Condition, part: str | None, series: Series[Any] | None, book: RuleBook) -> Evidence:
    limit = condition.above if condition.above is not None else condition.below
    assert limit is not None  # noqa: S101 - for the type checker
    relation = "above" if condition.above is not None else "below"
    series = series or absent_series(Absent(absent=f"there is no {condition.figure}"))
    name, write = unit_of(condition.figure)
    named = name if part is None else f"{name} of {part}"
    samples = 0 if series.absent is not None else len(series.values)
    mean = low = high = share = undecided = None
    holds: Holds = None
    if series.absent is not None:
        undecided = f"{named}: {series.absent.absent}"
    elif samples < book.minimum_samples:
        undecided = f"only {samples} of the {book.minimum_samples} samples that are needed"
    else:
        mean = series.mean
        low, high = series.interval(book.confidence_percent)
        if condition.in_percent_of_samples is not None:
            share = series.percent_of_samples(above=condition.above, below=condition.below)
            holds = share >= condition.in_percent_of_samples
        else:
            holds = _beyond(relation, limit, low, high)
            if holds is None:
                # An interval may reach below zero, where no figure is.
                between = f"between {write(max(low, 0.0))} and {write(high)}"
                undecided = f"{named} lies {between}, about the limit of {write(limit)}: watch longer"
    return Evidence(
        figure=condition.figure,
        part=part,
        relation=relation,
        limit=limit,
        holds=holds,
        mean=mean,
        low=low,
        high=high,
        samples=samples,
        percent_of_samples=share,
        needed_percent_of_samples=None if share is None else condition.in_percent_of_samples,
        undecided=undecided,
    )


def _beyond(relation: str, limit: float, low: float, high: float) -> Holds:
    if relation == "above":
        return True if low > limit else False if high <= limit else None
    return True if high < limit else False if low >= limit else None


def _all(outcomes: Iterable[Holds]) -> Holds:
    """Give Kleene's conjunction."""
    seen = list(outcomes)
    return False if False in seen else None if None in seen else True


def _any(outcomes: Iterable[Holds]) -> Holds:
    """Give Kleene's disjunction."""
    seen = list(outcomes)
    return True if True in seen else None if None in seen else False
