"""The study of telephony, as far as no server has to run: what is read, searched, counted, drawn and said."""

import os
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pytest
from pydantic import JsonValue

from stealtime.campaigns.aliases import alias_words
from stealtime.campaigns.file import find_campaign, read_campaign
from stealtime.campaigns.overrides import shorten
from stealtime.campaigns.places import HostCpus
from stealtime.campaigns.planner import plan
from stealtime.hosts.process_times import thread_times_ns
from stealtime.store.model import Cell, PlatformRecord
from stealtime.studies.telephony.appliance.configuration import ServerConfiguration
from stealtime.studies.telephony.appliance.root import Role
from stealtime.studies.telephony.lengths import HELD_TRIES
from stealtime.studies.telephony.parameters import Mode, ServerParameters
from stealtime.studies.telephony.place.answering import complaint
from stealtime.studies.telephony.place.guest import mode_of
from stealtime.studies.telephony.registrations.failover import over_time, silence_ns
from stealtime.studies.telephony.registrations.load import Load, first_times
from stealtime.studies.telephony.registrations.saturation import STEPS_MAX, Attempt, search
from stealtime.studies.telephony.sipp.log import parse_log
from stealtime.studies.telephony.sipp.program import find_sipp
from stealtime.studies.telephony.sipp.statistics import parse_statistics
from stealtime.studies.telephony.trials import Saturated, response_times, unknown_saturation
from stealtime.vocabulary.errors import StealtimeError, UsageError


def bears(limit_per_s: float, *, offers_per_s: float = 1e9):  # type: ignore[no-untyped-def]
    """Give a server that acknowledges everything up to a rate, and a generator that offers up to another one."""

    def attempt(rate_per_s: float, duration_s: float) -> Attempt:
        acknowledged = 1_000 if rate_per_s <= limit_per_s else 990
        return Attempt(rate_per_s, duration_s, min(rate_per_s, offers_per_s), 1_000, acknowledged, 0)

    return attempt


@pytest.mark.parametrize("limit_per_s", [3.0, 40.0, 399.0, 400.0, 515.0, 3_000.0, 19_999.0])
def test_the_highest_rate_is_found_within_the_resolution(limit_per_s: float) -> None:
    found = search(bears(limit_per_s), try_s=1, first_per_s=400, most_per_s=20_000, resolution=1.15)
    assert found.rate_per_s <= limit_per_s < 1.16 * found.rate_per_s
    assert found.is_bounded
    assert len({one.rate_per_s for one in found.attempts}) <= STEPS_MAX


def test_a_server_that_bears_all_that_is_tried_is_not_bounded() -> None:
    found = search(bears(1e9), try_s=1, first_per_s=400, most_per_s=5_000, resolution=1.15)
    assert (found.rate_per_s, found.is_bounded) == (5_000, False)


def test_a_rate_that_fails_once_is_tried_again() -> None:
    hiccups = iter([True, False])

    def attempt(rate_per_s: float, duration_s: float) -> Attempt:
        is_lost = rate_per_s > 900 or (rate_per_s == 400 and next(hiccups))
        return Attempt(rate_per_s, duration_s, rate_per_s, 1_000, 999 if is_lost else 1_000, 0)

    found = search(attempt, try_s=1, first_per_s=400, most_per_s=20_000, resolution=1.15)
    assert [one.rate_per_s for one in found.attempts[:3]] == [400, 400, 800]
    assert 800 <= found.rate_per_s <= 900


@pytest.mark.parametrize("try_s", [1.0, 3.0])
def test_a_rate_that_a_queue_bears_for_a_while_is_not_what_is_found(try_s: float) -> None:
    def attempt(rate_per_s: float, duration_s: float) -> Attempt:
        is_lost = (rate_per_s - 1_000) * duration_s > 1_500
        return Attempt(rate_per_s, duration_s, rate_per_s, 1_000, 999 if is_lost else 1_000, 0)

    found = search(attempt, try_s=try_s, first_per_s=400, most_per_s=20_000, resolution=1.15)
    assert found.is_bounded
    assert attempt(found.rate_per_s, HELD_TRIES * try_s).failure is None
    assert attempt(1.16 * found.rate_per_s, HELD_TRIES * try_s).failure is not None
    held = [one for one in found.attempts if one.duration_s == HELD_TRIES * try_s]
    assert (held[-1].rate_per_s, held[-1].failure) == (found.rate_per_s, None)


def test_a_server_that_bears_nothing_for_long_bears_nothing() -> None:
    def attempt(rate_per_s: float, duration_s: float) -> Attempt:
        return Attempt(rate_per_s, duration_s, rate_per_s, 1_000, 1_000 if duration_s == 1 else 999, 0)

    assert search(attempt, try_s=1, first_per_s=400, most_per_s=800, resolution=1.15).rate_per_s == 0


def test_what_could_not_be_offered_was_not_borne() -> None:
    found = search(bears(1e9, offers_per_s=1_000), try_s=1, first_per_s=400, most_per_s=20_000, resolution=1.15)
    assert found.rate_per_s < 1_200
    assert any((one.failure or "").startswith("only 1000 per second could be offered") for one in found.attempts)


def test_an_answer_to_a_retransmission_is_a_failure() -> None:
    assert Attempt(100, 1, 100, 50, 50, 1).failure == "1 retransmissions"
    assert Attempt(100, 1, 100, 50, 49, 0).failure == "1 of 50 not acknowledged"
    assert Attempt(100, 1, 100, 50, 50, 0, late=2).failure == "2 of 50 acknowledged after more than 500 ms"
    assert Attempt(100, 1, 100, 50, 50, 0).failure is None


LOG = (
    "sent phone000000 1|2026-11-24\t13:00:00.000001\t1795525200.000001\n"
    "answered phone000000 1|2026-11-24\t13:00:00.000501\t1795525200.000501\n"
    "contact phone000001 |2026-11-24\t13:00:00.000601\t1795525200.000601\n"
    "sent phone000002 3|2026-11-24\t13:00:0"
)


def test_a_saturation_is_searched_for_a_share_of_one_that_nobody_knows() -> None:
    def unknown(probe: str, **parameters: JsonValue) -> Saturated | None:
        cell = Cell(platform="native", scenario="telephony", probe=probe, parameters={"mode": "net", **parameters})
        return unknown_saturation(cell, {("registrations", "udp"): 400.0})

    assert unknown("register", share=0.5, transport="tcp-one") == ("registrations", "tcp-one")
    assert unknown("register-failover", share=0.5, transport="tcp-one") == ("registrations", "tcp-one")
    assert unknown("register-failover", share=0.5, transport="udp") is None
    assert unknown("session-failover", share=0.5) == ("sessions", "udp")
    assert unknown("session-failover", rate_per_s=50) is None
    assert unknown("register", share=0.5, transport="udp") is None
    assert unknown("register", rate_per_s=100, transport="tcp-one") is None
    assert unknown("call", streams=10) is None


def test_sipps_log_is_read_by_user_on_the_monotonic_clock() -> None:
    messages = parse_log(LOG, 1_795_525_200 * 1_000_000_000)
    assert [(one.kind, one.user, one.status, one.at_ns) for one in messages] == [
        ("sent", "phone000000", "1", 1_000),
        ("answered", "phone000000", "1", 501_000),
        ("contact", "phone000001", "", 601_000),
    ]
    assert first_times(messages, "answered") == {"phone000000": 501_000}


COLUMNS = (
    "OutgoingCall",
    "SuccessfulCall",
    "FailedCall",
    "FailedMaxUDPRetrans",
    "FailedTimeoutOnRecv",
    "FailedUnexpectedMessage",
    "FailedCallRejected",
    "FailedTcpConnect",
    "FailedTcpClosed",
    "Retransmissions",
)


def test_the_last_line_of_sipps_statistics_counts() -> None:
    head = ";".join(f"{name}(P);{name}(C)" for name in COLUMNS) + ";\n"
    lines = ["".join(f"0;{factor * number};" for number in range(1, 11)) + "\n" for factor in (1, 2)]
    counts = parse_statistics(head + "".join(lines))
    assert (counts.created, counts.successful, counts.failed, counts.retransmissions) == (2, 4, 6, 20)
    assert (counts.gave_up, counts.unexpected, counts.reconnects) == (8 + 10, 12 + 14, 16 + 18)


def test_statistics_without_a_column_are_refused_by_name() -> None:
    with pytest.raises(StealtimeError, match=r"OutgoingCall\(C\)"):
        parse_statistics("SuccessfulCall(C);\n1;\n")


def test_the_silence_is_the_longest_gap_that_ends_after_the_fault() -> None:
    # 300 before the fault at 1,000 is longer, and over before it.
    assert silence_ns([100, 600, 900, 1_150, 1_200, 1_700], [], 1_000) == 500
    assert silence_ns([900, 1_150, 1_200], [], 1_000) == 250
    assert silence_ns([900, 950], [], 1_000) is None


def test_an_answer_that_was_on_its_way_at_the_fault_ends_no_silence() -> None:
    # One more at 1,003, and none to whoever asked later.
    assert silence_ns([900, 950, 1_003], [1_010, 1_100], 1_000) is None
    # Whoever was lost in the middle may be one of many who were answered.
    assert silence_ns([900, 1_003, 1_200], [1_010], 1_000) == 197
    assert silence_ns([], [1_010], 1_000) is None


def test_answers_are_counted_in_steps_around_the_fault() -> None:
    fault_ns = 10_000_000_000
    steps = over_time([fault_ns - 1, fault_ns, fault_ns + 1, fault_ns + 20_000_000, fault_ns + 9_000_000_000], fault_ns)
    at_fault = -steps.first_step_ns // steps.step_ns
    assert steps.answers[at_fault - 1 : at_fault + 2] == [1, 2, 1]
    assert sum(steps.answers) == 4


def test_quartiles_are_measured_values() -> None:
    times = response_times(list(range(1, 101)))
    assert times.model_dump() == {
        "min_ns": 1, "q1_ns": 25, "median_ns": 50, "q3_ns": 75, "p99_ns": 99, "max_ns": 100,
    }  # fmt: skip


def test_each_phone_has_a_name_of_its_own() -> None:
    users = Load(transport="udp", rate_per_s=100, count=10_000).users
    assert len(set(users)) == 10_000


def test_a_server_is_told_what_its_role_needs() -> None:
    both = ServerConfiguration(role="both", address="10.0.0.1").files
    assert set(both) == {"init", "serve", "kamailio.cfg", "rtpengine.conf"}
    assert 'modparam("rtpengine", "rtpengine_sock", "udp:127.0.0.1:2223")' in both["kamailio.cfg"]
    assert "table = -1\n" in both["rtpengine.conf"]
    assert "@" not in both["kamailio.cfg"]
    signalling = ServerConfiguration(role="signalling", address="10.0.0.1", media_address="10.0.0.2").files
    assert "udp:10.0.0.2:2223" in signalling["kamailio.cfg"]
    assert "rtpengine.conf" not in signalling
    assert ("\nchildren=2\n" in both["kamailio.cfg"], "\nchildren=8\n" in signalling["kamailio.cfg"]) == (True, True)
    # It pings its relay once when it begins: so it begins after it.
    assert "await_machine 10.0.0.2 2224\nkeep /usr/sbin/kamailio" in signalling["serve"]
    media = ServerConfiguration(role="media", address="10.0.0.2", media_ports=(40_000, 40_099)).files
    relay = "listen-ng = 10.0.0.2:2223\nlisten-cli = 10.0.0.2:2224\nport-min = 40000\nport-max = 40099\n"
    assert relay in media["rtpengine.conf"]
    assert "listen-cli" not in both["rtpengine.conf"]
    assert "kamailio" not in media["serve"]


@pytest.mark.parametrize("ports", [(5_000, 6_000), (40_000, 30_000), (80, 90), (60_000, 70_000)])
def test_media_ports_that_cannot_be_had_are_refused(ports: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="media"):
        ServerConfiguration(role="both", address="10.0.0.1", media_ports=ports)


def test_a_host_without_sipp_is_told_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StealtimeError, match="sipp is not installed") as refused:
        find_sipp()
    assert refused.value.hint == "install the package sip-tester"


def test_the_first_complaint_of_a_server_is_told() -> None:
    said = "loading modules\n 0(10) ERROR: <core> bind: Address already in use\n 0(10) ERROR: <core> giving up\n"
    assert complaint(said) == "it says: 0(10) ERROR: <core> bind: Address already in use"
    assert complaint("loading modules\n") == "it wrote last: loading modules"
    assert complaint("") == "it wrote nothing"


def test_cpu_time_is_read_in_nanoseconds_thread_by_thread(tmp_path: Path) -> None:
    for thread, text in (("70", "1234567 8 9\n"), ("71", "5 0 1\n"), ("72", "")):
        (tmp_path / "70/task" / thread).mkdir(parents=True)
        (tmp_path / "70/task" / thread / "schedstat").write_text(text)
    assert sorted(thread_times_ns(70, tmp_path)) == [5, 1_234_567]
    assert thread_times_ns(71, tmp_path) == []
    assert sum(thread_times_ns(os.getpid())) > 0


def test_native_servers_are_planned_without_protection_alone() -> None:
    records = [PlatformRecord(name=name, usable=True, reason="") for name in ("native", "qemu-tcg-paravirt")]
    planned = plan(find_campaign("telephony2011"), records, HostCpus((0, 1)))
    modes = {
        boot.platform: {cell.cell.parameters["mode"] for boot_cell in [boot] for cell in boot_cell.cells}
        for boot in planned.boots
    }
    assert modes == {
        "native": {"off"},
        "qemu-tcg-paravirt": {"off", "no-net", "net", "net+bypass", "net+no-net", "replicated"},
    }
    assert alias_words(planned.aliases, records)


def test_no_server_is_set_up_twice_in_a_repetition() -> None:
    records = [PlatformRecord(name=name, usable=True, reason="") for name in ("native", "qemu-tcg-paravirt")]
    campaign = find_campaign("telephony2011")
    for boot in plan(campaign, records, HostCpus((0, 1))).boots:
        servers = [ServerParameters.of(planned.cell) for planned in boot.cells]
        set_up = [server for server, _ in groupby(servers)]
        assert len(set_up) == len(set(set_up)), boot.platform
        # Who is to know nobody is asked first.
        first = {
            server: next(own)[1].cell for server, own in groupby(zip(servers, boot.cells, strict=True), itemgetter(0))
        }
        for mode, interval_ns in (("off", None), ("net", 100_000_000)):
            server = ServerParameters(mode=mode, interval_ns=interval_ns)
            assert server not in first or first[server].parameters["rate_per_s"] == 200
        # What loads are shares of is found before them, and a sweep goes on where it was.
        cells = [planned.cell for planned in boot.cells]
        shared = [one.probe for one in cells if one.probe == "registration-rate" or "share" in one.parameters]
        assert shared[:3] == 3 * ["registration-rate"]
        swept = [one.parameters for one in cells if one.parameters.get("while_borne")]
        for mode in ("net", "no-net"):
            streams = [one["streams"] for one in swept if one["mode"] == mode]
            assert streams == ([] if boot.platform == "native" else [200, 600, 800])


def test_the_short_form_replaces_what_its_tables_say() -> None:
    short = shorten(find_campaign("telephony2011"))
    assert short.repetitions == 1
    sets = {cells.probe: [one.stored for one in cells.parameter_sets()] for cells in short.probes}
    assert sets["registration-rate"] == [{"mode": "off", "transport": "udp"}]
    assert [(one["mode"], one.get("min_interval_ns")) for one in sets["register"]] == [
        ("off", None), ("net", None), ("net", 5_000_000)
    ]  # fmt: skip
    assert [(one["mode"], one.get("fault")) for one in sets["register-failover"]] == [("net", None), ("net", "planned")]
    assert [one.get("transport") for one in sets["call-failover"]] == [None, "tcp-one"] * 2
    # A share of the session rate would have to be searched first.
    assert [(one["rate_per_s"], one.get("share")) for one in sets["session-failover"]] == [(20.0, None)]
    assert {one.get("roles") for one in sets["call"]} == {None}


def test_two_guests_are_planned_where_a_mode_needs_them_and_not_natively() -> None:
    table = 'name = "x"\nscenarios = ["telephony"]\n[[probes]]\nprobe = "call"\nduration = "1s"\n'
    text = table + 'mode = ["off", "net+no-net", "replicated"]\nroles = ["together", "apart"]\n'
    records = [PlatformRecord(name=name, usable=True, reason="") for name in ("native", "qemu-tcg-paravirt")]
    planned = plan(read_campaign(text, "f"), records, HostCpus((0, 1)))
    placed = {
        (boot.platform, cell.cell.parameters["mode"], cell.cell.parameters.get("roles"))
        for boot in planned.boots
        for cell in boot.cells
    }
    assert placed == {
        ("native", "off", None),
        ("qemu-tcg-paravirt", "off", None),
        ("qemu-tcg-paravirt", "off", "apart"),
        ("qemu-tcg-paravirt", "net+no-net", "apart"),
        ("qemu-tcg-paravirt", "replicated", None),
    }
    with pytest.raises(UsageError, match=r"the mode 'net\+no-net' needs the roles 'apart'"):
        read_campaign(table + 'mode = ["net+no-net"]\n', "f")


@pytest.mark.parametrize("probe", ["call", "call-failover"])
def test_a_campaign_has_whole_calls_of_two_streams(probe: str) -> None:
    text = f'name = "x"\nscenarios = ["telephony"]\n[[probes]]\nprobe = "{probe}"\nduration = "1s"\n'
    assert read_campaign(text + "streams = [2, 4000]\n", "f").probes[0].parameter_sets()[0].stored["streams"] == 2
    for streams in (0, 1, 11, 4002):
        with pytest.raises(UsageError, match="streams"):
            read_campaign(f"{text}streams = [{streams}]\n", "f")


@pytest.mark.parametrize(
    ("role", "mode", "own"),
    [
        ("both", "net+bypass", "net+bypass"),
        ("signalling", "net+bypass", "net"),
        ("media", "net+bypass", "net+bypass"),
        ("signalling", "net+no-net", "net"),
        ("media", "net+no-net", "no-net"),
        ("signalling", "no-net", "no-net"),
    ],
)
def test_only_what_media_says_leaves_before_its_state_is_safe(role: Role, mode: Mode, own: str) -> None:
    assert mode_of(role, mode) == own
