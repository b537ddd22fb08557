"""A run as a JUnit file, which every system of continuous integration reads: a cell is a test case.

A cell over the threshold that was asked for is a *failure*; one that failed or is invalid is an *error*; one of a
platform or a scenario that cannot be had here is *skipped*, each with the reason.
"""

from collections import defaultdict
from pathlib import Path

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from stealtime.campaigns.model import Campaign
from stealtime.report.junit_file import write_junit_file
from stealtime.report.plain_table import cell_title
from stealtime.report.summary import CellFigures, RunSummary
from stealtime.store.model import Cell
from stealtime.store.run import Run


def write_junit(run: Run, summary: RunSummary, threshold_ns: int | None, path: Path) -> None:
    """Write the cells of a run as test cases.

    Args:
        run: It holds what was wanted, and what could not be had.
        summary: The figures of ``run``.
        threshold_ns: The longest overhead that is accepted; None accepts each.
        path: The file; its folder must exist.

    Raises:
        OSError: It cannot be written.
    """
    elapsed_s: defaultdict[tuple[str, str], float] = defaultdict(float)
    for trial in run.trials:
        elapsed_s[_names(summary.campaign, trial.record.cell)] += trial.record.elapsed_s
    suite = TestSuite(summary.run_id)
    suite.timestamp = summary.created_at.isoformat()
    for cell in summary.cells:
        names = _names(summary.campaign, cell)
        case = _case(names, _results(cell, threshold_ns))
        case.time = elapsed_s[names]
        beside = [] if cell.not_alone is None else [cell.not_alone]
        case.system_out = "\n".join([*cell.lines, *(f"limit: {text}" for text in (*cell.limits, *beside))])
        suite.add_testcase(case)
    for missing, reason in _cells_not_to_be_had(run, summary):
        suite.add_testcase(_case(_names(summary.campaign, missing), [Skipped(reason)]))
    document = JUnitXml(f"stealtime {summary.campaign}")
    document.add_testsuite(suite)
    document.update_statistics()
    write_junit_file(document, path)


def _names(campaign: str, cell: Cell | CellFigures) -> tuple[str, str]:
    """Give the names of a cell's class and test."""
    title = cell_title(cell.probe, cell.parameters)
    return f"{campaign}.{cell.platform}.{cell.scenario}", f"{title} traced" if cell.traced else title


def _case(names: tuple[str, str], results: list[FinalResult]) -> TestCase:
    case = TestCase(names[1], classname=names[0])
    case.result = results
    return case


def _results(cell: CellFigures, threshold_ns: int | None) -> list[FinalResult]:
    if not cell.valid:
        return [Error("; ".join(cell.reasons), "failed" if not cell.is_measured else "invalid")]
    overhead_ns = cell.overhead_beyond_ns(threshold_ns)
    if overhead_ns is None:
        return []
    limit_us = (threshold_ns or 0) / 1000
    return [Failure(f"the longest overhead is {overhead_ns / 1000:.1f} us, over {limit_us:.1f} us", "max-overhead")]


def _cells_not_to_be_had(run: Run, summary: RunSummary) -> list[tuple[Cell, str]]:
    """Give each cell that the campaign asks for and this host cannot give, with the reason."""
    campaign = Campaign.model_validate(run.manifest.campaign)
    return [
        (Cell(platform=record.name, scenario=scenario, probe=cells.probe, parameters=parameters), reason)
        for record in run.manifest.platforms
        for scenario in campaign.scenarios
        if (reason := summary.skipped.get(scenario) if record.usable else record.reason) is not None
        for cells in campaign.probes
        for parameters in cells.parameter_sets()
    ]
