"""How far the tasks of a CPU are from the edge: the largest factor of all costs, what each overhead takes of it, the
smallest budget. All is found by bisection, as every bound is monotone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from stealtime import _core
from stealtime.schedulability.blocking import levels_of_windows
from stealtime.schedulability.task_file import TaskTable

if TYPE_CHECKING:
    from stealtime._core import QuestionDict

Found = TypeVar("Found")
Influence = tuple[str, int, int | None]
"""An overhead that is not 0: its name, its ns, and the margin in millionths if it alone were 0."""


@dataclass(frozen=True)
class Margins:
    """What was found; everything is absent where it is not judged."""

    millionths: int | None = None
    """The largest factor of all costs; None: not even 0."""
    is_largest: bool = True
    """Whether a larger one surely fails."""
    influences: tuple[Influence, ...] = ()
    least_budget_ns: int | None = None
    """None: not asked, or the whole CPU is not enough."""
    because: str | None = None
    """Why something is not judged."""

    @property
    def dominant(self) -> str | None:
        """The overhead without which the margin is largest; None where none takes anything."""
        largest = max(self.influences, key=lambda one: one[2] or 0, default=None)
        return largest[0] if largest is not None and (largest[2] or 0) > (self.millionths or 0) else None


def margins_of(tasks: list[TaskTable], question: "QuestionDict", budget_period_ns: int | None) -> Margins:
    """Find all of it for one CPU.

    Args:
        tasks: Of the question.
        question: About that CPU.
        budget_period_ns: Of the periodic resource whose smallest budget is asked for. The supply that was given does
            not count then: another one is sought.
    """
    reasons: list[str] = []

    def known(compute: Callable[[], Found]) -> Found | None:
        try:
            return compute()
        except ValueError as error:
            reasons.append(str(error))
            return None

    margin, is_largest = known(lambda: margin_of(tasks, question)) or (None, True)
    influences = known(lambda: influences_of(tasks, question)) or []
    budget = None if budget_period_ns is None else known(lambda: least_budget_of(tasks, question, budget_period_ns))
    return Margins(margin, is_largest, tuple(influences), budget, reasons[0] if reasons else None)


def levels_in(tasks: list[TaskTable], question: "QuestionDict") -> list[tuple[int, int]]:
    """Give the blocking by length of the window of a question under EDF; none where no resource is shared."""
    return levels_of_windows(tasks, dict(question["overheads"])) if question["policy"] == "edf" else []


def margin_of(tasks: list[TaskTable], question: "QuestionDict") -> tuple[int | None, bool]:
    """Find the largest factor of all costs in millionths, None for not even 0, and whether a larger one surely fails.

    Raises:
        ValueError: It is not judged; the message says why.
    """
    _refuse_reservations(tasks)
    levels = levels_in(tasks, question)
    return _core.blocked_cost_margin(question, levels) if levels else _core.cost_margin_and_edge(question)


def influences_of(tasks: list[TaskTable], question: "QuestionDict") -> list[Influence]:
    """Give what each overhead that is not 0 takes of the margin.

    Raises:
        ValueError: As :func:`margin_of`.
    """
    _refuse_reservations(tasks)
    if not levels_in(tasks, question):
        return _core.overhead_influences(question)
    present = [(name, ns) for name, ns in question["overheads"] if ns > 0]
    found = []
    for name, ns in present:
        without: QuestionDict = {**question, "overheads": [one for one in present if one[0] != name]}
        found.append((name, ns, margin_of(tasks, without)[0]))
    return found


def least_budget_of(tasks: list[TaskTable], question: "QuestionDict", period_ns: int) -> int | None:
    """Find the smallest budget in ns of a periodic resource; None: the whole CPU is not enough.

    Raises:
        ValueError: As :func:`margin_of`.
    """
    _refuse_reservations(tasks)
    if levels_in(tasks, question):
        raise ValueError("with blocking under EDF the smallest budget is not searched for")
    return _core.least_budget(question, period_ns)


def _refuse_reservations(tasks: list[TaskTable]) -> None:
    if any(task.reservation is not None for task in tasks):
        raise ValueError("reservations do not grow with the costs")


def factor_of(millionths: int | None) -> float | None:
    return None if millionths is None else millionths / _core.PARTS_PER_MILLION
