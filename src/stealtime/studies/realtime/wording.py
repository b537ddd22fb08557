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
    name = parameters.get("set") or f"{parameters.get('tasks_per_cpu', '?')} tasks {parameters.get('law', '?')}"
    others = [f"{key.replace('_', ' ')} {parameters[key]}" for key in (*DEFAULTS, "total") if key in parameters]
    return ", ".join([str(name), str(parameters.get("policy", "?")), *others])


def set_words(cell: "RealTimeCell") -> str:
    """Name the task set of a cell."""
    return describe(cell.parameters)


def invalid_sentences(cells: "Sequence[RealTimeCell]") -> list[str]:
    """Say of each invalid cell why it is."""
    return [
        f"{cell.platform}, {cell.scenario}, {set_words(cell)} is invalid: {reason}"
        for cell in cells
        for reason in cell.reasons
    ]
