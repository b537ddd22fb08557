"""Both ends of calls speak with a real-time priority where they may have one."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stealtime.studies.telephony.calls.relays import Destinations
from stealtime.studies.telephony.calls.urgency import PRIORITY, priority_granted, urgent
from stealtime.studies.telephony.calls.voice import VoiceOfCalls


@pytest.fixture
def policies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give the scheduling policies that were asked for; all are granted, and none is given."""
    asked: list[int] = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda _thread, policy, _how: asked.append(policy))
    return asked


def refuse(*_: object) -> None:
    raise PermissionError


def test_who_speaks_is_what_it_was_before_afterwards(policies: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_IDLE)
    with urgent() as is_granted:
        assert is_granted
        assert policies == [os.SCHED_FIFO]
    assert policies == [os.SCHED_FIFO, os.SCHED_IDLE]


def test_where_none_is_granted_it_goes_on_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with urgent() as is_granted:
        assert not is_granted
    assert priority_granted() == 0


@pytest.mark.parametrize("is_granted", [True, False])
def test_both_ends_are_told_the_priority_that_they_may_take(
    policies: list[int], is_granted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_granted:
        monkeypatch.setattr(os, "sched_setscheduler", refuse)
    monkeypatch.setattr("stealtime.studies.telephony.calls.voice.LEAD_S", 0.0)
    monkeypatch.setattr("stealtime.studies.telephony.calls.voice.find_agent", lambda: Path("agent"))
    began: list[list[str]] = []

    def start(argv: list[str], **_: object) -> Any:
        began.append(argv)
        return SimpleNamespace(poll=lambda: 0)

    client = cast(Any, SimpleNamespace(address="10.77.1.9", start=start))
    with VoiceOfCalls(client, Destinations(["10.77.1.100:30000"], ["10.77.1.100:30002"]), 1.0, tmp_path):
        assert [argv[argv.index("--priority") + 1] for argv in began] == 2 * [str(PRIORITY if is_granted else 0)]
    assert (os.SCHED_FIFO in policies) == is_granted
