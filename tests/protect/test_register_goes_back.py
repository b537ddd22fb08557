"""A register that is put back to an older state, as an etcd that is restored from a backup, or emptied."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from two_hosts import VM, Counting, TwoHosts, assert_unharmed, await_that, etcd_or_skip, laboratory_or_skip, other

from stealtime.hosts.laboratory import ARBITER
from stealtime.protect.status import MemberStatus

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

# Reads or changes a key of etcd from the host that reaches it: URL, key, and nothing, "-" (delete) or the new value.
_CHANGE = """
import base64, json, sys, urllib.request
def post(path, **body):
    request = urllib.request.Request(sys.argv[1] + path, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)
key = base64.b64encode(sys.argv[2].encode()).decode()
if len(sys.argv) == 3:
    print(base64.b64decode(post("/v3/kv/range", key=key)["kvs"][0]["value"]).decode())
elif sys.argv[3] == "-":
    post("/v3/kv/deleterange", key=key)
else:
    post("/v3/kv/put", key=key, value=base64.b64encode(sys.argv[3].encode()).decode())
"""


@pytest.fixture
def hosts() -> Iterator[TwoHosts]:
    with laboratory_or_skip() as laboratory:
        hosts = TwoHosts(laboratory, etcd_or_skip(laboratory), interval="50ms")
        hosts.boot()
        yield hosts


def _register(hosts: TwoHosts, *change: str) -> str:
    assert hosts.etcd is not None
    argv = [sys.executable, "-c", _CHANGE, hosts.etcd.url, f"/stealtime/protect/{VM}", *change]
    asking = hosts.laboratory.start(ARBITER, argv, stdout=subprocess.PIPE)
    output, _ = asking.communicate(timeout=60)
    assert asking.returncode == 0
    return str(output.decode().strip())


def _record(hosts: TwoHosts) -> dict[str, Any]:
    return dict(json.loads(_register(hosts)))


def _alarmed(hosts: TwoHosts, member: MemberStatus, since: int) -> MemberStatus | None:
    status = hosts.status(member.host)
    assert status is not None
    assert status.pid == member.pid, f"the healthy member was given up\n{hosts.log_tail()}"
    return status if status.register_went_back > since else None


@pytest.mark.truth
def test_a_healthy_guest_goes_on_and_may_fail_over_thereafter(hosts: TwoHosts) -> None:
    backup = _register(hosts)
    first = hosts.strike("kill")
    assert first.pid is not None
    active = hosts.settled(unlike=frozenset({first.pid}))
    counting = Counting(hosts)
    counting.await_answers()
    own = {**_record(hosts), "standby": None, "renewals": 0}
    own["term"] -= 1
    for number, older in enumerate((backup, json.dumps(own), "-")):
        _register(hosts, older)
        status = await_that(lambda since=number: _alarmed(hosts, active, since), hosts.log_tail)  # type: ignore[misc]
        assert any("the register went back" in warning for warning in status.warnings)
        assert status.term == active.term
        counting.await_answers()
        record = _record(hosts)
        assert (record["term"], record["standby"] is not None) == (active.term, True), record
    second = hosts.strike("kill")
    assert second.pid == active.pid
    assert hosts.settled(unlike=frozenset({first.pid, active.pid or 0})).host == other(active.host)
    assert_unharmed(counting.end())


@pytest.mark.truth
def test_a_standby_that_the_register_has_forgotten_waits_for_the_operators_word(hosts: TwoHosts) -> None:
    backup = json.dumps({**_record(hosts), "term": 0, "holder": "c@1", "standby": None})
    counting = Counting(hosts)
    counting.await_answers()
    active = hosts.settled()
    standby = other(active.host)
    # It claims later than the register is put back: nobody writes the record again.
    hosts.control(standby).fault("before-claim", "stop")
    standby_pid = hosts.pid(standby)
    assert hosts.strike("kill").host == active.host
    hosts.stand_still(standby_pid)
    _register(hosts, backup)
    os.kill(standby_pid, signal.SIGCONT)

    def waits() -> MemberStatus | None:
        status = hosts.status(standby)
        return status if status is not None and status.register_went_back else None

    status = await_that(waits, hosts.log_tail)
    assert status.role == "standby"
    assert any("--force" in warning for warning in status.warnings)
    hosts.control(standby).failover(force=True)
    hosts.await_running(standby)
    assert_unharmed(counting.end())
