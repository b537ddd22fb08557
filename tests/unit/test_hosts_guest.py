"""A guest on hosts whose clocks are not ours: what becomes of the moments that they tell."""

from threading import Barrier
from typing import Any, cast

import pytest

from stealtime.hosts.clock_offset import ClockOffset, Moment
from stealtime.hosts.guest import Guest, ProtectionLostError, lose_host
from stealtime.hosts.host import NotProtectedError, Seen
from stealtime.hosts.standby_loss import lapse_after, lose_standby
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
    fault = lose_host([guest(*hosts)], [active], ["b"], "killed")
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


class Backing(FarHost):
    """A host whose standby is struck."""

    def die(self, _vm: str, pid: int, kind: str) -> int:
        assert (pid, kind) == (8, "silent")
        return AHEAD_NS + 100 * MS


def entered(state: str, at_ms: int, pid: int = 7) -> dict[str, Any]:
    return {"event": "state", "state": state, "pid": pid, "monotonic_ns": AHEAD_NS + at_ms * MS}


def test_a_guest_that_lost_its_standby_is_not_protected_until_its_active_member_says_so_again() -> None:
    active, standby = member("a", "active"), member("b", "standby")
    # Of before the fault, of another life, then what came after it.
    states = [
        entered("Protected", 20), entered("Unprotected", 300, pid=6), entered("Reclaiming", 240),
        entered("Unprotected", 260), entered("Syncing", 900), entered("Protected", 1_900), entered("Protected", 2_500),
    ]  # fmt: skip
    backed = guest(FarHost("a", active, *states), Backing("b", standby))
    loss = lose_standby([backed], [active], "silent")
    assert (loss.struck, loss.host, loss.pids) == (Moment(100 * MS, ERROR_NS), "b", frozenset({8}))
    lapse = lapse_after([backed], [active], loss)
    assert (lapse.noticed_ns, lapse.alone_ns, lapse.protected_ns) == (240 * MS, 260 * MS, 1_900 * MS)
    assert lapse.error_ns == 2 * ERROR_NS
    silences = ((states[:2], "was not protected any more"), (states[:3], "was alone"), (states[:5], "protected again"))
    for said, complaint in silences:
        with pytest.raises(StealtimeError, match=complaint):
            lapse_after([guest(FarHost("a", active, *said), Backing("b", standby))], [active], loss)


def test_a_guest_without_a_standby_has_none_to_lose() -> None:
    active = member("a", "active")
    for other in (None, member("b", "standby", protected=False)):
        with pytest.raises(NotProtectedError, match="had no standby"):
            lose_standby([guest(FarHost("a", active), FarHost("b", other))], [active], "killed")


def test_hosts_of_several_guests_are_lost_at_once_and_the_last_guest_counts() -> None:
    both = Barrier(2, timeout=10)

    class Meeting(FarHost):
        """Is struck only while another one is."""

        def die(self, _vm: str, pid: int, _kind: str) -> int:
            both.wait()
            return AHEAD_NS + (100 if pid == 7 else 104) * MS

    guests, active = [], []
    for name, pid, runs_ms in (("a", 7, 180), ("c", 9, 230)):
        there = FarHost("b", member("b", "solo", resume_ns=9 * MS), went_on(runs_ms))
        active.append(member(name, "active").model_copy(update={"pid": pid}))
        guests.append(guest(Meeting(name, active[-1]), there))
    fault = lose_host(guests, active, ["b"] * len(guests), "killed")
    assert (fault.struck_ns, fault.apart_ns, fault.running_ns) == (100 * MS, 4 * MS, 230 * MS)
    assert (fault.died, fault.survived) == ("a, c", "b")
