"""What ``compare RUN --published NAME`` prints of a publication of words."""

from rich.console import Group, RenderableType
from rich.text import Text

from stealtime.report.claims.statements import StatementsComparison, StatementVerdict
from stealtime.report.plain_table import new_table

_STYLES: dict[StatementVerdict, str] = {"holds": "green", "does not hold": "red", "not judged": "dim"}


def render_statements(comparison: StatementsComparison) -> RenderableType:
    head = Text(f"ours    {comparison.run_id}\ntheirs  {comparison.source}\n        {comparison.system}\n")
    parts: list[RenderableType] = [head]
    if not comparison.statements:
        parts.append(Text("not judged: the run has no guest that was measured alone beside native"))
    for machine in dict.fromkeys(one.machine for one in comparison.statements):
        table = new_table()
        for heading in ("they say", "verdict", "ours"):
            table.add_column(heading, overflow="fold")
        for one in comparison.statements:
            if one.machine == machine:
                table.add_row(one.theirs, one.verdict, one.evidence, style=_STYLES[one.verdict])
        parts += [Text(f"\n{machine}", style="bold"), table]
    rules = {one.theirs: one.rule for one in comparison.statements}
    for title, lines in (
        ("How ours differs from theirs", comparison.differences),
        ("Of the publication itself", comparison.remarks),
        ("It holds where", [f"{theirs}: {rule}" for theirs, rule in rules.items()]),
    ):
        if lines:
            parts += [Text(f"\n{title}", style="bold"), *(Text(f"  {line}") for line in lines)]
    return Group(*parts)
