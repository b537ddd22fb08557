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


def test_on_a_hybrid_host_the_narrowest_group_of_the_tree_with_the_controller_counts(tmp_path: Path) -> None:
    tree = "sys/fs/cgroup/memory"
    machine = {
        "proc/meminfo": "MemAvailable: 4194304 kB\n",
        "proc/self/cgroup": "4:memory:/jobs/7\n1:cpu:/\n0::/other\n",
        "proc/self/mountinfo": "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        f"{tree}/memory.limit_in_bytes": "9223372036854771712\n",
        f"{tree}/memory.usage_in_bytes": "1073741824\n",
        f"{tree}/jobs/memory.limit_in_bytes": "524288000\n",
        f"{tree}/jobs/memory.usage_in_bytes": "419430400\n",
        f"{tree}/jobs/memory.stat": "inactive_file 0\ntotal_inactive_file 10485760\n",
        f"{tree}/jobs/7/memory.limit_in_bytes": "209715200\n",
        f"{tree}/jobs/7/memory.usage_in_bytes": "0\n",
    }
    found = read_memory_room(write(tmp_path, machine))
    assert found == MemoryRoom(110 << 20, "/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes")


@pytest.mark.parametrize("group", ["/docker/abc", "/../elsewhere"])
def test_a_container_sees_its_own_group_at_its_mount(tmp_path: Path, group: str) -> None:
    machine = {
        "proc/self/cgroup": f"4:memory:{group}\n",
        "proc/self/mountinfo": "35 31 0:32 /docker/abc /my\\040groups ro - cgroup cgroup rw,memory\n",
        "my groups/memory.limit_in_bytes": "209715200\n",
        "my groups/memory.usage_in_bytes": "104857600\n",
    }
    assert read_memory_room(write(tmp_path, machine)) == MemoryRoom(100 << 20, "/my groups/memory.limit_in_bytes")


def test_what_throttles_counts_like_what_kills(tmp_path: Path) -> None:
    machine = {
        "proc/self/cgroup": "0::/one\n",
        "proc/self/mountinfo": "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "sys/fs/cgroup/one/memory.max": "max\n",
        "sys/fs/cgroup/one/memory.high": "104857600\n",
        "sys/fs/cgroup/one/memory.current": "204857600\n",
    }
    assert read_memory_room(write(tmp_path, machine)) == MemoryRoom(0, "/sys/fs/cgroup/one/memory.high")


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


def test_what_is_promised_to_others_is_not_there_to_give() -> None:
    room = MemoryRoom(512 << 20, "MemAvailable")
    refuse_machine_of(128 << 20, room, promised_bytes=384 << 20)
    with pytest.raises(UsageError, match=r"this host 112 MiB to give, as 400 MiB are promised to other machines$"):
        refuse_machine_of(128 << 20, room, promised_bytes=400 << 20)
    with pytest.raises(UsageError, match=r"this host 0 \S+ to give, as 600 MiB are promised"):
        refuse_machine_of(128 << 20, room, promised_bytes=600 << 20)
