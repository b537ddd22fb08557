"""CPUs that are busy until a block ends."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LIBC = ctypes.CDLL(None)


@contextmanager
def busy_cpus(*scheduling: str) -> Iterator[None]:
    """Have a thread that never sleeps on each CPU that is ours.

    Args:
        scheduling: What its command line begins with, such as ``chrt --idle 0``; none: it is scheduled as usual.
    """
    program = (*scheduling, sys.executable, "-c", "while True: pass")
    busy = [
        subprocess.Popen(["taskset", "-c", str(cpu), *program], preexec_fn=mortal)
        for cpu in sorted(os.sched_getaffinity(0))
    ]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def mortal() -> None:
    """End with the process that started this one (PR_SET_PDEATHSIG)."""
    _LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)
