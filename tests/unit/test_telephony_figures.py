"""Figures, tables and page of made-up results of the study of telephony."""

import re

import pytest
from telephony_cells import (
    GUEST,
    MS,
    cell_of,
    failover,
    front_loss,
    rate,
    registrations,
    some_cells,
    standby_loss,
    two_stage_failover,
)

from stealtime.report.catalogue.page import section_of
from stealtime.report.catalogue.rows import tables_of
from stealtime.report.cells.model import Bounded
from stealtime.report.page.plane import HEIGHT, WIDTH
from stealtime.studies.telephony.page import boxes, time_line
from stealtime.studies.telephony.page.cpu import cpu_figure
from stealtime.studies.telephony.results import SessionRate, Unprotected
from stealtime.studies.telephony.study import STUDY

NET = {"mode": "net", "interval_ns": 100 * MS, "transport": "udp", "rate_per_s": 200}


def test_cpu_is_told_per_second_and_per_registration() -> None:
    cell = cell_of(GUEST, "register", NET, [registrations(200), registrations(200, elapsed_ns=4_000 * MS)])
    # 400 registrations of 1 ms within 2 s, and within 4 s.
    assert cell.figure("server_cpu_percent").of_repetitions == [20.0, 10.0]
    assert cell.figure("host_cpu_percent").p50 == pytest.approx(3.75)
    assert cell.figure("server_cpu_each_ns").p50 == MS
    assert cell.figure("host_cpu_each_ns").p50 == MS / 4
    assert cell.counts["sent"] == 800


def test_a_native_server_has_no_host_side() -> None:
    cell = cell_of("native", "register", {"mode": "off"}, [registrations(200, host_cpu_ns=None)])
    assert cell.figure("host_cpu_percent").p50 is None
    assert cell.figure("server_cpu_percent").p50 == 20.0


def test_a_load_above_saturation_is_said() -> None:
    over = registrations(3_000, saturation_per_s=2_000.0, offered_per_s=2_500.0, acknowledged=5_000, unanswered=1_000)
    cell = cell_of(GUEST, "register", {"mode": "off", "share": 1.5}, [over])
    assert cell.limits == [
        "the load is above what the server bears: 1000 of 6000 registrations were not acknowledged",
        "3000 per second were asked for, and the unprotected server bears 2000",
        "of 3000 per second SIPp offered only 2500",
    ]


def test_a_refusal_is_not_taken_for_a_load_that_is_too_high() -> None:
    cell = cell_of(GUEST, "register", NET, [registrations(acknowledged=390, unanswered=10, refused=10)])
    assert cell.limits == ["the server refused 10 of 400 registrations: what does its log say?"]


def test_what_was_lost_is_said_with_a_name() -> None:
    cell = cell_of(GUEST, "register-failover", NET, [failover(lost=6, lost_users=["phone9-000197"]), failover()])
    assert cell.limits == [
        "6 of 800 acknowledged registrations were lost with their host in 1 of 2 failovers, "
        "such as that of phone9-000197"
    ]
    assert cell.figure("kept_percent").of_repetitions == [98.5, 100.0]
    assert cell.counts["lost"] == 6


def test_a_failover_without_an_answer_has_no_silence() -> None:
    cell = cell_of(GUEST, "register-failover", NET, [failover(silence_ns=None, fault_to_answer_ns=None, unanswered=9)])
    assert cell.figure("silence_ns").p50 is None
    assert cell.limits == ["after the failover no phone was answered any more (9 of 400 were not)"]


def test_phones_that_had_all_registered_before_tell_nothing_of_the_silence() -> None:
    cell = cell_of(GUEST, "register-failover", NET, [failover(silence_ns=None, fault_to_answer_ns=None)])
    assert cell.limits == [
        "all phones had registered before the guest ran again: how long they would have heard nothing is not known"
    ]


def test_a_failed_repetition_makes_a_cell_invalid_and_is_told() -> None:
    cell = cell_of(GUEST, "register", NET, [registrations()], failure="the SIP server does not answer")
    assert (cell.valid, cell.reasons, cell.repetitions) == (False, ["the SIP server does not answer"], 1)


def test_an_unbounded_rate_is_said() -> None:
    cell = cell_of("native", "registration-rate", {"mode": "off"}, [rate(20_000, is_bounded=False)])
    assert cell.limits == ["no rate was seen to fail: the server may bear more than 20000 per second"]
    sessions = SessionRate(rate_per_s=90.0, is_bounded=True, attempts=[])
    assert cell_of("native", "session-rate", {"mode": "off"}, [sessions]).figure("sessions_per_s").p50 == 90


def test_two_runs_are_compared_by_their_repetitions() -> None:
    fast = cell_of(GUEST, "register", NET, [registrations(server_cpu_ns=(400 + n) * MS) for n in range(4)])
    slow = cell_of(GUEST, "register", NET, [registrations(server_cpu_ns=4 * (400 + n) * MS) for n in range(4)])
    verdicts = {one.statistic: one.verdict for one in STUDY.compare_cells(fast, slow).statistics}
    assert verdicts["server_cpu_each_ns"] == "higher"
    assert verdicts["median_ns"] == "no difference shown"


def test_published_figures_are_measured_by_name() -> None:
    cell = cell_of(GUEST, "register-failover", NET, [failover()])
    assert STUDY.measurement(cell, "kept_percent").value == 100.0


def test_every_cell_stands_in_the_tables_of_its_probe() -> None:
    tables = {one.title: one for one in tables_of(STUDY, some_cells())}
    assert [row[0] for row in tables["When the server's host dies while phones register"].rows] == [
        f"{GUEST} net every 100ms, UDP, 200/s (1x)",
        f"{GUEST} no-net every 100ms, UDP, 200/s (1x)",
    ]
    assert len(tables["What registrations cost"].rows) == len(tables["Phones that register"].rows) == 4
    assert all(len(row) == len(one.heads) for one in tables.values() for row in one.rows)


def test_boxes_are_drawn_in_order_inside_the_axis() -> None:
    cells = [cell for cell in some_cells() if cell.probe == "register"]
    figure = boxes.response_boxes(cells)
    assert figure is not None
    for box in figure.rows:
        assert 0 <= box.low < box.q1 < box.middle < box.q3 < box.p99 < box.high <= WIDTH


def test_a_curve_of_the_host_side_is_dashed_and_has_its_servers_colour() -> None:
    figure = cpu_figure(some_cells())
    assert figure is not None
    sides = {line.name: line for line in figure.lines}
    server, host = (sides[f"{GUEST} net every 100ms, UDP: {side}"] for side in ("server", "host side"))
    assert (server.look.light, server.look.dash, host.look.dash) == (host.look.light, "solid", "dash")
    points = [point for line in figure.lines for point in line.points if point is not None]
    assert points
    assert all(0 <= figure.across(point.x) <= WIDTH and 0 <= figure.down(point.y) <= HEIGHT for point in points)
    loads = [point.x for point in server.points if point is not None]
    assert loads == sorted(loads)


def test_the_time_line_has_the_moments_of_the_failover() -> None:
    whole, silent, *_ = time_line.charts(some_cells())
    assert [moment.words.split(":")[0] for moment in whole.moments] == [
        "SIGKILL", "the standby takes over", "the guest runs", "first answer",
    ]  # fmt: skip
    assert [moment.x for moment in whole.moments] == sorted(moment.x for moment in whole.moments)
    assert silent.words == "phones heard nothing any more"
    assert len(silent.moments) == 3


def test_a_primary_that_dies_is_drawn_apart_from_the_others() -> None:
    own, others = time_line.charts(some_cells())[-2:]
    assert own.title == f"{GUEST} net every 100ms, 3 primaries, UDP, 200/s"
    assert (len(own.moments), own.words) == (4, "phones heard nothing for 200 ms at most")
    assert others.title == f"{own.title}, users of the other primaries"
    assert ([one.words for one in others.moments], others.words) == (
        ["SIGKILL: 0"],
        "phones heard nothing for 96.0 ms at most",
    )
    assert len(own.bars) < len(others.bars) == 200


def test_the_others_are_those_with_the_longest_silence_and_none_is_passed_over() -> None:
    cell = cell_of(GUEST, "two-stage-failover", {**NET, "primaries": 3}, [two_stage_failover()])
    names = ("silence_ns", "others_silence_ns", "others_silence_before_ns")
    assert [cell.figure(name).p50 for name in names] == [200 * MS, 96 * MS, 95 * MS]
    assert (cell.figure("front_share_percent").p50, cell.figure("primary_share_percent").p50) == pytest.approx((55, 45))
    assert (cell.counts["late"], cell.counts["others_late"]) == (9, 3)
    killed, heard, silent = two_stage_failover().primaries
    mute = silent.model_copy(update={"silence_ns": None})
    assert two_stage_failover(primaries=[killed, heard, mute]).others_silence_ns is None


def test_a_server_that_lost_its_standby_says_for_how_long_it_had_none() -> None:
    silent = standby_loss(
        unprotected=Unprotected(
            fault_to_noticed_ns=110 * MS,
            fault_to_alone_ns=120 * MS,
            fault_to_protected_ns=3_400 * MS,
            fault_to_back_ns=3_000 * MS,
        )
    )
    cell = cell_of(GUEST, "register-failover", {**NET, "victim": "standby"}, [standby_loss(), silent])
    assert cell.figure("unprotected_ns").of_repetitions == [900 * MS, 3_400 * MS]
    assert cell.figure("back_to_protected_ns").of_repetitions == [900 * MS, 400 * MS]
    assert cell.figure("fault_to_alone_ns").of_repetitions == [20 * MS, 120 * MS]
    assert cell.figure("fault_to_running_ns").p50 is None
    assert cell.limits == []
    (chart,) = time_line.charts([cell])
    assert [moment.words for moment in chart.moments] == [
        "SIGKILL: 0", "the server knows that it is alone: 20.0 ms", "protected again: 900 ms", "first answer: 40.0 ms",
    ]  # fmt: skip
    # What comes after the picture's end is not drawn outside of it.
    late = cell_of(GUEST, "register-failover", {**NET, "victim": "standby", "fault": "silent"}, [silent])
    assert all(0 <= moment.x <= 100 for moment in time_line.charts([late])[0].moments)
    assert time_line.charts([late])[0].moments[0].words == "silent: 0"
    tables = {one.title: one.rows for one in tables_of(STUDY, [cell, late])}
    (title,) = tables
    assert title == "When the host that backs the server is lost while phones register"
    assert len(tables[title]) == 2


def test_what_was_forgotten_though_the_server_lived_is_not_told_to_be_its_hosts_fault() -> None:
    cell = cell_of(GUEST, "register-failover", NET, [standby_loss(lost=1, lost_users=["phone1-000007"])])
    assert cell.limits == ["1 of 400 acknowledged registrations were lost, such as that of phone1-000007"]


def test_a_lost_front_is_told_by_its_phones_and_by_those_of_the_other() -> None:
    cell = cell_of(GUEST, "two-stage-failover", {**NET, "primaries": 2, "victim": "front"}, [front_loss()])
    assert [cell.figure(name).p50 for name in ("silence_ns", "others_silence_ns", "others_silence_before_ns")] == [
        120 * MS, 105 * MS, 103 * MS,
    ]  # fmt: skip
    assert (cell.figure("longest_wait_ns").p50, cell.counts["turned"], cell.counts["late"]) == (560 * MS, 110, 0)
    assert cell.counts["others_late"] == 12
    assert cell.limits == []
    own, others = time_line.charts([cell])
    assert [moment.words for moment in own.moments] == ["SIGKILL: 0", "first answer: 50.0 ms"]
    assert others.title.endswith(", phones of the other front")
    front = front_loss().front
    assert front is not None
    nobody = front.model_copy(update={"turned": 0, "longest_wait_ns": None, "offered_per_s": 100.0})
    unlucky = cell_of(
        GUEST, "two-stage-failover", {**NET, "primaries": 2, "victim": "front"},
        [front_loss(front=nobody), front_loss(unanswered=3)],
    )  # fmt: skip
    assert unlucky.limits == [
        "none of the 220 phones of the front had to turn to the other one in 1 of 2 failovers: how long that takes is "
        "not known",
        "3 of 400 phones were acknowledged by no front in 1 of 2 failovers",
        "of 200 per second phones offered only 100",
    ]


def test_of_all_primaries_at_once_there_are_no_others() -> None:
    result = two_stage_failover(victim="all-primaries", host="a, c, d", others_over_time=None, lost_within_ns=2 * MS)
    assert (len(result.died), result.others, result.silence_ns, result.others_silence_ns) == (3, [], 200 * MS, None)
    cell = cell_of(GUEST, "two-stage-failover", {**NET, "primaries": 3, "victim": "all-primaries"}, [result])
    assert (cell.counts["late"], cell.counts["others_late"]) == (12, 0)
    assert cell.bounded() == Bounded(200 * MS)
    assert len(time_line.charts([cell])) == 1
    assert "Two stages: when hosts of primaries die while phones register" in {
        one.title for one in tables_of(STUDY, [cell])
    }


def test_who_was_lost_when_a_primary_was_added_is_said() -> None:
    added = two_stage_failover().added.model_copy(update={"lost": 2, "lost_users": ["phone3-000007"]})
    cell = cell_of(GUEST, "two-stage-failover", {**NET, "primaries": 3}, [two_stage_failover(added=added)])
    assert cell.limits == [
        "2 of 300 acknowledged users could not be found when a primary was added, such as phone3-000007"
    ]
    assert (cell.counts["registered_while_added"], cell.counts["moved"], cell.counts["lost_while_added"]) == (
        300,
        80,
        2,
    )


def test_between_replicated_servers_no_standby_takes_over() -> None:
    cell = cell_of(GUEST, "register-failover", {**NET, "mode": "replicated"}, [failover()])
    (chart,) = time_line.charts([cell])
    assert [moment.words.split(":")[0] for moment in chart.moments] == [
        "SIGKILL", "the other server has the address", "first answer",
    ]  # fmt: skip


def test_the_page_shows_every_table_and_says_what_no_net_is() -> None:
    page = str(section_of(STUDY, some_cells()).body)
    for one in tables_of(STUDY, some_cells()):
        assert re.sub("'", "&#39;", one.title) in page
    assert "It is no protection of what phones were told." in page
    assert page.count('role="img"') == 8
    # What a reader must know of a standby and of a front, once each.
    assert page.count("the server runs on without protection") == page.count("next target of their own SRV order") == 1
