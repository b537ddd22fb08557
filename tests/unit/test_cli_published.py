"""``compare --published`` and ``show --paper-tables`` on a made-up run on disk: text, documents, exit codes."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from command import Command, make_command
from synthetic_run import CLOCK_DISAGREES, RT_THROTTLING, SyntheticCell, write_synthetic_run

from stealtime.report.claims.library import find_published
from stealtime.report.interval import REPETITIONS_MIN
from stealtime.schemas import DOCUMENTS

SCENARIOS = ("one-to-all", "contention-cpu")
SAMPLES = 6_000


@pytest.fixture
def stealtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command with the runs of ``tmp_path``."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    return make_command(monkeypatch, capsys)


def synthetic(platform: str, scenario: str, test: str, worst_ns: float) -> SyntheticCell:
    probe, _, threads = test.partition("-")
    parameters = {"threads": int(threads)} if threads else {"loop_ns": 68_000}
    # The floor of a switch is far below the paper's smallest figure.
    floor_ns = 68_000.0 if probe == "tick" else 300.0
    longest_ns = worst_ns + floor_ns if probe == "tick" else worst_ns
    return SyntheticCell(
        platform, probe, parameters, floor_ns, longest_ns, 0.4, SAMPLES, tick_cost_ns=0.0, scenario=scenario
    )


def papers_cells() -> list[SyntheticCell]:
    """Every cell of two scenarios with the paper's maxima."""
    published = find_published("hyperv2013")
    platforms = {"emulated": "qemu-tcg-emulated", "paravirt": "qemu-tcg-paravirt"}
    return [
        synthetic(platform, row.scenario, row.test, published.figure(row, role))
        for row in published.rows
        if row.scenario in SCENARIOS
        for role, platform in platforms.items()
    ]


def write(tmp_path: Path, cells: list[SyntheticCell], campaign: str = "hyperv2013") -> None:
    folder = tmp_path / "stealtime" / "runs" / f"20261121T200000Z-{campaign}-3f2a"
    folder.parent.mkdir(parents=True)
    repeated = [replace(cell, repetition=number) for cell in cells for number in range(1, REPETITIONS_MIN + 1)]
    write_synthetic_run(folder, cells=repeated, campaign=campaign, skipped={"two-to-all-memory": "it needs 3 CPUs"})


def test_a_run_is_put_beside_the_paper(stealtime: Command, tmp_path: Path) -> None:
    write(tmp_path, papers_cells())
    ended = stealtime("compare", "last", "--published", "hyperv2013")
    assert ended.code == 4, "five scenarios were not measured"
    assert ended.err == ""
    assert "Table 7: thread switch latency, maximum between threads" in ended.out
    assert "qemu-tcg-emulated, the devices of a PC, emulated, on TCG" in ended.out
    assert "3 / 1" in ended.out
    # 6 emulated/paravirt, 6 of growth, 4 means.
    assert "Of 57 claims 16 agree with the paper's, 0 disagree, 41 could not be judged." in ended.out
    assert "the scenario two-to-all-memory was skipped: it needs 3 CPUs" in ended.out


def test_the_document_is_the_one_that_the_schema_describes(stealtime: Command, tmp_path: Path) -> None:
    write(tmp_path, papers_cells())
    ended = stealtime("compare", "last", "--published", "hyperv2013", "--json")
    assert (ended.code, ended.err) == (4, "")
    document = json.loads(ended.out)
    schema = DOCUMENTS["published"].schema()
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "rows": None}, schema)
    assert (document["schema_version"], document["published"]) == (4, "hyperv2013")
    emulated = document["rows"][0]["figures"][1]
    assert emulated["theirs"] == 4_350_000
    assert emulated["ours"] == pytest.approx(4_350_000, rel=1e-4)
    assert emulated["samples"] == REPETITIONS_MIN * SAMPLES


def test_traced_scaled_and_invalid_cells_on_disk_are_known_as_such(stealtime: Command, tmp_path: Path) -> None:
    cells = [replace(cell, scaled="2 CPUs for 4") for cell in papers_cells()]
    cells[0] = replace(cells[0], scaled=None, findings=(CLOCK_DISAGREES,))
    cells[1] = replace(cells[1], findings=(RT_THROTTLING,), worst_ns=75e6)
    traced = replace(synthetic("native", "one-to-all", "tick", 1e4), traced=True)
    write(tmp_path, [*cells, traced])
    document = json.loads(stealtime("compare", "last", "--published", "hyperv2013", "--json").out)
    judged = [claim["judgement"] for claim in document["groups"][0]["claims"]]
    assert {one["verdict"] for one in judged} == {"not judged"}
    assert "qemu-tcg-emulated is invalid in one-to-all: the time-stamp counter ran" in judged[0]["because"]
    assert "may hold a pause of RT throttling (up to 50 ms)" in judged[0]["because"]
    assert "the scenario one-to-all was scaled: 2 CPUs for 4" in judged[1]["because"]
    assert document["rows"][0]["figures"][0]["ours"] is None, "only a traced cell is there"
    assert "traced cells left out, because of the tracing overhead: 1" in document["differences"]


def test_a_run_without_a_fitting_cell_ends_with_4_and_says_why(stealtime: Command, tmp_path: Path) -> None:
    write(tmp_path, [synthetic("native", "alone", "tick", 1e4)], "quick")
    for command in (("compare", "last", "--published", "hyperv2013"), ("show", "last", "--paper-tables")):
        ended = stealtime(*command)
        assert (ended.code, ended.out) == (4, "")
        assert "(campaign quick) has no untraced cell of which hyperv2013 has figures" in ended.err
        assert "hint: measure one with `stealtime run hyperv2013 --short`" in ended.err
    assert stealtime("show", "last").code == 0


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("last", "--published", "hyperv13"), "no published figures named 'hyperv13'", "did you mean 'hyperv2013'?"),
        (("last",), "compare needs a second run, or --published with a name", "use `stealtime compare RUN RUN`"),
        (("last", "last", "--published", "hyperv2013"), "a second run ('last') and --published 'hyperv2013'", "use `"),
        (("nothing", "--published", "hyperv2013"), "there is no run 'nothing'", "see `stealtime ls`"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence_and_a_hint(
    stealtime: Command, tmp_path: Path, arguments: tuple[str, ...], message: str, hint: str
) -> None:
    write(tmp_path, [synthetic("native", "one-to-all", "tick", 1e4)])
    ended = stealtime("compare", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert f"hint: {hint}" in ended.err


def test_show_begins_with_the_papers_tables_if_the_campaign_redoes_it(stealtime: Command, tmp_path: Path) -> None:
    write(tmp_path, papers_cells())
    ended = stealtime("show", "last")
    assert ended.code == 0
    assert ended.out.index("Table 2: clock tick") < ended.out.index("One in a thousand")
    assert "Table 15" not in ended.out, "nothing of scenario 7 was measured"
    assert "the scenario two-to-all-memory was skipped: it needs 3 CPUs" in ended.out
    assert "Table 2" not in stealtime("show", "last", "--no-paper-tables").out
    assert json.loads(stealtime("show", "last", "--json").out)["skipped"] == {"two-to-all-memory": "it needs 3 CPUs"}
