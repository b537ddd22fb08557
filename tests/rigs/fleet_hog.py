"""A program that takes the measured CPU now and then, but only while one host of a fleet measures there."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

NAME = "hog"
_LOOKED_EVERY_S = 0.02
_SCRIPT = """
import ctypes, os, time
ctypes.CDLL(None).prctl(15, b"{name}", 0, 0, 0)
os.sched_setaffinity(0, {{{cpu}}})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))
while os.getppid() == {parent}:
    end = time.monotonic() + 0.08
    while time.monotonic() < end:
        pass
    time.sleep(0.16)
"""
"""Longer than the 50 ms that the kernel takes from real-time threads, which any host may have."""


@contextmanager
def hog_while_measuring(runs: Path, cpu: int, prefix: Sequence[str] = ()) -> Iterator[list[float]]:
    """Have the hog run while a run in this folder is being measured; gives how long it ran, each time.

    Args:
        runs: Of the host.
        cpu: The measured one.
        prefix: What goes before a command that shall run on the host.
    """
    stop = threading.Event()
    times: list[float] = []

    def follow() -> None:
        while not stop.wait(_LOOKED_EVERY_S):
            if is_measuring(runs):
                script = _SCRIPT.format(name=NAME, cpu=cpu, parent=os.getpid())
                hog = subprocess.Popen([*prefix, sys.executable, "-c", script])
                looks = 0
                while is_measuring(runs) and not stop.wait(_LOOKED_EVERY_S):
                    looks += 1
                hog.kill()
                hog.wait()
                times.append(looks * _LOOKED_EVERY_S)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield times
    finally:
        stop.set()
        thread.join()


def is_measuring(runs: Path) -> bool:
    for manifest in runs.glob("*/manifest.json"):
        try:
            if json.loads(manifest.read_text())["state"] == "running":
                return True
        except (ValueError, OSError):
            continue  # it is being written
    return False
