"""What the study answers of a run: what clients see of a host that dies, and what protection costs them before."""

from collections.abc import Sequence
from typing import Any

from stealtime.hosts.host import FAULT_WORDS
from stealtime.report.answer import Answer, Quotes
from stealtime.report.answer_trust import why_nothing
from stealtime.report.catalogue.answer import answered, count_words, figure_words, ratio_words
from stealtime.report.notation import count
from stealtime.report.repetitions import FigureOfRepetitions
from stealtime.report.summary import RunSummary
from stealtime.studies.protection.figures import ProtectionFigures
from stealtime.studies.protection.probes import FailoverParameters, ProtectedParameters
from stealtime.vocabulary.quantities import format_duration

STUDY = "protection"


def answer_of(summary: RunSummary) -> Answer:
    """Answer with the first failover, or one that lost something; where no host died, with the round trips."""
    cells = summary.cells_of(ProtectionFigures)
    valid = [cell for cell in cells if cell.valid and cell.figures]
    if not valid:
        return Answer.not_judged(STUDY, *why_nothing(summary, cells))
    quotes = Quotes()
    failovers = sorted((cell for cell in valid if cell.probe == "failover"), key=_lost_nothing)
    trips = [cell for cell in valid if cell.probe == "roundtrip" and ProtectedParameters.of(cell).mode != "off"]
    told = [_died(quotes, cell) for cell in failovers]
    costs = [_waited(quotes, cell, _base(cell, valid)) for cell in trips]
    quoted = failovers[:1]
    if not told:
        quoted, told, costs = trips[:1] or valid[:1], costs or [_waited(quotes, valid[0], None)], []
    elif beside := next((cell for cell in trips if _server(cell) == _server(failovers[0])), None):
        del costs[trips.index(beside)]
        told[0] += f"; {_waited(quotes, beside, _base(beside, valid), where='')}"
        quoted = [*quoted, beside]
    figures = [one for cell in quoted for one in _figures(cell)]
    return answered(STUDY, summary, [*told, *costs], quotes=quotes, cells=(quoted, cells), figures=figures)


def _lost_nothing(cell: ProtectionFigures) -> bool:
    return not (cell.wrong or cell.connections_lost or cell.pages_wrong or cell.unanswered_protocols)


def _server(cell: ProtectionFigures) -> tuple[Any, ...]:
    own = ProtectedParameters.of(cell)
    return cell.platform, cell.scenario, own.mode, own.interval_ns


def _base(cell: ProtectionFigures, cells: Sequence[ProtectionFigures]) -> ProtectionFigures | None:
    """Give the same guest unprotected; None where it was not measured."""
    alike = [one for one in cells if one.probe == cell.probe and one.platform == cell.platform]
    return next((one for one in alike if ProtectedParameters.of(one).mode == "off"), None)


def _protected(cell: ProtectionFigures) -> str:
    own = ProtectedParameters.of(cell)
    every = "" if own.interval_ns is None else f" every {format_duration(own.interval_ns)}"
    return f"{cell.platform}, {own.mode}{every}"


def _died(quotes: Quotes, cell: ProtectionFigures) -> str:
    """Say what became of what clients were told, and for how long they heard nothing."""
    wrong = quotes.figure(cell, "wrong", cell.wrong, count(cell.wrong))
    told = count_words(quotes, cell, "acknowledged")
    lost = count_words(quotes, cell, "connections_lost")
    died = quotes.figure(cell, "repetitions", cell.repetitions, count(cell.repetitions))
    silence = ", ".join(
        f"{figure_words(quotes, cell, f'silence_{protocol}_ns')} over {protocol.upper()}" for protocol in ("tcp", "udp")
    )
    gone = "".join(f"; {text}" for text in cell.silences)
    pages = f", {count_words(quotes, cell, 'pages_wrong')} pages of its memory are wrong" if cell.pages_wrong else ""
    return (
        f"{FAULT_WORDS[FailoverParameters.of(cell).fault]} ({_protected(cell)}): {wrong} of {told} acknowledged values "
        f"were lost or wrong{pages}, {lost} of {died} TCP connections broke, clients heard nothing for {silence}"
        f"{gone}"
    )


def _waited(
    quotes: Quotes, cell: ProtectionFigures, base: ProtectionFigures | None, *, where: str | None = None
) -> str:
    """Say what a round trip takes, and how many times as long that is as unprotected."""
    own = figure_words(quotes, cell, "tcp_p50_ns")
    where = f"{_protected(cell)}: " if where is None else where
    if base is None:
        return f"{where}a round trip over TCP takes {own}"
    ratio = ratio_words(quotes, base, cell, "tcp_p50_ns")
    return (
        f"{where}a round trip over TCP takes {own}, unprotected {figure_words(quotes, base, 'tcp_p50_ns')}"
        f"{'' if ratio is None else f': {ratio}'}"
    )


def _figures(cell: ProtectionFigures) -> list[FigureOfRepetitions]:
    names = ("silence_tcp_ns", "silence_udp_ns") if cell.probe == "failover" else ("tcp_p50_ns",)
    return [cell.figure(name) for name in names]
