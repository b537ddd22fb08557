"""A fault that meets a protected machine only."""

import json
import os
import signal
import subprocess
from pathlib import Path

import psutil

from stealtime.hosts.killing import freeze_protected, kill_protected, last_state, was_protected
from stealtime.hosts.waiting import poll
from stealtime.protect.state import State


def test_one_that_is_not_protected_goes_on_and_is_struck_later() -> None:
    answers = iter([False, False, True])
    asked: list[str] = []
    with subprocess.Popen(["sleep", "600"]) as sleeping:
        member = psutil.Process(sleeping.pid)

        def is_protected() -> bool:
            asked.append(member.status())
            return next(answers)

        def await_protected() -> None:
            assert sleeping.poll() is None, "it was struck too early"

        kill_protected(member, is_protected, await_protected)
        assert sleeping.wait(timeout=10) == -signal.SIGKILL
    # It is asked while nothing of it can change any more.
    assert asked == [psutil.STATUS_STOPPED] * 3


def test_one_that_is_to_be_silent_stands_still_with_its_children_and_keeps_what_it_has_open() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 600 & wait"]) as shell:
        member = psutil.Process(shell.pid)
        while not (children := member.children()):
            pass
        try:
            freeze_protected(member, lambda: True, lambda: None)
            assert member.status() == psutil.STATUS_STOPPED
            assert poll(lambda: children[0].status() == psutil.STATUS_STOPPED, 10.0)
        finally:
            for process in (*children, member):
                process.kill()


def test_a_refusal_to_wait_longer_leaves_it_alone() -> None:
    with subprocess.Popen(["sleep", "600"]) as sleeping:
        member = psutil.Process(sleeping.pid)

        def await_protected() -> None:
            raise TimeoutError

        try:
            kill_protected(member, lambda: True, await_protected)
        except TimeoutError:
            assert sleeping.poll() is None
        finally:
            os.kill(sleeping.pid, signal.SIGKILL)


def test_the_last_state_of_this_life_counts_also_where_the_log_was_put_aside(tmp_path: Path) -> None:
    folder = State(tmp_path).host("a").member("phone")
    folder.path.mkdir(parents=True)

    def line(pid: int, event: str, **more: str) -> str:
        return json.dumps({"pid": pid, "event": event, **more}) + "\n"

    assert last_state(folder, 7) is None
    folder.events.with_name("events.jsonl.1").write_text(line(7, "state", state="Protected"))
    folder.events.write_text(line(6, "state", state="Syncing") + line(7, "warning", text="?"))
    assert last_state(folder, 7) == "Protected"
    folder.events.write_text(line(7, "state", state="Syncing"))
    assert last_state(folder, 7) == "Syncing"
    assert not was_protected(folder, 7)
    # A standby writes no states.
    assert was_protected(folder, 8)
