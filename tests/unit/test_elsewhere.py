"""Samples that stay with their host, or lie in a store by their hash, and are fetched when they are asked for."""

import json
from pathlib import Path

import pytest
from synthetic_run import write_synthetic_run

from stealtime.merging.merging import merge
from stealtime.store.elsewhere import samples_at_hand
from stealtime.store.export import read_samples
from stealtime.store.run import Run, Trial
from stealtime.store.travelling import has_counts, read_counts
from stealtime.studies.latency.analysis.series import load_series
from stealtime.vocabulary.errors import StealtimeError


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.open(write_synthetic_run(tmp_path / "host").folder)


def _first(run: Run) -> Trial:
    return next(trial for trial in run.trials if has_counts(trial))


def test_counts_give_the_figures_of_all_samples(run: Run) -> None:
    for trial in filter(has_counts, run.trials):
        counted, figures = read_counts(trial), load_series(trial).summary()
        assert counted.counts.samples == figures["count"]
        told = {500: figures["p50_ns"], 900: figures["p90_ns"], 999: figures["p999_ns"]}
        for numerator, value_ns in told.items():
            ours_ns = counted.counts.percentile(numerator, 1_000) * 1e9 / counted.units_per_s
            assert ours_ns == pytest.approx(value_ns)
        assert counted.counts.duration[-1] * 1e9 / counted.units_per_s == pytest.approx(figures["max_ns"])


def test_samples_stay_until_they_are_asked_for(run: Run, tmp_path: Path) -> None:
    merged = Run.open(merge([run], tmp_path / "merged").folder)
    trial = _first(merged)
    assert not (trial.folder / "samples.parquet").exists()
    assert samples_at_hand(merged)
    samples = sum(batch.num_rows for batch in read_samples(trial))
    assert samples == read_counts(trial).counts.samples
    assert (trial.folder / "samples.parquet").exists()


def test_a_store_keeps_them_by_their_hash(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    merged = Run.open(merge([run], tmp_path / "merged", f"file://{tmp_path}/store").folder)
    trial = _first(merged)
    notes = json.loads((merged.folder / "elsewhere.json").read_text())["trials"]
    note = notes[trial.folder.name]["files"]["samples.parquet"]
    stored = tmp_path / "store" / note["sha256"][:2] / f"{note['sha256']}.parquet"
    assert stored.is_file()
    for host in run.folder.glob("cells/*/samples.parquet"):
        host.unlink()
    stored.rename(moved := stored.with_suffix(".away"))
    with pytest.raises(StealtimeError, match="stayed with"):
        trial.tables("samples")
    assert not samples_at_hand(merged)
    monkeypatch.setenv("STEALTIME_SAMPLES", f"file://{tmp_path}/other")
    other = tmp_path / "other" / note["sha256"][:2] / f"{note['sha256']}.parquet"
    other.parent.mkdir(parents=True)
    moved.rename(other)
    assert trial.tables("samples")[0].is_file()


def test_another_file_is_not_taken_for_it(run: Run, tmp_path: Path) -> None:
    merged = Run.open(merge([run], tmp_path / "merged").folder)
    for host in run.folder.glob("cells/*/samples.parquet"):
        host.write_bytes(host.read_bytes() + b"x")
    with pytest.raises(StealtimeError, match="has another content"):
        _first(merged).tables("samples")


def test_they_can_be_taken_along(run: Run, tmp_path: Path) -> None:
    merged = Run.open(merge([run], tmp_path / "merged", "here").folder)
    assert (_first(merged).folder / "samples.parquet").is_file()
    assert not (merged.folder / "elsewhere.json").exists()


def test_a_merged_run_of_an_earlier_version_is_read_and_merged_again(run: Run, tmp_path: Path) -> None:
    merged = Run.open(merge([run], tmp_path / "merged").folder)
    file = merged.folder / "elsewhere.json"
    for name, note in json.loads(file.read_text())["trials"].items():
        (merged.folder / "cells" / name / "elsewhere.json").write_text(json.dumps(note))
    file.unlink()
    assert samples_at_hand(merged)
    again = Run.open(merge([merged], tmp_path / "again").folder)
    assert not list(again.folder.glob("cells/*/elsewhere.json"))
    assert (again.folder / "elsewhere.json").is_file()
    for one in (merged, again):
        assert sum(batch.num_rows for batch in read_samples(_first(one))) > 0


def test_a_damaged_note_is_told(run: Run, tmp_path: Path) -> None:
    merged = Run.open(merge([run], tmp_path / "merged").folder)
    (merged.folder / "elsewhere.json").write_text("{")
    with pytest.raises(StealtimeError, match=r"elsewhere\.json is damaged"):
        _first(merged).tables("samples")
    assert not samples_at_hand(merged)
