"""Delegated scopes: the command, the path that comes of it, and groups below it, with a stand-in for systemd-run.

What a real systemd does with it is proved by hand, in a guest: ``tests/manual/delegated_scope.sh``.
"""

from pathlib import Path

import pytest

from stealtime.lab.platforms import cgroup, systemd_scope
from stealtime.lab.platforms.cgroup import CpuHierarchy, clear_groups, cpu_group
from stealtime.lab.platforms.failure import CpuGroupError
from stealtime.lab.platforms.process import run_mark
from stealtime.lab.platforms.share import Share
from stealtime.lab.platforms.systemd_scope import folder_in, is_first_process, mark_in, scope_command, scope_name

MARK = "4026531836:71:4242"


def test_a_scope_is_asked_for_with_delegation_and_weight() -> None:
    assert scope_command("stealtime-1.scope", 300) == [
        "systemd-run", "--scope", "--quiet", "--collect", "--unit=stealtime-1.scope",
        "--property=Delegate=yes", "--property=CPUWeight=300", "--", "sh", "-c", "echo && exec cat",
    ]  # fmt: skip
    assert not any("Weight" in word for word in scope_command("stealtime-1.scope", None))


def test_a_scope_tells_whose_it_is() -> None:
    assert mark_in(scope_name(MARK, "neighbour-1")) == MARK
    for unit in ("session-3.scope", f"stealtime-{MARK}", "stealtime-host.service"):
        assert mark_in(unit) is None, unit


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("0::/system.slice/stealtime-1.scope\n", "system.slice/stealtime-1.scope"),
        ("12:cpu,cpuacct:/a\n1:name=systemd:/b\n0::/user.slice/a:b.scope\n", "user.slice/a:b.scope"),
        ("0::/\n", ""),
    ],
)
def test_the_folder_of_a_process_is_that_of_version_2(text: str, path: str) -> None:
    assert folder_in(text, Path("/sys/fs/cgroup")) == Path("/sys/fs/cgroup") / path


@pytest.mark.parametrize("text", ["", "12:cpu,cpuacct:/a\n", "0::/../outside.scope\n"])
def test_a_group_that_is_not_in_the_tree_is_told(text: str) -> None:
    with pytest.raises(CpuGroupError, match="no group of cgroup v2 below /sys/fs/cgroup"):
        folder_in(text, Path("/sys/fs/cgroup"))


def test_the_tree_is_systemds_where_it_has_booted(tmp_path: Path) -> None:
    assert not is_first_process(tmp_path / "run/systemd/system")
    assert is_first_process(tmp_path)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of v2 on a host with systemd, whose scopes a stand-in for ``systemd-run`` makes and removes."""
    tree, programs = tmp_path / "tree", tmp_path / "bin"
    for one in (tree / "system.slice", programs):
        one.mkdir(parents=True)
    (tree / "cgroup.controllers").write_text("cpuset cpu io memory\n")
    (tree / "cgroup.subtree_control").write_text("memory pids\n")
    run = programs / "systemd-run"
    run.write_text(
        "#!/bin/sh\n"
        f'for word; do case "$word" in --unit=*) scope="{tree}/system.slice/${{word#--unit=}}";; esac; done\n'
        'mkdir "$scope" || exit 1\n'
        # The real one becomes the command, and the kernel's own files go with the scope.
        'while [ "$1" != -- ]; do shift; done; shift\n'
        '"$@"\n'
        'rm -r "$scope"\n'
    )
    run.chmod(0o755)
    mounts = tmp_path / "mounts"
    mounts.write_text(f"cgroup2 {tree} cgroup2 rw 0 0\n")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(cgroup, "find_hierarchy", lambda mounts=mounts: CpuHierarchy(2, tree))
    monkeypatch.setattr(cgroup, "is_first_process", lambda: True)

    def folder(_text: str, _root: Path) -> Path:
        [scope] = [one for one in (tree / "system.slice").iterdir() if not (one / "anchor").exists()]
        return scope

    monkeypatch.setattr(systemd_scope, "folder_in", folder)
    return tree


async def test_groups_are_made_in_scopes_and_the_root_is_left_alone(tree: Path) -> None:
    async with (
        cpu_group("machine", Share(quota_percent=20, weight=50)) as machine,
        cpu_group("neighbour-1", Share(weight=300)) as neighbour,
    ):
        scope = tree / "system.slice" / f"stealtime-{run_mark()}-machine.scope"
        assert machine.path == scope / "machine"
        assert (scope / "cgroup.subtree_control").read_text() == "+cpu"
        assert (machine.path / "cpu.max").read_text() == "20000 100000"
        assert (scope / "anchor/cgroup.procs").read_text().isdigit()
        assert not (scope / "cpu.weight").exists(), "that file is systemd's"
        assert neighbour.path.parent.name == f"stealtime-{run_mark()}-neighbour-1.scope"
        for group in (machine, neighbour):
            # In a real tree they vanish with their group.
            for file in group.path.iterdir():
                file.unlink()
    assert list((tree / "system.slice").iterdir()) == []
    assert (tree / "cgroup.subtree_control").read_text() == "memory pids\n"
    assert not (tree / "stealtime").exists()


async def test_what_systemd_refuses_is_told_in_its_words(tree: Path) -> None:
    (tree.parent / "bin/systemd-run").write_text("#!/bin/sh\necho 'Interactive authentication required.' >&2\nexit 1\n")
    with pytest.raises(CpuGroupError, match=r"does not give the scope .*: Interactive authentication required") as told:
        async with cpu_group("machine", Share(weight=100)):
            pytest.fail("there is no group")
    assert told.value.hint is not None


def test_scopes_of_dead_control_planes_are_cleared(tree: Path) -> None:
    left = tree / "system.slice" / scope_name(MARK, "machine")
    lives = tree / "system.slice" / scope_name("4026531836:72:4243", "machine")
    for one in (left / "anchor", lives / "anchor", tree / "system.slice" / "stealtime-mine.scope.d"):
        one.mkdir(parents=True)
    assert clear_groups(lambda mark: mark == MARK, tree.parent / "mounts") == [f"CPU group {left}"]
    assert not left.exists()
    assert lives.is_dir()
