"""Whether a check tells the truth: known disturbances, and the same without them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from known_stalls import known_stalls
from open_agent import open_agent
from trace_instances import instances
from traced_cpu import traced_cpu

from stealtime.lab.platforms.agent_binary import find_agent

pytestmark = [pytest.mark.guest, pytest.mark.traced]

CPU = traced_cpu()
STALL_NS = 60_000_000
BAR = "40ms"
"""Between what this machine does by itself and what is injected."""


def start(*arguments: str, user: str | None = None, duration: str = "2s") -> "subprocess.Popen[str]":
    command = [str(find_agent()), "check", "--format", "json", "-a", str(CPU), "-D", duration, "--bar", BAR, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, user=user)


def end(process: "subprocess.Popen[str]") -> tuple[int, dict[str, Any]]:
    output, said = process.communicate(timeout=60)
    assert output, said
    document: dict[str, Any] = json.loads(output)
    return process.returncode, document


@contextmanager
def busy(cpu: int) -> Iterator[None]:
    """An ordinary thread that never sleeps."""
    program = f"import os\nos.sched_setaffinity(0, [{cpu}])\nwhile True: pass"
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def hog(duration: str) -> "Iterator[subprocess.Popen[bytes]]":
    """A real-time thread of the highest priority."""
    load = [str(find_agent()), "load", "-a", str(CPU), "--priority", "99", "-D", duration]
    process = subprocess.Popen(load, stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        yield process
    finally:
        process.terminate()
        process.wait()


def waits(process: int, name: str) -> None:
    """Wait until a thread of a process may run on the one CPU alone."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        for thread in Path(f"/proc/{process}/task").iterdir():
            is_it = (thread / "comm").read_text().strip() == name
            if is_it and f"Cpus_allowed_list:\t{CPU}\n" in (thread / "status").read_text():
                return
        time.sleep(0.01)
    raise AssertionError(f"no thread {name} asked for CPU {CPU}")


def test_a_real_time_thread_that_holds_a_cpu_is_critical_and_named() -> None:
    with known_stalls([CPU], STALL_NS) as stalls:
        code, document = end(start())
    assert (code, document["state"]) == (3, "critical"), document["summary"]
    worst = document["worst"]
    assert worst["cpu"] == CPU
    # The wake-up may have been due up to an interval after the stall began.
    assert worst["late_ns"] > STALL_NS - 5_000_000
    assert worst["late_ns"] < max(stalls.longest_ns) + STALL_NS
    cause = document["cause"]
    assert cause["is_known"]
    assert cause["text"].startswith("preempted by python"), cause
    assert cause["parts"][0]["ns"] > STALL_NS - 10_000_000
    assert instances() == []


def test_choosing_a_traced_cpu_leaves_nothing() -> None:
    assert traced_cpu.__wrapped__() in os.sched_getaffinity(0)
    assert instances("test-idle-") == []


def test_without_it_the_same_machine_is_not_critical_for_that_reason() -> None:
    code, document = end(start(duration="1s"))
    assert document["policy"] == "SCHED_FIFO"
    assert document["cpus"][0]["samples"] > 0
    # A host may take the machine away for as long; then it is not the thread of before that is blamed.
    if code != 0:
        assert "python" not in document["cause"]["text"], document["summary"]


def test_a_cpu_that_runs_nothing_of_the_check_is_critical_in_time() -> None:
    with hog("30s"):
        begun = time.monotonic()
        code, document = end(start(duration="500ms"))
        assert time.monotonic() - begun < 15
    assert code == 3, document["summary"]
    assert document["worst"]["late_ns"] > 100_000_000
    assert "st-load" in document["cause"]["text"], document["summary"]


def test_a_cpu_that_lets_the_check_in_late_is_critical_for_what_it_waited() -> None:
    # The hog ends while the thread waits to be moved to its CPU: whoever began to measure then would see nothing.
    with hog("60s") as process:
        check = start(duration="500ms")
        waits(check.pid, "st-check")
        time.sleep(1.0)
        process.terminate()
        code, document = end(check)
    assert code == 3, document["summary"]
    assert document["worst"]["late_ns"] > 900_000_000, document["summary"]
    assert document["cpus"][0]["samples"] == 500


def test_an_ordinary_thread_takes_nothing_from_a_real_time_check_nor_is_it_starved() -> None:
    with busy(CPU):
        _, document = end(start(duration="1s"))
    cpu = document["cpus"][0]
    assert document["cause"] is None or not document["cause"]["text"].startswith("waited for python"), document
    # Half of the wake-ups are as soon as on an idle CPU: nothing waits for the thread that never sleeps.
    assert cpu["p50_ns"] < 1_000_000


def test_a_check_that_was_stopped_blames_no_machine() -> None:
    process = start()
    time.sleep(1.0)
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.15)
    process.send_signal(signal.SIGCONT)
    code, document = end(process)
    assert code == 3, document["summary"]
    assert "stopped by a signal" in document["cause"]["text"], document["summary"]


def test_without_rights_a_busy_machine_is_not_judged_and_the_reason_is_said() -> None:
    arguments = ("check", "--format", "json", "-a", str(CPU), "-D", "2s", "--bar", "100us")
    with open_agent() as agent, busy(CPU), busy(CPU), busy(CPU):
        done = subprocess.run([agent, *arguments], capture_output=True, text=True, user="nobody", check=False)
    document = json.loads(done.stdout)
    assert document["policy"] == "SCHED_OTHER"
    assert any("SCHED_FIFO 80 was refused" in limit for limit in document["limits"])
    assert done.returncode == 4, document["summary"]
    assert "real-time priority was refused" in document["summary"]
    assert "cause not known, because" in document["cause"]["text"]
    assert "CAP_SYS_NICE" in document["hint"]


def test_a_killed_check_leaves_no_instance() -> None:
    process = start(duration="10s")
    deadline = time.monotonic() + 10
    while not instances():
        assert time.monotonic() < deadline, "it never traced"
        time.sleep(0.05)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while instances():
        assert time.monotonic() < deadline, "its watchdog removed nothing"
        time.sleep(0.05)


def test_an_interrupted_check_says_so_and_leaves_nothing() -> None:
    process = start(duration="30s")
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    code, document = end(process)
    assert code in (3, 4)
    if code == 4:
        assert document["reasons"] == ["it was stopped before its time"]
    assert document["elapsed_s"] < 10
    assert instances() == []


def test_it_is_the_first_process_of_a_container() -> None:
    command = ["unshare", "--pid", "--fork", "--mount-proc", str(find_agent()), "check", "--bar", "1h", "-D", "200ms"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("OK: at most ")
