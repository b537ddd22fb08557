"""Strangers on purpose: programs that this process starts and that do not descend from it.

What we start is ours, and no stranger: a shell starts them and ends, so that they go to whoever adopts orphans.
"""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.process import RUN_MARK

PERIOD_MS = 50.0
_LONG = "1h"
_SOURCE = "\n".join(
    f"double f{number}(double x) {{ for (int i = 0; i < {number + 3}; i++) x = x * x / (i + 1.5) + i; return x; }}"
    for number in range(300)
)


@contextmanager
def hog(cpu: int, duty: float) -> Iterator[int]:
    """Use a part of one CPU, in turns of 50 ms; gives the process.

    Args:
        cpu: Where.
        duty: The part, above 0 and up to 1.
    """
    argv = [str(find_agent()), "load", "--kind", "cpu", "--cpu", str(cpu), "-D", _LONG]
    if duty < 1.0:
        on_us = round(PERIOD_MS * 1e3 * duty)
        argv += ["--on", f"{on_us}us", "--off", f"{round(PERIOD_MS * 1e3) - on_us}us"]
    with _adopted(argv) as pid:
        yield pid


@contextmanager
def compiling(folder: Path, jobs: int) -> Iterator[int]:
    """Compile a file over and over with so many compilers at once, on any CPU; gives the process that starts them."""
    source = folder / "busy.c"
    source.write_text(_SOURCE)
    once = f"cc -O2 -c -o /dev/null {shlex.quote(str(source))}"
    loops = " & ".join(f"while :; do {once}; done" for _ in range(jobs))
    with _adopted(["sh", "-c", f"{loops} & wait"]) as pid:
        yield pid


@contextmanager
def _adopted(argv: Sequence[str]) -> Iterator[int]:
    environment = {name: value for name, value in os.environ.items() if name != RUN_MARK}
    # A session of its own, by whose number all of it can be ended.
    command = f"setsid {shlex.join(argv)} >/dev/null 2>&1 & echo $!"
    started = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True, env=environment)
    pid = int(started.stdout)
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
