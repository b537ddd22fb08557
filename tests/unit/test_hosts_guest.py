"""A guest on hosts whose clocks are not ours: what becomes of the moments that they tell."""

from typing import Any, cast

import pytest

from stealtime.hosts.clock_offset import ClockOffset, Moment
from stealtime.hosts.guest import Guest, ProtectionLostError, lose_host
from stealtime.hosts.host import Seen
from stealtime.hosts.waiting import Waiting
from stealtime.protect.status import MemberStatus
from stealtime.vocabulary.errors import StealtimeError

MS = 1_000_000
AHEAD_NS = 5_000 * MS
ERROR_NS = 2 * MS


def member(host: str, role: Any, **more: Any) -> MemberStatus:
    return MemberStatus(vm="phone", host=host, role=role, pid=7 if host == "a" else 8, **{"protected": True, **more})


class FarHost:
    """Its clock is five seconds ahead, and that is known to two milliseconds."""

    def __init__(self, name: str, seen: MemberStatus | None, *events: dict[str, Any]) -> None:
        self.name = name
        self.seen = Seen(seen)
        self.noted = events

    def look(self, _vm: str) -> Seen:
        return self.seen

    def events(self, _vm: str, event: str) -> list[dict[str, Any]]:
        return [one for one in self.noted if one["event"] == event]

    def die(self, _vm: str, pid: int, death: str) -> int:
        assert (pid, death) == (7, "killed")
        return AHEAD_NS + 100 * MS

    def clock(self) -> ClockOffset:
        return ClockOffset(0, AHEAD_NS, ERROR_NS, rates_apart=0.0)


class Client:
    has_ended = False


def guest(*hosts: FarHost, mode: str = "net") -> Guest:
    machine = {"name": "phone", "mode": mode}
    return Guest(cast(Any, hosts), machine, "10.0.0.1", Waiting(cast(Any, Client()), lambda: "the log", poll_s=0.0))


def went_on(at_ms: int) -> dict[str, Any]:
    return {"event": "guest-continued", "monotonic_ns": AHEAD_NS + at_ms * MS}


def test_a_failover_is_told_by_our_clock_with_the_error_of_both_others() -> None:
    active = member("a", "active")
    hosts = (FarHost("a", active), FarHost("b", member("b", "solo", resume_ns=9 * MS), went_on(50), went_on(180)))
    fault = lose_host([guest(*hosts)], [active], "b", "killed")
    assert (fault.struck_ns, fault.running_ns, fault.detected_ns) == (100 * MS, 180 * MS, 171 * MS)
    assert (fault.died, fault.survived, fault.error_ns) == ("a", "b", 2 * ERROR_NS)


def test_an_event_that_may_have_been_after_a_moment_counts_and_one_that_was_before_does_not() -> None:
    there = FarHost("b", None, went_on(97), went_on(95))
    assert guest(there).first("b", "guest-continued", Moment(100 * MS, ERROR_NS)) == Moment(97 * MS, ERROR_NS)
    with pytest.raises(StealtimeError, match="does not say when guest-continued of phone was") as caught:
        guest(there).first("b", "guest-continued", Moment(102 * MS, ERROR_NS))
    assert caught.value.__notes__ == ["the log"]


def test_a_state_that_may_have_been_entered_before_is_no_lapse() -> None:
    active = member("a", "active")

    def lapsed(at_ms: int, mode: str = "net") -> bool:
        event = {"event": "state", "state": "Reclaiming", "pid": 7, "monotonic_ns": AHEAD_NS + at_ms * MS}
        try:
            guest(FarHost("a", active, event), mode=mode).check_protected(active, 100 * MS)
        except ProtectionLostError:
            return True
        return False

    assert [lapsed(101), lapsed(102)] == [False, True]
    assert not lapsed(102, "off")


def test_it_is_ready_when_two_protect_it_and_one_of_them_is_active() -> None:
    active, standby = member("a", "active"), member("b", "standby")
    both = guest(FarHost("a", active), FarHost("b", standby))
    assert both.await_ready() == active
    for hosts in ((FarHost("a", active), FarHost("b", None)), (FarHost("a", standby), FarHost("b", standby))):
        with pytest.raises(StealtimeError, match="is not protected"):
            guest(*hosts).await_ready(within_s=0.0)
    with pytest.raises(StealtimeError, match="is not protected"):
        both.await_ready(frozenset({7}), within_s=0.0)
    assert guest(FarHost("a", member("a", "solo", protected=False)), mode="off").await_ready().role == "solo"


def test_its_end_is_told_where_nobody_has_it_any_more() -> None:
    first = FarHost("a", None)
    first.seen = Seen(None, StealtimeError("the member ended"))
    assert guest(first, FarHost("b", member("b", "standby"))).members()
    with pytest.raises(StealtimeError, match="the member ended"):
        guest(first, FarHost("b", None)).members()
