"""What servers of one platform cost: a model for each part, fitted to single appliances, and what it says of others.

Who asks before it is tried knows the load alone. So the work of a load is predicted first, from what single appliances
had to do at other loads: packets and connections of a registration, epochs and dirty pages. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal, get_args

import numpy as np

from stealtime.studies.telephony.cost.fitting import (
    SPARE_GROUPS,
    Accuracy,
    Fit,
    HeldOut,
    Table,
    fit,
    held_out,
    ranges,
)
from stealtime.studies.telephony.cost.samples import HOLDING, CostSample, Part, Quantity, arrivals

PARTS: tuple[Part, ...] = get_args(Part)
_OF_GUESTS: tuple[Quantity, ...] = (
    *("guest_s", "packets", "registrations", "connections", "arrivals", "voice_packets", "epochs", "pages"),
)
EXPLAINED_BY: Mapping[Part, tuple[Quantity, ...]] = {
    "server": _OF_GUESTS,
    "host": _OF_GUESTS,
    "standby": ("guest_s", "epochs", "pages"),
    "generators": ("guest_s", "packets", "registrations", "connections"),
}
"""What each part's CPU time is made of, in the order in which quantities are told apart. A standby sees no packet; each
appliance has a SIPp, which looks a thousand times in each second for what is due."""
Load = Literal["registrations", "calls"]
_PAGES_BY: tuple[Quantity, ...] = ("epochs", "registrations", "connections", "voice_packets")


@dataclass(frozen=True)
class Asked:
    """A load, before it is tried.

    Attributes:
        what: What is asked of the servers.
        transport: How phones reach them.
        mode: How each appliance is protected.
        interval_ns: From one checkpoint to the next; None without protection.
        appliances: How many, each with the load.
        load_s: For how long.
        load: Of each appliance: registrations a second, or calls that are all up at once.
    """

    what: Load
    transport: str
    mode: str
    interval_ns: int | None
    appliances: int
    load_s: float
    load: float

    @property
    def kind(self) -> tuple[Load, str, str, int | None]:
        """Of servers and phones that have the same work for the same load."""
        return self.what, self.transport, self.mode, self.interval_ns


@dataclass(frozen=True)
class MeasuredCell:
    """A cell that the model is fitted to, or asked for."""

    name: str
    asked: Asked
    samples: Sequence[CostSample]


@dataclass(frozen=True)
class Coefficient:
    """What one of a quantity costs."""

    quantity: Quantity
    each_s: float
    low_s: float
    """The smallest of all fits that leave out a cell ..."""
    high_s: float
    """... and the largest."""
    is_kept: bool
    """Whether it was told apart; else its cost is in those before it."""


@dataclass(frozen=True)
class PartModel:
    """Of one part."""

    part: Part
    cells: int
    coefficients: tuple[Coefficient, ...]
    held_out: tuple[HeldOut, ...]
    unjudged: tuple[str, ...]
    """Cells that all others do not determine."""
    because: str | None
    """Why nothing is judged; None where it is."""
    fitted: Fit | None

    @property
    def accuracy(self) -> Accuracy | None:
        return Accuracy.of(self.held_out) if self.held_out else None


@dataclass(frozen=True)
class Predicted:
    """What was predicted of a cell from its load alone, and what was measured, in per cent of one CPU."""

    cell: MeasuredCell
    by_part: Mapping[Part, HeldOut]
    because: str | None
    """Why nothing is predicted; None where it is."""


@dataclass(frozen=True)
class CostModel:
    """Of one platform."""

    platform: str
    singles: tuple[MeasuredCell, ...]
    """The cells of one appliance that it was fitted to."""
    parts: Mapping[Part, PartModel]
    pages: Fit | None

    def amounts(self, asked: Asked) -> dict[Quantity, float] | str:
        """Predict the work of a load; or say why that cannot be done."""
        same = [one for one in self.singles if one.asked.kind == asked.kind]
        if not same:
            every = "" if asked.interval_ns is None else f" every {asked.interval_ns / 1e6:g} ms"
            return f"no single appliance was measured in {asked.mode}{every} with {asked.what} over {asked.transport}"
        samples = [sample for one in same for sample in one.samples]
        beyond_s = median(sample.elapsed_s - sample.load_s for sample in samples)
        elapsed_s, guests = asked.load_s + beyond_s, asked.appliances
        registrations = guests * asked.load * asked.load_s if asked.what == "registrations" else 0.0
        calls = guests * asked.load if asked.what == "calls" else 0.0
        packets_in = registrations * _ratio(samples, "packets_in", "registrations")
        epochs = guests * elapsed_s * _ratio(samples, "epochs", "guest_s")
        amounts: dict[Quantity, float] = {
            "guest_s": guests * elapsed_s,
            "registrations": registrations,
            "packets": packets_in + registrations * _ratio(samples, "packets_out", "registrations"),
            "arrivals": arrivals(asked.mode in HOLDING, packets_in, registrations, epochs),
            "connections": registrations * _ratio(samples, "connections", "registrations"),
            "voice_packets": calls * elapsed_s * _voice_of_a_call(same),
            "epochs": epochs,
        }
        row = np.array([[amounts[name] for name in _PAGES_BY]])
        amounts["pages"] = 0.0 if self.pages is None or not amounts["epochs"] else float(self.pages.predicted(row)[0])
        return amounts

    def seconds(self, part: Part, amounts: Mapping[Quantity, float]) -> float | None:
        """Give the CPU seconds of a part for some work; None where it has no model."""
        model = self.parts[part]
        if model.fitted is None:
            return None
        row = np.array([[amounts[name] for name in EXPLAINED_BY[part]]])
        return float(model.fitted.predicted(row)[0])

    def predict(self, cell: MeasuredCell) -> Predicted:
        """Predict a cell from its load, as if it had not been tried."""
        amounts = self.amounts(cell.asked)
        if isinstance(amounts, str):
            return Predicted(cell, {}, amounts)
        by_part: dict[Part, HeldOut] = {}
        for part in PARTS:
            measured = [sample.cpu_s(part) for sample in cell.samples]
            seconds = self.seconds(part, amounts)
            found = [one for one in measured if one is not None]
            if seconds is None or not found or len(found) < len(measured) or not fmean(found):
                continue
            elapsed_s = amounts["guest_s"] / cell.asked.appliances
            # As shares: a trial that lasted longer than foreseen is none that cost more.
            share = fmean(one / sample.elapsed_s for one, sample in zip(found, cell.samples, strict=True))
            by_part[part] = HeldOut(cell.name, share * elapsed_s, seconds, elapsed_s)
        return Predicted(cell, by_part, None)


def cost_model(platform: str, cells: Iterable[MeasuredCell]) -> CostModel | None:
    """Fit a model to the cells of a platform that have one appliance; None where there are none."""
    singles = tuple(one for one in cells if one.asked.appliances == 1 and one.samples)
    if not singles:
        return None
    protected = [one for one in singles if all(sample.epochs for sample in one.samples)]
    pages = _table(protected, _PAGES_BY, [[sample.pages for sample in one.samples] for one in protected])
    return CostModel(
        platform=platform,
        singles=singles,
        parts={part: _part(part, singles) for part in PARTS},
        pages=None if pages is None else fit(pages),
    )


def _part(part: Part, cells: Sequence[MeasuredCell]) -> PartModel:
    used = [one for one in cells if all(sample.cpu_s(part) for sample in one.samples)]
    values = [[sample.cpu_s(part) or 0.0 for sample in one.samples] for one in used]
    quantities = EXPLAINED_BY[part]
    table = _table(used, quantities, values)
    if table is None:
        return PartModel(part, 0, (), (), (), "it used no CPU time that was counted", None)
    fitted = fit(table)
    needed = int(fitted.kept.sum()) + SPARE_GROUPS
    if len(used) < needed:
        few = f"{len(used)} cells do not judge {needed - SPARE_GROUPS} coefficients, which takes {needed}"
        return PartModel(part, len(used), (), (), (), few, None)
    low, high = ranges(table)
    judged, unjudged = held_out(table)
    coefficients = tuple(
        Coefficient(quantity, float(each), float(least), float(most), bool(kept))
        for quantity, each, least, most, kept in zip(
            quantities, fitted.coefficients, low, high, fitted.kept, strict=True
        )
        if table.rows[:, quantities.index(quantity)].any()
    )
    because = None if judged else "no cell is determined by the others"
    return PartModel(part, len(used), coefficients, tuple(judged), tuple(unjudged), because, fitted)


def _table(
    cells: Sequence[MeasuredCell], quantities: Sequence[Quantity], values: Sequence[Sequence[float]]
) -> Table | None:
    if not cells:
        return None
    samples = [sample for one in cells for sample in one.samples]
    return Table(
        groups=[one.name for one in cells for _ in one.samples],
        rows=np.array([[sample.amount(name) for name in quantities] for sample in samples], dtype=np.float64),
        measured_s=np.array([value for own in values for value in own], dtype=np.float64),
        elapsed_s=np.array([sample.elapsed_s for sample in samples], dtype=np.float64),
    )


def _ratio(samples: Sequence[CostSample], part: str, whole: str) -> float:
    total: float = sum(getattr(sample, whole) for sample in samples)
    return sum(getattr(sample, part) for sample in samples) / total if total else 0.0


def _voice_of_a_call(cells: Sequence[MeasuredCell]) -> float:
    """Give the packets of voice, both ways, of one call in a second."""
    calls_s = sum(one.asked.load * sample.elapsed_s for one in cells for sample in one.samples)
    return sum(sample.voice_packets for one in cells for sample in one.samples) / calls_s if calls_s else 0.0
