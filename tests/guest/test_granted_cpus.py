"""Which CPU is measured, by real kernels: isolated ones, named ones, and those that change under a trial."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machines import HOUSEKEEPING_CPU, MEASURED_CPU, needs_root
from memory_group import MemoryGroup

from stealtime.lab.image.initramfs import pack_initramfs
from stealtime.lab.image.kernel import find_kernel
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.qemu_program import find_qemu

pytestmark = [pytest.mark.guest, pytest.mark.beside, needs_root]

CPUSET = Path("/sys/fs/cgroup/cpuset")


def confined_to(cpu: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The agent, started on one CPU alone."""
    argv = ["taskset", "-c", str(cpu), str(find_agent()), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


def codes(document: dict[str, Any]) -> dict[str, str]:
    return {finding["code"]: finding["text"] for finding in document["outcome"]["findings"]}


@pytest.mark.skipif(MEASURED_CPU == HOUSEKEEPING_CPU, reason="needs two CPUs")
def test_a_cpu_that_is_named_is_measured_though_it_was_not_inherited() -> None:
    named = confined_to(HOUSEKEEPING_CPU, "tick", "-a", str(MEASURED_CPU), "-D", "200ms", "--json")
    assert json.loads(named.stdout)["outcome"]["placement"]["cpus"] == [MEASURED_CPU], named.stderr
    assert named.stderr == ""
    chosen = confined_to(HOUSEKEEPING_CPU, "tick", "-D", "200ms", "--json")
    assert json.loads(chosen.stdout)["outcome"]["placement"]["cpus"] == [HOUSEKEEPING_CPU]
    assert f"started on the CPUs {HOUSEKEEPING_CPU} (taskset?), and the kernel grants" in chosen.stderr
    refused = confined_to(HOUSEKEEPING_CPU, "tick", "-a", "4095", "-D", "200ms")
    assert refused.returncode == 1
    assert "CPU 4095 cannot be measured, the kernel grants this process the CPUs" in refused.stderr


def test_after_isolcpus_the_isolated_cpu_is_measured() -> None:
    """Boot a guest of two CPUs, one of them isolated: its first process is confined to the other one."""
    kernel = find_kernel("rt")
    initramfs = pack_initramfs(find_agent(), (), kernel)
    # A warning of the kernel would go to the same console, between two lines of the document.
    words = (
        "console=ttyS0 loglevel=1 panic=-1 cryptomgr.notests tsc=reliable isolcpus=1 "
        "stealtime.run=tick,duration=300ms,json"
    )
    argv = [
        *(find_qemu(), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"),
        *("-machine", "q35,accel=tcg,hpet=off", "-cpu", "max", "-smp", "2", "-m", "256M"),
        *("-kernel", str(kernel.boot_image), "-initrd", str(initramfs.path), "-append", words),
    ]
    console = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=90, stdin=subprocess.DEVNULL)
    start, end = console.stdout.find("{"), console.stdout.rfind("}")
    assert start >= 0, console.stdout + console.stderr
    document = json.loads(console.stdout[start : end + 1])
    machine = document["machine"]
    assert machine["agent_cpus"] == {"value": [0]}, "else this guest isolates nothing"
    assert machine["isolated_cpus"] == {"value": "1"}
    assert machine["granted_cpus"] == {"value": [0, 1]}
    assert document["outcome"]["placement"]["cpus"] == [1]
    assert document["outcome"]["placement"]["cpu"] == 1
    assert "the kernel keeps the CPUs 1 free (isolcpus)" in console.stdout


@pytest.fixture
def cpuset() -> Iterator[Path]:
    if not (CPUSET / "cpuset.cpus").exists():
        pytest.skip("the controller cpuset is not mounted as version 1 here")
    group = CPUSET / f"stealtime-test-{os.getpid()}"
    group.mkdir()
    (group / "cpuset.mems").write_text((CPUSET / "cpuset.mems").read_text())
    (group / "cpuset.cpus").write_text(f"{HOUSEKEEPING_CPU},{MEASURED_CPU}")
    yield group
    group.rmdir()


def measuring(*, group: Path | None = None) -> "subprocess.Popen[str]":
    guard = [] if group is None else [str(find_agent()), "guard", "--cgroup", str(group), "--"]
    argv = [*guard, str(find_agent()), "tick", "-a", str(MEASURED_CPU), "-D", "1500ms", "--json"]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def measuring_thread(of: "subprocess.Popen[str]") -> int:
    """The thread that measures, of the process or of a child of it; waits until it is in its place."""
    for _ in range(500):
        for comm in Path("/proc").glob("[0-9]*/task/[0-9]*/comm"):
            try:
                is_it = comm.read_text() == "measure\n" and os.sched_getaffinity(int(comm.parent.name)) == {
                    MEASURED_CPU
                }
                parent = int((comm.parents[2] / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, ValueError):
                continue
            if is_it and of.pid in (parent, int(comm.parents[2].name)):
                return int(comm.parent.name)
        time.sleep(0.01)
    raise AssertionError("nothing measures")


@pytest.mark.skipif(MEASURED_CPU == HOUSEKEEPING_CPU, reason="needs two CPUs")
def test_a_trial_whose_thread_is_put_elsewhere_in_the_middle_is_invalid_and_says_when() -> None:
    process = measuring()
    thread = measuring_thread(process)
    time.sleep(0.6)
    os.sched_setaffinity(thread, {HOUSEKEEPING_CPU})
    output, errors = process.communicate(timeout=60)
    document = json.loads(output)
    assert (process.returncode, document["valid"]) == (4, False), errors
    # Who looks is on the CPU that the thread was put on: it may come to look only when that is over.
    assert f" on CPU {HOUSEKEEPING_CPU} in" in codes(document)["cpu_changed"]


@pytest.mark.skipif(MEASURED_CPU == HOUSEKEEPING_CPU, reason="needs two CPUs")
def test_a_trial_whose_cpuset_shrinks_and_grows_again_is_invalid(cpuset: Path) -> None:
    process = measuring(group=cpuset)
    measuring_thread(process)
    time.sleep(0.6)
    (cpuset / "cpuset.cpus").write_text(str(HOUSEKEEPING_CPU))
    time.sleep(0.4)
    (cpuset / "cpuset.cpus").write_text(f"{HOUSEKEEPING_CPU},{MEASURED_CPU}")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 4, errors
    assert f"CPU {MEASURED_CPU} was to be measured" in codes(json.loads(output))["cpu_changed"]


@pytest.fixture
def of_200_mib() -> Iterator[MemoryGroup]:
    with MemoryGroup(200 << 20) as group:
        yield group


def inside(group: MemoryGroup, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The agent in a memory group, which kills nothing."""
    guard = [str(find_agent()), "guard", "--cgroup", str(group.path), "--"]
    argv = [*guard, str(find_agent()), *arguments]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert group.killed == 0, (ended.returncode, ended.stderr)
    return ended


def test_a_day_in_a_memory_group_of_200_mib_is_refused_and_not_killed(of_200_mib: MemoryGroup) -> None:
    ended = inside(of_200_mib, "tick", "-a", str(MEASURED_CPU), "-D", "24h")
    assert ended.returncode == 1
    assert "a trial of 86400 s may give" in ended.stderr
    assert "`stealtime run -D` stores samples while it measures" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rtload", "100us/10ms", "--polluters", "8", "--polluter-memory", "64MiB"], "8 polluters of 67108864 bytes"),
        (["rtload", "1us/100us", "-D", "400s"], "the rows of 4000000 jobs"),
        (
            ["contend", "-t", "32", "-i", "100000", "--searches", "1", "--collection", "4KiB", "--io", "0s"],
            "the rows of 3200000 iterations",
        ),
        (["tick", "-D", "24h", "-l", "100000000"], "no memory for 100000000 samples (400000000 bytes)"),
        (["tick", "-D", "1h", "--inject-every", "1ms", "--inject-steal", "10us"], "the injected thefts"),
        (["load", "-t", "64"], "no memory for 64 threads with"),
        (["counter", "--tcp", "127.0.0.1:0", "--memory", "400MiB"], "no memory for the counter's 419430400 bytes"),
    ],
)
def test_what_a_memory_group_of_200_mib_has_no_room_for_is_refused_with_its_file(
    of_200_mib: MemoryGroup, arguments: list[str], told: str
) -> None:
    ended = inside(of_200_mib, *arguments)
    assert ended.returncode == 1, ended.stderr
    assert told in ended.stderr
    assert f"may still be used by {of_200_mib.limit_file}" in ended.stderr
    assert ended.stderr.count("may still be used by") == 1, "nothing is said twice"


def test_samples_that_cannot_come_are_no_reason_to_refuse(of_200_mib: MemoryGroup) -> None:
    """A billion samples would be 4 GB; in a fifth of a second come some thousand."""
    ended = inside(of_200_mib, "tick", "-a", str(MEASURED_CPU), "-D", "200ms", "-l", "1000000000", "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["stats"]["count"] > 0


@pytest.mark.skipif(MEASURED_CPU == HOUSEKEEPING_CPU, reason="needs two CPUs")
def test_a_real_time_load_may_have_the_only_cpu_that_was_inherited() -> None:
    ended = confined_to(
        MEASURED_CPU, "load", "--kind", "cpu", "-a", str(MEASURED_CPU), "-p", "50", "-D", "300ms", "--json"
    )
    document = json.loads(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    assert f"started on ({MEASURED_CPU}), so the agent answers on CPU" in codes(document)["answers_elsewhere"]
    assert document["outcome"]["work"] > 0


@pytest.mark.skipif(MEASURED_CPU == HOUSEKEEPING_CPU, reason="needs two CPUs")
def test_a_load_that_is_put_elsewhere_in_the_middle_is_invalid_and_says_when() -> None:
    argv = [str(find_agent()), "load", "-a", str(MEASURED_CPU), "-D", "3s", "--json"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    thread = loading_thread(process)
    time.sleep(1.2)
    os.sched_setaffinity(thread, {HOUSEKEEPING_CPU})
    output, errors = process.communicate(timeout=60)
    document = json.loads(output)
    assert (process.returncode, document["valid"]) == (4, False), errors
    assert f"was put on CPU {HOUSEKEEPING_CPU} instead between" in codes(document)["cpu_changed"]


def loading_thread(process: "subprocess.Popen[str]") -> int:
    """Wait for the thread that loads; give its id."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for comm in Path(f"/proc/{process.pid}/task").glob("*/comm"):
            if comm.read_text().strip() == "st-load":
                return int(comm.parent.name)
        time.sleep(0.01)
    raise AssertionError("nothing loads")
