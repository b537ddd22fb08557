"""Which CPUs may be used: an inherited affinity is respected, but is no limit."""

import os
import threading
from pathlib import Path

import pytest

from stealtime.lab.processors import CpuSets, granted_cpus, read_cpu_sets

ALL = (0, 1, 2, 3)


def test_after_isolcpus_the_isolated_cpus_are_measured_and_all_is_every_cpu() -> None:
    confined = CpuSets(inherited=(0, 1), granted=ALL, isolated=(2, 3))
    assert (confined.preferred, confined.usable) == ((2, 3), ALL)
    assert confined.remark == "the kernel keeps CPU 2-3 free (isolcpus): it is measured by default"


@pytest.mark.parametrize(("inherited", "isolated"), [((0,), (3,)), ((0,), ()), ((3,), (2, 3))])
def test_a_deliberate_taskset_is_respected_and_said(inherited: tuple[int, ...], isolated: tuple[int, ...]) -> None:
    chosen = CpuSets(inherited=inherited, granted=ALL, isolated=isolated)
    assert (chosen.preferred, chosen.usable) == (inherited, inherited)
    assert "the kernel grants CPU 0-3" in str(chosen.remark)


def test_where_everything_is_inherited_nothing_is_said() -> None:
    assert CpuSets(ALL, ALL).remark is None
    assert CpuSets(ALL, ALL).preferred == ALL
    assert CpuSets(ALL, ALL, isolated=(1,)).preferred == (1,)


def test_cpus_without_a_tick_are_measured_where_none_is_isolated() -> None:
    assert CpuSets(ALL, ALL, tickless=(2,)).preferred == (2,)
    # nohz_full confines nobody, so this was a taskset.
    assert CpuSets((0,), ALL, tickless=(2,)).preferred == (0,)


def test_a_confined_thread_still_learns_what_the_kernel_grants(tmp_path: Path) -> None:
    (tmp_path / "isolated").write_text("\n")
    (tmp_path / "nohz_full").write_text("(null)\n")
    everything, found = granted_cpus(), list[CpuSets]()

    def look() -> None:
        os.sched_setaffinity(0, {everything[0]})
        found.append(read_cpu_sets(tmp_path))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [CpuSets(inherited=everything[:1], granted=everything)]


def test_only_cpus_that_are_granted_count_as_isolated(tmp_path: Path) -> None:
    everything = granted_cpus()
    (tmp_path / "isolated").write_text(f"{everything[-1]},4711\n")
    assert read_cpu_sets(tmp_path).isolated == everything[-1:]
