"""Who is the limit of a load, by what was seen of its generators, the network and the server."""

import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from stealtime.hosts.client import LocalClient
from stealtime.hosts.drops import Drops, read_drops
from stealtime.hosts.frame_counters import frames_dropped_by_devices, frames_dropped_by_queues
from stealtime.hosts.process_times import Scheduled, scheduled
from stealtime.studies.telephony.generators.evidence import LATE_NS, Exchange, Offering, Sends, evidence_of
from stealtime.studies.telephony.generators.judgement import BUSY_PERCENT_MIN, judge
from stealtime.studies.telephony.generators.limit import OFFERED_SHARE_MIN, Evidence, Limit
from stealtime.studies.telephony.lengths import ANSWERED_BY_NS
from stealtime.studies.telephony.parameters import Transport
from stealtime.studies.telephony.registrations.saturation import Attempt, search
from stealtime.studies.telephony.sipp.program import SippUse
from stealtime.studies.telephony.sipp.stalls import Window, parse_stalls

MS = 1_000_000
RATE_PER_S = 100.0
STEP_NS = 10 * MS
NOTHING_LOST = Drops(0, 0, 0)
IDLE = SippUse(2_000 * MS, Scheduled(100 * MS, 20 * MS), ())


def exchanges(count: int, *, failed: Sequence[int] = (), late_by_ns: int = 0) -> list[Exchange]:
    """Give exchanges that begin in time, all answered after a millisecond but for those that failed."""
    return [
        Exchange(number * STEP_NS + late_by_ns, None if number in failed else number * STEP_NS + late_by_ns + MS)
        for number in range(count)
    ]


def judged(
    told: Sequence[Exchange],
    *,
    use: SippUse = IDLE,
    drops: Drops = NOTHING_LOST,
    offered_per_s: float = RATE_PER_S,
    retransmissions: int = 0,
    transport: Transport = "udp",
) -> Limit:
    offering = Offering(
        transport=transport,
        rate_per_s=RATE_PER_S,
        offered_per_s=offered_per_s,
        retransmissions=retransmissions,
        sends=[Sends([one.sent_ns for one in told], RATE_PER_S)],
        exchanges=told,
    )
    return judge(offering, evidence_of(offering, [use], drops, 40.0))


def test_nothing_is_the_limit_of_a_load_that_was_borne() -> None:
    assert judged(exchanges(100)).by == "none"
    # Its longest lateness alone does not matter.
    once = [*exchanges(199), *exchanges(200, late_by_ns=900 * MS)[199:]]
    assert (judged(once).by, judged(once).evidence.late_max_ns) == ("none", 900 * MS)


@pytest.mark.parametrize(("late_ns", "by"), [(LATE_NS, "generator"), (LATE_NS - 1, "none")])
def test_a_load_that_was_sent_late_was_not_the_one_that_was_asked_for(late_ns: int, by: str) -> None:
    limit = judged([*exchanges(98), *exchanges(100, late_by_ns=late_ns)[98:]])
    assert (limit.by, limit.evidence.late_p99_ns, limit.evidence.failed) == (by, late_ns, 0)


def test_a_punctual_generator_and_a_whole_network_leave_the_server() -> None:
    limit = judged(exchanges(100, failed=range(40)), retransmissions=160)
    assert (limit.by, limit.evidence.failed, limit.evidence.failed_while_late) == ("server", 40, 0)
    assert limit.sentence == (
        "the server is the limit, since SIPp sent in time, and nothing was lost on the way that explains it (40 of 100 "
        "failed, 160 sent again; 99 % of the requests left within 0 of their time, all within 0; SIPp used 5 % of a "
        "CPU and waited 1 % of the time; lost: 0 datagrams at the phones' sockets, 0 frames on the links; the server "
        "used 40 % of its CPUs)"
    )


def test_an_answer_counts_as_late_when_a_client_has_sent_again() -> None:
    assert not Exchange(0, ANSWERED_BY_NS).has_failed
    assert Exchange(0, ANSWERED_BY_NS + 1).has_failed
    # A provisional answer keeps it from that.
    assert not Exchange(0, ANSWERED_BY_NS + 1, may_wait=True).has_failed
    assert Exchange(0, None, may_wait=True).has_failed


def test_a_generator_is_late_against_its_plan_and_not_against_its_last_request() -> None:
    # It stands still for 300 ms after the second request, and sends all that it missed at once.
    at_ns = [0, 10 * MS, *(310 * MS for _ in range(30)), 320 * MS]
    assert Sends(at_ns, RATE_PER_S).late_ns == [0, 0, *range(290 * MS, -10 * MS, -10 * MS), 0]
    # The first one may be late itself.
    assert Sends([5 * MS, 10 * MS, 20 * MS], RATE_PER_S).late_ns == [5 * MS, 0, 0]
    assert Sends([], RATE_PER_S).late_ns == []


@pytest.mark.parametrize(("late_ns", "by"), [(LATE_NS, "generator"), (LATE_NS - 1, "server")])
def test_requests_that_were_sent_late_and_failed_are_the_generators(late_ns: int, by: str) -> None:
    told = [*exchanges(50), *exchanges(100, failed=range(50, 100), late_by_ns=late_ns)[50:]]
    assert judged(told, retransmissions=200).by == by


@pytest.mark.parametrize(("end_ns", "by"), [(300 * MS, "generator"), (99 * MS, "server")])
def test_what_was_under_way_while_sipp_stood_still_is_the_generators(end_ns: int, by: str) -> None:
    # Ten from 100 ms on failed; those before were answered.
    told = exchanges(20, failed=range(10, 20))
    use = replace(IDLE, stalls=(Window(end_ns - 50 * MS, end_ns),))
    limit = judged(told, use=use, retransmissions=10)
    assert (limit.by, limit.evidence.late_timers) == (by, 1)


def test_a_stall_after_the_time_for_an_answer_does_not_excuse_the_server() -> None:
    told = exchanges(1, failed=[0])
    after = Window(ANSWERED_BY_NS + 1, ANSWERED_BY_NS + 300 * MS)
    assert judged(told, use=replace(IDLE, stalls=(after,))).by == "server"
    assert judged(told, use=replace(IDLE, stalls=(Window(ANSWERED_BY_NS, 10**9),))).by == "generator"


def test_where_the_kernel_does_not_tell_what_sipp_had_the_server_is_not_blamed() -> None:
    limit = judged(exchanges(100, failed=range(40)), use=replace(IDLE, scheduled=None))
    assert (limit.by, limit.evidence.cpu_percent) == (None, None)
    assert limit.sentence.endswith("not judged, because the kernel does not tell what SIPp had of its CPUs")


@pytest.mark.parametrize(("lost", "by"), [(20, "generator"), (19, "server")])
def test_half_of_what_failed_is_enough_for_the_phones_sockets(lost: int, by: str) -> None:
    assert judged(exchanges(100, failed=range(40)), drops=Drops(lost, 0, 0), retransmissions=40).by == by


@pytest.mark.parametrize(("lost", "by"), [(20, "network"), (19, "server")])
def test_half_of_what_failed_is_enough_for_the_network(lost: int, by: str) -> None:
    assert judged(exchanges(100, failed=range(40)), drops=Drops(0, 0, lost), retransmissions=40).by == by


@pytest.mark.parametrize(("again", "lost", "by"), [(10, 5, "network"), (10, 4, "server"), (0, 9, "server")])
def test_over_tcp_frames_are_held_against_what_tcp_sent_again(again: int, lost: int, by: str) -> None:
    assert judged(exchanges(100, failed=range(40)), drops=Drops(0, again, lost), transport="tcp-one").by == by


def test_what_nobody_counts_is_not_judged() -> None:
    failed = exchanges(100, failed=range(40))
    limit = judged(failed, drops=Drops(0, 0, None), retransmissions=40)
    assert limit.by is None
    assert limit.sentence.endswith("not judged, because nobody counts what is lost between these phones and the server")
    # TCP itself would have sent it again.
    assert judged(failed, drops=Drops(0, 0, None), transport="tcp-each").by == "server"
    assert judged(failed, drops=Drops(0, 3, None), transport="tcp-each").by is None
    # The generator's own part is known all the same.
    assert judged(failed, drops=Drops(40, 0, None), retransmissions=40).by == "generator"


@pytest.mark.parametrize(("percent", "by"), [(BUSY_PERCENT_MIN, None), (BUSY_PERCENT_MIN - 0.5, "server")])
def test_a_generator_without_a_cpu_to_spare_leaves_the_server_unjudged(percent: float, by: str | None) -> None:
    # Half of it is what it waited for.
    had = Scheduled(round(percent * 10 * MS), round(percent * 10 * MS))
    limit = judged(exchanges(100, failed=range(40)), use=SippUse(2_000 * MS, had, ()))
    assert limit.by == by
    if by is None:
        assert limit.sentence.endswith("is not judged, because SIPp had no CPU to spare")


@pytest.mark.parametrize(("share", "by"), [(OFFERED_SHARE_MIN - 0.01, "generator"), (OFFERED_SHARE_MIN, "none")])
def test_a_load_that_was_not_offered_is_the_generators(share: float, by: str) -> None:
    assert judged(exchanges(100), offered_per_s=share * RATE_PER_S).by == by


def test_requests_sent_again_that_nobody_can_name_are_judged_only_if_the_generator_was_never_late() -> None:
    assert judged(exchanges(100), retransmissions=3).by == "server"
    assert judged(exchanges(100), retransmissions=3, drops=Drops(0, 0, 2)).by == "network"
    late = [*exchanges(99), *exchanges(100, late_by_ns=LATE_NS)[99:]]
    assert judged(late, retransmissions=3).by is None


def test_the_busiest_of_several_generators_is_told() -> None:
    told = exchanges(100)
    offering = Offering(
        transport="udp",
        rate_per_s=RATE_PER_S,
        offered_per_s=RATE_PER_S,
        retransmissions=0,
        sends=[Sends([one.sent_ns for one in told[first::2]], RATE_PER_S / 2) for first in range(2)],
        exchanges=told,
    )
    busy = SippUse(1_000 * MS, Scheduled(300 * MS, 10 * MS), ())
    seen = evidence_of(offering, [IDLE, busy], NOTHING_LOST, 10.0)
    assert (seen.generators, seen.cpu_percent, seen.waiting_percent, seen.late_max_ns) == (2, 30.0, 1.0, 0)
    unknown = evidence_of(offering, [SippUse(1_000 * MS, None, ())], NOTHING_LOST, 10.0)
    assert (unknown.cpu_percent, unknown.waiting_percent) == (None, None)


ERRORS = (
    "2026-11-28\t17:11:07.448974\t1795885867.448974: Overload warning: the minor watchdog timer 200ms has been tripped "
    "(312), 999999999 trips remaining.\n"
    "2026-11-28\t17:11:09.000000\t1795885869.000000: Aborting call on unexpected message for Call-Id '2-5924@1.1.1.1'\n"
    "2026-11-28\t17:11:12.000000\t1795885872.000000: Overload warning: the major watchdog timer 3000ms has been "
    "tripped (4000), 999999999 trips remaining.\n"
)


def test_sipps_complaints_of_late_timers_tell_when_it_stood_still() -> None:
    assert parse_stalls(ERRORS, 1_795_885_867 * 1_000_000_000) == (
        Window(448_974_000 - 312 * MS, 448_974_000),
        Window(1_000 * MS, 5_000 * MS),
    )


def test_what_a_process_waited_for_a_cpu_is_read_with_its_time(tmp_path: Path) -> None:
    for thread, text in (("70", "100 30 9\n"), ("71", "5 1 1\n"), ("72", "")):
        (tmp_path / "70/task" / thread).mkdir(parents=True)
        (tmp_path / "70/task" / thread / "schedstat").write_text(text)
    assert scheduled(70, tmp_path) == Scheduled(105, 31)
    assert scheduled(71, tmp_path) is None


def test_frames_are_counted_where_a_device_or_a_filter_at_it_drops_them() -> None:
    links = (
        '[{"ifname": "lo", "stats64": {"rx": {"dropped": 9}, "tx": {"dropped": 9}}},'
        ' {"ifname": "a-client", "stats64": {"rx": {"dropped": 2}, "tx": {"dropped": 3}}}]'
    )
    queues = '[{"dev": "a-client", "kind": "clsact", "drops": 7}, {"dev": "b-client", "drops": 1}, {"dev": "a-client"}]'
    assert frames_dropped_by_devices(links, {"a-client"}) == 5
    assert frames_dropped_by_queues(queues, {"a-client"}) == 7
    assert Drops(5, 4, 9).since(Drops(1, 1, 2)) == Drops(4, 3, 7)
    assert Drops(5, 4, None).since(Drops(1, 1, None)).frames is None


def test_what_was_sent_and_passed_no_device_is_lost_too() -> None:
    before = Drops(0, 0, 5, 0, datagrams_sent=100, frames_passed=80)
    # Nobody answered for the address: of 5,000 datagrams none left, but 11 requests for it, which the link lost.
    assert before_and(before, frames=16, datagrams=5_100, passed=91).frames == 11 + 5_000 - 11
    # Whatever else leaves takes nothing off.
    assert before_and(before, frames=5, datagrams=5_100, passed=9_000).frames == 0


def before_and(before: Drops, *, frames: int, datagrams: int, passed: int) -> Drops:
    return Drops(0, 0, frames, 0, datagrams_sent=datagrams, frames_passed=passed).since(before)


def test_each_datagram_on_the_loopback_device_is_sent_and_passed() -> None:
    client = LocalClient("127.0.0.1")
    before = read_drops(client)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as phone:
        for _ in range(50):
            phone.sendto(b"x", ("127.0.0.1", 9))
    seen = read_drops(client).since(before)
    assert seen.datagrams_sent >= 50
    assert seen.frames_passed >= 50
    assert seen.frames is None, "other links are not counted"


def limited(by: str | None, rate_per_s: float, seen: Evidence) -> Limit:
    return Limit.model_validate({"by": by, "sentence": f"{by} at {rate_per_s:.0f}", "evidence": seen})


@pytest.mark.parametrize(
    ("by", "is_bounded"), [("server", True), (None, True), ("generator", False), ("network", False)]
)
def test_a_rate_that_failed_by_something_else_is_not_the_servers(by: str | None, is_bounded: bool) -> None:
    seen = judged(exchanges(100)).evidence

    def attempt(rate_per_s: float, duration_s: float) -> Attempt:
        lost = 10 if rate_per_s > 700 else 0
        limit = limited(by if lost else "none", rate_per_s, seen)
        return Attempt(rate_per_s, duration_s, rate_per_s, 1_000, 1_000 - lost, 0, limit=limit)

    found = search(attempt, try_s=1, first_per_s=400, most_per_s=20_000, resolution=1.15)
    assert 600 < found.rate_per_s <= 700
    assert found.is_bounded is is_bounded
    lowest = min(one.rate_per_s for one in found.attempts if one.failure is not None)
    expected = None if is_bounded else f"{lowest:.0f} per second failed by the {by}: {by} at {lowest:.0f}"
    assert found.unbounded_because == expected


def test_a_rate_that_failed_once_by_the_generator_did_not_fail_twice_by_the_server() -> None:
    seen = judged(exchanges(100)).evidence
    tries = iter(range(1_000))

    def attempt(rate_per_s: float, duration_s: float) -> Attempt:
        lost = 10 if rate_per_s > 700 else 0
        by = "none" if not lost else "server" if next(tries) % 2 else "generator"
        return Attempt(rate_per_s, duration_s, rate_per_s, 1_000, 1_000 - lost, 0, limit=limited(by, rate_per_s, seen))

    found = search(attempt, try_s=1, first_per_s=400, most_per_s=20_000, resolution=1.15)
    assert not found.is_bounded


def test_a_load_that_could_not_be_offered_bounds_no_server_where_nobody_looked_either() -> None:
    def attempt(rate_per_s: float, duration_s: float) -> Attempt:
        return Attempt(rate_per_s, duration_s, min(rate_per_s, 1_000.0), 1_000, 1_000, 0)

    found = search(attempt, try_s=1, first_per_s=400, most_per_s=20_000, resolution=1.15)
    assert (found.is_bounded, found.rate_per_s <= 1_000 / OFFERED_SHARE_MIN) == (False, True)
    assert "could be offered" in (found.unbounded_because or "")
