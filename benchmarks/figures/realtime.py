"""The tables of a run of periodic tasks: each overhead against the number of tasks, and what the paper of 2013 says."""

from collections.abc import Iterator

from stealtime.report import notation
from stealtime.report.claims.statements import compare_with_statements, find_statements
from stealtime.store.run import Run
from stealtime.studies.realtime.analysis.overhead_source import conditions_of, measured_trials
from stealtime.studies.realtime.analysis.quantities import QUANTITIES, QuantityRow, quantity_rows

PUBLICATION = "rtos2013"


def realtime_rows(run: Run) -> Iterator[str]:
    """Give a table for each overhead, the samples behind them, and each statement of the paper with its verdict."""
    measured = measured_trials(run)
    found = quantity_rows(conditions_of(measured.of_condition))
    for quantity in QUANTITIES:
        yield from _table([one for one in found if one.quantity == quantity])
    for one in measured.unmeasured:
        yield f"\nNot measured: {one.machine} ({one.trials} trials), because {one.because}."
    compared = compare_with_statements(run, find_statements(PUBLICATION))
    yield "\n| of | the paper of 2013 says | verdict | ours |"
    yield "| -- | -- | -- | -- |"
    for statement in compared.statements:
        yield f"| {statement.machine} | {statement.theirs} | {statement.verdict} | {statement.evidence} |"


def _table(rows: list[QuantityRow]) -> Iterator[str]:
    if not rows:
        return
    machines = sorted({one.machine for one in rows}, key=lambda name: (not name.startswith("native"), name))
    counts = sorted({one.tasks for one in rows})
    cells = {(one.machine, one.tasks): one for one in rows}
    few, many = min(one.samples for one in rows), max(one.samples for one in rows)
    name = rows[0].quantity.replace("_", " ")
    name = name if rows[0].drawn == name else f"{name} ({rows[0].drawn})"
    title = f"{name[0].upper()}{name[1:]}"
    yield f"\n**{title}**, in us: average ± deviation, worst; of {few:,} to {many:,} samples each.\n"
    yield f"| tasks | {' | '.join(machines)} |"
    yield f"| --: | {' | '.join('--:' for _ in machines)} |"
    for count in counts:
        yield f"| {count} | {' | '.join(_cell(cells.get((machine, count))) for machine in machines)} |"


def _cell(one: QuantityRow | None) -> str:
    if one is None:
        return notation.ABSENT
    deviation = notation.ABSENT if one.deviation_ns is None else _us(one.deviation_ns)
    return f"{_us(one.average_ns)} ± {deviation}, {_us(one.worst_ns)}"


def _us(ns: float) -> str:
    return notation.three_digits(ns / 1_000)
