"""Holds the cells of a run against bars."""

from stealtime.report.acceptance.document import Acceptance, HeldCell, Verdict
from stealtime.report.acceptance.model import Bar, BarFile
from stealtime.report.cells.figures import NamedCell
from stealtime.report.cells.model import CellFigures, Watched, plain_cells
from stealtime.report.ending import what_is_missing
from stealtime.report.summary import RunSummary
from stealtime.vocabulary.errors import ExitCode

_WORST_FIRST: tuple[Verdict, ...] = ("failed", "not judged", "watched too short", "passed")
_EXIT_CODES: dict[Verdict, ExitCode] = {
    "passed": ExitCode.FINE,
    "failed": ExitCode.THRESHOLD,
    "watched too short": ExitCode.NOT_JUDGED,
    "not judged": ExitCode.NOT_JUDGED,
}


def hold(summary: RunSummary, bars: BarFile, name: str) -> Acceptance:
    """Hold each cell against the bar of each quantity that it measures.

    A value beyond the bar fails however short it was watched; a longest value below it is no pass until it was looked
    for as long as the bar asks. Of cells that were measured traced as well only the untraced ones count.

    Args:
        summary: The figures of a run.
        bars: What is accepted.
        name: What the bars are called.
    """
    cells = plain_cells(summary.cells)
    held = tuple(one for bar in bars.bars for cell in cells if (one := _held(cell, bar)) is not None)
    measured = {one.quantity for one in held}
    unmeasured = tuple(bar.quantity for bar in bars.bars if bar.quantity not in measured)
    verdicts: list[Verdict] = [one.verdict for one in held]
    missing = what_is_missing(summary)
    if unmeasured or missing:
        verdicts.append("not judged")
    return Acceptance(
        run_id=summary.run_id,
        bars=name,
        title=bars.title,
        source=bars.source,
        conditions=bars.conditions,
        verdict=min(verdicts, key=_WORST_FIRST.index),
        cells=held,
        unmeasured=unmeasured,
        missing=tuple(missing),
    )


def exit_code(acceptance: Acceptance) -> ExitCode:
    """Give 0 for passed, 3 for failed, 4 where that is not known."""
    return _EXIT_CODES[acceptance.verdict]


def _held(cell: CellFigures, bar: Bar) -> HeldCell | None:
    watched = cell.watched(bar.quantity)
    if watched is None:
        return None
    verdict, because = _judged(cell, watched, bar)
    over_ns = watched.longest_ns - bar.at_most if verdict == "failed" and watched.longest_ns is not None else None
    return HeldCell(
        **NamedCell.naming(cell),
        quantity=bar.quantity,
        at_most_ns=bar.at_most,
        to_be_watched_s=bar.watched / 1e9,
        longest_ns=watched.longest_ns,
        watched_s=watched.watched_s,
        verdict=verdict,
        over_ns=over_ns,
        because=because,
    )


def _judged(cell: CellFigures, watched: Watched, bar: Bar) -> tuple[Verdict, str | None]:
    if not cell.valid:
        return "not judged", "; ".join(cell.reasons)
    if watched.longest_ns is None:
        return "not judged", watched.hindrance or "nothing was measured"
    if watched.longest_ns > bar.at_most:
        return "failed", None
    if because := watched.hindrance or "; ".join(cell.not_as_asked):
        return "not judged", because
    if watched.watched_s < bar.watched / 1e9:
        return "watched too short", None
    return "passed", None
