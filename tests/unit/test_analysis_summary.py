"""The document behind ``stealtime show --json``."""

import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from latency_page import content_of
from synthetic_run import CLOCK_DISAGREES, RT_THROTTLING, SyntheticCell, write_synthetic_run

from stealtime.store.run import Run
from stealtime.studies.latency.analysis import series
from stealtime.studies.latency.analysis.model import RunSummary
from stealtime.studies.latency.analysis.summary import summarize


def tick(repetition: int, worst_ns: float, findings: tuple[dict[str, str | None], ...] = ()) -> SyntheticCell:
    return SyntheticCell(
        "native", "tick", {"loop_ns": 68_000}, 68_000.0, worst_ns, 0.4, 20_000, 250.0, 3_000.0, repetition, findings
    )  # fmt: skip


def wakeup(repetition: int, count: int) -> SyntheticCell:
    return SyntheticCell(
        "native", "wakeup", {"interval_ns": 1_000_000}, 1_900.0, 410_000.0, 0.4, count, repetition=repetition
    )


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


def test_the_samples_of_one_repetition_are_there_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns: list[weakref.ref[Any]] = []
    most = 0
    make = series._column

    def counted(rows: int) -> Any:
        nonlocal most
        column = make(rows)
        columns.append(weakref.ref(column))
        most = max(most, sum(one() is not None for one in columns))
        return column

    monkeypatch.setattr(series, "_column", counted)
    monkeypatch.setattr(series, "KEPT_SAMPLES", 0)
    known = write_synthetic_run(tmp_path / "run", cells=[tick(number, 1e6 * number) for number in range(1, 6)])
    run = Run.open(known.folder)
    (cell,) = summarize(run).cells
    assert cell.stats is not None
    assert (cell.stats.count, round(cell.stats.max_ns)) == (100_000, 5_000_000)
    content_of(run)
    assert len(columns) > 5
    assert most <= 2, "the one that was read last is kept until the next is there"


FIGURES = """
import sys, threading
from pathlib import Path
from stealtime.store.run import Run
from stealtime.studies.latency.analysis.summary import summarize

def anonymous_kib():
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0])

def watch():
    global most
    while not over.wait(0.002):
        most = max(most, anonymous_kib())

small, large = (Run.open(Path(folder)) for folder in sys.argv[1:])
summarize(small)
before = most = anonymous_kib()
over = threading.Event()
watching = threading.Thread(target=watch)
watching.start()
(cell,) = summarize(large).cells
over.set()
watching.join()
print(most - before, cell.stats.count)
"""


def lengthen(samples: Path, rows: int) -> None:
    """Have the same durations again and again."""
    table = pq.read_table(samples)
    durations = np.resize(table["duration"].to_numpy(), rows)
    longer = pa.table({"duration": durations}).replace_schema_metadata(table.schema.metadata)
    pq.write_table(longer, samples, row_group_size=1 << 20)


def test_the_figures_of_a_long_run_need_no_memory_for_its_samples(tmp_path: Path) -> None:
    """What is in files the kernel takes out of memory when a group has no more: 512 MiB do for eight half hours.

    The first run has loaded all that figures are made with.
    """
    rows, trials = 6_000_000, 8
    for name, count in (("small", 1), ("large", trials)):
        known = write_synthetic_run(tmp_path / name, cells=[wakeup(number, 20_000) for number in range(1, 1 + count)])
        for trial in known.cells.values():
            lengthen(trial.folder / "samples.parquet", rows if name == "large" else 2 << 20)
    ended = subprocess.run(
        [sys.executable, "-c", FIGURES, str(tmp_path / "small"), str(tmp_path / "large")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    grown_kib, count = map(int, ended.stdout.split())
    assert count == trials * rows
    # One trial needs its column two to three times, depending on how far the reader is ahead.
    assert grown_kib << 10 < 4 * rows * trials / 2, "half of all samples"
