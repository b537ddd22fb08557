"""A new study is a folder: a probe and a catalogue of figures give it everything, from the plan to the comparison."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command import Command
from dummy_study.study import Echoes
from scripted_agent import ScriptedPlatform

from stealtime.cli import completion
from stealtime.store.run import find_run
from stealtime.vocabulary.errors import StealtimeError

pytestmark = pytest.mark.usefixtures("echo_study")


@pytest.mark.parametrize(("files", "most"), [("dummy_study/*.py", 105), ("test_dummy_study.py", 95)])
def test_it_is_small(files: str, most: int) -> None:
    assert sum(len(one.read_text().splitlines()) for one in Path(__file__).parent.glob(files)) <= most


def test_it_is_run_and_shown(stealtime: Command, platforms: list[ScriptedPlatform], runs: Path, tmp_path: Path) -> None:
    planned = stealtime("run", "canyon", "--dry-run")
    assert (planned.code, "8 cells" in planned.out) == (0, True), planned.err
    ended = stealtime("run", "canyon", "--junit", str(tmp_path / "cells.xml"))
    assert (ended.code, {trial.probe.name for trial in platforms[0].trials}) == (0, {"wakeup"}), ended.err
    assert "wait for one 1.00 µs (not judged, because there are fewer" in (tmp_path / "cells.xml").read_text()
    stored = find_run("last", runs)
    wanted = {f"{name}.alone.echo-{count}.r{one}" for name in ("native", "uml") for count in (3, 12) for one in (1, 2)}
    assert {trial.record.trial_id for trial in stored.trials} == wanted
    for trial in stored.trials:
        assert [path.name for path in trial.folder.glob("*.parquet")] == ["loudness.parquet"]
        assert pq.read_metadata(trial.table("loudness")).num_rows == trial.result(Echoes).came_back == 1000
    aside = stored.trials[0].table("loudness").rename(tmp_path / "aside")
    with pytest.raises(StealtimeError, match=r"loudness\.parquet"):
        stored.check_tables()
    aside.rename(stored.trials[0].table("loudness"))
    shown = stealtime("show", "--all").out
    assert [" ".join(line.split()) for line in shown.splitlines() if "2,000" in line] == [
        f"{name} echo {count} 1,000 1.00 µs 2,000" for name in ("native", "uml") for count in (3, 12)
    ]
    for told in ("8 trials echoed for want of a reply", "Clock of the samples beside the host's", "Echoes (all: 2x)"):
        assert told in shown
    assert "over the floor" not in shown
    page = (stored.folder / "report.html").read_text()
    assert page.count("<td>1,000</td><td>1.00 µs</td><td>2,000</td>") == 4
    for told in ('<a href="#echo">Echoes</a>', "<h1>What comes back?</h1>", "no echo at all"):
        assert told in page
    assert page.index('id="echo"') < page.index('id="limits"') < page.index('id="environment"')
    assert 'id="answer"' not in page
    assert stealtime("export", "last", "--csv", str(tmp_path / "csv")).code == 0
    first = next(csv.DictReader((tmp_path / "csv/summary.csv").read_text().splitlines()))
    assert [first[name] for name in ("echoes", "wait_ns", "came_back")] == ["1000.0", "1000.0", "2000"]


def test_its_catalogue_tells_what_is_invalid_and_what_limits(stealtime: Command) -> None:
    ended = stealtime("run", "canyon", "-D", "50us", "--json")
    cells = json.loads(ended.out)["cells"]
    told = {(ended.code, cell["valid"], *cell["reasons"], *cell["limits"]) for cell in cells}
    assert told == {(4, False, "the nymph had not begun", "she was cut short")}


def test_it_is_held_against_what_others_claim(stealtime: Command) -> None:
    assert stealtime("run", "canyon", "--repetitions", "4").code == 0
    compared = stealtime("compare", "last", "--published", "metamorphoses")
    assert compared.code == 0, compared.err
    lines = [" ".join(line.replace("\N{MULTIPLICATION SIGN}", "x").split()) for line in compared.out.splitlines()]
    assert [line for line in lines if line.startswith(("alone ", "echo, ", "all "))] == [
        "alone echo, 3 shouts nymph 1,000 1,000 agrees",
        "alone echo, 12 shouts nymph 2,000 1,000 disagrees",
        "alone echo, 3 shouts 1.00x 1.00x agrees",
        "alone echo, 12 shouts 2.00x 1.00x disagrees",
        "echo, 3 shouts 1.00x 1 1.00x 1.00x 1 agrees",
        "echo, 12 shouts 2.00x 1 2.00x 1.00x 1 disagrees",
        "all 1.41x 2 1.41x 1.00x 2 disagrees",
    ]
    assert "Of 7 ratios 3 agree with the paper's, 4 disagree, 0 could not be judged." in compared.out
    document = json.loads(stealtime("compare", "last", "--published", "metamorphoses", "--json").out)
    told = document["groups"][0]["claims"][1]
    assert (document["unit"], told["source"], told["judgement"]["theirs"]) == ("count", "III 501", 2000)
    assert ["III 380: what" in stealtime("show", *more).out for more in (("--paper-tables",), ())] == [True, False]
    assert completion.published("meta") == ["metamorphoses"]


def test_two_runs_of_it_are_compared(stealtime: Command) -> None:
    run = ("run", "canyon", "--repetitions", "4", "--json", "-D")
    first, second = (json.loads(stealtime(*run, duration).out)["run_id"] for duration in ("1ms", "500us"))
    cells = json.loads(stealtime("compare", first, second, "--json").out)["cells"]
    assert [[(one["statistic"], one["verdict"]) for one in cell["statistics"]] for cell in cells] == [
        [("echoes", "no difference shown"), ("wait_ns", "lower")]
    ] * 4
    assert "wait for one  1.00 µs  500 ns  0.500" in " ".join(stealtime("compare", first, second).out.split(" "))
