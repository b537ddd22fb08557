"""Per-epoch figures, exported while their member still writes."""

from pathlib import Path

import pytest
from pyarrow import parquet

from stealtime.protect.epochs import export_epochs
from stealtime.vocabulary.errors import StealtimeError, UsageError

LINES = "term,epoch,pause_ns,pages\n1,1,7000000,1850\n1,2,6500000,1790\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "epochs.csv"
    path.write_text(LINES)
    return path


def test_epochs_become_a_table_of_whole_numbers(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.parquet"
    assert export_epochs(source, target, vm="phone", host="a") == 2
    table = parquet.read_table(target)
    assert table.column("pause_ns").to_pylist() == [7_000_000, 6_500_000]
    assert table.schema.metadata[b"stealtime.vm"] == b"phone"
    assert {str(field.type) for field in table.schema} == {"int64"}


def test_a_line_that_is_still_being_written_is_left_out(source: Path, tmp_path: Path) -> None:
    source.write_text(LINES + "1,3,65")
    target = tmp_path / "out.csv"
    assert export_epochs(source, target, vm="phone", host="a") == 2
    assert target.read_text() == LINES


def test_what_was_put_aside_for_the_bound_of_the_log_comes_first(source: Path, tmp_path: Path) -> None:
    older = source.with_name("epochs.csv.1")
    older.write_text("term,epoch,pause_ns,pages\n1,0,5000000,1700\n")
    target = tmp_path / "out.csv"
    assert export_epochs(source, target, vm="phone", host="a") == 3
    assert [line.split(",")[:2] for line in target.read_text().splitlines()[1:]] == [["1", "0"], ["1", "1"], ["1", "2"]]
    # The same lines in both: it was put aside while it was read.
    older.write_text(LINES + "1,3,6500000,1790\n")
    assert export_epochs(source, target, vm="phone", host="a") == 2


@pytest.mark.parametrize("newer", [None, "", "term,epo", "term,epoch,pause_ns,pages\n"])
def test_what_was_just_put_aside_is_exported_before_a_new_line_is_there(
    source: Path, tmp_path: Path, newer: str | None
) -> None:
    source.rename(source.with_name("epochs.csv.1"))
    if newer is not None:
        source.write_text(newer)
    target = tmp_path / "out.csv"
    assert export_epochs(source, target, vm="phone", host="a") == 2
    assert target.read_text() == LINES


@pytest.mark.parametrize("text", ["", "term,epoch\n", "term,epo"])
def test_figures_that_are_not_there_yet_are_told(source: Path, tmp_path: Path, text: str) -> None:
    source.write_text(text)
    with pytest.raises(StealtimeError, match="holds no epoch yet"):
        export_epochs(source, tmp_path / "out.csv", vm="phone", host="a")


@pytest.mark.parametrize("text", ["term,epoch\n1,2\n1,x\n", "term,epoch\n1,2\n1,2,3\n"])
def test_damaged_figures_are_told_and_nothing_is_written(source: Path, tmp_path: Path, text: str) -> None:
    source.write_text(text)
    target = tmp_path / "out.parquet"
    with pytest.raises(StealtimeError, match="is damaged"):
        export_epochs(source, target, vm="phone", host="a")
    assert not target.exists()


def test_another_kind_of_file_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"neither \*\.parquet nor \*\.csv"):
        export_epochs(source, tmp_path / "out.xlsx", vm="phone", host="a")
    with pytest.raises(StealtimeError, match="cannot be read"):
        export_epochs(tmp_path / "nothing.csv", tmp_path / "out.csv", vm="phone", host="a")
