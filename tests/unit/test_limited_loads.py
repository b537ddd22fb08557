"""What is told of loads whose limit is known, of rates that are not the server's, and of phones with passwords."""

from typing import Any

import pytest
from pydantic import JsonValue
from telephony_cells import GUEST, MS, cell_of, rate, registrations, session_failover

from stealtime.campaigns.file import read_campaign
from stealtime.report.catalogue.rows import tables_of
from stealtime.report.plain_table import cell_title
from stealtime.store.model import Cell
from stealtime.studies.telephony.figures import TelephonyFigures
from stealtime.studies.telephony.generators.limit import Limit
from stealtime.studies.telephony.registrations.load import Load, registering
from stealtime.studies.telephony.results import RateAttempt, RegistrationRate, Registrations
from stealtime.studies.telephony.sipp.statistics import SippCounts
from stealtime.studies.telephony.study import STUDY
from stealtime.studies.telephony.trials import unknown_saturation
from stealtime.studies.telephony.wording import cell_words, notes, rated_words
from stealtime.vocabulary.errors import UsageError

OFF: dict[str, JsonValue] = {"mode": "off", "transport": "udp"}
EVIDENCE: dict[str, Any] = {
    "generators": 1, "cpu_percent": 12.5, "waiting_percent": 3.0, "late_p99_ns": 2_000_000, "late_max_ns": 7_000_000,
    "late_timers": 1, "datagrams_dropped": 2, "segments_sent_again": 0, "frames_dropped": 3,
    "server_cpu_percent": 41.0, "failed": 40, "failed_while_late": 0,
}  # fmt: skip
WHY = "300 per second failed by the generator: it was late"


def limited(by: str | None, sentence: str = "so it was seen") -> Limit:
    return Limit.model_validate({"by": by, "sentence": sentence, "evidence": EVIDENCE})


def attempt(rate_per_s: float, failure: str | None, limit: Limit | None) -> RateAttempt:
    return RateAttempt(
        rate_per_s=rate_per_s,
        offered_per_s=rate_per_s,
        sent=100,
        acknowledged=100,
        retransmissions=0,
        failure=failure,
        limit=limit,
    )


def failing(by: str | None) -> Registrations:
    return registrations(acknowledged=360, unanswered=40, limit=limited(by))


@pytest.mark.parametrize("by", ["generator", "network"])
def test_a_load_that_failed_by_something_else_is_not_told_as_above_what_the_server_bears(by: str) -> None:
    assert cell_of(GUEST, "register", OFF, [failing(by)]).limits == ["so it was seen"]


@pytest.mark.parametrize("by", ["server", None])
def test_a_load_that_failed_by_the_server_or_nobody_knows_is_told_with_what_was_seen(by: str | None) -> None:
    assert cell_of(GUEST, "register", OFF, [failing(by)]).limits == [
        "the load is above what the server bears: 40 of 400 registrations were not acknowledged",
        "so it was seen",
    ]


def test_a_load_that_was_borne_has_no_limit_but_its_evidence() -> None:
    cell = cell_of(GUEST, "register", OFF, [registrations(limit=limited("none"))])
    assert cell.limits == []
    names = ("generator_cpu_percent", "sent_late_p99_ns", "late_timers", "frames_dropped", "server_busy_percent")
    assert [cell.figure(name).p50 for name in names] == [12.5, 2_000_000, 1, 3, 41.0]


def test_an_older_run_has_no_evidence_and_no_row_of_it() -> None:
    titles = {one.title: one for one in tables_of(STUDY, [cell_of(GUEST, "register", OFF, [registrations()])])}
    assert "What offered the load, and what was lost around it" not in titles
    told = [cell_of(GUEST, "register", OFF, [registrations(limit=limited("none"))])]
    rows = {one.title: one for one in tables_of(STUDY, told)}["What offered the load, and what was lost around it"].rows
    assert len(rows) == 1
    assert any("SIPp's CPU is of one CPU" in note for note in notes(told))


def test_a_rate_that_failed_by_the_generator_is_told_as_at_least() -> None:
    found = rate(260, is_bounded=False).model_copy(update={"unbounded_because": WHY})
    cell = cell_of("native", "registration-rate", OFF, [found])
    assert cell.limits == [f"the server bears at least 260 per second, and how much more is not judged: {WHY}"]
    assert cell.is_bounded is False
    assert rated_words(cell) == "native at least"
    assert rated_words(cell_of("native", "registration-rate", OFF, [rate(260)])) == "native"


def test_a_rate_is_told_with_who_was_the_limit_of_the_next_one() -> None:
    attempts = [
        attempt(200, None, limited("none")),
        attempt(400, "late", limited("server", "far above")),
        attempt(300, "late", limited("generator", "for once")),
        attempt(300, "late", limited(None, "not judged, because nobody counts")),
    ]
    found = RegistrationRate(rate_per_s=200, is_bounded=True, attempts=attempts)
    assert cell_of("native", "registration-rate", OFF, [found]).limits == [
        "at 300 per second: not judged, because nobody counts"
    ]


def test_a_share_of_what_is_borne_at_least_is_told_as_such() -> None:
    over = registrations(600, saturation_per_s=400.0, saturation_unbounded_because=WHY)
    cell = cell_of(GUEST, "register", {**OFF, "share": 1.5}, [over])
    share = f"the load is a share of 400 per second, which the unprotected server bears at least: {WHY}"
    assert cell.limits == ["600 per second were asked for, and the unprotected server bears at least 400", share]
    sessions = session_failover(saturation_per_s=400.0, saturation_unbounded_because=WHY)
    assert cell_of(GUEST, "session-failover", {"mode": "net"}, [sessions]).limits == [share]


def test_a_share_of_authenticated_registrations_is_one_of_their_own_rate() -> None:
    def unknown(**parameters: JsonValue) -> object:
        cell = Cell(platform="native", scenario="telephony", probe="register", parameters={**OFF, **parameters})
        return unknown_saturation(cell, {("registrations", "udp")})

    assert unknown(share=0.5) is None
    assert unknown(share=0.5, auth=True) == ("authenticated registrations", "udp")


def cells_of(**keys: str) -> list[dict[str, JsonValue]]:
    lines = "".join(f"{key} = {value}\n" for key, value in keys.items())
    table = f'name = "x"\nscenarios = ["telephony"]\n[[probes]]\nduration = "1s"\n{lines}'
    return [one.stored for one in read_campaign(table, "f").probes[0].parameter_sets()]


def test_cells_without_passwords_and_of_one_generator_are_called_as_before() -> None:
    assert cells_of(probe='"register"', mode='["off"]') == [{**OFF, "rate_per_s": 100}]
    assert cells_of(probe='"register"', mode='["off"]', auth="[false, true]", generators="[2]") == [
        {**OFF, "rate_per_s": 100, "generators": 2},
        {**OFF, "rate_per_s": 100, "generators": 2, "auth": True},
    ]
    assert cells_of(probe='"session-rate"', generators="[1, 3]") == [{"mode": "off"}, {"mode": "off", "generators": 3}]


@pytest.mark.parametrize("generators", ["[0]", "[9]", '["two"]', "[]"])
def test_as_many_generators_as_there_are_no_ports_for_are_refused(generators: str) -> None:
    with pytest.raises(UsageError, match="generators"):
        cells_of(probe='"registration-rate"', generators=generators)


def test_cells_with_passwords_and_without_are_told_apart() -> None:
    own, other, several = (
        cell_of("native", "register", {**OFF, "rate_per_s": 100, **more}, [registrations(server_cpu_ns=used_ns)])
        for more, used_ns in (({"auth": True}, 600 * MS), ({}, 400 * MS), ({"auth": True, "generators": 2}, 0))
    )
    assert cell_words(own) == "native, UDP, with passwords, 100/s"
    assert cell_words(several) == "native, UDP, with passwords, 100/s, 2 SIPps"
    assert cell_words(other) == "native, UDP, 100/s"
    stored = Cell(platform="native", scenario="telephony", probe="register", parameters=own.parameters)
    assert stored.measurement == "register-auth-off-100-udp"
    assert cell_title("register", own.parameters) == "register auth off 100 udp"
    cells: list[TelephonyFigures] = [own, other]
    assert [any("With passwords:" in note for note in notes(some)) for some in (cells, [other])] == [True, False]


@pytest.mark.parametrize(
    ("with_ms", "judged"),
    [
        ([600], "by how much is not judged, because there are fewer than 4 repetitions (1)"),
        ([600, 610, 590, 600], "1.50 times as much (1.47 to 1.53)"),
        ([300, 610, 400, 401], "no difference is shown (ratio 0.65 to 1.65)"),
    ],
)
def test_what_a_password_costs_is_judged_by_all_repetitions(with_ms: list[int], judged: str) -> None:
    without_ms = [400, 401, 399, 400][: len(with_ms)]
    own, base = (
        cell_of(
            "native",
            "register",
            {**OFF, "rate_per_s": 100, **more},
            [registrations(server_cpu_ns=one * MS) for one in used],
        )
        for more, used in (({"auth": True}, with_ms), ({}, without_ms))
    )
    told = [note for note in notes([own, base]) if "instead of" in note]
    assert len(told) == 1
    assert told[0].startswith("native, UDP, 100/s: a registration with a password takes 1.")
    assert told[0].endswith(f"of the server's CPU instead of 1.00 ms: {judged}.")


def test_each_phone_has_a_password_of_its_own_and_its_domain() -> None:
    load = Load(transport="udp", rate_per_s=90, count=3, names="p", auth=True)
    order = registering(load, "10.0.0.1", load.users[:2])
    # md5sum of the name.
    assert order.users[0] == "p000000;[authentication username=p000000 password=810170885cf2ea9cda27de6c4aa9bdf4]"
    assert len({line.split("password=")[1] for line in order.users}) == 2
    assert (order.options, order.rate_per_s, order.calls) == (("-key", "domain", "phones.example"), 60.0, 2)


def test_what_several_sipps_counted_is_added_up() -> None:
    one = SippCounts(1, 2, 3, 4, 5, 6, 7)
    assert SippCounts.sum([one, one, one]) == SippCounts(3, 6, 9, 12, 15, 18, 21)
