"""Memory: enough of it, locked, and nobody moving or merging pages while time is measured."""

import mmap
import re

from stealtime.doctor.attempts import Attempts
from stealtime.doctor.files import Files
from stealtime.doctor.model import Data, Finding, Group, Level, Subject
from stealtime.lab.memory import MemoryRoom
from stealtime.vocabulary.readings import Absent

SAMPLE_MEMORY_BYTES = 256 << 20
"""What the agent locks for 64 million samples of 4 bytes."""
ENOUGH_MEMORY_BYTES = 2 << 30
LEAST_MEMORY_BYTES = 512 << 20
"""One guest of 256 MiB, its emulator and the samples of a short trial."""

FREE_MEMORY = Subject(
    "free_memory",
    Group.MEMORY,
    "free memory",
    "Guests of 256 MiB, their emulators and every sample of a trial are in memory while measuring.",
)
MEMORY_LOCK = Subject(
    "memory_lock",
    Group.MEMORY,
    "locked memory",
    "Sample memory is locked, so that no page fault falls into a measured interval.",
)
SWAP = Subject(
    "swap",
    Group.MEMORY,
    "swap",
    "Guest memory is not locked: a page that was swapped out costs milliseconds when used.",
)
HUGE_PAGES = Subject(
    "transparent_huge_pages",
    Group.MEMORY,
    "transparent huge pages",
    "With 'always' the kernel compacts memory at unforeseen times, which stops the tasks that use it.",
)
RESERVED_HUGE_PAGES = Subject(
    "huge_pages",
    Group.MEMORY,
    "reserved huge pages",
    "Guest memory on huge pages costs fewer nested page walks; stealtime's guests use ordinary pages.",
)
KSM = Subject(
    "ksm",
    Group.MEMORY,
    "page merging (KSM)",
    "Equal pages of guests are merged; the first write to one faults, and ksmd itself uses a CPU.",
)
NUMA_BALANCING = Subject(
    "numa_balancing",
    Group.MEMORY,
    "NUMA balancing",
    "Pages are unmapped to see who uses them and moved between nodes: faults in the middle of a measurement.",
)
RESTING_MEMORY = Subject(
    "resting_memory",
    Group.MEMORY,
    "resting memory",
    "Where the machine below takes back pages that nobody touches, the next touch waits for it, and no kernel counts "
    "that: it is in every figure, as unexplained or in whatever was running.",
)


def free_memory(files: Files) -> Finding:
    """What could be used without swapping, and without being killed by the limit of a memory group."""
    text = files.text("/proc/meminfo")
    if isinstance(text, Absent):
        return FREE_MEMORY.absent(Level.LIMITS, text)
    room = files.memory_room() or MemoryRoom(0, "MemAvailable")
    value: Data = {"available_bytes": room.bytes, "total_bytes": _meminfo(text, "MemTotal") << 10, "limit": room.limit}
    sentence = f"{room.bytes / (1 << 30):.1f} GiB{room.reason}"
    if room.bytes < LEAST_MEMORY_BYTES:
        fix = f"end programs until {LEAST_MEMORY_BYTES >> 20} MiB are free"
        if room.is_of_a_group:
            fix = f"raise the limit of the memory group: {room.limit}"
        return FREE_MEMORY.blocks(f"{sentence}, less than one guest needs", value, fix)
    if room.bytes < ENOUGH_MEMORY_BYTES:
        fix = "measure shorter trials with few neighbours"
        return FREE_MEMORY.limits(f"{sentence}, enough for one guest and short trials", value, fix)
    return FREE_MEMORY.ok(sentence, value)


def memory_lock(files: Files, attempts: Attempts) -> Finding:
    """Whether the agent's sample memory can really be locked."""
    room = files.memory_room()
    # Locked memory is there at once: more than the room would get somebody killed, and the agent takes half of it.
    tried_bytes = SAMPLE_MEMORY_BYTES if room is None else min(SAMPLE_MEMORY_BYTES, room.bytes // 2)
    attempt = attempts.lock_memory(max(tried_bytes, mmap.PAGESIZE))
    value: Data = {"tried_bytes": tried_bytes, "locked": attempt.succeeded}
    if attempt.succeeded:
        return MEMORY_LOCK.ok(attempt.text, value)
    return MEMORY_LOCK.limits(
        f"{tried_bytes >> 20} MiB could not be locked: {attempt.text}",
        value,
        'echo "$USER - memlock unlimited" | sudo tee -a /etc/security/limits.d/stealtime.conf, then log in anew',
    )


def swap(files: Files) -> Finding:
    text = files.text("/proc/swaps")
    if isinstance(text, Absent):
        return SWAP.ok("none: this kernel has no swap", [])
    areas = [line.split()[0] for line in text.splitlines()[1:]]
    return SWAP.limits(f"on: {', '.join(areas)}", areas, "swapoff -a") if areas else SWAP.ok("none", [])


def transparent_huge_pages(files: Files) -> Finding:
    """When the kernel makes huge pages of its own accord."""
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    text = files.text(path)
    if isinstance(text, Absent):
        return HUGE_PAGES.absent(Level.OK, text)
    chosen = re.search(r"\[(\w+)\]", text)
    setting = chosen[1] if chosen else text
    if setting == "always":
        return HUGE_PAGES.limits(setting, setting, f"echo madvise > {path}")
    return HUGE_PAGES.ok(setting, setting)


def huge_pages(files: Files) -> Finding:
    """How many huge pages are reserved; never a fault."""
    text = files.text("/proc/meminfo")
    if isinstance(text, Absent):
        return RESERVED_HUGE_PAGES.absent(Level.OK, text)
    total, free = _meminfo(text, "HugePages_Total"), _meminfo(text, "HugePages_Free")
    page_bytes = _meminfo(text, "Hugepagesize") << 10
    value: Data = {"total": total, "free": free, "page_bytes": page_bytes}
    return RESERVED_HUGE_PAGES.ok(f"{total} of {page_bytes >> 20} MiB", value)


def ksm(files: Files) -> Finding:
    """Whether the kernel merges equal pages."""
    run = files.number("/sys/kernel/mm/ksm/run")
    if isinstance(run, Absent):
        return KSM.absent(Level.OK, run)
    if run != 1:
        return KSM.ok("off", run)
    return KSM.limits("on", run, "echo 2 > /sys/kernel/mm/ksm/run   # stops it and takes merged pages apart")


def numa_balancing(files: Files) -> Finding:
    """Whether pages are moved after the tasks that use them."""
    mode = files.number("/proc/sys/kernel/numa_balancing")
    nodes = len(files.matching("/sys/devices/system/node/node[0-9]*"))
    if isinstance(mode, Absent):
        return NUMA_BALANCING.absent(Level.OK, mode)
    value: Data = {"mode": mode, "nodes": nodes}
    if mode == 0 or nodes < 2:
        return NUMA_BALANCING.ok("off" if mode == 0 else "on, without effect: there is one node", value)
    return NUMA_BALANCING.limits(f"on, over {nodes} nodes", value, "sysctl -w kernel.numa_balancing=0")


def resting_memory(attempts: Attempts) -> Finding:
    """Whether pages that rest for half a second are still there."""
    rested = attempts.rest_pages()
    value: Data = {"pages": rested.pages, "stalled": len(rested.took_ns), "stalled_p50_ns": rested.median_ns}
    if not rested.are_taken_back or rested.median_ns is None:
        return RESTING_MEMORY.ok("stays", value)
    return RESTING_MEMORY.limits(
        f"{rested.stalled_share:.0%} of the pages that rested for half a second took {rested.median_ns / 1000:.0f} us "
        "at the next touch: the machine below takes them back",
        value,
        "ask whoever runs the machine below to keep this guest's memory: locked, or on huge pages",
    )


def _meminfo(text: str, name: str) -> int:
    """A line of /proc/meminfo, in its own unit (kB, or pages); 0 if it is not there."""
    line = re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)
    return int(line[1]) if line else 0
