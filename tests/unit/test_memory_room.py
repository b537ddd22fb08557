"""How much memory may still be used: the machine's, or what the memory groups around a process leave."""

from pathlib import Path

import pytest

from stealtime.lab.memory import MemoryRoom, read_memory_room, refuse_machine_of
from stealtime.vocabulary.errors import UsageError

LIMIT = "/sys/fs/cgroup/job/memory.max"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_the_limit_of_a_group_counts_below_what_the_machine_has(tmp_path: Path) -> None:
    machine = write(tmp_path, {"proc/meminfo": "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n"})
    assert read_memory_room(machine) == MemoryRoom(4 << 30, "MemAvailable")
    in_group = write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/job\n",
            "proc/self/mountinfo": "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/job/memory.max": f"{200 << 20}\n",
            "sys/fs/cgroup/job/memory.current": f"{50 << 20}\n",
        },
    )
    assert read_memory_room(in_group) == MemoryRoom(150 << 20, LIMIT)


def test_nothing_is_known_without_proc(tmp_path: Path) -> None:
    assert read_memory_room(tmp_path) is None


def test_this_machine_has_room() -> None:
    room = read_memory_room()
    assert room is not None
    assert room.bytes > 0
    assert room.limit


def test_a_machine_that_this_host_cannot_hold_is_refused() -> None:
    refuse_machine_of(128 << 20, MemoryRoom(128 << 20, "MemAvailable"))
    refuse_machine_of(128 << 20, None)
    with pytest.raises(UsageError, match=r"has 256 MiB of memory, and this host 128 MiB to give$"):
        refuse_machine_of(256 << 20, MemoryRoom(128 << 20, "MemAvailable"))
    with pytest.raises(UsageError, match=rf"128 MiB to give \(by {LIMIT}\)") as refused:
        refuse_machine_of(256 << 20, MemoryRoom(128 << 20, LIMIT))
    assert "raise the limit of the group" in str(refused.value.hint)
