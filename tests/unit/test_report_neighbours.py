"""Neighbours in the report: their times on the time line of the samples, their load and rate in words."""

from dataclasses import replace
from pathlib import Path

import pytest
from latency_page import content_of
from synthetic_neighbours import SCALED, add_neighbour
from synthetic_run import UNITS_PER_S, KnownRun, SyntheticCell, write_synthetic_run

from stealtime.report.neighbours import MOST_BANDS, HostReading, bands_of, host_readings, surroundings_of
from stealtime.store.model import TrialRecord
from stealtime.store.run import Run, Trial

NATIVE = SyntheticCell("native", "tick", {"loop_ns": 68_000}, 68_000.0, 3e6, 0.3, 3_000)
PHASES_S = [(0.0, 0.05), (0.1, 0.15)]


@pytest.fixture
def known(tmp_path: Path) -> KnownRun:
    return write_synthetic_run(tmp_path / "run", cells=[NATIVE, replace(NATIVE, platform="uml")])


def record_of(folder: Path) -> TrialRecord:
    return TrialRecord.model_validate_json((folder / "trial.json").read_bytes())


def origin_of(folder: Path) -> float:
    outcome = record_of(folder).outcome
    assert outcome is not None
    return float(outcome.clock.origin_units)


def folder_of(known: KnownRun, platform: str) -> Path:
    return known.find(f"{platform}.alone.tick-68us.r1").folder


def trial_of(known: KnownRun, platform: str) -> Trial:
    return next(trial for trial in Run.open(known.folder).trials if trial.record.cell.platform == platform)


def test_native_bands_lie_where_the_load_was_on(known: KnownRun) -> None:
    folder = folder_of(known, "native")
    add_neighbour(folder, PHASES_S, origin_of(folder), UNITS_PER_S)
    bands = bands_of(trial_of(known, "native"), [])
    assert bands is not None
    assert [pytest.approx(span, abs=2e-6) for span in PHASES_S] == list(bands.spans_s)


def test_bands_of_a_guest_are_moved_by_its_clock_and_the_hosts(known: KnownRun) -> None:
    folder = folder_of(known, "uml")
    record = record_of(folder)
    assert record.alignment is not None
    before = record.alignment.before
    # The guest's counter lies 7 s behind the host's, and so does its sample 0.
    behind = 7 * UNITS_PER_S
    host_tsc_then = before.machine_tsc + behind
    add_neighbour(folder, PHASES_S, origin_of(folder) + behind, UNITS_PER_S)
    # Read a second later, by somebody else, in the same boot.
    reading = HostReading(round(host_tsc_then + UNITS_PER_S), before.host_monotonic_raw_ns + 1_000_000_000, UNITS_PER_S)
    bands = bands_of(trial_of(known, "uml"), [reading])
    assert bands is not None
    assert [pytest.approx(span, abs=2e-6) for span in PHASES_S] == list(bands.spans_s)


def test_bands_of_a_guest_without_any_reading_of_the_host_say_why(known: KnownRun) -> None:
    folder = folder_of(known, "uml")
    add_neighbour(folder, PHASES_S, origin_of(folder), UNITS_PER_S)
    bands = bands_of(trial_of(known, "uml"), [])
    assert bands is not None
    assert bands.spans_s == ()
    assert bands.absent_because == "no trial of this run read the host's own clocks"


def test_rows_of_one_phase_are_one_band_and_too_many_are_counted(known: KnownRun) -> None:
    folder = folder_of(known, "native")
    cut = [(0.0, 1.0), (1.0, 2.0), (2.0, 2.5)]
    pauses = [(3.0 + 0.01 * number, 3.005 + 0.01 * number) for number in range(MOST_BANDS + 9)]
    add_neighbour(folder, [*cut, *pauses], origin_of(folder), UNITS_PER_S)
    bands = bands_of(trial_of(known, "native"), [])
    assert bands is not None
    assert bands.spans_s[0] == pytest.approx((0.0, 2.5), abs=2e-6)
    assert (len(bands.spans_s), bands.left_out) == (MOST_BANDS, 10)


def test_trial_alone_has_no_bands(known: KnownRun) -> None:
    assert bands_of(trial_of(known, "native"), []) is None


def test_native_trials_and_processes_read_the_hosts_clocks(known: KnownRun) -> None:
    records = [trial.record for trial in Run.open(known.folder).trials]
    assert len(host_readings(records)) == 1


def test_neighbours_and_placement_are_told_in_words(known: KnownRun) -> None:
    folder = folder_of(known, "uml")
    add_neighbour(folder, PHASES_S, origin_of(folder), UNITS_PER_S)
    around = surroundings_of("alone", Run.open(known.folder))
    assert around is not None
    (line,) = around.neighbours
    assert (line.platform, line.name, line.what) == ("uml", "neighbour 1", "machine (uml)")
    assert line.load == "copies 9 MB, on 5s, off 5s"
    assert line.where == "CPU 1, at most 50 % of a CPU"
    assert line.rate == "4.5 GB/s"
    assert around.scaled == SCALED
    assert around.placements == ("vCPU 0 on CPUs 0-1, roaming; emulator on 0",)
    assert content_of(Run.open(known.folder)).surroundings["alone"] == around
