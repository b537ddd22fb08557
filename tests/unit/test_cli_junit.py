"""``run --junit``: each cell as a test case of another program."""

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command import Command
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase
from scripted_agent import ScriptedPlatform
from test_cli import SHORT
from test_runner import only

from stealtime.lab.host import LocalHost


def junit_cases(path: Path) -> dict[str, TestCase]:
    document = JUnitXml.fromfile(str(path))
    return {f"{case.classname} {case.name}": case for suite in document for case in suite}


def test_a_junit_file_tells_of_every_cell_how_it_went(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path
) -> None:
    platforms[1].behaviour = only(10, "refuse")
    path = tmp_path / "cells.xml"
    assert stealtime(*SHORT, "--max-overhead", "2s", "--junit", str(path)).code == 3
    cases = junit_cases(path)
    assert len(cases) == 3 * 6, "two platforms that were measured, one that cannot be used, six cells each"
    (over,) = cases["quick.native.alone tick 68us"].result
    assert isinstance(over, Failure)
    assert over.message == "the longest overhead is 2.500 s, by 500.0 ms over 2 s"
    (failed,) = cases["quick.uml.alone switch 10"].result
    assert isinstance(failed, Error)
    assert "9 is no priority here" in str(failed.message)
    (skipped,) = cases["quick.qemu-x.alone wakeup 1ms"].result
    assert isinstance(skipped, Skipped)
    assert skipped.message == "no such program"
    assert "max_overhead_ns" in cases["quick.uml.alone switch 100"].system_out
    assert {"errors": "1", "failures": "11", "skipped": "6", "tests": "18"}.items() <= totals(path).items()


def test_an_invalid_cell_is_an_error_in_the_junit_file(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path
) -> None:
    platforms[1].behaviour = only(10, "invalid")
    path = tmp_path / "cells.xml"
    # Over the threshold as well, but what must not be used is no failure.
    assert stealtime(*SHORT, "-P", "native,uml", "--max-overhead", "2s", "--junit", str(path)).code == 3
    (invalid,) = junit_cases(path)["quick.uml.alone switch 10"].result
    assert isinstance(invalid, Error)
    assert (invalid.type, invalid.message) == ("invalid", "the clock ran 900 ppm fast")
    assert {"errors": "1", "failures": "11", "skipped": "0", "tests": "12"}.items() <= totals(path).items()


def totals(path: Path) -> dict[str, str]:
    return dict(ElementTree.parse(path).getroot().attrib)  # noqa: S314 - we wrote it


def test_a_junit_file_without_a_threshold_has_no_failure(stealtime: Command, tmp_path: Path) -> None:
    path = tmp_path / "cells.xml"
    assert stealtime(*SHORT, "-P", "native", "--junit", str(path)).code == 0
    assert all(not case.result for case in junit_cases(path).values())


def test_a_junit_file_of_a_scenario_that_cannot_be_had_says_why(
    stealtime: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(LocalHost, "cpus", tuple(sorted(os.sched_getaffinity(0)))[:1])
    path = tmp_path / "cells.xml"
    stealtime(*SHORT, "-P", "native", "--scenario", "alone,two-to-all-memory", "--junit", str(path))
    cases = junit_cases(path)
    assert not cases["quick.native.alone tick 68us"].result
    (skipped,) = cases["quick.native.two-to-all-memory tick 68us"].result
    assert "needs 3 CPUs" in str(skipped.message)


def test_a_junit_file_in_no_folder_is_refused_before_anything_is_measured(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path
) -> None:
    ended = stealtime(*SHORT, "--junit", str(tmp_path / "nowhere" / "cells.xml"))
    assert ended.code == 2
    assert f"the folder {tmp_path / 'nowhere'} does not exist" in ended.err
    assert platforms[0].boots == 0


def test_a_junit_file_that_is_a_folder_is_refused_before_anything_is_measured(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path
) -> None:
    ended = stealtime(*SHORT, "--junit", str(tmp_path))
    assert ended.code == 2
    assert ended.err == (
        f"error: --junit {tmp_path}: this is a folder\nhint: name a file, for example {tmp_path / 'cells.xml'}\n"
    )
    assert platforms[0].boots == 0


@pytest.mark.parametrize("json_option", [(), ("--json",)])
def test_a_junit_file_that_cannot_be_written_costs_no_answer(
    stealtime: Command, platforms: list[ScriptedPlatform], json_option: tuple[str, ...]
) -> None:
    platforms[1].behaviour = only(10, "refuse")
    ended = stealtime(*SHORT, *json_option, "--junit", "/dev/full")
    assert ended.code == 1
    if json_option:
        assert json.loads(ended.out)["schema_version"] == 3
    else:
        assert "One in a thousand" in ended.out
    assert "1 cells failed: uml.alone.switch-10.r1" in ended.err
    assert "error: --junit /dev/full cannot be written: No space left on device" in ended.err
    assert "hint: the run itself is complete: see it with `stealtime show " in ended.err
