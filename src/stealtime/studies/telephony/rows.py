"""The tables of the cost model, which stand on all cells of a run: terminal and page show the same."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from stealtime.hosts.checkpoint_figures import interval_words
from stealtime.report import notation
from stealtime.report.plain_table import TableOfWords
from stealtime.studies.telephony.analysis import judged_parts, kinds_of, models_of, predictions_of
from stealtime.studies.telephony.cost.bearing import ACTIVE, SHARED, Borne, borne
from stealtime.studies.telephony.cost.fitting import Accuracy, HeldOut
from stealtime.studies.telephony.cost.model import PARTS, Asked, CostModel, PartModel
from stealtime.studies.telephony.cost.samples import Part, Quantity
from stealtime.studies.telephony.figures import TelephonyFigures
from stealtime.studies.telephony.parameters import ServerParameters
from stealtime.studies.telephony.wording import TRANSPORT_WORDS
from stealtime.studies.telephony.wording import conclusions as recommended

PART_WORDS: Mapping[Part, str] = {
    "server": "server",
    "host": "host side",
    "standby": "standby",
    "generators": "SIPp",
}
_QUANTITY_WORDS: Mapping[Quantity, str] = {
    "guest_s": "a second of each server, beside its work",
    "packets": "a packet",
    "registrations": "a registration, beside its packets",
    "connections": "a new connection, beside its packets",
    "arrivals": "an arrival, of one packet or of many at once",
    "voice_packets": "a packet of voice",
    "epochs": "a checkpoint",
    "pages": "a dirty page",
}
_APPLIANCES = (1, 2, 4)
GOAL_PERCENT = 10.0
"""The mean error that is aimed at, of what was measured."""


def tables(cells: Sequence[TelephonyFigures]) -> list[TableOfWords]:
    """Give the tables of the model of each platform; none where no cell tells of costs."""
    models = models_of(cells)
    every = [
        TableOfWords(
            "What CPU time goes to: fitted to single appliances, none below zero",
            ("", *(PART_WORDS[part] for part in PARTS)),
            [row for model in models for row in _coefficients(model)],
        ),
        TableOfWords(
            "CPU of each cell, predicted by all others, and measured",
            ("", *(PART_WORDS[part] for part in PARTS)),
            [row for model in models for row in _held_out(model)],
        ),
        TableOfWords(
            "CPU of several appliances, predicted from single ones by the load alone, and measured",
            ("", *(PART_WORDS[part] for part in PARTS)),
            [row for model in models for row in _of_several(model, cells)],
        ),
        TableOfWords(
            "What a host bears of registrations, or of calls, predicted before it is tried",
            ("", "this machine, with all on it", "guests alone on as many CPUs", "measured"),
            [row for model in models for row in _bearing(model, cells)],
        ),
    ]
    return [one for one in every if one.rows]


def conclusions(cells: Sequence[TelephonyFigures]) -> list[str]:
    """Say what the loads of calls speak for; then how far the cost model is off, by platform and part."""
    lines = recommended(cells)
    for model in models_of(cells):
        lines += [f"cost model, {model.platform}, {_verdict(part)}" for part in judged_parts(model)]
        several = [one for one in predictions_of(model, cells) if one.by_part]
        for part in PARTS:
            found = [one.by_part[part] for one in several if part in one.by_part]
            if found:
                said = _accuracy_words(Accuracy.of(found))
                lines.append(f"several appliances, {model.platform}, {PART_WORDS[part]}, by the load alone: {said}")
    return lines


def _verdict(part: PartModel) -> str:
    words = PART_WORDS[part.part]
    accuracy = part.accuracy
    if accuracy is None:
        return f"{words}: not judged, because {part.because}"
    left = f"; {len(part.unjudged)} cells are not determined by the others" if part.unjudged else ""
    return f"{words}, each cell by all others: {_accuracy_words(accuracy)}{left}"


def _accuracy_words(accuracy: Accuracy) -> str:
    met = "met" if accuracy.mape_percent <= GOAL_PERCENT else "missed"
    cells = "1 cell" if accuracy.cells == 1 else f"{accuracy.cells} cells"
    mean, worst = (f"{value:.1f} %" for value in (accuracy.mape_percent, accuracy.worst_percent))
    return (
        f"off by {mean} of what was measured in the mean, {worst} at most "
        f"({accuracy.mae_percent:.2f} % of a CPU, {cells}): the goal of {GOAL_PERCENT:g} % is {met}"
    )


def _coefficients(model: CostModel) -> Iterator[tuple[str, ...]]:
    for quantity, words in _QUANTITY_WORDS.items():
        told = [_coefficient(model.parts[part], quantity) for part in PARTS]
        if any(told):
            yield (f"{model.platform}: {words}", *(one or notation.ABSENT for one in told))


def _coefficient(part: PartModel, quantity: Quantity) -> str:
    found = next((one for one in part.coefficients if one.quantity == quantity), None)
    if found is None:
        return ""
    if not found.is_kept:
        return "not told apart"
    each, low, high = (notation.duration(1e9 * value, 3) for value in (found.each_s, found.low_s, found.high_s))
    return f"{each} ({low} to {high})"


def _held_out(model: CostModel) -> Iterator[tuple[str, ...]]:
    if not any(model.parts[part].held_out for part in PARTS):
        return
    by_part = {part: {one.group: one for one in model.parts[part].held_out} for part in PARTS}
    for cell in model.singles:
        yield (cell.name, *(_one(by_part[part].get(cell.name)) for part in PARTS))
    accuracies = [model.parts[part].accuracy for part in PARTS]
    yield (
        f"{model.platform}: mean error",
        *(notation.ABSENT if one is None else f"{one.mape_percent:.1f} % ({one.cells})" for one in accuracies),
    )


def _of_several(model: CostModel, cells: Sequence[TelephonyFigures]) -> Iterator[tuple[str, ...]]:
    for one in predictions_of(model, cells):
        if one.because is not None:
            yield (one.cell.name, f"not predicted, because {one.because}", *[""] * (len(PARTS) - 1))
        else:
            yield (one.cell.name, *(_one(one.by_part.get(part)) for part in PARTS))


def _one(found: HeldOut | None) -> str:
    if found is None:
        return notation.ABSENT
    return f"{found.predicted_percent:.3g} %, {found.measured_percent:.3g} % ({found.error_percent:+.0f} %)"


def _bearing(model: CostModel, cells: Sequence[TelephonyFigures]) -> Iterator[tuple[str, ...]]:
    if model.parts["server"].accuracy is None:
        return
    cpus = max(sample.machine_cpus for one in model.singles for sample in one.samples)
    is_guest = model.parts["host"].cells > 0
    for kind in kinds_of(model):
        for appliances in _APPLIANCES if is_guest else (1,):
            asked = replace(kind, appliances=appliances)
            shared: Borne | str = "what callers and phones take is not counted"
            if kind.what == "registrations":
                shared = borne(model, asked, cpus, SHARED if is_guest else ("server", "generators"))
            alone = borne(model, asked, cpus, ACTIVE if is_guest else ("server",))
            where = f"{model.platform} {kind.mode}{interval_words(kind.interval_ns)}, {TRANSPORT_WORDS[kind.transport]}"
            unit = "/s" if kind.what == "registrations" else " calls"
            measured = _measured_rate(model.platform, asked, cells)
            against = notation.ABSENT if measured is None else f"{measured:.0f}{unit}"
            if measured and isinstance(shared, Borne):
                against += f" ({100 * (shared.most - measured) / measured:+.0f} %)"
            # Calls are told by their unit.
            yield (f"{where}, {appliances} on {cpus} CPUs", _borne(shared, unit), _borne(alone, unit), against)


def _borne(found: Borne | str, unit: str) -> str:
    if isinstance(found, str):
        return f"not judged, because {found}"
    by = {"virtual CPU": "vCPU", "CPUs of the machine": "CPUs"}[found.bound]
    return f"{found.most:.0f}{unit} ({found.low:.0f} to {found.high:.0f}), {by}"


def _measured_rate(platform: str, asked: Asked, cells: Sequence[TelephonyFigures]) -> float | None:
    """Give the registration rate that was searched of such servers, if any was."""
    if asked.what != "registrations":
        return None
    for cell in cells:
        if cell.probe != "registration-rate" or cell.platform != platform or not cell.valid:
            continue
        server = ServerParameters.of(cell)
        if server.min_interval_ns is not None:
            continue
        own = (server.mode, server.interval_ns, server.appliances, cell.parameters.get("transport"))
        if own == (asked.mode, asked.interval_ns, asked.appliances, asked.transport) and not cell.parameters.get(
            "auth"
        ):
            return cell.figure("rate_per_s").p50
    return None
