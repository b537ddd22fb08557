"""What ``show`` prints of traced trials: where start latencies go, and why they are not bounded."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from stealtime.report import notation
from stealtime.report.plain_table import new_table
from stealtime.schedulability.measured import Unmeasured
from stealtime.studies.realtime.analysis.decomposition import NOT_BOUNDED, PARTS, Decomposition

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


def render_parts(
    decompositions: Sequence[Decomposition], unmeasured: Sequence[Unmeasured] = (), tracing: Sequence[str] = ()
) -> RenderableType:
    """Give a table: of each machine and number of tasks the average and the longest latency, part by part.

    Args:
        decompositions: What could be split.
        unmeasured: What could not.
        tracing: What tracing cost, as far as it is known.
    """
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
