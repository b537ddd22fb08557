"""`stealtime run` as a user calls it with a campaign that kills hosts: its run, and what it may not leave."""

import os
import signal
import subprocess
from pathlib import Path

from protect_command import STEALTIME

from stealtime.hosts.network import NAMESPACES, PREFIX
from stealtime.store.run import Run, runs_in

_ENDS_WITHIN_S = 30


def start_run(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start a run that is stored in a folder of its own."""
    environment = {**os.environ, "XDG_DATA_HOME": str(folder)}
    argv = [str(STEALTIME), "run", *arguments]
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished_run(running: "subprocess.Popen[str]", folder: Path) -> tuple[Run, str]:
    """Wait until it has ended well; give the run and what it showed."""
    shown, said = running.communicate(timeout=300)
    assert running.returncode == 0, said
    return stored_run(folder), shown


def stored_run(folder: Path) -> Run:
    """Give its run."""
    (run,) = runs_in(folder / "stealtime/runs")
    return Run.open(run)


def interrupt(running: "subprocess.Popen[str]", word: str) -> None:
    """Interrupt it once a line of its progress has a word in it; nothing may be left of its hosts."""
    assert running.stderr is not None
    for line in running.stderr:
        if word in line:
            break
    assert _namespaces_of(running)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=_ENDS_WITHIN_S)
    assert not _namespaces_of(running)


def _namespaces_of(process: "subprocess.Popen[str]") -> set[str]:
    return {entry.name for entry in NAMESPACES.glob(f"{PREFIX}*:{process.pid}:*")}
