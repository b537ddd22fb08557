"""The command as a user types it, on real machines: measured, interrupted, killed, resumed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from fabricated_kernel import write_panicking_kernel

pytestmark = [pytest.mark.guest, pytest.mark.beside]

STEALTIME = str(Path(sys.executable).parent / "stealtime")
PLATFORMS = ("--platform", "native,uml")
TIMEOUT_S = 120
RT_RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_DATA_HOME": str(tmp_path)}


@pytest.fixture
def throttling() -> Iterator[str]:
    """What RT throttling is before, to be the same after."""
    before = RT_RUNTIME.read_text()
    yield before
    assert RT_RUNTIME.read_text() == before


def stealtime(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [STEALTIME, *arguments], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def start_and_wait_for(environment: dict[str, str], words: str, *arguments: str) -> "subprocess.Popen[str]":
    """Start a run and wait until its progress holds ``words``."""
    process = subprocess.Popen([STEALTIME, "run", *arguments], env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if words in line:
            return process
    raise AssertionError(f"the run ended without saying {words!r}: {''.join(seen)}")


def show(environment: dict[str, str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(stealtime(environment, "show", "last", "--json").stdout)
    return document


def descendants(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def test_native_and_uml_are_measured_with_the_same_loop(environment: dict[str, str]) -> None:
    ended = stealtime(
        environment, "run", "quick", *PLATFORMS, "-D", "200ms", "-t", "2,10", "--repetitions", "1", "--json"
    )
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    cells = {(cell["platform"], cell["probe"], cell["parameters"].get("threads")): cell for cell in document["cells"]}
    assert len(cells) == 2 * 4
    for cell in cells.values():
        assert cell["stats"]["count"] > 100
        assert cell["stats"]["floor_ns"] <= cell["stats"]["p50_ns"] <= cell["stats"]["max_ns"]
    floors = [cells[platform, "tick", None]["stats"]["floor_ns"] for platform in ("native", "uml")]
    assert max(floors) < 1.5 * min(floors), "UML runs user code at native speed"


def test_an_interrupted_run_leaves_nothing_running_and_is_resumed(
    environment: dict[str, str],
    throttling: str,
) -> None:
    options = ("quick", *PLATFORMS, "--probe", "tick", "-D", "1s", "--repetitions", "1", "--lift-rt-throttling")
    process = start_and_wait_for(environment, "booting uml", *options)
    started = descendants(process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert "error: interrupted" in errors
    assert "Traceback" not in errors
    _, alive = psutil.wait_procs(started, timeout=10)
    assert alive == []
    assert [cell["platform"] for cell in show(environment)["cells"]] == ["native"]
    resumed = stealtime(environment, "run", "--resume", "last")
    assert resumed.returncode == 0, resumed.stderr
    assert [cell["platform"] for cell in show(environment)["cells"]] == ["native", "uml"]


@pytest.mark.truth
def test_a_killed_run_takes_its_guest_with_it_and_is_resumed(environment: dict[str, str]) -> None:
    options = ("quick", *PLATFORMS, "--probe", "tick", "-D", "1s", "--repetitions", "1")
    process = start_and_wait_for(environment, "booting uml", *options)
    started = descendants(process)
    process.kill()
    process.wait(timeout=TIMEOUT_S)
    _, alive = psutil.wait_procs(started, timeout=10)
    assert alive == []
    listed = json.loads(stealtime(environment, "ls", "--json").stdout)["runs"]
    assert [run["state"] for run in listed] == ["interrupted"]
    resumed = stealtime(environment, "run", "--resume", "last")
    assert resumed.returncode == 0, resumed.stderr
    assert {cell["platform"] for cell in show(environment)["cells"]} == {"native", "uml"}


@pytest.mark.truth
def test_a_guest_that_is_killed_in_the_middle_is_booted_again_and_loses_no_cell(environment: dict[str, str]) -> None:
    process = start_and_wait_for(
        environment, "uml.alone.tick-68us.r1", "quick", "-P", "uml", "--probe", "tick,wakeup", "-D", "2s",
        "--repetitions", "1",
    )  # fmt: skip
    guests = [one for one in descendants(process) if one.name().startswith("linux")]
    assert guests
    for guest in guests:
        # Its processes go down together: the next may be gone with the one before.
        with suppress(psutil.NoSuchProcess):
            guest.kill()
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert "uml was lost" in errors
    assert process.returncode == 0, errors
    assert [cell["valid"] for cell in show(environment)["cells"]] == [True, True]


@pytest.mark.truth
def test_a_kernel_that_does_not_boot_fails_its_cells_and_the_rest_goes_on(
    environment: dict[str, str], tmp_path: Path
) -> None:
    kernel = write_panicking_kernel(tmp_path / "vmlinux")
    ended = stealtime(
        environment, "run", "quick", "-P", "native,qemu-tcg-paravirt", "--probe", "tick", "-D", "100ms",
        "--repetitions", "1", "--kernel", str(kernel),
    )  # fmt: skip
    assert ended.returncode == 4, ended.stderr
    assert "cells failed: qemu-tcg-paravirt.alone.tick-68us.r1" in ended.stderr
    assert [cell["platform"] for cell in show(environment)["cells"] if cell["valid"]] == ["native"]
