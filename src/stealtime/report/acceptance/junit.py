"""A run held against bars as a JUnit file: each cell and bar is a test case.

What failed is a *failure*; what is not judged or was watched too short is an *error*, because in a system of continuous
integration a test that was skipped looks like one that passed.
"""

from pathlib import Path

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from stealtime.report.acceptance.document import Acceptance, HeldCell
from stealtime.report.acceptance.wording import sentence
from stealtime.report.junit_file import write_junit_file
from stealtime.report.plain_table import cell_title
from stealtime.vocabulary.errors import StealtimeError


def write_junit(acceptance: Acceptance, path: Path) -> None:
    """Write the file.

    Raises:
        StealtimeError: It cannot be written.
    """
    suite = TestSuite(acceptance.run_id)
    for one in acceptance.cells:
        suite.add_testcase(_case(one, acceptance.bars))
    for quantity in acceptance.unmeasured:
        case = TestCase(quantity, classname=f"{acceptance.bars}.unmeasured")
        case.result = [Error(f"no cell of the run measures {quantity}", "not judged")]
        suite.add_testcase(case)
    for words in acceptance.missing:
        case = TestCase(words, classname=f"{acceptance.bars}.missing")
        case.result = [Error(words, "not judged")]
        suite.add_testcase(case)
    document = JUnitXml(f"stealtime {acceptance.bars}")
    document.add_testsuite(suite)
    document.update_statistics()
    try:
        write_junit_file(document, path)
    except OSError as error:
        raise StealtimeError(
            f"--junit {path} cannot be written: {error.strerror or error}", hint="choose another file"
        ) from error


def _case(one: HeldCell, bars: str) -> TestCase:
    name = f"{cell_title(one.probe, one.parameters)} {one.quantity}"
    case = TestCase(name, classname=f"{bars}.{one.platform}.{one.scenario}")
    if one.verdict == "failed":
        case.result = [Failure(sentence(one), one.verdict)]
    elif one.verdict != "passed":
        case.result = [Error(sentence(one), one.verdict)]
    return case
