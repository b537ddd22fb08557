"""What is refused, as a user meets it, and that the machine that is there is not touched by it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from stealtime.protect.state import STATE_VARIABLE, State

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

STEALTIME = Path(sys.executable).parent / "stealtime"
VM = 'name = "phone"\nprogram = "counter"\nprogram_arguments = ["tcp=7000", "udp=7000"]\n'
PATIENCE_S = 120.0


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("s")
    yield made
    for process in belonging_to(State(made / "p")):
        process.kill()


def protect(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Carry out `stealtime protect` with a state of its own."""
    environment = {**os.environ, STATE_VARIABLE: str(folder / "p")}
    return subprocess.run(
        [STEALTIME, "protect", *arguments],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
        env=environment,
    )


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


def test_a_second_start_is_refused_and_stop_leaves_nothing(folder: Path) -> None:
    vm = folder / "VM.toml"
    vm.write_text(VM)
    start = ("start", str(vm), "--to", "local", "--host", "a", "--timeout", f"{PATIENCE_S:g}s")
    started = protect(folder, *start)
    assert started.returncode == 0, started.stderr
    before = {process.pid for process in belonging_to(State(folder / "p"))}
    again = protect(folder, *start)
    assert again.returncode == 2
    assert "already has a member" in again.stderr
    assert "stealtime protect stop phone" in again.stderr
    assert {process.pid for process in belonging_to(State(folder / "p"))} == before
    stopped = protect(folder, "stop", "phone")
    assert stopped.returncode == 0, stopped.stderr
    _, alive = psutil.wait_procs(belonging_to(State(folder / "p")), timeout=PATIENCE_S)
    assert alive == []


def test_a_device_that_cannot_be_protected_is_refused_by_name(folder: Path) -> None:
    vm = folder / "VM.toml"
    vm.write_text(VM + 'devices = ["vfio-pci,host=00:01.0"]\n')
    refused = protect(folder, "start", str(vm), "--to", "local", "--host", "a")
    assert refused.returncode == 2
    assert "vfio-pci" in refused.stderr
    assert "cannot be protected" in refused.stderr
    assert not (folder / "p").exists()
