"""What is printed of real time: deadlines and latencies, and where the start latencies of traced trials go."""

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.text import Text

from stealtime.report import notation
from stealtime.report.plain_table import new_table
from stealtime.report.summary import RunSummary
from stealtime.report.terminal.circumstances import with_circumstances
from stealtime.report.terminal.short import overview
from stealtime.report.words_table import printed_each
from stealtime.schedulability.measured import Unmeasured
from stealtime.store.run import Run
from stealtime.studies.realtime.analysis.decomposition import NOT_BOUNDED, PARTS, Decomposition, decompose
from stealtime.studies.realtime.analysis.model import RealTimeCell
from stealtime.studies.realtime.analysis.overhead_source import measured_trials
from stealtime.studies.realtime.analysis.tracing_shift import tracing_sentences
from stealtime.studies.realtime.rows import short_table, tables_of
from stealtime.studies.realtime.wording import NOTES, invalid_sentences

_HEADINGS = {
    "event latency": "event latency",
    "release": "release",
    "rest of the interrupt": "rest of IRQ",
    "until the scheduler has chosen": "until chosen",
    "urgent threads ran": "urgent ran",
    "less urgent threads ran": "others ran",
    "scheduler and switch, not told apart": "switch unseen",
    "switch and return": "switch, return",
}
"""Of the parts, as short as a column."""


def tables(summary: RunSummary) -> RenderableType:
    cells = summary.cells_of(RealTimeCell)
    shared, found = tables_of(cells)
    head = [] if shared is None else [Text(shared, style="bold"), Text()]
    told = Group(*head, *printed_each(found), *map(Text, (*NOTES, *invalid_sentences(cells))), Text())
    return with_circumstances(told, summary, cells)


def overview_of(summary: RunSummary) -> RenderableType:
    cells = summary.cells_of(RealTimeCell)
    shared, found = tables_of(cells)
    short = short_table(cells)
    named = short if shared is None else replace(short, title=f"{short.title} ({shared[0].lower()}{shared[1:]})")
    return overview([named], sum(bool(table.rows) for table in found), cells)


def explanation(run: Run) -> RenderableType | None:
    """Split the start latencies of traced trials into parts, and say why they are not bounded."""
    measured = measured_trials(run)
    parts = decompose(measured.of_condition)
    return _parts(parts, measured.unmeasured, tracing_sentences(run)) if parts else None


def _parts(
    decompositions: Sequence[Decomposition], unmeasured: Sequence[Unmeasured], tracing: Sequence[str]
) -> RenderableType:
    """Give a table: of each machine and number of tasks the average and the longest latency, part by part."""
    table = new_table("Where start latencies go")
    for heading in ("machine, tasks", "split", ""):
        table.add_column(heading, no_wrap=True)
    seen = [name for name in PARTS if any(one.largest_ns[name] for one in decompositions)]
    for heading in (*(_HEADINGS[name] for name in seen), "all"):
        # As wide as its longest word, or figures would be broken.
        table.add_column(heading, justify="right", min_width=max(map(len, heading.split())))
    for one in decompositions:
        split = notation.percent(one.jobs / (one.jobs + one.unsplit))
        head = (f"{one.machine}, {one.tasks}", split)
        for words, parts in (
            ("average *", one.mean_ns),
            ("longest *", one.longest_ns),
            ("largest each", one.largest_ns),
        ):
            shown = [notation.duration(parts[name], 3) for name in seen]
            table.add_row(*head, words, *shown, notation.duration(sum(parts.values()), 3))
            head = ("", "")
        table.add_row("", "", "longest seen", *[""] * len(seen), notation.duration(one.longest_seen_ns, 3))
    legend = (
        "split: jobs that could be followed through the trace. * of those before which no thread of the same or a "
        "higher priority ran; the others are of all"
    )
    lines = [legend, *(f"not split: {one.sentence}" for one in unmeasured)]
    return Group(table, *map(Text, (*lines, *tracing)), Text(NOT_BOUNDED, style="dim"))
