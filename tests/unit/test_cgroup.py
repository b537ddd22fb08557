"""CPU groups on fabricated trees of both versions: what is written where, and that nothing is left."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from stealtime.lab.platforms.cgroup import CpuHierarchy, clear_groups, cpu_group, find_hierarchy
from stealtime.lab.platforms.failure import CpuGroupError
from stealtime.lab.platforms.process import run_mark
from stealtime.lab.platforms.realtime_share import allow_realtime
from stealtime.lab.platforms.share import Share
from stealtime.lab.platforms.throttling import Throttling, parse_throttling, throttling_between
from stealtime.vocabulary.readings import Absent, Value

HALF = Share(quota_percent=50, weight=200)


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def read(root: Path) -> dict[str, str]:
    return {str(file.relative_to(root)): file.read_text() for file in sorted(root.rglob("*")) if file.is_file()}


def take_kernel_files_away(root: Path) -> None:
    """In a real tree a group's files vanish with it; here they would keep its folder."""
    for file in (root / "stealtime").rglob("*"):
        if file.is_file():
            file.unlink()


def weights_above(group: Path) -> list[str]:
    return [(folder / "cpu.shares").read_text() for folder in (group.parent, group.parent.parent)]


def mounts(tmp_path: Path, *lines: str) -> Path:
    file = tmp_path / "mounts"
    file.write_text("".join(f"{line}\n" for line in ("proc /proc proc rw 0 0", *lines)))
    return file


def test_the_controller_is_found_in_v2(tmp_path: Path) -> None:
    write(tmp_path / "v 2", {"cgroup.controllers": "cpuset cpu io memory\n"})
    point = str(tmp_path / "v 2").replace(" ", r"\040")
    assert find_hierarchy(mounts(tmp_path, f"cgroup2 {point} cgroup2 rw 0 0")) == CpuHierarchy(2, tmp_path / "v 2")


def test_on_a_hybrid_host_the_controller_is_found_where_it_is(tmp_path: Path) -> None:
    write(tmp_path / "unified", {"cgroup.controllers": "memory\n"})
    lines = [
        f"cgroup2 {tmp_path / 'unified'} cgroup2 rw 0 0",
        f"cgroup {tmp_path / 'cpuset'} cgroup rw,relatime,cpuset 0 0",
        f"cgroup {tmp_path / 'both'} cgroup rw,relatime,cpu,cpuacct 0 0",
    ]
    assert find_hierarchy(mounts(tmp_path, *lines)) == CpuHierarchy(1, tmp_path / "both")


def test_without_the_controller_it_is_said_what_there_is(tmp_path: Path) -> None:
    write(tmp_path / "unified", {"cgroup.controllers": "memory pids\n"})
    line = f"cgroup2 {tmp_path / 'unified'} cgroup2 rw 0 0"
    with pytest.raises(CpuGroupError, match="unified offers memory pids"):
        find_hierarchy(mounts(tmp_path, line))
    with pytest.raises(CpuGroupError, match=r"in no cgroup hierarchy that is mounted here$"):
        find_hierarchy(mounts(tmp_path))


async def test_a_group_of_v2_is_reached_by_the_controller_and_set(tmp_path: Path) -> None:
    write(tmp_path, {"cgroup.subtree_control": "memory\n"})
    mark = run_mark()
    async with cpu_group("machine", HALF, hierarchy=CpuHierarchy(2, tmp_path)) as group:
        assert read(tmp_path) == {
            "cgroup.subtree_control": "+cpu",
            "stealtime/cgroup.subtree_control": "+cpu",
            "stealtime/cpu.weight": "200",
            f"stealtime/{mark}/cgroup.subtree_control": "+cpu",
            f"stealtime/{mark}/cpu.weight": "200",
            f"stealtime/{mark}/machine/cpu.max": "50000 100000",
            f"stealtime/{mark}/machine/cpu.weight": "200",
        }
        (group.path / "cpu.stat").write_text("usage_usec 5\nnr_periods 40\nnr_throttled 3\nthrottled_usec 1200\n")
        assert group.read_throttling() == Throttling(Value(value=40), Value(value=3), Value(value=1_200_000))
        take_kernel_files_away(tmp_path)
    assert not (tmp_path / "stealtime").exists()


async def test_what_hands_the_controller_down_already_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path, {"cgroup.subtree_control": "cpuset cpu io\n"})
    async with cpu_group("machine", HALF, hierarchy=CpuHierarchy(2, tmp_path)):
        assert (tmp_path / "cgroup.subtree_control").read_text() == "cpuset cpu io\n"
        take_kernel_files_away(tmp_path)


async def test_a_group_of_v1_is_set_in_its_words(tmp_path: Path) -> None:
    async with cpu_group("machine", HALF, hierarchy=CpuHierarchy(1, tmp_path)) as group:
        assert read(group.path) == {
            "cpu.cfs_period_us": "100000",
            "cpu.cfs_quota_us": "50000",
            "cpu.shares": "2048",
        }
        assert isinstance(group.read_throttling().throttled_ns, Absent)
        async with cpu_group("neighbour-1", Share(weight=100), hierarchy=CpuHierarchy(1, tmp_path)) as other:
            assert read(other.path) == {"cpu.shares": "1024"}
            assert weights_above(group.path) == ["3072", "3072"], "ours weigh as much as all that is in them"
            (other.path / "cpu.shares").unlink()
        assert group.path.exists(), "the group of one machine must outlive that of another"
        assert weights_above(group.path) == ["2048", "2048"]
        take_kernel_files_away(tmp_path)
    assert read(tmp_path) == {}
    assert not (tmp_path / "stealtime").exists()


async def test_a_group_that_cannot_be_made_is_told_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "stealtime").write_text("a file where the folder should be")
    with pytest.raises(CpuGroupError, match=r"the CPU group .*stealtime.* cannot be made: .*") as caught:
        async with cpu_group("machine", HALF, hierarchy=CpuHierarchy(1, tmp_path)):
            pytest.fail("there is no group")
    assert "root" in str(caught.value.hint)


def test_the_groups_of_dead_control_planes_go_with_all_that_is_in_them(tmp_path: Path) -> None:
    root = tmp_path / "cpu"
    for group in ("dead:1.00/machine/inner/most", "dead:1.00/neighbour-1", "alive:2.00/machine"):
        (root / "stealtime" / group).mkdir(parents=True)
    file = mounts(tmp_path, f"cgroup {root} cgroup rw,cpu 0 0")
    assert clear_groups(lambda mark: mark == "dead:1.00", file) == [f"CPU group {root}/stealtime/dead:1.00"]
    assert sorted(path.name for path in (root / "stealtime").rglob("*")) == ["alive:2.00", "machine"]
    assert clear_groups(lambda mark: True, file) == [f"CPU group {root}/stealtime/alive:2.00"]
    assert not (root / "stealtime").exists()
    assert clear_groups(lambda mark: True, mounts(tmp_path)) == []


def test_a_counter_that_went_backwards_is_no_count() -> None:
    before = parse_throttling("nr_periods 10\nnr_throttled 4\nthrottled_time 500\n", 1)
    after = parse_throttling("nr_periods 12\nnr_throttled 4\nthrottled_time 100\n", 1)
    assert throttling_between(before, after) == Throttling(Value(value=2), Value(value=0), Absent(absent="reset"))
    nothing = parse_throttling("usage_usec 5\n", 2)
    assert nothing.throttled_ns == Absent(absent="cpu.stat has no throttled_usec")
    assert throttling_between(nothing, after).periods == Absent(absent="cpu.stat has no nr_periods")


async def test_a_trial_that_lifts_rt_throttling_is_not_bound(tmp_path: Path) -> None:
    async with cpu_group("machine", HALF, hierarchy=CpuHierarchy(1, tmp_path)) as ordinary:
        assert ordinary.findings_for(lift_rt_throttling=True) == (), "it does not concern ordinary threads"
        bound = replace(ordinary, holds_realtime=True)
        assert bound.findings_for(lift_rt_throttling=False) == ()
        [finding] = bound.findings_for(lift_rt_throttling=True)
        assert finding.code == "realtime_not_bound"
        told = replace(bound, findings=(finding,))
        assert told.findings_for(lift_rt_throttling=True) == (finding,), "once is enough"
        weighed = replace(bound, share=Share(weight=100))
        assert weighed.findings_for(lift_rt_throttling=True) == ()
        take_kernel_files_away(tmp_path)


def realtime_tree(root: Path, *groups: str) -> None:
    """A kernel with real-time groups: 95 % at the root, nothing in new groups."""
    for group in ("", "stealtime/", *(f"stealtime/{group}/" for group in groups)):
        runtime = "950000" if not group else "0"
        write(root, {f"{group}cpu.rt_runtime_us": runtime, f"{group}cpu.rt_period_us": "1000000"})


def runtimes(root: Path) -> dict[str, tuple[int, int]]:
    return {
        str(file.parent.relative_to(root / "stealtime")): (
            int(file.read_text()),
            int(file.with_name("cpu.rt_period_us").read_text()),
        )
        for file in sorted((root / "stealtime").rglob("cpu.rt_runtime_us"))
    }


def test_a_group_gets_as_much_real_time_as_its_quota_and_those_above_enough_for_it(tmp_path: Path) -> None:
    realtime_tree(tmp_path, "run", "run/machine", "run/neighbour-1")
    ours = tmp_path / "stealtime"
    assert allow_realtime(tmp_path, ours / "run/machine", Share(quota_percent=50)) == []
    assert allow_realtime(tmp_path, ours / "run/neighbour-1", Share(quota_percent=30)) == []
    assert runtimes(tmp_path) == {
        ".": (950_000, 1_000_000),
        "run": (802_000, 1_000_000),
        "run/machine": (50_000, 100_000),
        "run/neighbour-1": (30_000, 100_000),
    }


def test_less_real_time_than_the_quota_is_told(tmp_path: Path) -> None:
    realtime_tree(tmp_path, "run", "run/machine", "run/neighbour-1")
    ours = tmp_path / "stealtime"
    allow_realtime(tmp_path, ours / "run/machine", Share(quota_percent=50))
    [finding] = allow_realtime(tmp_path, ours / "run/neighbour-1", Share(quota_percent=50))
    assert finding.code == "realtime_share_smaller"
    assert "44.6% of each CPU instead of 50%" in finding.text
    [none_left] = allow_realtime(tmp_path, ours / "run/machine", Share(quota_percent=100))[:1]
    assert none_left.code == "realtime_share_smaller"
    inside = [runtimes(tmp_path)[name] for name in ("run/machine", "run/neighbour-1")]
    assert sum(runtime / period for runtime, period in inside) < runtimes(tmp_path)["run"][0] / 1e6 <= 0.95


def test_without_a_quota_real_time_is_given_and_without_real_time_groups_a_quota_does_not_bind(tmp_path: Path) -> None:
    realtime_tree(tmp_path / "groups", "run", "run/machine")
    assert allow_realtime(tmp_path / "groups", tmp_path / "groups/stealtime/run/machine", Share(weight=100)) == []
    assert runtimes(tmp_path / "groups")["run/machine"] == (946_000, 1_000_000)
    [finding] = allow_realtime(tmp_path, tmp_path / "stealtime/run/machine", HALF)
    assert finding.code == "realtime_not_bound"
    assert allow_realtime(tmp_path, tmp_path / "stealtime/run/machine", Share(weight=100)) == []
