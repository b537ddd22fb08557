"""The cost model of a run: fitted to its cells, and held against each of them."""

from collections.abc import Iterable, Sequence
from typing import Literal

from stealtime.studies.telephony.cost.fitting import HeldOut
from stealtime.studies.telephony.cost.model import (
    Asked,
    CostModel,
    Load,
    MeasuredCell,
    PartModel,
    Predicted,
    cost_model,
)
from stealtime.studies.telephony.cost.samples import CellCost, Part, PartCost
from stealtime.studies.telephony.figures import TelephonyFigures
from stealtime.studies.telephony.lengths import STREAMS_OF_A_CALL
from stealtime.studies.telephony.loads import CallParameters, RegisterParameters
from stealtime.studies.telephony.parameters import ServerParameters
from stealtime.studies.telephony.wording import cell_words


def relate(cells: Sequence[TelephonyFigures]) -> list[TelephonyFigures]:
    """Put into each cell what the others predict of its CPU time; see ``report.study.ReportedStudy.relate``."""
    found: dict[str, list[PartCost]] = {}
    for model in models_of(cells):
        for part in model.parts.values():
            for held_out in part.held_out:
                found.setdefault(held_out.group, []).append(_cost(part.part, "held-out", held_out))
        for predicted in predictions_of(model, cells):
            for name, one in predicted.by_part.items():
                found.setdefault(one.group, []).append(_cost(name, "load", one))
    return [
        cell
        if cell.cost is None or (parts := found.get(cell_words(cell))) is None
        else cell.model_copy(update={"cost": CellCost(samples=cell.cost.samples, parts=parts)})
        for cell in cells
    ]


def _cost(part: Part, by: Literal["held-out", "load"], one: HeldOut) -> PartCost:
    return PartCost(
        part=part,
        by=by,
        measured_percent=one.measured_percent,
        predicted_percent=one.predicted_percent,
        error_percent=one.error_percent,
    )


def models_of(cells: Sequence[TelephonyFigures]) -> list[CostModel]:
    """Fit a model for each platform that has a single appliance."""
    measured = _measured(cells)
    fitted = (cost_model(platform, own) for platform, own in measured.items())
    return [one for one in fitted if one is not None]


def predictions_of(model: CostModel, cells: Sequence[TelephonyFigures]) -> list[Predicted]:
    """Predict the cells of several appliances by their loads."""
    return [model.predict(one) for one in _measured(cells).get(model.platform, []) if one.asked.appliances > 1]


def kinds_of(model: CostModel) -> list[Asked]:
    """Give what was asked of single appliances, each kind of servers and phones once."""
    return list({one.asked.kind: one.asked for one in model.singles}.values())


def judged_parts(model: CostModel) -> Iterable[PartModel]:
    """Give the parts that used anything."""
    return [part for part in model.parts.values() if part.cells]


def _measured(cells: Sequence[TelephonyFigures]) -> dict[str, list[MeasuredCell]]:
    measured: dict[str, list[MeasuredCell]] = {}
    for cell in cells:
        # Checkpoints on demand are as many as the load has made: no interval says how many.
        is_due = ServerParameters.of(cell).min_interval_ns is None
        if cell.valid and is_due and cell.cost is not None and cell.cost.samples:
            measured.setdefault(cell.platform, []).append(
                MeasuredCell(cell_words(cell), _asked(cell, cell.cost), tuple(cell.cost.samples))
            )
    return measured


def _asked(cell: TelephonyFigures, cost: CellCost) -> Asked:
    server = ServerParameters.of(cell)
    load_s = cost.samples[0].load_s
    what: Load = "calls" if cell.probe == "call" else "registrations"
    if what == "calls":
        calling = CallParameters.of(cell)
        transport, load = calling.transport, calling.streams / STREAMS_OF_A_CALL
    else:
        # A share is of a rate that was searched: what began is what was asked for.
        begun = sum(one.registrations for one in cost.samples) / sum(one.load_s for one in cost.samples)
        transport, load = RegisterParameters.of(cell).transport, begun / server.appliances
    return Asked(
        what=what,
        transport=transport,
        mode=server.mode,
        interval_ns=server.interval_ns,
        appliances=server.appliances,
        load_s=load_s,
        load=load,
    )
