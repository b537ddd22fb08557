"""What can be known beforehand is told before anything starts, by ``run`` and by ``run --dry-run``."""

import os
from pathlib import Path

import pytest
from command import Command
from scripted_agent import ScriptedPlatform

from stealtime.campaigns import rights
from stealtime.hosts.laboratory import refuse_without_root
from stealtime.lab.platforms import cgroup, realtime_limit
from stealtime.vocabulary.errors import StealtimeError

SHORT = ("run", "quick", "-D", "1ms", "--repetitions", "1")
SHARED = """
name = "shared"
scenarios = ["half"]
[[define]]
name = "half"
share = { quota_percent = 50 }
[[probes]]
probe = "wakeup"
duration = "1ms"
"""
dry_too = pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["run", "dry"])


def nothing_began(stealtime: Command, tmp_path: Path) -> bool:
    return not (tmp_path / "data" / "stealtime" / "runs").exists() and "no run" in stealtime("ls").err


@dry_too
def test_a_kernel_that_does_not_exist_is_told_before_a_boot(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path, dry: tuple[str, ...]
) -> None:
    platforms[1].name = "qemu-tcg-paravirt"
    ended = stealtime(*SHORT, "--kernel", "nosuch", *dry)
    assert ended.code == 2
    assert "error: the kernel 'nosuch' cannot be read: No such file or directory" in ended.err
    assert "hint: use `rt`" in ended.err
    assert [platform.boots for platform in platforms] == [0, 0, 0]
    assert nothing_began(stealtime, tmp_path)


@dry_too
def test_a_file_that_is_no_kernel_is_told_before_a_boot(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path, dry: tuple[str, ...]
) -> None:
    platforms[1].name = "qemu-tcg-emulated"
    text = tmp_path / "notes.txt"
    text.write_text("not a kernel\n")
    ended = stealtime(*SHORT, "--kernel", str(text), *dry)
    assert ended.code == 2
    assert f"the file '{text}' is not a kernel: it begins with 6e6f7420" in ended.err
    assert nothing_began(stealtime, tmp_path)


def test_a_kernel_that_no_usable_machine_boots_is_told(stealtime: Command) -> None:
    ended = stealtime(*SHORT, "--kernel", "cloud")
    assert ended.code == 0
    assert "the kernel 'cloud' was chosen, and no machine of this run boots it" in " ".join(ended.err.split())
    assert "was chosen" not in stealtime(*SHORT).err


@dry_too
@pytest.mark.parametrize("kernel", ["cloud", "rt"])
def test_a_kernel_that_no_named_machine_boots_is_refused(
    stealtime: Command, tmp_path: Path, kernel: str, dry: tuple[str, ...]
) -> None:
    """The default one, too, where it was asked for."""
    ended = stealtime(*SHORT, "-P", "native", "--kernel", kernel, *dry)
    assert ended.code == 2
    assert f"error: the kernel '{kernel}' was chosen, and no machine of this run boots it" in ended.err
    assert "hint: add a machine of QEMU" in ended.err
    assert nothing_began(stealtime, tmp_path)


@dry_too
@pytest.mark.parametrize(
    ("duration", "words"),
    [
        ("9999h", "duration: a trial of 416 days is too long; one may take 366"),
        ("9999999h", "'9999999h' is more than can be counted, 9223372036854775807 ns"),
        ("99999999999999999999s", "is more than can be counted"),
    ],
)
def test_a_duration_that_no_trial_can_take_is_told_before_it(
    stealtime: Command, tmp_path: Path, duration: str, words: str, dry: tuple[str, ...]
) -> None:
    ended = stealtime("run", "quick", "-D", duration, *dry)
    assert ended.code == 2
    assert words in ended.err
    assert nothing_began(stealtime, tmp_path)


@dry_too
def test_lifting_the_limit_needs_the_right_to_and_is_refused_before_a_boot(
    stealtime: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry: tuple[str, ...]
) -> None:
    monkeypatch.setattr(rights, "why_not_liftable", lambda: "/proc/x may not be written by user 1000")
    assert stealtime(*SHORT, "-P", "uml", "--lift-rt-throttling", "--dry-run").code == 0, "a guest's limit is ours"
    ended = stealtime(*SHORT, "--lift-rt-throttling", *dry)
    assert ended.code == 1
    assert "error: RT throttling cannot be lifted on this host: /proc/x may not be written by user 1000" in ended.err
    assert "hint: run the same command as root" in ended.err
    assert nothing_began(stealtime, tmp_path)


def test_who_may_not_write_the_limit_may_not_lift_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "sched_rt_runtime_us"
    assert "No such file" in str(realtime_limit.why_not_liftable(limit))
    limit.write_text("950000\n")
    assert realtime_limit.why_not_liftable(limit) is None
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert "may not be written by user" in str(realtime_limit.why_not_liftable(limit))
    limit.write_text("-1\n")
    assert realtime_limit.why_not_liftable(limit) is None, "somebody has lifted it already"


@dry_too
def test_a_share_needs_a_group_and_is_refused_before_a_boot(
    stealtime: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry: tuple[str, ...]
) -> None:
    mounts, tree = tmp_path / "mounts", tmp_path / "tree"
    tree.mkdir()
    mounts.write_text(f"cgroup {tree} cgroup rw,cpu,cpuacct 0 0\n")
    monkeypatch.setattr(cgroup.refuse_without_groups, "__defaults__", (mounts,))
    campaign = tmp_path / "shared.toml"
    campaign.write_text(SHARED)
    assert stealtime("run", str(campaign), "--dry-run").code == 0
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    ended = stealtime("run", str(campaign), *dry)
    assert ended.code == 1
    assert f"error: no CPU group can be made in {tree}: it may not be written" in ended.err
    assert "hint: shares need root" in ended.err
    assert nothing_began(stealtime, tmp_path)


@dry_too
@pytest.mark.parametrize("campaign", ["protection", "telephony2011", "telephony-failovers"])
def test_a_laboratory_needs_root_and_is_refused_before_it(
    stealtime: Command,
    platforms: list[ScriptedPlatform],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    campaign: str,
    dry: tuple[str, ...],
) -> None:
    platforms[1].name = "qemu-tcg-paravirt"
    platforms[2].name = "qemu-kvm-paravirt"
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sipp").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    ended = stealtime("run", campaign, *dry)
    assert ended.code == 1
    assert "error: a laboratory of network namespaces needs root" in ended.err
    assert "hint: run the same command as root" in ended.err
    assert nothing_began(stealtime, tmp_path)


def test_a_platform_that_is_never_protected_is_refused_by_name(stealtime: Command, tmp_path: Path) -> None:
    ended = stealtime("run", "protection", "-P", "uml")
    assert ended.code == 1
    assert "error: a protected machine is not to be had as uml" in ended.err
    assert nothing_began(stealtime, tmp_path)


@pytest.mark.parametrize(
    ("effective", "missing"),
    [
        ("0000000000000000", "CAP_NET_ADMIN and CAP_SYS_ADMIN"),
        ("0000000000001000", "CAP_SYS_ADMIN"),
        ("0000000000200000", "CAP_NET_ADMIN"),
    ],
)
def test_root_without_its_capabilities_makes_no_laboratory(
    effective: str, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    status = tmp_path / "status"
    status.write_text(f"Name:\tx\nCapEff:\t{effective}\n")
    with pytest.raises(StealtimeError, match=f"needs {missing}, which"):
        refuse_without_root(status)
    status.write_text("CapEff:\t0000000000201000\n")
    refuse_without_root(status)
