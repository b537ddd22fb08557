"""Fronts, their name server and the phones' choice, as far as nothing has to run."""

from collections import Counter
from typing import Any, cast

import dns.rrset
import dns.zone
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stealtime.hosts.laboratory import Laboratory
from stealtime.studies.telephony.appliance.configuration import SERVE, ServerConfiguration
from stealtime.studies.telephony.appliance.front import SLOTS, FrontConfiguration, dealt, destinations
from stealtime.studies.telephony.appliance.names import DOMAIN, Front, NamesConfiguration
from stealtime.studies.telephony.appliance.root import modules_of, programs_of
from stealtime.studies.telephony.place.fronts import FIRST_STAGE_NODES, FRONT_NODES, NAMES_NODE
from stealtime.studies.telephony.place.location import choose
from stealtime.studies.telephony.probes import RegisterFailoverCells, TwoStageFailoverCells
from stealtime.studies.telephony.registrations.failover import longest_gap_ns

SERVICE = f"_sip._udp.{DOMAIN}."
FRONTS = [
    Front(name="front1", address="10.0.0.1", weight=75),
    Front(name="front2", address="10.0.0.2", weight=25),
    Front(name="spare", address="10.0.0.3", priority=20),
]


def zone() -> dns.zone.Zone:
    """Read the zone file as a name server does."""
    text = NamesConfiguration(address="10.0.0.9", fronts=FRONTS).files["zone"]
    return dns.zone.from_text(text, origin=f"{DOMAIN}.", relativize=False)


def services(*records: str) -> dns.rrset.RRset:
    return dns.rrset.from_text(SERVICE, 60, "IN", "SRV", *records)


def test_the_zone_leads_by_naptr_and_srv_to_the_address_of_each_front() -> None:
    read = zone()
    naptr = [(one.service, one.replacement.to_text()) for one in cast(Any, read.find_rdataset(f"{DOMAIN}.", "NAPTR"))]
    assert naptr == [(b"SIP+D2U", f"_sip._udp.{DOMAIN}."), (b"SIP+D2T", f"_sip._tcp.{DOMAIN}.")]
    for _, service in naptr:
        found = {
            (one.priority, one.weight, one.port, str(read.find_rdataset(one.target, "A")[0]))
            for one in cast(Any, read.find_rdataset(service, "SRV"))
        }
        assert found == {(10, 75, 5060, "10.0.0.1"), (10, 25, 5060, "10.0.0.2"), (20, 50, 5060, "10.0.0.3")}


def test_phones_are_spread_by_weight_over_the_lowest_priority_alone() -> None:
    records = zone().find_rdataset(SERVICE, "SRV")
    chosen = choose(dns.rrset.from_rdata_list(SERVICE, 60, list(records)), 4_000, seed=1)
    assert {port for order in chosen for _, port in order} == {5060}
    orders = {tuple(name.split(".")[0] for name, _ in order): phones for order, phones in chosen.items()}
    # Who is tried next follows: the other one of the same priority, and the spare one last.
    assert set(orders) == {("front1", "front2", "spare"), ("front2", "front1", "spare")}
    shares = {order[0]: len(phones) / 4_000 for order, phones in orders.items()}
    # Nine standard deviations of 4,000 throws.
    assert shares["front1"] == pytest.approx(0.75, abs=0.06)
    assert sorted(phone for phones in chosen.values() for phone in phones) == list(range(4_000))


def test_a_choice_can_be_repeated() -> None:
    records = services("10 50 5060 a.test.", "10 50 5070 b.test.")
    assert choose(records, 50, seed=7) == choose(records, 50, seed=7) != choose(records, 50, seed=8)
    first, second = ("a.test.", 5060), ("b.test.", 5070)
    assert set(choose(records, 50, seed=7)) == {(first, second), (second, first)}


@given(st.integers(min_value=1, max_value=6))
def test_every_primary_has_an_even_share_of_the_slots(count: int) -> None:
    primaries = [f"10.0.0.{number}" for number in range(count)]
    assert Counter(dealt(primaries)) == dict.fromkeys(primaries, SLOTS // count)


@given(st.integers(min_value=1, max_value=5))
def test_a_primary_that_is_added_takes_its_share_and_nothing_else_moves(count: int) -> None:
    primaries = [f"10.0.0.{number}" for number in range(count + 1)]
    before, after = dealt(primaries[:-1]), dealt(primaries)
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert {new for _, new in moved} == {primaries[-1]}
    assert len(moved) == SLOTS // (count + 1)
    # It takes as much from each.
    assert len(set(Counter(old for old, _ in moved).values())) == 1


def test_a_front_reads_both_deals_in_one_file_with_no_uri_twice_in_a_set() -> None:
    lines = destinations(dealt(["10.0.0.1", "10.0.0.2"]), dealt(["10.0.0.1"])).splitlines()
    assert len(lines) == len(set(lines)) == 2 * SLOTS
    assert (lines[0], lines[-1]) == ("1 sip:0@10.0.0.1:5060", f"2 sip:{SLOTS - 1}@10.0.0.1:5060")
    # Without another deal both are the same: then no front names another primary.
    first, second = (
        [line.partition(" ")[2] for line in destinations(["10.0.0.1"] * 3).splitlines() if line.startswith(number)]
        for number in "12"
    )
    assert first == second


def test_a_front_keeps_no_state() -> None:
    files = FrontConfiguration(address="10.0.0.1").files
    modules = modules_of("front")
    assert not {"tm", "usrloc", "registrar", "rtpengine"} & set(modules)
    assert all(f'loadmodule "{name}.so"' in files["kamailio.cfg"] for name in modules)
    assert "@" not in files["kamailio.cfg"]
    kept = [line for line in files[SERVE].splitlines() if line.startswith("keep /")]
    assert [line.split()[1] for line in kept] == ["/usr/sbin/kamailio"]


def test_a_server_takes_the_word_of_its_fronts_and_of_nobody_else() -> None:
    def word(*fronts: str) -> str:
        text = ServerConfiguration(role="both", address="10.0.0.5", fronts=fronts).files["kamailio.cfg"]
        return next(line for line in text.splitlines() if "$hdr(Other-Primary)" in line)

    assert "(src_ip == 10.0.0.1 || src_ip == 10.0.0.2)" in word("10.0.0.1", "10.0.0.2")
    assert "&& (0))" in word()


def test_both_stages_are_made_of_debians_programs() -> None:
    assert [name.rpartition("/")[2] for name in programs_of("front")] == ["kamailio", "kamcmd"]
    assert [name.rpartition("/")[2] for name in programs_of("names")] == ["nsd"]


def test_servers_without_a_machine_have_addresses_of_their_own_where_phones_are() -> None:
    laboratory = Laboratory(("a", "b"), FIRST_STAGE_NODES)
    nodes = [laboratory.nodes[name] for name in (*FRONT_NODES, NAMES_NODE, "client")]
    assert len({node.address("clients") for node in nodes}) == 4
    with pytest.raises(ValueError, match="a has no address on the network clients"):
        laboratory.nodes["a"].address("clients")
    # The last two parts of a namespace's name are taken off when it is asked whose it is.
    assert all("-" not in name for name in FIRST_STAGE_NODES)


def test_the_longest_gap_before_a_moment_is_between_two_answers() -> None:
    assert longest_gap_ns([5, 1, 9, 30], 20) == 4
    assert longest_gap_ns([5, 30], 20) is None


def test_a_deployment_is_named_by_how_many_primaries_it_has_when_the_host_dies() -> None:
    cells = TwoStageFailoverCells.model_validate(
        {"probe": "two-stage-failover", "duration": "1s", "primaries": [2, 3], "mode": ["net", "no-net"]}
    )
    assert [(one.stored["mode"], one.stored["primaries"]) for one in cells.parameter_sets()] == [
        ("net", 2), ("net", 3), ("no-net", 2), ("no-net", 3),
    ]  # fmt: skip


def test_how_long_phones_wait_tells_cells_apart_where_a_front_is_lost_and_nowhere_else() -> None:
    cells = TwoStageFailoverCells.model_validate(
        {
            "probe": "two-stage-failover", "duration": "1s", "victim": ["primary", "all-primaries", "front"],
            "fault": ["killed", "planned"], "timer_f": ["1s", "2s"],
        }
    )  # fmt: skip
    names = ("victim", "fault", "timer_f_ns")
    assert [tuple(one.stored.get(name) for name in names) for one in cells.parameter_sets()] == [
        (None, None, None),
        ("all-primaries", None, None),
        ("front", None, 1_000_000_000),
        ("front", None, 2_000_000_000),
        (None, "planned", None),
        ("all-primaries", "planned", None),
    ]
    usual = TwoStageFailoverCells.model_validate({"probe": "two-stage-failover", "duration": "1s", "victim": ["front"]})
    assert [sorted(one.stored) for one in usual.parameter_sets()] == [
        ["interval_ns", "mode", "primaries", "rate_per_s", "transport", "victim"]
    ]


@pytest.mark.parametrize(
    ("more", "refusal"),
    [
        ({"victim": ["front"], "fault": ["planned"]}, "the fault 'planned' moves a guest, .* on the victim 'front'"),
        ({"victim": ["standby"]}, "Input should be 'primary', 'all-primaries' or 'front'"),
        ({"victim": ["front"], "timer_f": ["100ms"]}, "timer_f"),
        ({"victim": ["front"], "timer_f": ["33s"]}, "timer_f"),
    ],
)
def test_what_cannot_be_lost_so_is_refused(more: dict[str, Any], refusal: str) -> None:
    with pytest.raises(ValidationError, match=refusal):
        TwoStageFailoverCells.model_validate({"probe": "two-stage-failover", "duration": "1s", **more})


@pytest.mark.parametrize(
    ("more", "refusal"),
    [
        ({"fault": ["planned"]}, "the fault 'planned' moves a guest, and there is none on the victim 'standby'"),
        ({"mode": ["replicated"]}, "the mode 'replicated' has the victim 'primary' only, not 'standby'"),
        ({"users": 10}, "10 users are not possible with the victim 'standby'"),
    ],
)
def test_a_standby_that_cannot_be_lost_so_is_refused(more: dict[str, Any], refusal: str) -> None:
    document = {"probe": "register-failover", "duration": "1s", "victim": ["standby"], **more}
    with pytest.raises(ValidationError, match=refusal):
        RegisterFailoverCells.model_validate(document)
