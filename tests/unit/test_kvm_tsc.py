"""The offset of a guest's counter, from debugfs as KVM writes it."""

from pathlib import Path

import pytest

from stealtime.lab.platforms.kvm_tsc import tsc_offset, unchanged
from stealtime.vocabulary.readings import Absent, Value


@pytest.fixture
def vcpu(tmp_path: Path) -> Path:
    folder = tmp_path / "4711-11" / "vcpu0"
    folder.mkdir(parents=True)
    (tmp_path / "4712-11").mkdir()
    (tmp_path / "exits").touch()
    (folder / "tsc-offset").write_text("-26815046525\n")
    return folder


def test_the_offset_is_read(tmp_path: Path, vcpu: Path) -> None:
    assert tsc_offset(4711, 0, tmp_path) == Value(value=-26815046525)


@pytest.mark.parametrize(("ratio", "expected"), [("4294967296", Value), ("4294967297", Absent)])
def test_a_scaled_counter_has_no_offset(tmp_path: Path, vcpu: Path, ratio: str, expected: type) -> None:
    (vcpu / "tsc-scaling-ratio").write_text(ratio)
    (vcpu / "tsc-scaling-ratio-frac-bits").write_text("32")
    assert isinstance(tsc_offset(4711, 0, tmp_path), expected)


def test_what_is_not_there_is_absent_with_the_reason(tmp_path: Path, vcpu: Path) -> None:
    assert tsc_offset(9, 0, tmp_path) == Absent(absent=f"{tmp_path} holds 0 machines of process 9, not one")
    missing = tsc_offset(4711, 1, tmp_path)
    assert isinstance(missing, Absent)
    assert "vcpu1/tsc-offset: No such file" in missing.absent
    (tmp_path / "4711-12").mkdir()
    assert "holds 2 machines" in str(tsc_offset(4711, 0, tmp_path))


def test_an_offset_that_moved_is_none() -> None:
    assert unchanged(Value(value=5), Value(value=5)) == Value(value=5)
    assert "from 5 to 6 cycles" in str(unchanged(Value(value=5), Value(value=6)))
    gone = Absent(absent="gone")
    assert unchanged(Value(value=5), gone) == gone
    assert unchanged(gone, Value(value=5)) == gone
