"""The tables of the study, printed and on the page from the same rows."""

from collections.abc import Sequence

from markupsafe import Markup
from rich.console import Group, RenderableType
from rich.text import Text

from stealtime.report import notation
from stealtime.report.page.section import Section
from stealtime.report.plain_table import TableOfWords, cell_title, printed
from stealtime.report.repetitions import ratio_to, rows_of_figures
from stealtime.report.summary import RunSummary
from stealtime.report.terminal.circumstances import limits
from stealtime.studies.protection.figures import LABELS, OF_PROBE, ProtectionFigures, in_words

_CHECKPOINTS = ("pause_p50_ns", "pause_max_ns", "hold_p50_ns", "guest_time_lost_ppm", "shipped_bytes_per_s")
_QUESTION = "Can the workload survive its host, and what does that cost?"
_EXPLANATION = (
    "The median of the repetitions; below it the 95 % interval that their geometric mean has in another session."
)


def tables(summary: RunSummary) -> RenderableType:
    """Give what is printed of a run's cells."""
    cells = _own(summary)
    return Group(*printed(_tables(cells)), *(Text(line) for line in _remarks(cells)), *limits(cells))


def section(summary: RunSummary) -> Section:
    """Give the same as a part of the page, which tells by itself what failed."""
    cells = _own(summary)
    if not cells:
        return Section(question=_QUESTION, links=(), body=Markup())
    body = Markup("").join(_html(one) for one in _tables(cells))
    remarks = [*_remarks(cells), *(f"{_name(cell, cells)}: {text}" for cell in cells for text in cell.limits)]
    lines = Markup("").join(Markup("<p>{}</p>").format(line) for line in remarks)
    text = Markup('<section id="protection"><h2>Protection</h2>{}{}</section>').format(body, lines)
    return Section(question=_QUESTION, links=(("protection", "Protection"),), body=text)


def _own(summary: RunSummary) -> list[ProtectionFigures]:
    return [cell for cell in summary.cells if isinstance(cell, ProtectionFigures)]


def _tables(cells: Sequence[ProtectionFigures]) -> list[TableOfWords]:
    failovers = [cell for cell in cells if cell.probe == "failover"]
    trips = [cell for cell in cells if cell.probe == "roundtrip"]
    protected = [cell for cell in cells if cell.figure("pause_p50_ns").of_repetitions]
    built = [
        _figures("When its host dies", failovers, OF_PROBE["failover"], counts=True),
        _figures("Round trips of the client", trips, OF_PROBE["roundtrip"]),
        _figures("What checkpoints take", protected, _CHECKPOINTS),
        _against_unprotected(trips),
    ]
    return [table for table in built if table.rows]


def _figures(
    title: str, cells: Sequence[ProtectionFigures], columns: tuple[str, ...], *, counts: bool = False
) -> TableOfWords:
    heads = (
        _platform(cells),
        *(LABELS[name] for name in columns),
        *(("acknowledged", "wrong", "TCP lost") if counts else ()),
    )
    rows: list[tuple[str, ...]] = []
    for cell in cells:
        found = [cell.figure(name) for name in columns]
        counted = (notation.count(cell.acknowledged), str(cell.wrong), str(cell.connections_lost)) if counts else ()
        rows += rows_of_figures(f"{_name(cell, cells)} ({cell.repetitions}x)", found, counted, in_words)
    return TableOfWords(title, heads, rows)


def _against_unprotected(cells: Sequence[ProtectionFigures]) -> TableOfWords:
    rows = []
    for cell in cells:
        base = next((one for one in cells if one.platform == cell.platform and one.parameters["mode"] == "off"), None)
        if base is None or cell is base:
            continue
        words = []
        for name in OF_PROBE["roundtrip"]:
            ratio, _ = ratio_to(base.figure(name), cell.figure(name), same_session=True)
            words.append(
                "not judged"
                if ratio is None
                else f"{notation.ratio(ratio.value)} ({notation.ratio(ratio.low)} to {notation.ratio(ratio.high)})"
            )
        rows.append((_name(cell, cells), *words))
    return TableOfWords(
        "How many times as long as unprotected",
        (_platform(cells), *(LABELS[name] for name in OF_PROBE["roundtrip"])),
        rows,
    )


def _remarks(cells: Sequence[ProtectionFigures]) -> list[str]:
    """Say how to read the figures, and what is not judged and why."""
    reasons = {one.because: None for cell in cells for one in cell.figures if one.because is not None}
    lines = [_EXPLANATION] if any(cell.figures for cell in cells) else []
    return [*lines, *(f"Intervals are not judged where {reason}." for reason in reasons)]


def _platform(cells: Sequence[ProtectionFigures]) -> str:
    """Give the platform if all cells have the same, for the head of the table."""
    platforms = {cell.platform for cell in cells}
    return platforms.pop() if len(platforms) == 1 else ""


def _name(cell: ProtectionFigures, cells: Sequence[ProtectionFigures]) -> str:
    title = cell_title(cell.probe, cell.parameters)
    return title if _platform(cells) else f"{cell.platform} {title}"


def _html(one: TableOfWords) -> Markup:
    heads = Markup("").join(Markup('<th scope="col">{}</th>').format(head) for head in one.heads)
    rows = Markup("").join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            row[0], Markup("").join(Markup("<td>{}</td>").format(value) for value in row[1:])
        )
        for row in one.rows
    )
    table = Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(heads, rows)
    scrolled = Markup('<div class="scroll" tabindex="0" role="region" aria-label="{}">{}</div>').format(
        one.title, table
    )
    return Markup("<h3>{}</h3>{}").format(one.title, scrolled)
