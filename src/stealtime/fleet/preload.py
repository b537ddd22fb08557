"""``dask worker --preload stealtime.fleet.preload``: a worker that keeps out of the way, or does not start.

It binds itself to the host's housekeeping CPUs, and refuses a scheduler that is beyond this machine and not encrypted:
one that stands on the command line before it is spoken to, one of Dask's configuration as soon as it is known. Dask
only logs what a preloaded module raises and goes on (2026.8.0), so a refusal ends the process.
"""

import os
import sys

from distributed import Worker

from stealtime.fleet.transport import check_address
from stealtime.fleet.worker import keep_inherited
from stealtime.lab.host import pin_control_plane
from stealtime.lab.processors import read_cpu_sets
from stealtime.vocabulary.errors import UsageError


async def dask_setup(worker: Worker) -> None:
    """Refuse what is not safe, and go to the CPUs that are not measured."""
    _check(worker.scheduler.address)
    threads = worker.state.nthreads
    if threads != 1:
        words = f"this worker has {threads} threads: two measurements at a time would measure each other"
        _refuse(UsageError(words, hint="start it with --nthreads 1"))
    keep_inherited(os.sched_getaffinity(0))
    pin_control_plane(housekeeping_cpus())


def housekeeping_cpus() -> tuple[int, ...]:
    """Give the CPUs for everything that does not measure: all but the one that is measured by default."""
    sets = read_cpu_sets()
    return tuple(cpu for cpu in sets.usable if cpu != sets.preferred[-1]) or sets.inherited


def _check(address: str) -> None:
    try:
        check_address(address)
    except UsageError as error:
        _refuse(error)


def _refuse(error: UsageError) -> None:
    sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
    sys.stderr.flush()
    os._exit(int(error.exit_code))


def _check_command_line() -> None:
    for word in sys.argv[1:]:
        if word.startswith(("tcp://", "tls://")):
            _check(word)


_check_command_line()
