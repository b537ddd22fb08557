"""What ``stealtime advise`` says of one more guest and of one less."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stealtime.capacity.prediction.addition import Addition
from stealtime.capacity.prediction.what_if import Estimate, Node, Outlook
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.readings import Absent, Model


@dataclass(frozen=True)
class Changes:
    """What is asked for."""

    add: Sequence[Addition] = ()
    remove: Sequence[str] = ()
    """Guests by name."""
    remove_each: bool = False
    """Also say what it is like without each guest."""

    def __bool__(self) -> bool:
        return bool(self.add or self.remove or self.remove_each)


class StretchPrediction(Model):
    """Of one guest."""

    guest: str
    stretch: float | None
    """(run + wait) / run of its virtual CPUs; null where it cannot be said."""
    low: float | None
    """Of the interval that is to hold the truth in 90 % of cases; the same as ``stretch`` where that is measured."""
    high: float | None
    because: str | None
    """Why there is no figure."""


class Scenario(Model):
    """This host as it is, or after one change."""

    added: str | None
    """As it was given to ``--add``."""
    removed: str | None
    """The name of a guest."""
    pressure: float
    """Of the CPU time that guests want, the share for which they wait, from 0 to 1."""
    guests: list[StretchPrediction]


class PredictionDocument(Model):
    """How guests fare now, and after each change alone."""

    because: str | None
    """Why nothing is predicted; then there is no scenario."""
    now: Scenario | None
    scenarios: list[Scenario]


def refuse_strange_names(changes: Changes, known: Collection[str]) -> None:
    """See that guests that are to be removed are there.

    Raises:
        UsageError: One is not; the hint names those that are.
    """
    if strange := next((name for name in changes.remove if name not in known), None):
        there = ", ".join(sorted(known)) or "none"
        raise UsageError(f"--remove {strange}: no guest is called so", hint=f"guests of this host: {there}")


def predict(node: Node | Absent, changes: Changes) -> PredictionDocument:
    """Say what each change alone does.

    Args:
        node: The host as it was watched.
        changes: What is asked for.

    Raises:
        UsageError: No guest has a name that is to be removed.
    """
    if isinstance(node, Absent):
        return PredictionDocument(because=node.absent, now=None, scenarios=[])
    known = sorted({*node.names, *node.unknown})
    # One that was to be removed may have ended while it was watched.
    refuse_strange_names(changes, known)
    scenarios = [_scenario(node.with_more(one), added=one.text) for one in changes.add]
    removed = [*changes.remove, *(name for name in known if changes.remove_each and name not in changes.remove)]
    scenarios += [_scenario(node.without(name), removed=name) for name in removed]
    return PredictionDocument(because=None, now=_scenario(node.now()), scenarios=scenarios)


def _scenario(outlook: Outlook, *, added: str | None = None, removed: str | None = None) -> Scenario:
    guests = [_stretch(name, one) for name, one in sorted(outlook.stretch.items()) if name != removed]
    return Scenario(added=added, removed=removed, pressure=round(outlook.pressure, 4), guests=guests)


def _stretch(name: str, one: Estimate | Absent) -> StretchPrediction:
    if isinstance(one, Absent):
        return StretchPrediction(guest=name, stretch=None, low=None, high=None, because=one.absent)
    value, low, high = (round(figure, 3) for figure in (one.value, one.low, one.high))
    return StretchPrediction(guest=name, stretch=value, low=low, high=high, because=None)
