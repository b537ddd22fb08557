"""The rows of the README's tables come from a run."""

from dataclasses import replace
from pathlib import Path

from readme.tables import rows_of

from stealtime.store.run import Run
from synthetic_run import RT_THROTTLING, SyntheticCell, write_synthetic_run

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
        "one in a thousand over the floor, or more", "longest over the floor"))  # fmt: skip
    assert rows[steady + 2].startswith("| native | ")
    assert "native" in rows[longest + 2]
    assert "ms" not in rows[longest + 2], "the longest native sample is a pause of the limit"
    assert "51.6 ms" in rows[longest + 3]
    assert "\N{MULTIPLICATION SIGN} (" in rows[steady + 3]
    assert any("They count for no maximum and no ratio" in row for row in rows)
