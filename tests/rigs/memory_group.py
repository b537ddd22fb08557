"""A control group whose memory is limited, so that the kernel kills in it as it does on a host that is full."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import psutil
import pytest

_VERSION_1 = Path("/sys/fs/cgroup/memory")
_VERSION_2 = Path("/sys/fs/cgroup")
_KILLED_WITHIN_S = 30.0

# Takes more than the group may have, as a file in memory: so it is itself small, and others are chosen before it.
_EATER = """
import os, sys
with open(sys.argv[1], "w") as group:
    group.write("0")
taken = os.memfd_create("taken")
for _ in range(int(sys.argv[2]) >> 16):
    os.write(taken, bytes(1 << 16))
"""


class MemoryGroup:
    """Processes that may take so much memory together; it is removed at the end, its processes go back to the root.

    Args:
        limit_bytes: For what they take from then on; what they have is charged elsewhere.
    """

    def __init__(self, limit_bytes: int) -> None:
        if (_VERSION_1 / "memory.limit_in_bytes").exists():
            self._root, limit, self._told = _VERSION_1, "memory.limit_in_bytes", "memory.oom_control"
        elif "memory" in (_VERSION_2 / "cgroup.subtree_control").read_text().split():
            self._root, limit, self._told = _VERSION_2, "memory.max", "memory.events"
        else:
            pytest.skip("no control group can limit memory here")
        self.path = self._root / f"stealtime-test-{os.getpid()}-{time.monotonic_ns()}"
        self.limit_file = self.path / limit
        self._limit_bytes = limit_bytes

    def __enter__(self) -> Self:
        self.path.mkdir()
        self.limit_file.write_text(str(self._limit_bytes))
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + _KILLED_WITHIN_S
        while True:
            for pid in self._procs.read_text().split():
                self._move(int(pid), self._root / "cgroup.procs")
            try:
                self.path.rmdir()
            except OSError:
                # A process that was killed is in it until its parent has noticed.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    @property
    def _procs(self) -> Path:
        return self.path / "cgroup.procs"

    @property
    def killed(self) -> int:
        """How many processes the kernel has killed in it."""
        told = dict(line.split() for line in (self.path / self._told).read_text().splitlines())
        return int(told["oom_kill"])

    def add(self, pid: int) -> None:
        """Put a process into it; its later children are born there."""
        self._move(pid, self._procs)

    def kill(self, pid: int) -> None:
        """Have the kernel kill this process for want of memory, and children that it has meanwhile as it likes."""
        # Before whoever else is in the group.
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
        self.add(pid)
        argv = [sys.executable, "-c", _EATER, str(self._procs), str(2 * self._limit_bytes)]
        with subprocess.Popen(argv) as eater:
            try:
                deadline = time.monotonic() + _KILLED_WITHIN_S
                while _lives(pid):
                    assert time.monotonic() < deadline, f"the kernel does not kill {pid}"
                    time.sleep(0.01)
            finally:
                eater.kill()
        assert self.killed > 0, f"{pid} ended by itself"

    @staticmethod
    def _move(pid: int, to: Path) -> None:
        try:
            to.write_text(str(pid))
        except ProcessLookupError:
            return


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
