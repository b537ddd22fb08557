"""``dask worker --preload stealtime.fleet.preload``: a worker that keeps out of the way, or does not start.

It binds itself to the host's housekeeping CPUs, and refuses a scheduler that is beyond this machine and not encrypted.
"""

import os

from distributed import Worker

from stealtime.fleet.transport import check_address
from stealtime.fleet.worker import keep_inherited
from stealtime.lab.host import pin_control_plane
from stealtime.lab.processors import read_cpu_sets
from stealtime.vocabulary.errors import UsageError


async def dask_setup(worker: Worker) -> None:
    """Refuse what is not safe, and go to the CPUs that are not measured.

    Raises:
        UsageError: The scheduler is not encrypted, or the worker has more than one thread.
    """
    check_address(worker.scheduler.address)
    if worker.state.nthreads != 1:
        raise UsageError(
            f"this worker has {worker.state.nthreads} threads: two measurements at a time would measure each other",
            hint="start it with --nthreads 1",
        )
    keep_inherited(os.sched_getaffinity(0))
    pin_control_plane(housekeeping_cpus())


def housekeeping_cpus() -> tuple[int, ...]:
    """Give the CPUs for everything that does not measure: all but the one that is measured by default."""
    sets = read_cpu_sets()
    return tuple(cpu for cpu in sets.usable if cpu != sets.preferred[-1]) or sets.inherited
