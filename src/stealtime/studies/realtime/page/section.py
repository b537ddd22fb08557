"""The part of the report that is about real time."""

from collections.abc import Sequence

from stealtime.report.page.bar_figure import draw_bars
from stealtime.report.page.dot_figure import draw_dots
from stealtime.report.page.line_figure import draw
from stealtime.report.page.section import Section
from stealtime.report.page.tables import folded_html_of, html_of
from stealtime.report.page.templates import rendered, templates_of
from stealtime.report.summary import RunSummary
from stealtime.schedulability import wording as curve_wording
from stealtime.schedulability.document import NotChargedDocument
from stealtime.schedulability.overhead_seen import together
from stealtime.schedulability.page import curve_figure
from stealtime.schedulability.uncharged import seen_documents
from stealtime.store.run import Run
from stealtime.studies.realtime.analysis.decomposition import NOT_BOUNDED
from stealtime.studies.realtime.analysis.gathered import Gathered, gather
from stealtime.studies.realtime.analysis.model import RealTimeCell
from stealtime.studies.realtime.analysis.quantities import quantity_rows
from stealtime.studies.realtime.analysis.seed_claims import CITATION, seed_claims
from stealtime.studies.realtime.page.pictures import missed_dots, missed_figure, overhead_rows, part_bars
from stealtime.studies.realtime.rows import tables_of
from stealtime.studies.realtime.wording import NOTES


def section_of(run: Run, summary: RunSummary) -> Section:
    return section(summary.cells_of(RealTimeCell), gather(run))


def section(cells: Sequence[RealTimeCell], gathered: Gathered) -> Section:
    """Draw missed deadlines, overheads, latencies in parts, and what the overheads cost.

    Args:
        cells: All of a run.
        gathered: Of its traced trials.
    """
    parts, (shared, tables) = gathered.decompositions, tables_of(cells)
    bars = (
        ("On the average", part_bars(parts, lambda one: dict(one.mean_ns), "Average start latency in parts")),
        ("The longest seen", part_bars(parts, lambda one: dict(one.longest_ns), "Longest start latency in parts")),
    )
    missed = missed_figure(cells)
    values = {
        "gathered": gathered,
        "notes": " ".join(NOTES),
        "shared": shared,
        "tables": tables,
        "html_of": html_of,
        "folded_html_of": folded_html_of,
        "missed": missed,
        "dots": None if missed is not None else missed_dots(cells),
        "draw_dots": draw_dots,
        "rows": overhead_rows(gathered.conditions),
        "uncharged": _uncharged(gathered),
        "quantities": quantity_rows(gathered.conditions),
        "claims": seed_claims(gathered.conditions),
        "citation": CITATION,
        "bars": [(title, figure) for title, figure in bars if figure is not None],
        "not_bounded": NOT_BOUNDED,
        "curve": None if gathered.curve is None else curve_figure(gathered.curve),
        "curve_wording": curve_wording,
        "draw": draw,
        "draw_bars": draw_bars,
    }
    return Section(
        question="Are deadlines met?",
        links=(
            ("deadlines", "Deadlines"),
            ("overheads", "Overheads"),
            ("parts", "Latency in parts"),
            ("schedulability", "Schedulability"),
        ),
        body=rendered(templates_of("stealtime.studies.realtime.page"), "realtime.html.jinja", values),
        contents="no single jobs: they are in the run's folder, and `stealtime export` writes them",
    )


def _uncharged(gathered: Gathered) -> list[tuple[str, NotChargedDocument]]:
    """Give what no overhead is charged for, by machine, all its numbers of tasks together."""
    machines = dict.fromkeys(one.machine for one in gathered.conditions)
    return [
        (machine, document)
        for machine in machines
        for document in seen_documents(together(one.uncharged for one in gathered.conditions if one.machine == machine))
    ]
