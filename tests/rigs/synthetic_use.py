"""Uses of a host and its guests, made up for tests of verdicts."""

import zlib
from collections.abc import Sequence

from stealtime.capacity.guest import Guest
from stealtime.capacity.threads_use import ThreadsUse
from stealtime.capacity.use import CpuUse, Figure, GuestUse, Use, ViewUse
from stealtime.vocabulary.readings import Absent

NOTHING = ThreadsUse(0.0, 0.0, 0.0, Absent(absent="never dispatched"))

RULE = """
schema_version = 1
[[rules]]
id = "mine"
verdict = "over-committed host"
about = "guest"
conditions = [{ figure = "vcpu_wait_percent", above = 1 }]
source = "me"
date = "2026-11-23"
why = "it waits"
change = "move it"
"""
"""A file of one rule."""


def guest(
    name: str = "a",
    *,
    run: Sequence[float] = (20.0,),
    wait: Sequence[float] = (0.0,),
    wait_per_dispatch_ns: Figure = 3_000_000.0,
    queue: float | None = None,
    throttled: Figure = 0.0,
    quota_cpus: float | None = None,
    unreadable: Absent | None = None,
    cpus: Sequence[int] = (0, 1),
    others_run: Figure | None = None,
) -> GuestUse:
    """Give a guest's use; ``run`` and ``wait`` have one figure for each virtual CPU.

    One of User-Mode Linux has ``others_run``, what others used of its CPUs.
    """
    vcpus = {number: ThreadsUse(run[number], wait[number], 100.0, wait_per_dispatch_ns) for number in range(len(run))}
    view = None if queue is None else ViewUse(queue, len(run), 0.0, 0.0)
    return GuestUse(
        guest=Guest(
            name, "qemu" if others_run is None else "uml", pid=zlib.crc32(name.encode()) % 100_000, started_ticks=1
        ),
        vcpus=vcpus,
        emulator=NOTHING,
        io=NOTHING,
        allowed_cpus=frozenset(cpus),
        unreadable=unreadable,
        throttled_percent=throttled,
        quota_cpus=quota_cpus,
        view=view,
        others_run_percent=others_run,
    )


def use(
    guests: Sequence[GuestUse] = (),
    *,
    busy: Sequence[Figure] = (20.0, 20.0),
    steal: Figure = 0.0,
    memory: Figure = 80.0,
    memory_pressure: Figure = 0.0,
) -> Use:
    """Give a second of a host; ``busy`` has one figure for each CPU."""
    return Use(
        elapsed_s=1.0,
        cpus={cpu: CpuUse(one, 0.0, 0.0, steal) for cpu, one in enumerate(busy)},
        memory_available_percent=memory,
        pressure_percent={"cpu": 0.0, "memory": memory_pressure, "io": 0.0},
        guests={one.guest.key: one for one in guests},
    )
