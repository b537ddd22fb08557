"""Targets, bars and answers of ``stealtime check``."""

import json
from pathlib import Path

import pytest

from stealtime.check.bars import CheckBar, read_bar
from stealtime.check.channels import SocketOfGuest, Virsh
from stealtime.check.checking import Order, document_of
from stealtime.check.guest_agent import Guest
from stealtime.check.here import ThisMachine
from stealtime.check.over_ssh import SshMachine
from stealtime.check.place import Answer
from stealtime.check.target import place_of
from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError

BARS = """
title = "Our motion controller"

[[bars]]
quantity = "{quantity}"
at_most = "80us"
watched = "1h"
"""


def order(bar: str = "1ms", duration_ns: int = 10_000_000_000) -> Order:
    return Order("here", read_bar(bar), duration_ns)


def answer(exit_code: int = 0, state: str = "ok", said: tuple[str, ...] = (), **more: object) -> Answer:
    document = {
        "schema_version": 1,
        "state": state,
        "summary": "4.2 ms late on CPU 1, bar 1 ms: preempted by kworker/1:2",
        "hint": None,
        "cause": {"text": "preempted by kworker/1:2", "is_known": True},
        "limits": ["the agent's own"],
        "reasons": [],
        **more,
    }
    return Answer(exit_code, json.dumps(document), said)


def test_each_kind_of_target_is_a_place() -> None:
    assert isinstance(place_of("here"), ThisMachine)
    ssh = place_of("ssh:root@vm:2222")
    assert isinstance(ssh, SshMachine)
    assert (ssh.platform.user, ssh.platform.host, ssh.platform.port) == ("root", "vm", 2222)
    assert place_of("libvirt:vm 1") == Guest(Virsh("vm 1"))
    assert place_of("guest-agent:/run/ga.sock") == Guest(SocketOfGuest(Path("/run/ga.sock")))


@pytest.mark.parametrize("target", ["", "vm", "libvirt:", "guest-agent:", "http://vm", "ssh:"])
def test_a_target_of_no_kind_is_refused_with_what_there_is(target: str) -> None:
    with pytest.raises(UsageError) as caught:
        place_of(target)
    assert caught.value.hint


def test_a_bar_is_a_duration_a_name_or_a_file(tmp_path: Path) -> None:
    assert read_bar("100us") == CheckBar("100us", 100_000)
    assert read_bar("rhel-rt").at_most_ns == 40_000
    file = tmp_path / "ours.toml"
    file.write_text(BARS.format(quantity="wakeup-latency"))
    assert read_bar(str(file)) == CheckBar(str(file), 80_000, "Our motion controller", 3_600_000_000_000)


def test_what_is_no_bar_of_a_check_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text(BARS.format(quantity="interruption"))
    for text, message in [("fast", "'fast' is no bar"), ("0s", "0s"), (str(file), "no bar of wakeup-latency")]:
        with pytest.raises(UsageError, match=message):
            read_bar(text)


@pytest.mark.parametrize("duration_ns", [0, 75_000_000_001])
def test_a_check_that_could_not_be_over_in_time_is_refused(duration_ns: int) -> None:
    with pytest.raises(UsageError, match="at most 75s"):
        order(duration_ns=duration_ns)


@pytest.mark.parametrize(
    ("state", "verdict", "code"),
    [
        ("ok", "passed", ExitCode.FINE),
        ("warning", "warning", ExitCode.FINE),
        ("critical", "failed", ExitCode.THRESHOLD),
        ("not_judged", "not_judged", ExitCode.NOT_JUDGED),
    ],
)
def test_the_verdict_is_the_agents(state: str, verdict: str, code: ExitCode) -> None:
    document = document_of(order(), answer(int(code), state))
    assert (document.verdict, document.exit_code) == (verdict, code)
    assert document.cause == "preempted by kworker/1:2"
    assert document.agent["state"] == state


def test_a_bar_that_asks_for_longer_says_so() -> None:
    limits = document_of(order("rhel-rt"), answer()).limits
    assert limits[0] == "the agent's own"
    assert "12 h" in limits[1]


def test_what_the_agent_says_of_its_failure_is_told() -> None:
    said = ("error: CPU 7 cannot be watched", "hint: name another")
    with pytest.raises(StealtimeError, match="here cannot be checked: CPU 7") as caught:
        document_of(order(), Answer(1, "", said))
    assert caught.value.hint == "name another"
    with pytest.raises(StealtimeError, match="ended with 0"):
        document_of(order(), Answer(0, "no JSON", ()))
