"""CPU groups: a quota and a weight for a machine and its emulator, by cgroup v2 or v1, removed afterwards.

Groups lie under ``<hierarchy>/stealtime/<mark of the control plane>/<name>``, so that a later start knows those whose
control plane is gone. Where systemd is the first process, the tree of cgroup v2 is its own: there each group lies in a
scope that it hands over, whose name holds the mark. A process is put in by ``stealtime-agent guard --cgroup`` before it
becomes the machine.

The cpu controller is in exactly one hierarchy: on hybrid hosts often in v1 while a v2 tree without it lies beside.
"""

import asyncio
import logging
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stealtime.lab.platforms.failure import CpuGroupError
from stealtime.lab.platforms.process import run_mark
from stealtime.lab.platforms.realtime_share import allow_realtime, give_realtime_back, quota_not_binding
from stealtime.lab.platforms.share import (
    DEFAULT_SHARES,
    DEFAULT_WEIGHT,
    MAXIMUM_SHARES,
    MAXIMUM_WEIGHT,
    Share,
    shares_of_weight,
)
from stealtime.lab.platforms.systemd_scope import delegated_scope, is_first_process, mark_in
from stealtime.lab.platforms.throttling import Throttling, parse_throttling
from stealtime.vocabulary.errors import WHAT_WORKS_HINT, StealtimeError
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.readings import Absent

logger = logging.getLogger(__name__)

OUR_FOLDER = "stealtime"
MOUNTS = Path("/proc/self/mounts")

_REMOVAL_PATIENCE_S = 3.0
"""A group can be removed when the last of its processes has been buried: ms after it was killed."""
_REMOVAL_PAUSE_S = 0.01
_ROOT_HINT = (
    f"shares need root and a writable cgroup file system; in a container, give it a cgroup of its own{WHAT_WORKS_HINT}"
)
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class CpuHierarchy:
    """Where groups of the cpu controller can be made."""

    version: Literal[1, 2]
    root: Path


@dataclass(frozen=True)
class CpuGroup:
    """A group that is there."""

    hierarchy: CpuHierarchy
    path: Path
    share: Share
    findings: tuple[Finding, ...] = ()
    """What the kernel did not give."""
    holds_realtime: bool = False
    """Whether SCHED_FIFO threads are to run in it."""

    def findings_for(self, *, lift_rt_throttling: bool) -> tuple[Finding, ...]:
        """Give what a reader must know of a trial in this group.

        Args:
            lift_rt_throttling: Whether the trial lifts it, and with it what binds real-time threads to a quota.
        """
        known = {finding.code for finding in self.findings}
        if not (lift_rt_throttling and self.holds_realtime and self.share.quota_us) or "realtime_not_bound" in known:
            return self.findings
        return (*self.findings, quota_not_binding("lifting RT throttling lifts the limits of real-time groups too"))

    def read_throttling(self) -> Throttling:
        """Read what the kernel has counted so far; never raises."""
        try:
            text = (self.path / "cpu.stat").read_text()
        except OSError as error:
            absent = Absent(absent=f"{self.path / 'cpu.stat'}: {error.strerror}")
            return Throttling(absent, absent, absent)
        return parse_throttling(text, self.hierarchy.version)


def find_hierarchy(mounts: Path = MOUNTS, below: Path = Path("/")) -> CpuHierarchy:
    """Find the hierarchy that has the cpu controller.

    Args:
        mounts: A file in the form of ``/proc/self/mounts``.
        below: Where the files of that machine are found; this machine's are below ``/``.

    Raises:
        CpuGroupError: No tree that is mounted here has the controller; the message says what each v2 tree offers.
    """
    offers: list[str] = []
    for line in mounts.read_text().splitlines():
        _, point, kind, options = line.split()[:4]
        root = below / _OCTAL.sub(lambda match: chr(int(match[1], 8)), point).lstrip("/")
        if kind == "cgroup" and "cpu" in options.split(","):
            return CpuHierarchy(1, root)
        if kind == "cgroup2":
            with suppress(OSError):
                offered = (root / "cgroup.controllers").read_text().split()
                if "cpu" in offered:
                    return CpuHierarchy(2, root)
                offers.append(f"{root} offers {' '.join(offered) or 'nothing'}")
    where = f" ({'; '.join(offers)})" if offers else ""
    raise CpuGroupError(
        f"the cpu controller is in no cgroup hierarchy that is mounted here{where}",
        hint="mount cgroup2, or boot without cgroup_disable=cpu",
    )


def refuse_without_groups(mounts: Path = MOUNTS) -> None:
    """See that groups can be made, as far as that is known without making one.

    Args:
        mounts: A file in the form of ``/proc/self/mounts``.

    Raises:
        CpuGroupError: There is no hierarchy for them, or it may not be written.
    """
    where = find_hierarchy(mounts)
    # In systemd's own tree each group lies in a scope, which systemd makes, or refuses, on demand.
    by_systemd = where.version == 2 and is_first_process()
    if not by_systemd and not os.access(where.root, os.W_OK, effective_ids=True):
        raise CpuGroupError(f"no CPU group can be made in {where.root}: it may not be written", hint=_ROOT_HINT)


@asynccontextmanager
async def cpu_group(
    name: str, share: Share, *, realtime: bool = False, hierarchy: CpuHierarchy | None = None
) -> AsyncIterator[CpuGroup]:
    """Make a group for the time of the context; it must be empty at its end.

    Args:
        name: Unique in this control plane.
        share: Its quota and weight.
        realtime: Whether threads of SCHED_FIFO will run in it.
        hierarchy: Where; None finds it.

    Raises:
        CpuGroupError: The kernel refuses; the message names the file and what was written.
    """
    where = hierarchy or find_hierarchy()
    async with AsyncExitStack() as stack:
        if hierarchy is None and where.version == 2 and is_first_process():
            scope = await stack.enter_async_context(delegated_scope(name, share.weight, where.root))
            where, path = CpuHierarchy(2, scope), scope / name
        else:
            path = where.root / OUR_FOLDER / run_mark() / name
        yield await stack.enter_async_context(_group_at(path, where, share, realtime=realtime))


@asynccontextmanager
async def _group_at(path: Path, where: CpuHierarchy, share: Share, *, realtime: bool) -> AsyncIterator[CpuGroup]:
    _make(where, path)
    try:
        findings = _set(where, path, share, realtime=realtime)
        _weigh_above(where, path)
        yield CpuGroup(where, path, share, tuple(findings), realtime)
    finally:
        await _remove_when_empty(where, path)
        _weigh_above(where, path)


def _above(hierarchy: CpuHierarchy, path: Path) -> list[Path]:
    """Give our folders above a group, the nearest first: none in a scope, which is systemd's."""
    return [folder for folder in path.parents if folder.is_relative_to(hierarchy.root) and folder != hierarchy.root]


def _make(hierarchy: CpuHierarchy, path: Path) -> None:
    try:
        if hierarchy.version == 2:
            # A controller reaches a group only if every group above hands it down.
            above = hierarchy.root
            for part in path.relative_to(hierarchy.root).parts:
                if "cpu" not in _handed_down(above):
                    _write(above / "cgroup.subtree_control", "+cpu")
                above /= part
                above.mkdir(exist_ok=above != path)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir()
    except OSError as error:
        _remove_above(hierarchy, path)
        raise CpuGroupError(f"the CPU group {path} cannot be made: {error.strerror}", hint=_ROOT_HINT) from error
    except CpuGroupError:
        _remove_above(hierarchy, path)
        raise


def _handed_down(group: Path) -> list[str]:
    try:
        return (group / "cgroup.subtree_control").read_text().split()
    except FileNotFoundError:
        return []


def _set(hierarchy: CpuHierarchy, path: Path, share: Share, *, realtime: bool) -> list[Finding]:
    if share.quota_us is not None:
        if hierarchy.version == 2:
            _write(path / "cpu.max", f"{share.quota_us} {share.period_us}")
        else:
            _write(path / "cpu.cfs_period_us", str(share.period_us))
            _write(path / "cpu.cfs_quota_us", str(share.quota_us))
    if share.weight is not None:
        if hierarchy.version == 2:
            _write(path / "cpu.weight", str(share.weight))
        else:
            _write(path / "cpu.shares", str(shares_of_weight(share.weight)))
    return allow_realtime(hierarchy.root, path, share) if realtime else []


def _weigh_above(hierarchy: CpuHierarchy, path: Path) -> None:
    """Give each of our folders the weight of all groups in it.

    A weight counts only against those beside it. Without this, two machines of ours together would get as much as one
    other task of the host, instead of as much as two.
    """
    file, default, most = ("cpu.weight", DEFAULT_WEIGHT, MAXIMUM_WEIGHT)
    if hierarchy.version == 1:
        file, default, most = ("cpu.shares", DEFAULT_SHARES, MAXIMUM_SHARES)
    for above in _above(hierarchy, path):
        if not above.is_dir():
            continue
        weights = [_number(group / file, default) for group in above.iterdir() if group.is_dir()]
        if weights:
            _write(above / file, str(min(sum(weights), most)))


def _number(file: Path, default: int) -> int:
    try:
        return int(file.read_text())
    except FileNotFoundError:
        return default


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        hint = _ROOT_HINT
        if file.name == "cgroup.subtree_control":
            hint = "this cgroup holds processes itself: in a container, give it a cgroup of its own"
        raise CpuGroupError(f"{file} does not take {text!r}: {error.strerror}", hint=hint) from error


async def _remove_when_empty(hierarchy: CpuHierarchy, path: Path) -> None:
    deadline = time.monotonic() + _REMOVAL_PATIENCE_S
    while not _remove(hierarchy, path):
        if time.monotonic() > deadline:
            logger.warning("the CPU group %s is kept, as it still has processes; the next start removes it", path)
            return
        await asyncio.sleep(_REMOVAL_PAUSE_S)


def _remove(hierarchy: CpuHierarchy, path: Path) -> bool:
    """Remove a group and, if they are empty then, our folders above it; tell whether the group is gone."""
    try:
        _remove_group(path)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    _remove_above(hierarchy, path)
    return True


def _remove_above(hierarchy: CpuHierarchy, path: Path) -> None:
    """Remove our folders above a group, unless another machine or another control plane has groups there."""
    with suppress(OSError):
        for folder in _above(hierarchy, path):
            _remove_group(folder)


def _remove_group(path: Path) -> None:
    # A removed group lingers for some ms in the kernel, and its real-time fraction with it.
    give_realtime_back(path)
    path.rmdir()


def clear_groups(is_left_over: Callable[[str], bool], mounts: Path = MOUNTS) -> list[str]:
    """Remove the groups of control planes that are gone, with all groups and processes in them.

    Args:
        is_left_over: Tells whether the control plane of a mark is known to have ended.
        mounts: A file in the form of ``/proc/self/mounts``.

    Returns:
        What was removed, for the log.
    """
    try:
        where = find_hierarchy(mounts)
    except (StealtimeError, OSError):
        return []
    ours = where.root / OUR_FOLDER
    marked = {folder: folder.name for folder in sorted(ours.glob("*")) if folder.is_dir()}
    if where.version == 2:
        # Unlike a glob, it goes on where a group vanishes meanwhile.
        groups = sorted(Path(above) / name for above, names, _ in os.walk(where.root) for name in names)
        marked |= {group: mark for group in groups if (mark := mark_in(group.name)) is not None}
    cleared = []
    for folder, mark in marked.items():
        if is_left_over(mark) and _clear(folder):
            cleared.append(f"CPU group {folder}")
    with suppress(OSError):
        _remove_group(ours)
    return cleared


def _clear(folder: Path) -> bool:
    deadline = time.monotonic() + _REMOVAL_PATIENCE_S
    while True:
        left = [Path(path) for path, _, _ in os.walk(folder, topdown=False)]
        for group in left:
            for pid in _processes(group):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(OSError):
                _remove_group(group)
        if not folder.exists():
            return True
        if time.monotonic() > deadline:
            logger.warning("the CPU group %s of a control plane that is gone cannot be removed", folder)
            return False
        time.sleep(_REMOVAL_PAUSE_S)


def _processes(group: Path) -> list[int]:
    try:
        return [int(line) for line in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []
