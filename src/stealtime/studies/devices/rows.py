"""How rows are called, and how many times as long an emulated device takes as a paravirtual one."""

from collections.abc import Sequence

from stealtime.lab.platforms.device_models import find_model
from stealtime.report import notation
from stealtime.report.plain_table import TableOfWords
from stealtime.report.repetitions import ratio_to
from stealtime.studies.devices.figures import DeviceFigures
from stealtime.studies.devices.parameters import DiskParameters

_COMPARED = {"p50_ns": "median", "p99_ns": "99 %", "requests_per_s": "requests"}


def names(cells: Sequence[DeviceFigures]) -> tuple[str, list[str]]:
    """Name rows by what differs: the platform, the scenario, and what was transferred how."""
    platforms, scenarios = {cell.platform for cell in cells}, {cell.scenario for cell in cells}
    head = " ".join([*(platforms if len(platforms) == 1 else []), *(scenarios if len(scenarios) == 1 else [])])
    return head, [
        " ".join(
            [
                *([cell.platform] if len(platforms) > 1 else []),
                short_words(cell),
                *([f"({cell.scenario.removeprefix('device-')})"] if len(scenarios) > 1 else []),
            ]
        )
        for cell in cells
    ]


def short_words(cell: DeviceFigures) -> str:
    """Name what was transferred, without what is as by default."""
    own = DiskParameters.of(cell)
    depth = f", depth {own.depth}" if own.depth > 1 else ""
    behind = "" if own.backing == "file" else f" on {own.backing}"
    return f"{own.device}{behind}{'' if own.operation == 'read' else ' write'}{depth}"


def is_emulated(cell: DeviceFigures) -> bool:
    return find_model(DiskParameters.of(cell).device).is_emulated


def pairs(cells: Sequence[DeviceFigures]) -> list[tuple[DeviceFigures, DeviceFigures]]:
    """Pair each emulated device with the first paravirtual one of its machine that did the same there."""
    valid = [cell for cell in cells if cell.valid and cell.figures]
    found = [(_paravirtual(cell, valid), cell) for cell in valid if is_emulated(cell)]
    return [(base, cell) for base, cell in found if base is not None]


def _paravirtual(cell: DeviceFigures, cells: Sequence[DeviceFigures]) -> DeviceFigures | None:
    own = DiskParameters.of(cell)

    def matches(other: DeviceFigures) -> bool:
        same = DiskParameters.of(other).model_copy(update={"device": own.device}) == own
        where = (other.platform, other.scenario, other.traced) == (cell.platform, cell.scenario, cell.traced)
        return same and where and not is_emulated(other)

    return next((other for other in cells if matches(other)), None)


def more_tables(cells: Sequence[DeviceFigures]) -> list[TableOfWords]:
    """Give the ratios of emulated to paravirtual devices, with their intervals."""
    found = pairs(cells)
    if not found:
        return []
    _, called = names(cells)
    name_of = {cell.key: name for cell, name in zip(cells, called, strict=True)}
    rows = [
        (f"{name_of[cell.key]} / {DiskParameters.of(base).device}", *(_ratio(base, cell, one) for one in _COMPARED))
        for base, cell in found
    ]
    return [TableOfWords("Emulated over paravirtual", ("", *_COMPARED.values()), rows)]


def _ratio(base: DeviceFigures, cell: DeviceFigures, figure: str) -> str:
    ratio, _ = ratio_to(base.figure(figure), cell.figure(figure), same_session=True)
    if ratio is None:
        return notation.ABSENT
    return f"{notation.ratio(ratio.value)} ({notation.ratio(ratio.low)} to {notation.ratio(ratio.high)})"
