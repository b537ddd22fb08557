"""The tables of docs/figures.md come from runs that it names."""

from dataclasses import replace
from pathlib import Path

import pytest
from figures.tables import campaigns_of, put_into, rows_of
from synthetic_run import RT_THROTTLING, SyntheticCell, write_synthetic_run

from stealtime.store.run import Run
from stealtime.vocabulary.errors import UsageError

NATIVE = SyntheticCell(
    "native", "tick", {"loop_ns": 68_000}, 68_000.0, 51.7e6, 0.4, 20_000, 250.0, 3_000.0, findings=(RT_THROTTLING,)
)


def test_the_answer_has_intervals_ratios_and_no_pause(tmp_path: Path) -> None:
    cells = [
        replace(NATIVE, platform=platform, repetition=number, findings=findings)
        for platform, findings in (("native", (RT_THROTTLING,)), ("uml", ()))
        for number in range(1, 6)
    ]
    rows = list(rows_of(Run.open(write_synthetic_run(tmp_path / "run", cells=cells).folder)))
    steady, longest = (rows.index(f"| {first} | tick 68us |") for first in (
        "99.9th percentile over the floor", "longest over the floor"))  # fmt: skip
    assert rows[steady + 2].startswith("| native | ")
    assert "native" in rows[longest + 2]
    assert "ms" not in rows[longest + 2], "the longest native sample is a pause of the limit"
    assert "51.6 ms" in rows[longest + 3]
    assert "\N{MULTIPLICATION SIGN} (" in rows[steady + 3]
    assert any("They count for no maximum and no ratio" in row for row in rows)


PAGE = Path(__file__).parents[3] / "docs" / "figures.md"


def test_the_page_has_a_block_for_each_of_its_campaigns() -> None:
    assert campaigns_of(PAGE.read_text()) == ["quick", "hyperv2013"]


def test_a_block_is_replaced_as_a_whole_and_names_its_run(tmp_path: Path) -> None:
    run = Run.open(
        write_synthetic_run(tmp_path / "20261121T195500Z-quick-3f2a", cells=[NATIVE], campaign="quick").folder
    )
    before = PAGE.read_text()
    after = put_into(before, run)
    assert f"Run `{run.run_id}` of {run.manifest.created_at:%Y-%m-%d}: " in after
    assert put_into(after, run) == after
    head, _, rest = before.partition("<!-- figures of quick")
    assert after.startswith(head)
    assert after.endswith(rest.partition("<!-- end of figures -->")[2])


def test_a_run_of_another_campaign_is_refused(tmp_path: Path) -> None:
    run = Run.open(write_synthetic_run(tmp_path / "run", cells=[NATIVE]).folder)
    with pytest.raises(UsageError, match="no figures of synthetic"):
        put_into(PAGE.read_text(), run)
