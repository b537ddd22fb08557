"""A run as a JUnit file, which every system of continuous integration reads: a cell is a test case.

A cell over the threshold that was asked for is a *failure*; one that failed, is invalid, was watched too short or was
not judged is an *error*; one of a platform or a scenario that cannot be had here is *skipped*, each with the reason.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from stealtime.campaigns.model import Campaign
from stealtime.report.cells.model import CellFigures
from stealtime.report.gate import GatedCell
from stealtime.report.junit_file import write_junit_file
from stealtime.report.plain_table import cell_title
from stealtime.report.summary import RunSummary
from stealtime.store.model import Cell
from stealtime.store.run import Run


def write_junit(run: Run, summary: RunSummary, path: Path) -> None:
    """Write the cells of a run as test cases.

    Args:
        run: It holds what was wanted, and what could not be had.
        summary: The figures of ``run``; with its gate, where it was held against a threshold.
        path: The file; its folder must exist.

    Raises:
        OSError: It cannot be written.
    """
    elapsed_s: defaultdict[tuple[str, str], float] = defaultdict(float)
    for trial in run.trials:
        elapsed_s[_names(summary.campaign, trial.record.cell)] += trial.record.elapsed_s
    suite = TestSuite(summary.run_id)
    suite.timestamp = summary.created_at.isoformat()
    for number, cell in enumerate(summary.cells):
        held = () if summary.gate is None else summary.gate.of_cell(number)
        names = _names(summary.campaign, cell)
        case = _case(names, _results(cell, held))
        case.time = elapsed_s[names]
        beside = [] if cell.not_alone is None else [cell.not_alone]
        case.system_out = "\n".join([*cell.lines, *(f"limit: {text}" for text in (*cell.limits, *beside))])
        suite.add_testcase(case)
    there = {cell.stored.name for cell in summary.cells}
    for missing in summary.missing:
        if missing.name not in there:
            suite.add_testcase(_case(_names(summary.campaign, missing), [Error("it was not measured", "missing")]))
    if summary.missing_trials is None:
        why = f"the run is {summary.state}, and cells may be missing"
        suite.add_testcase(_case((summary.campaign, "all cells"), [Error(why, "missing")]))
    for words in summary.unobtainable:
        suite.add_testcase(_case((summary.campaign, words), [Error(words, "not to be had")]))
    for missing, reason in _cells_not_to_be_had(run, summary):
        suite.add_testcase(_case(_names(summary.campaign, missing), [Skipped(reason)]))
    document = JUnitXml(f"stealtime {summary.campaign}")
    document.add_testsuite(suite)
    document.update_statistics()
    write_junit_file(document, path)


def _names(campaign: str, cell: Cell | CellFigures) -> tuple[str, str]:
    title = cell_title(cell.probe, cell.parameters)
    return f"{campaign}.{cell.platform}.{cell.scenario}", f"{title} traced" if cell.traced else title


def _case(names: tuple[str, str], results: list[FinalResult]) -> TestCase:
    case = TestCase(names[1], classname=names[0])
    case.result = results
    return case


def _results(cell: CellFigures, held: Sequence[GatedCell]) -> list[FinalResult]:
    if not cell.valid:
        return [Error("; ".join(cell.reasons), "failed" if not cell.is_measured else "invalid")]
    if over := [Failure(one.sentence, "max-overhead") for one in held if one.verdict == "exceeded"]:
        return list(over)
    if cell.fell_short:
        return [Error("; ".join(cell.fell_short), "watched too short" if cell.too_short else "not as asked")]
    return [Error(one.sentence, "not judged") for one in held if one.verdict == "not judged"]


def _cells_not_to_be_had(run: Run, summary: RunSummary) -> list[tuple[Cell, str]]:
    """Give each cell that the campaign asks for and this host cannot give, with the reason."""
    campaign = Campaign.model_validate(run.manifest.campaign)
    return [
        (Cell(platform=record.name, scenario=scenario, probe=cells.probe, parameters=parameters.stored), reason)
        for record in run.manifest.platforms
        for scenario in campaign.scenarios
        if (reason := summary.skipped.get(scenario) if record.usable else record.reason) is not None
        for cells in campaign.probes
        for parameters in cells.parameter_sets()
    ]
