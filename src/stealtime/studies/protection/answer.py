"""What the study answers of a run: what clients see of a host that dies, and what protection costs them before."""

from collections.abc import Sequence

from stealtime.hosts.checkpoint_figures import interval_words
from stealtime.hosts.counting import PROTOCOLS
from stealtime.hosts.host import FAULT_WORDS
from stealtime.report.answer import Answer, Quotes
from stealtime.report.answer_trust import why_nothing
from stealtime.report.catalogue.answer import answered, count_words, figure_words, ratio_words, same_but
from stealtime.report.notation import count
from stealtime.report.summary import RunSummary
from stealtime.studies.protection.figures import ProtectionFigures
from stealtime.studies.protection.probes import FailoverParameters, ProtectedParameters

_QUOTED = {"failover": ("silence_tcp_ns", "silence_udp_ns"), "roundtrip": ("tcp_p50_ns",)}


def answer_of(summary: RunSummary) -> Answer:
    """Answer with the first failover, or one that lost something; where no host died, with the round trips."""
    cells = summary.cells_of(ProtectionFigures)
    valid = [cell for cell in cells if cell.valid and cell.figures]
    if not valid:
        return Answer.not_judged("protection", *why_nothing(summary, cells))
    quotes = Quotes()
    failovers = sorted((cell for cell in valid if cell.probe == "failover"), key=lambda cell: not cell.gone)
    trips = [cell for cell in valid if cell.probe == "roundtrip" and ProtectedParameters.of(cell).mode != "off"]
    told, waited = [_died(quotes, cell) for cell in failovers], trips or ([] if failovers else valid[:1])
    quoted = failovers[:1] or waited[:1]
    for cell in waited:
        words = _waited(quotes, cell, valid)
        if len(quoted) == 1 and failovers and _protected(cell) == _protected(failovers[0]):
            # The same server: what it cost belongs to the sentence that tells what it lost.
            quoted, told[0] = [*quoted, cell], f"{told[0]}; {words}"
        else:
            told.append(f"{_protected(cell)}: {words}")
    figures = [cell.figure(name) for cell in quoted for name in _QUOTED[cell.probe]]
    return answered("protection", summary, told, quotes=quotes, cells=(quoted, cells), figures=figures)


def _protected(cell: ProtectionFigures) -> str:
    own = ProtectedParameters.of(cell)
    return f"{cell.platform}, {own.mode}{interval_words(own.interval_ns, own.min_interval_ns)}"


def _died(quotes: Quotes, cell: ProtectionFigures) -> str:
    """Say what became of what clients were told, and for how long they heard nothing."""
    wrong = quotes.figure(cell, "wrong", cell.wrong, count(cell.wrong))
    told, lost = (count_words(quotes, cell, name) for name in ("acknowledged", "connections_lost"))
    died = quotes.figure(cell, "repetitions", cell.repetitions, count(cell.repetitions))
    over = ", ".join(f"{figure_words(quotes, cell, f'silence_{name}_ns')} over {name.upper()}" for name in PROTOCOLS)
    gone = "".join(f"; {text}" for text in cell.silences)
    pages = f", {count_words(quotes, cell, 'pages_wrong')} pages of its memory are wrong" if cell.pages_wrong else ""
    return (
        f"{FAULT_WORDS[FailoverParameters.of(cell).fault]} ({_protected(cell)}): {wrong} of {told} acknowledged values "
        f"were lost or wrong{pages}, {lost} of {died} TCP connections broke, clients heard nothing for {over}{gone}"
    )


def _waited(quotes: Quotes, cell: ProtectionFigures, cells: Sequence[ProtectionFigures]) -> str:
    """Say what a round trip takes, and how many times as long that is as of the same guest unprotected."""
    words = f"a round trip over TCP takes {figure_words(quotes, cell, 'tcp_p50_ns')}"
    alike = (one for one in cells if one is not cell and same_but(one, cell, "mode", "interval_ns", "min_interval_ns"))
    base = next((one for one in alike if ProtectedParameters.of(one).mode == "off"), None)
    if base is None:
        return words
    ratio = ratio_words(quotes, base, cell, "tcp_p50_ns")
    return f"{words}, unprotected {figure_words(quotes, base, 'tcp_p50_ns')}{'' if ratio is None else f': {ratio}'}"
