"""What a reader must know of the overheads that were charged: from which rows, and of how many samples."""

import math
from collections.abc import Iterator
from fractions import Fraction

from stealtime.schedulability import wording
from stealtime.schedulability.overheads import OverheadModel


def remarks_at(model: OverheadModel, tasks: int) -> Iterator[str]:
    """Say where the overheads of a number of tasks come from, in sentences without a full stop."""
    if model.is_constant or not model.points:
        return
    yield from _samples(model)
    fewest, most = model.counts[0], model.counts[-1]
    if tasks < fewest:
        yield (
            f"overheads of {_tasks(tasks)} are not known: charged are those of {fewest}, the fewest in {model.source}, "
            "which are no less where overheads grow with the number of tasks"
        )
    if tasks > most:
        how = (
            "the same are charged"
            if len(model.counts) == 1
            else "charged is what a line through the last two rows gives"
        )
        yield f"overheads of {_tasks(tasks)} are not known, only of up to {most}: {how}, which may be too little"
    carried = [words for name in model.points if (words := _carried(model, name, tasks)) is not None]
    if carried:
        yield (
            "overheads never fall with the number of tasks, so what was seen with fewer counts here, too: "
            + "; ".join(carried)
        )


def curve_remarks(model: OverheadModel) -> Iterator[str]:
    """Say the same of a model that sets of any number of tasks are charged by."""
    if model.is_constant or not model.points:
        return
    fewest, most = model.counts[0], model.counts[-1]
    known = f"{_tasks(fewest)} alone" if fewest == most else f"{fewest} to {most} tasks"
    beyond = "the same" if fewest == most else "what a line through the last two rows gives"
    yield f"{model.source}: known for {known}; sets of fewer are charged the first row, sets of more {beyond}"
    if model.uncharged is not None:
        yield (
            f"{model.source}: what RT throttling and the fair server of that machine may take is not charged here; "
            "`sched analyze` charges it to a set that can bring it about"
        )


def _samples(model: OverheadModel) -> Iterator[str]:
    told = model.provenance
    if told is None or not told.samples:
        return
    counts = [count for counts in told.samples.values() for count in counts]
    number = f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
    which = "all that were measured" if told.seed is None else "equally many of each, drawn at random"
    yield f"overheads: {told.statistic} of {number} samples for each overhead and number of tasks ({which})"


def _carried(model: OverheadModel, name: str, tasks: int) -> str | None:
    """Tell which row with fewer tasks an overhead comes from, where the rows around say less; None where none does."""
    charged = model.value_ns(name, tasks)
    seen = [(count, value) for count, value in model.points[name] if count <= tasks]
    if not seen:
        return None
    count, largest = max(seen, key=lambda one: one[1])
    own = max(_around(model.points[name], tasks))
    if math.ceil(largest) != charged or own >= largest:
        return None
    here = wording.duration(math.ceil(own))
    return f"{name.replace('_', ' ')} {wording.duration(charged)} (with {_tasks(count)}; around {tasks} at most {here})"


def _around(points: list[tuple[int, Fraction]], tasks: int) -> list[Fraction]:
    """Give the values of the rows on both sides, or of the row itself."""
    before = [value for count, value in points if count <= tasks][-1:]
    exact = any(count == tasks for count, _ in points)
    after = [] if exact else [value for count, value in points if count > tasks][:1]
    return before + after


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"
