"""The document behind ``stealtime show --json``."""

from pathlib import Path

import pytest
from synthetic_run import CLOCK_DISAGREES, RT_THROTTLING, SyntheticCell, write_synthetic_run

from stealtime.store.run import Run
from stealtime.studies.latency.analysis.model import RunSummary
from stealtime.studies.latency.analysis.summary import summarize


def tick(repetition: int, worst_ns: float, findings: tuple[dict[str, str | None], ...] = ()) -> SyntheticCell:
    return SyntheticCell(
        "native", "tick", {"loop_ns": 68_000}, 68_000.0, worst_ns, 0.4, 20_000, 250.0, 3_000.0, repetition, findings
    )  # fmt: skip


def test_a_run_is_summarized_cell_by_cell(tmp_path: Path) -> None:
    known = write_synthetic_run(tmp_path / "run")
    summary = summarize(Run.open(known.folder))
    # The longest samples of each trial are for comparing two runs, and in no document.
    assert RunSummary.model_validate_json(summary.model_dump_json()).model_dump() == summary.model_dump()
    cells = {(cell.platform, cell.probe, *cell.parameters.values()): cell for cell in summary.cells}
    native = cells["native", "tick", 68_000]
    truth = known.find("native.alone.tick-68us.r1")
    assert native.valid
    assert native.limits == [RT_THROTTLING["text"]]
    assert native.stats is not None
    assert native.stats.max_ns == pytest.approx(truth.max_ns)
    assert native.stats.max_at_s == pytest.approx(truth.max_at_s)
    assert native.clock is not None
    assert native.clock.alignment_error_bound_ns == 395.0
    assert native.clock.host is not None
    assert native.clock.host.state == "not independent"
    invalid = cells["uml", "switch", 1000]
    assert (invalid.valid, invalid.reasons) == (False, [CLOCK_DISAGREES["text"]])
    assert invalid.stats is not None
    failed = cells["qemu-tcg-emulated", "switch", 10]
    assert (failed.valid, failed.stats, failed.clock) == (False, None, None)
    assert failed.reasons == ["the guest was gone after 3.1 s: Kernel panic"]
    assert all(not cell.periods for cell in summary.cells if cell.probe != "tick")


def test_only_valid_repetitions_are_pooled(tmp_path: Path) -> None:
    cells = [tick(1, 1e6), tick(2, 9e6, (CLOCK_DISAGREES,)), tick(3, 2e6)]
    known = write_synthetic_run(tmp_path / "run", cells=cells)
    (cell,) = summarize(Run.open(known.folder)).cells
    assert cell.stats is not None
    assert (cell.stats.count, round(cell.stats.max_ns)) == (40_000, 2_000_000)
    assert [trial.valid for trial in cell.trials] == [True, False, True]
    assert (cell.valid, cell.reasons) == (False, [CLOCK_DISAGREES["text"]])


def test_the_tick_rate_and_cost_are_found_from_the_samples(tmp_path: Path) -> None:
    known = write_synthetic_run(tmp_path / "run", cells=[tick(1, 1e6)])
    (cell,) = summarize(Run.open(known.folder)).cells
    (period,) = cell.periods
    assert period.rate_hz == pytest.approx(250.0, rel=1e-3)
    assert period.cost_p50_ns == pytest.approx(3_000.0, rel=0.1)
    assert period.coverage > 0.9


def test_a_damaged_trial_is_invalid_and_harms_no_other(tmp_path: Path) -> None:
    known = write_synthetic_run(tmp_path / "run", cells=[tick(1, 1e6), tick(2, 2e6)])
    samples = known.find("native.alone.tick-68us.r2").folder / "samples.parquet"
    samples.write_bytes(samples.read_bytes()[:-9])
    (cell,) = summarize(Run.open(known.folder)).cells
    assert [trial.valid for trial in cell.trials] == [True, False]
    assert str(samples) in cell.reasons[0]
    assert cell.stats is not None
    assert cell.stats.count == 20_000
