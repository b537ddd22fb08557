"""Whether the host and the machine had too many or too few CPUs: a line for each verdict."""

from collections.abc import Sequence

from rich.table import Table

from stealtime.report.plain_table import new_table
from stealtime.studies.stretch.analysis.model import StretchCell
from stealtime.studies.stretch.wording import verdict_words


def provisioning_table(cells: Sequence[StretchCell]) -> Table:
    """Give the verdicts on each configuration with what decided them."""
    table = new_table("Provisioning while the work was done, by the rules of `stealtime advise`")
    table.add_column("platform, scenario", no_wrap=True)
    for name in ("of the", "verdict", "by"):
        table.add_column(name)
    for cell in cells:
        for one in cell.provisioning:
            table.add_row(cell.title, one.subject, verdict_words(one), "; ".join(one.evidence))
    return table
