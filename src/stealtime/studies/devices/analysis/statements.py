"""What M. Friedman says in words of a guest's disk requests, held against a run.

A statement is judged of intervals over repetitions alone (95 %, of the geometric mean in another session): where they
overlap, or where there are none, it is not judged. How often that calls equal machines different was measured for such
intervals of other studies (benchmarks/equal_runs.py), and not of devices yet.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from stealtime.lab.platforms.traits import traits_of
from stealtime.report import notation
from stealtime.report.claims.statements import JudgedStatement, StatementVerdict
from stealtime.report.repetitions import FigureOfRepetitions, ratio_to
from stealtime.studies.devices.figures import DeviceFigures
from stealtime.studies.devices.parameters import FILE, DiskParameters
from stealtime.studies.devices.rows import short_words

if TYPE_CHECKING:
    from stealtime.store.run import Run

_RULES = {
    "latency": "the median in the guest is longer than that of a file natively, in the same scenario",
    "deferred": "pending takes longer in the mean where something else wants the virtual CPU's CPU than alone",
    "not-valid": "the mean by the guest's own statistics is longer than on the host, its interval above the other's",
}
_ALONE = "device-alone"


def judged_statements(run: "Run", words: Mapping[str, str]) -> list[JudgedStatement]:
    """Judge each statement of each guest's devices."""
    from stealtime.report.summarizing import summarize

    cells = [cell for cell in summarize(run).cells_of(DeviceFigures) if cell.valid and cell.figures]
    return [
        JudgedStatement(
            machine=f"{cell.platform} {short_words(cell)} ({cell.scenario})",
            name=name,
            theirs=words[name],
            rule=_RULES[name],
            verdict=verdict,
            evidence=evidence,
        )
        for cell in cells
        if not traits_of(cell.platform).is_native
        for name, (verdict, evidence) in _judged(cell, cells)
        if name in words
    ]


def _judged(cell: DeviceFigures, cells: Sequence[DeviceFigures]) -> Iterator[tuple[str, tuple[StatementVerdict, str]]]:
    native = _like(cell, cells, device=FILE, scenario=cell.scenario)
    yield "latency", _longer(native, cell, "p50_ns", "no file was measured natively in this scenario")
    if cell.scenario != _ALONE:
        alone = _like(cell, cells, device=None, scenario=_ALONE)
        yield "deferred", _longer(alone, cell, "pending_ns", "it was not measured alone")
    yield "not-valid", _apart(cell.figure("on_host_ns"), cell.figure("believed_ns"))


def _like(
    cell: DeviceFigures, cells: Sequence[DeviceFigures], *, device: str | None, scenario: str
) -> DeviceFigures | None:
    """Give the cell that did the same in a scenario: natively by a device, or (None) by the cell's own."""
    own = DiskParameters.of(cell)
    wanted = own if device is None else own.model_copy(update={"device": device})

    def fits(other: DeviceFigures) -> bool:
        where = other.platform == cell.platform if device is None else traits_of(other.platform).is_native
        return where and other.scenario == scenario and DiskParameters.of(other) == wanted

    return next((other for other in cells if fits(other)), None)


def _longer(base: DeviceFigures | None, cell: DeviceFigures, name: str, missing: str) -> tuple[StatementVerdict, str]:
    if base is None:
        return "not judged", missing
    ratio, why_not = ratio_to(base.figure(name), cell.figure(name), same_session=True)
    if ratio is None or ratio.low is None or ratio.high is None:
        return "not judged", why_not or "there is no interval"
    evidence = f"{notation.ratio(ratio.value)} times ({notation.ratio(ratio.low)} to {notation.ratio(ratio.high)})"
    if ratio.low <= 1 <= ratio.high:
        return "not judged", f"{evidence}: the interval holds 1"
    return ("holds" if ratio.low > 1 else "does not hold"), evidence


def _apart(true: FigureOfRepetitions, believed: FigureOfRepetitions) -> tuple[StatementVerdict, str]:
    if None in (true.p50, believed.p50):
        return "not judged", "the guest's statistics or the way of its requests are not known"
    evidence = f"believed {_words(believed)}, on the host {_words(true)}"
    if true.low is None or true.high is None or believed.low is None or believed.high is None:
        return "not judged", f"there is no interval; {evidence}"
    if believed.low > true.high:
        return "holds", evidence
    return ("does not hold" if believed.high < true.low else "not judged"), evidence


def _words(figure: FigureOfRepetitions) -> str:
    words = notation.duration(figure.p50 or 0.0, 3)
    if figure.low is None or figure.high is None:
        return words
    return f"{words} ({notation.duration(figure.low, 3)} to {notation.duration(figure.high, 3)})"
