"""How much a host bears with several protected appliances, before it is tried. Pure.

CPU time grows with the load in a straight line, as the model has it: with registrations a second, or with calls that
are all up at once and do nothing but speak. A load is borne as long as each guest's virtual
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
_BEYOND_FITTED_MAX = 2.0
"""Times the largest load that was fitted: the straight line was a third too low at some twenty times
(docs/telephony-cost.md)."""
_PROBED, _PROBED_S = 1.0, 1.0
"""Registrations a second, or calls, and for how long: the second point of a straight line, whose first is 0."""


@dataclass(frozen=True)
class Borne:
    """What a machine bears of all appliances together: registrations a second, or calls at once."""

    most: float
    low: float
    """Were everything as much dearer than foreseen as the model was off in its worst held-out cell ..."""
    high: float
    """... and were it as much cheaper."""
    bound: Bound
    """What is used up first."""


def borne(model: CostModel, asked: Asked, cpus: int, parts: tuple[Part, ...]) -> Borne | str:
    """Predict the most that is borne, or say why not.

    Args:
        model: Fitted to single appliances.
        asked: What is asked for; how much of it does not matter.
        cpus: That the machine has.
        parts: Who runs on it.
    """
    lines: dict[Part, _Line] = {}
    worst = 0.0
    for part in parts:
        if part == "standby" and asked.mode == "off":
            continue
        accuracy = model.parts[part].accuracy
        if accuracy is None:
            return f"of {part} there is no model: {model.parts[part].because}"
        line = _line(model, asked, part)
        if isinstance(line, str):
            return line
        lines[part] = line
        worst = max(worst, accuracy.worst_percent / 100.0)
    paused = _paused_share(model, asked)

    def most(factor: float) -> tuple[float, Bound]:
        of_all = _Line(sum(one.idle for one in lines.values()), sum(one.each for one in lines.values()))
        machine = of_all.load_at(cpus / factor)
        # Each guest has a share of what servers use.
        guests = lines["server"].load_at(asked.appliances * (1.0 - paused) / factor)
        return (guests, "virtual CPU") if guests < machine else (machine, "CPUs of the machine")

    found, bound = most(1.0)
    fitted = max(one.asked.load for one in model.singles if one.asked.kind == asked.kind)
    if (times := found / asked.appliances / fitted) > _BEYOND_FITTED_MAX:
        return f"that would be {times:.0f} times the largest load that the model was fitted to"
    return Borne(found, most(1.0 + worst)[0], most(max(1.0 - worst, 0.01))[0], bound)


@dataclass(frozen=True)
class _Line:
    """What a part uses of CPUs: without a load, and for each registration a second, or call, of all appliances."""

    idle: float
    each: float

    def load_at(self, cpus: float) -> float:
        """Give the load at which it uses so many."""
        return max(0.0, (cpus - self.idle) / self.each) if self.each > 0 else float("inf")


def _line(model: CostModel, asked: Asked, part: Part) -> _Line | str:
    idle, loaded = (model.amounts(replace(asked, load=load, load_s=_PROBED_S)) for load in (0.0, _PROBED))
    if isinstance(idle, str):
        return idle
    if isinstance(loaded, str):
        return loaded
    idle_s, loaded_s = model.seconds(part, idle), model.seconds(part, loaded)
    if idle_s is None or loaded_s is None:
        return f"of {part} there is no model"
    elapsed_s = idle["guest_s"] / asked.appliances
    # Voice goes on for all of the time, registrations begin for as long as the load.
    loaded_for_s = _PROBED_S if asked.what == "registrations" else elapsed_s
    return _Line(idle_s / elapsed_s, (loaded_s - idle_s) / (_PROBED * loaded_for_s * asked.appliances))


def _paused_share(model: CostModel, asked: Asked) -> float:
    """Give for which share of the time a guest stands still, as single ones did at the same mode and interval."""
    alike = [one for one in model.singles if (one.asked.mode, one.asked.interval_ns) == (asked.mode, asked.interval_ns)]
    shares = [sample.paused_s / sample.guest_s for one in alike for sample in one.samples]
    return fmean(shares) if shares else 0.0
