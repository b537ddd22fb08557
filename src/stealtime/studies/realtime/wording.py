"""What terminal and page call things."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from stealtime.studies.realtime.task_sets import DEFAULTS

if TYPE_CHECKING:
    from stealtime.studies.realtime.analysis.model import RealTimeCell

NOTES = (
    "A job misses its deadline if it is done late or never begins; jobs that began late are in all figures. The start",
    "latency of all jobs holds what more urgent jobs took; that of the most urgent task does not, under fifo.",
)


def describe(parameters: Mapping[str, JsonValue]) -> str:
    """Name a task set: ``10 tasks light-uniform, fifo``."""
    name, *others = _words(parameters)
    if "set" not in parameters:
        law, *others = others
        name = f"{name} {law}"
    return ", ".join([name, *others])


def in_common(cells: "Sequence[RealTimeCell]") -> "tuple[list[str], Mapping[int, str]]":
    """Tell apart what all cells share and what is left to name each by.

    Returns:
        The shared words, and by the place of each cell the others. Where nothing tells cells apart, each keeps its
        first word.
    """
    words = [_words(cell.parameters) for cell in cells]
    shared = [word for word in words[0] if all(word in own for own in words)] if words else []
    if words and not any(word not in shared for own in words for word in own):
        shared = shared[1:]
    return shared, {number: ", ".join(word for word in own if word not in shared) for number, own in enumerate(words)}


def _words(parameters: Mapping[str, JsonValue]) -> list[str]:
    """Give what a task set is named by, that which most often differs first."""
    count = parameters.get("tasks_per_cpu", "?")
    given = parameters.get("set")
    drawn = [f"{count} {'task' if count == 1 else 'tasks'}", str(parameters.get("law", "?"))]
    others = [f"{key.replace('_', ' ')} {parameters[key]}" for key in (*DEFAULTS, "total") if key in parameters]
    return [*([str(given)] if given else drawn), str(parameters.get("policy", "?")), *others]


def set_order(cell: "RealTimeCell") -> tuple[str, int]:
    """Give what sets are sorted by: what they have in common, then how many tasks there are."""
    count = cell.parameters.get("tasks_per_cpu")
    return describe({**cell.parameters, "tasks_per_cpu": ""}), count if isinstance(count, int) else 0


def invalid_sentences(cells: "Sequence[RealTimeCell]") -> list[str]:
    return [
        f"{cell.platform}, {cell.scenario}, {describe(cell.parameters)} is invalid: {reason}"
        for cell in cells
        for reason in cell.reasons
    ]
