"""`stealtime protect` as a user calls it, and what it may not leave."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from two_hosts import TIMING

from stealtime.protect.state import STATE_VARIABLE, State

STEALTIME = Path(sys.executable).parent / "stealtime"
PATIENCE_S = 120.0

_TIMING = ", ".join(f'{key} = "{value}"' for key, value in TIMING.items())
MACHINE = f"""
name = "phone"
program = "counter"
program_arguments = ["tcp=7000", "udp=7000"]
timing = {{ {_TIMING} }}
"""
"""A ``VM.toml``; its standby is not given up because the tests' host is busy."""


def protect(state: State, *arguments: str, prefix: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Carry out a command with a state of its own.

    Args:
        state: Where members live.
        arguments: Of ``stealtime protect``.
        prefix: Goes before the command line.
    """
    return subprocess.run(
        [*prefix, STEALTIME, "protect", *arguments],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
        env={**os.environ, STATE_VARIABLE: str(state.path)},
    )


def assert_refused(done: subprocess.CompletedProcess[str], code: int, *said: str) -> None:
    """Assert that a command ended with one sentence, which holds all that was said, and one hint."""
    assert done.returncode == code, done
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["error", "hint"], done.stderr
    for words in said:
        assert words in lines[0], done.stderr


def belonging_to(state: State) -> list[psutil.Process]:
    """Find the members, daemons and guests of a state."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(state.path) in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def taps() -> set[str]:
    """Give the network devices here that members make."""
    return {name for name in psutil.net_if_stats() if name.startswith(("tap-", "stt"))}


@contextmanager
def state_of_its_own(folder: Path) -> Iterator[State]:
    """Give a state that nobody else uses; whoever lives there afterwards is ended."""
    state = State(folder / "p")
    yield state
    for process in belonging_to(state):
        process.kill()
