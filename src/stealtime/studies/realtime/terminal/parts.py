"""What ``show`` prints of traced trials: where start latencies go, and why they are not bounded."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from stealtime.report import notation
from stealtime.report.plain_table import new_table
from stealtime.schedulability.measured import Unmeasured
from stealtime.studies.realtime.analysis.decomposition import NOT_BOUNDED, PARTS, Decomposition


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
    for heading in ("machine", "tasks", "jobs split", ""):
        table.add_column(heading, no_wrap=True)
    seen = [name for name in PARTS if any(one.largest_ns[name] for one in decompositions)]
    for heading in (*seen, "all"):
        table.add_column(heading, justify="right")
    for one in decompositions:
        head = (one.machine, str(one.tasks), f"{one.jobs:,} of {one.jobs + one.unsplit:,}")
        for words, parts in (
            ("average, undelayed", one.mean_ns),
            ("longest, undelayed", one.longest_ns),
            ("largest of each, all jobs", one.largest_ns),
        ):
            shown = [notation.duration(parts[name], 3) for name in seen]
            table.add_row(*head, words, *shown, notation.duration(sum(parts.values()), 3))
            head = ("", "", "")
        table.add_row(
            "", "", "", "longest seen, all jobs", *[""] * len(seen), notation.duration(one.longest_seen_ns, 3)
        )
    lines = [f"not split: {one.sentence}" for one in unmeasured]
    return Group(table, *map(Text, (*lines, *tracing)), Text(NOT_BOUNDED, style="dim"))
