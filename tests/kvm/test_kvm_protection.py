"""Failovers of guests under KVM, with each way to find written pages that only a real kernel has."""

import json
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

pytestmark = pytest.mark.kvm


@pytest.mark.parametrize("tracker", ["userfault", "soft-dirty"])
def test_what_a_client_saw_outlives_its_host(
    failovers: dict[str, Future[str]], tracker: str, tell: Callable[[str], None]
) -> None:
    said: dict[str, Any] = json.loads(failovers[tracker].result().splitlines()[-1])
    seen, status = said["seen"], said["status"]
    assert seen["violations_total"] == 0, seen["violations"]
    assert seen["tcp_lived"] is True
    assert seen["check"]["mismatches"] == 0
    assert seen["check"]["verified"] > 0
    assert all(flow["acknowledged"] > 0 for flow in seen["flows"])
    assert said["moved"] == said["blows"]
    assert status["tracker"] == tracker
    tell(f"KVM, {tracker}: {said['blows']} hosts killed, {seen['acknowledged']} acknowledged, none missing")
