"""``show --accept``: a run held against bars."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command import Command, make_command
from junitparser import Error, Failure, JUnitXml
from synthetic_run import CLOCK_DISAGREES, RT_THROTTLING, SyntheticCell, write_synthetic_run

from stealtime.report.acceptance.library import bar_names, find_bars
from stealtime.schemas import DOCUMENTS

BARS = """
title = "Ours"

[[bars]]
quantity = "wakeup-latency"
at_most = "{wakeup}"
watched = "{watched}"
"""


def wakeup(repetition: int = 1, **more: Any) -> SyntheticCell:
    """2,000 wake-ups in 2 s, the latest 410 us late."""
    return SyntheticCell(
        "native", "wakeup", {"interval_ns": 1_000_000}, 1_900.0, 410_000.0, 0.4, 2_000, repetition=repetition, **more
    )


def tick(**more: Any) -> SyntheticCell:
    """Loops of 68 us, some 0.7 s in all, the longest 100 us longer."""
    return SyntheticCell("native", "tick", {"loop_ns": 68_000}, 68_000.0, 168_000.0, 0.4, 10_000, **more)


@pytest.fixture
def stealtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    return make_command(monkeypatch, capsys)


def held(stealtime: Command, cells: list[SyntheticCell], bars: str, *more: str) -> tuple[int, dict[str, Any]]:
    write_synthetic_run(Path("run"), cells=cells)
    Path("bars.toml").write_text(bars)
    ended = stealtime("show", "run", "--accept", "bars.toml", "--json", *more)
    document = json.loads(ended.out)
    jsonschema.validate(document, DOCUMENTS["acceptance"].schema())
    return ended.code, document


@pytest.mark.parametrize(
    ("wakeup_at_most", "watched", "verdict", "code"),
    [
        ("500us", "2s", "passed", 0),
        ("500us", "2001ms", "watched too short", 4),
        ("400us", "2s", "failed", 3),
        # What is exceeded is exceeded, however short it was watched.
        ("400us", "12h", "failed", 3),
    ],
)
def test_a_longest_value_is_no_pass_until_it_was_watched(
    stealtime: Command, wakeup_at_most: str, watched: str, verdict: str, code: int
) -> None:
    ended, document = held(stealtime, [wakeup()], BARS.format(wakeup=wakeup_at_most, watched=watched))
    (cell,) = document["cells"]
    assert (ended, document["verdict"], cell["verdict"]) == (code, verdict, verdict)
    assert cell["longest_ns"] == pytest.approx(410_000, abs=1)
    assert cell["watched_s"] == 2.0
    assert cell["over_ns"] == (pytest.approx(10_000, abs=1) if verdict == "failed" else None)


def test_valid_repetitions_are_watched_together(stealtime: Command) -> None:
    bars = BARS.format(wakeup="500us", watched="4s")
    assert held(stealtime, [wakeup(1), wakeup(2)], bars)[1]["verdict"] == "passed"


def test_an_invalid_cell_is_not_judged(stealtime: Command) -> None:
    bars = BARS.format(wakeup="1us", watched="1s")
    code, document = held(stealtime, [wakeup(findings=(CLOCK_DISAGREES,))], bars)
    (cell,) = document["cells"]
    assert (code, cell["verdict"]) == (4, "not judged")
    assert "812 ppm" in cell["because"]


def test_a_bar_that_nothing_measures_is_not_judged(stealtime: Command) -> None:
    code, document = held(stealtime, [tick()], BARS.format(wakeup="500us", watched="1s"))
    assert (code, document["verdict"], document["unmeasured"]) == (4, "not judged", ["wakeup-latency"])


INTERRUPTION = 'title = "t"\n[[bars]]\nquantity = "interruption"\nat_most = "{}"\nwatched = "500ms"\n'


def test_an_interruption_is_what_a_loop_takes_longer(stealtime: Command) -> None:
    code, document = held(stealtime, [tick()], INTERRUPTION.format("101us"))
    (cell,) = document["cells"]
    assert (code, cell["longest_ns"]) == (0, pytest.approx(100_000, abs=1))
    assert cell["watched_s"] == pytest.approx(0.68, rel=0.05)


def test_a_pause_of_the_kernels_own_limit_is_neither_a_pass_nor_a_failure(stealtime: Command) -> None:
    paused = SyntheticCell(
        "native", "tick", {"loop_ns": 68_000}, 68_000.0, 50_068_000.0, 0.4, 10_000,
        findings=(RT_THROTTLING,), counters=(("involuntary_context_switches", 1),),
    )  # fmt: skip
    code, document = held(stealtime, [paused], INTERRUPTION.format("10ms"))
    (cell,) = document["cells"]
    assert (code, cell["verdict"]) == (4, "not judged")
    assert "RT throttling stopped the probe for up to 50 ms" in cell["because"]


def test_what_is_printed_says_how_long_it_still_must_be_watched(stealtime: Command) -> None:
    write_synthetic_run(Path("run"), cells=[wakeup(), tick()])
    Path("bars.toml").write_text(BARS.format(wakeup="500us", watched="12h"))
    out = " ".join(stealtime("show", "run", "--accept", "bars.toml").out.split())
    assert out.startswith("bars.toml: watched too short")
    assert "the longest of 2 s is 410.0 µs; that it stays under 500 µs must be watched for 12 h" in out
    assert "by 370.0 µs over 40 µs" in " ".join(stealtime("show", "run", "--accept", "rhel-rt").out.split())


def test_only_what_passed_is_green_in_the_junit_file(stealtime: Command) -> None:
    write_synthetic_run(Path("run"), cells=[wakeup(), tick()])
    Path("bars.toml").write_text(
        BARS.format(wakeup="500us", watched="12h") + INTERRUPTION.format("10us").split("\n", 1)[1]
    )
    assert stealtime("show", "run", "--accept", "bars.toml", "--junit", "out.xml").code == 3
    results = {case.name: case.result for suite in JUnitXml.fromfile("out.xml") for case in suite}
    (short,), (failed,) = results["wakeup 1ms wakeup-latency"], results["tick 68us interruption"]
    assert isinstance(short, Error)
    assert isinstance(failed, Failure)
    assert "over 10" in str(failed.message)


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--accept", "rhel-tr"], "there are no bars named 'rhel-tr'", "did you mean 'rhel-rt'?"),
        (["--accept", "odd.toml"], "odd.toml: no study measures 'wakeup'", "wakeup-latency"),
        (["--accept", "twice.toml"], "two bars are of 'interruption'", "schema bars"),
        (["--accept", "nowhere.toml"], "nowhere.toml", ""),
        (["--junit", "x.xml"], "--junit needs --accept here", "stealtime run --junit"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_a_hint(
    stealtime: Command, arguments: list[str], message: str, hint: str
) -> None:
    Path("odd.toml").write_text(BARS.format(wakeup="1us", watched="1s").replace("wakeup-latency", "wakeup"))
    Path("twice.toml").write_text(INTERRUPTION.format("1us") + INTERRUPTION.format("2us").split("\n", 1)[1])
    ended = stealtime("show", "run", *arguments)
    assert (ended.code in (1, 2), ended.out) == (True, "")
    assert message in ended.err
    assert hint in ended.err


def test_the_bars_that_come_with_stealtime_can_be_read() -> None:
    for name in bar_names():
        assert find_bars(name).source is not None
