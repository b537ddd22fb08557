"""How much a host bears with several protected appliances, before it is tried. Pure.

CPU time grows with the load in a straight line, as the model has it. A load is borne as long as each guest's virtual
CPU has time for it beside the pauses of its checkpoints, and all that runs on the machine has CPUs.
"""

from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from stealtime.studies.telephony.cost.model import Asked, CostModel
from stealtime.studies.telephony.cost.samples import Part

Bound = Literal["virtual CPU", "CPUs of the machine"]

SHARED: tuple[Part, ...] = ("server", "host", "standby", "generators")
"""On one machine that has everything, as the laboratory."""
ACTIVE: tuple[Part, ...] = ("server", "host")
"""On the host where the guests run, if standby and phones are elsewhere."""
_PROBED = 1.0
"""Registrations a second: the second point of a straight line, whose first is 0."""


@dataclass(frozen=True)
class Borne:
    """What a machine bears of all appliances together, in a second."""

    most_per_s: float
    low_per_s: float
    """Were everything as much dearer than foreseen as the model was off in its worst held-out cell ..."""
    high_per_s: float
    """... and were it as much cheaper."""
    bound: Bound
    """What is used up first."""


def borne(model: CostModel, asked: Asked, cpus: int, parts: tuple[Part, ...]) -> Borne | str:
    """Predict the most that is borne, or say why not.

    Args:
        model: Fitted to single appliances.
        asked: What is asked for; its rate does not matter.
        cpus: That the machine has.
        parts: Who runs on it.
    """
    lines = []
    worst = 0.0
    for part in parts:
        if model.parts[part].fitted is None:
            if part == "standby" and asked.mode == "off":
                continue
            return f"of {part} there is no model: {model.parts[part].because}"
        if part == "standby" and asked.mode == "off":
            continue
        accuracy = model.parts[part].accuracy
        if accuracy is None:
            return f"how far the model of {part} is off is not judged: {model.parts[part].because}"
        line = _line(model, asked, part)
        if isinstance(line, str):
            return line
        lines.append((part, *line))
        worst = max(worst, accuracy.worst_percent / 100.0)
    paused = _paused_share(model, asked)

    def most(factor: float) -> tuple[float, Bound]:
        of_all = [(factor * fixed, factor * each) for _, fixed, each in lines]
        of_guests = next((factor * fixed, factor * each) for part, fixed, each in lines if part == "server")
        machine = _root(sum(fixed for fixed, _ in of_all), sum(each for _, each in of_all), cpus)
        # Each guest has a share of what servers use.
        guests = _root(of_guests[0], of_guests[1], asked.appliances * (1.0 - paused))
        return (guests, "virtual CPU") if guests < machine else (machine, "CPUs of the machine")

    found, bound = most(1.0)
    return Borne(found, most(1.0 + worst)[0], most(max(1.0 - worst, 0.01))[0], bound)


def _line(model: CostModel, asked: Asked, part: Part) -> tuple[float, float] | str:
    """Give what a part uses of CPUs without a load, and for each registration a second of all appliances together."""
    used = []
    for rate in (0.0, _PROBED):
        amounts = model.amounts(replace(asked, registrations_per_s=rate, load_s=1.0))
        if isinstance(amounts, str):
            return amounts
        elapsed_s = amounts["guest_s"] / asked.appliances
        seconds = model.seconds(part, amounts)
        used.append(0.0 if seconds is None else seconds / elapsed_s)
        lasted = elapsed_s
    # A registration a second in one second of load is spread over all of the time.
    return used[0], (used[1] - used[0]) * lasted / (_PROBED * asked.appliances)


def _root(fixed: float, each: float, room: float) -> float:
    return max(0.0, (room - fixed) / each) if each > 0 else float("inf")


def _paused_share(model: CostModel, asked: Asked) -> float:
    """Give for which share of the time a guest stands still, as single ones did at the same mode and interval."""
    alike = [one for one in model.singles if (one.asked.mode, one.asked.interval_ns) == (asked.mode, asked.interval_ns)]
    shares = [sample.paused_s / sample.guest_s for one in alike for sample in one.samples]
    return fmean(shares) if shares else 0.0
