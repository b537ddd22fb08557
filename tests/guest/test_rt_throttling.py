"""RT throttling is lifted while measuring and put back, whoever is interrupted or killed meanwhile."""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from injected_stalls import calibrated_tick
from machines import MEASURED_CPU, PRIORITY, marked_processes, needs_root, request_for, until

from stealtime._core import owner_of
from stealtime.lab.platforms import registry
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.process import run_mark
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.message import RunTrial

pytestmark = [pytest.mark.guest, pytest.mark.asyncio(loop_scope="session"), needs_root]

RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")
PERIOD = Path("/proc/sys/kernel/sched_rt_period_us")
MARKS = Path("/run/stealtime/rt-throttling")
LOCK = MARKS.with_suffix(".lock")
STEALTIME = str(Path(sys.executable).parent / "stealtime")
DEADLINE_S = 30.0
LONG = "60s"
"""No test waits so long: each ends the trial itself."""


def runtime_us() -> int:
    return int(RUNTIME.read_text())


def marks() -> list[Path]:
    return list(MARKS.iterdir()) if MARKS.is_dir() else []


@pytest.fixture
def own_value() -> Iterator[int]:
    """A value of its own, so that what is put back is this and no default; the machine's value comes back after."""
    deadline = time.monotonic() + DEADLINE_S
    while marks() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not marks(), f"something else on this machine has lifted RT throttling: {marks()}"
    before = runtime_us()
    chosen = int(PERIOD.read_text()) - 31_000
    RUNTIME.write_text(str(chosen))
    try:
        yield chosen
    finally:
        RUNTIME.write_text(str(before))


@pytest.fixture
def start_run(tmp_path: Path) -> Iterator[Callable[[str], "subprocess.Popen[str]"]]:
    """Start a native run that lifts the limit; it is killed if a test leaves it."""
    started: list[subprocess.Popen[str]] = []

    def start(duration: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [STEALTIME, "run", "quick", "-P", "native", "--probe", "tick", "-D", duration, "--repetitions", "1",
             "--lift-rt-throttling"],
            env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


async def is_lifted() -> None:
    assert await until(lambda: runtime_us() == -1, DEADLINE_S), "the limit was never lifted"
    assert marks(), "nothing says who lifted it"


async def is_put_back(value: int) -> None:
    assert await until(lambda: runtime_us() == value and not marks(), DEADLINE_S), (runtime_us(), marks())


async def are_gone(processes: list[psutil.Process]) -> None:
    _, alive = await asyncio.to_thread(psutil.wait_procs, processes, DEADLINE_S)
    assert alive == []


StartRun = Callable[[str], "subprocess.Popen[str]"]


async def test_it_is_put_back_at_the_end(own_value: int, start_run: StartRun) -> None:
    process = start_run("2s")
    await is_lifted()
    _, errors = await asyncio.to_thread(process.communicate, timeout=DEADLINE_S)
    assert process.returncode == 0, errors
    assert (runtime_us(), marks()) == (own_value, [])


async def test_it_is_put_back_after_ctrl_c(own_value: int, start_run: StartRun) -> None:
    process = start_run(LONG)
    await is_lifted()
    descendants = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    _, errors = await asyncio.to_thread(process.communicate, timeout=DEADLINE_S)
    assert process.returncode == 1, errors
    assert "Traceback" not in errors
    await are_gone(descendants)
    await is_put_back(own_value)


async def test_it_is_put_back_after_the_control_plane_was_killed(own_value: int, start_run: StartRun) -> None:
    process = start_run(LONG)
    await is_lifted()
    mark = owner_of(process.pid)
    descendants = psutil.Process(process.pid).children(recursive=True)
    assert descendants
    process.kill()
    await is_put_back(own_value)
    await are_gone(descendants)
    assert marked_processes(mark) == []


def start_lifting(duration: str) -> subprocess.Popen[str]:
    """Start a measurement of its own that lifts the limit meanwhile."""
    return subprocess.Popen(
        [find_agent(), "tick", "-D", duration, "--lift-rt-throttling", "--cpu", str(MEASURED_CPU)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


async def test_who_lifts_waits_for_who_is_changing_it(own_value: int) -> None:
    """Two that read and write in turns would each take the other's -1 for what was there before."""
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        agent = start_lifting("200ms")
        try:
            assert await until(lambda: waits_for_lock(agent.pid), DEADLINE_S), "it did not wait"
            assert (runtime_us(), marks()) == (own_value, [])
            fcntl.flock(lock, fcntl.LOCK_UN)
            _, errors = await asyncio.to_thread(agent.communicate, timeout=DEADLINE_S)
        finally:
            agent.kill()
    assert agent.returncode == 0, errors
    await is_put_back(own_value)


def waits_for_lock(pid: int) -> bool:
    """Whether the kernel lists a process among those that wait for a lock (``proc_locks(5)``)."""
    waiting = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
    return any(words[words.index("->") + 4] == str(pid) for words in waiting)


async def test_what_a_container_of_its_own_has_lifted_is_not_taken_for_the_original(own_value: int) -> None:
    """Its marks are in a /run of its own: here there is only a limit of -1, which it puts back when it ends."""
    RUNTIME.write_text("-1")  # noqa: ASYNC240
    agent = start_lifting("2s")
    try:
        assert await until(lambda: "measure" in thread_names(agent.pid), DEADLINE_S), "it does not measure"
        RUNTIME.write_text(str(own_value))  # noqa: ASYNC240
        _, errors = await asyncio.to_thread(agent.communicate, timeout=DEADLINE_S)
    finally:
        agent.kill()
    assert agent.returncode == 0, errors
    assert (runtime_us(), marks()) == (own_value, [])


def thread_names(pid: int) -> list[str]:
    return [thread.read_text().strip() for thread in Path(f"/proc/{pid}/task").glob("*/comm")]


class LiftedTrial:
    """A trial on a native machine of this process, with the limit lifted."""

    def __init__(self, agent: psutil.Process, watchdog: psutil.Process) -> None:
        self.agent = agent
        self.watchdog = watchdog


async def measure_until_killed(folder: Path, while_lifted: Callable[[LiftedTrial], None]) -> None:
    """Measure natively, do something to the agent meanwhile, and see the trial end by it."""
    before = set(marked_processes(run_mark()))
    async with registry.find("native").boot(request_for(folder)) as machine:
        request = RunTrial(
            trial=1,
            probe=await calibrated_tick(machine),
            cpus=list(machine.measured_cpus),
            priority=PRIORITY,
            duration_ns=60_000_000_000,
            lift_rt_throttling=True,
        )
        trial = asyncio.create_task(machine.connection.run_trial(request, folder, deadline_s=90))
        await is_lifted()
        started = [process for process in marked_processes(run_mark()) if process not in before]
        agent = next(process for process in started if process.cmdline()[-1] == "serve")
        watchdog = next(process for process in started if "--when-closed" in process.cmdline())
        while_lifted(LiftedTrial(agent, watchdog))
        with pytest.raises(StealtimeError, match="SIGKILL"):
            await trial
        await are_gone([agent])
    assert set(marked_processes(run_mark())) <= before | {watchdog}


async def test_the_watchdog_puts_it_back_when_the_agent_was_killed(own_value: int, tmp_path: Path) -> None:
    watchdogs: list[psutil.Process] = []

    def kill_agent(trial: LiftedTrial) -> None:
        watchdogs.append(trial.watchdog)
        trial.agent.kill()

    await measure_until_killed(tmp_path, kill_agent)
    await is_put_back(own_value)
    await are_gone(watchdogs)


async def test_the_next_start_puts_it_back_when_agent_and_watchdog_were_killed(own_value: int, tmp_path: Path) -> None:
    def kill_both(trial: LiftedTrial) -> None:
        # The watchdog first: it must not see the agent go.
        trial.watchdog.kill()
        trial.agent.kill()

    await measure_until_killed(tmp_path, kill_both)
    assert runtime_us() == -1, "nobody was left to put it back"
    assert len(marks()) == 1
    done = subprocess.run([find_agent(), "restore"], capture_output=True, text=True, timeout=DEADLINE_S, check=False)  # noqa: ASYNC221
    assert done.returncode == 0, done.stderr
    assert str(own_value) in done.stderr
    assert (runtime_us(), marks()) == (own_value, [])


async def test_what_a_killed_container_with_a_run_of_its_own_left_is_put_back_outside(own_value: int) -> None:
    """Its PID namespace takes agent and watchdog with it, and its mount namespace takes the marks."""
    measure = f"{find_agent()} tick -D {LONG} --lift-rt-throttling --cpu {MEASURED_CPU}"
    namespaces = ["unshare", "--pid", "--mount", "--mount-proc", "--time", "--boottime", "100000", "--fork"]
    # As the first process there the agent would be the init of a guest.
    argv = [*namespaces, "sh", "-c", f"mount -t tmpfs none /run && {measure}; :"]
    container = subprocess.Popen(argv, stdout=subprocess.DEVNULL)  # noqa: ASYNC220
    try:
        assert await until(lambda: runtime_us() == -1, DEADLINE_S), "the limit was never lifted"
        assert marks() == [], "its /run is this one"
        restore()
        assert runtime_us() == -1, "it was taken from one that lives"
        (first,) = psutil.Process(container.pid).children()
        inside = first.children(recursive=True)
        first.kill()
        await are_gone([first, *inside])
        assert runtime_us() == -1, "nobody was left to put it back"
        assert str(own_value) in restore()
    finally:
        container.kill()
        container.wait()
    assert runtime_us() == own_value
    assert restore() == ""


async def test_what_a_killed_container_left_is_told_in_another_which_cannot_judge_it(own_value: int) -> None:
    """Beside each other neither knows whether the other's processes live: it stays lifted, and is said."""
    namespaces = ["unshare", "--pid", "--mount", "--mount-proc", "--fork"]
    measure = f"mount -t tmpfs none /run && {find_agent()} tick --lift-rt-throttling --cpu {MEASURED_CPU}"
    argv = [*namespaces, "sh", "-c", f"{measure} -D {LONG}; :"]
    first = subprocess.Popen(argv, stdout=subprocess.DEVNULL)  # noqa: ASYNC220
    try:
        assert await until(lambda: runtime_us() == -1, DEADLINE_S), "the limit was never lifted"
        (inside,) = psutil.Process(first.pid).children()
        # Held, or the next namespace may get its number, and then it knows that the first has ended.
        with Path(f"/proc/{inside.pid}/ns/pid").open():  # noqa: ASYNC230
            inside.kill()
            await are_gone([inside])
            argv = [*namespaces, "sh", "-c", f"{measure} -D 300ms --json; :"]
            second = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, check=False)  # noqa: ASYNC221
    finally:
        first.kill()
        first.wait()
    assert runtime_us() == -1, "it was taken from one that may live"
    findings = {one["code"]: one for one in json.loads(second.stdout)["outcome"]["findings"]}
    assert "nobody can tell from here whether it still runs" in findings["rt_throttling_left"]["text"]
    assert f"write {own_value} to" in findings["rt_throttling_left"]["hint"]
    assert "warning: RT throttling stays lifted" in second.stderr
    assert "hint: if it has ended" in second.stderr
    assert str(own_value) in restore()
    assert runtime_us() == own_value


def restore() -> str:
    """Put back what is left over; give what is said of it."""
    done = subprocess.run([find_agent(), "restore"], capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    return done.stderr
