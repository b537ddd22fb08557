"""The first stage, in front of native primaries: who is led where, and that no step of an addition loses a user."""

import functools
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import cast

import bare_calls
import pytest
from sip_capture import Capture
from truth import some_of

from stealtime.hosts.client import LaboratoryClient
from stealtime.hosts.host import FaultKind
from stealtime.hosts.laboratory import CLIENT, Laboratory
from stealtime.hosts.namespace_testbed import HOSTS
from stealtime.studies.telephony.appliance.configuration import ServerConfiguration
from stealtime.studies.telephony.appliance.names import DOMAIN
from stealtime.studies.telephony.parameters import Transport
from stealtime.studies.telephony.place.answering import await_answer
from stealtime.studies.telephony.place.fronts import FIRST_STAGE_NODES, FRONT_NODES, NAMES_NODE, laboratory_fronts
from stealtime.studies.telephony.place.location import locate
from stealtime.studies.telephony.place.native_server import NativeServer
from stealtime.studies.telephony.place.two_stage import TwoStagePlace
from stealtime.studies.telephony.registrations.front_lost import lose_front
from stealtime.studies.telephony.registrations.led import Led
from stealtime.studies.telephony.registrations.load import Load, finish_load, registering, unknown_users
from stealtime.studies.telephony.sipp.program import start_sipp, widen_ports
from stealtime.vocabulary.errors import StealtimeError

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

PRIMARIES = ("primary1", "primary2", "primary3")
PHONES = 60
TRANSPORTS: tuple[Transport, ...] = ("udp", "tcp-one", "tcp-each")
TIMER_F_NS = 1_200_000_000
"""Of phones whose front is lost: after their first two repetitions."""


class Stages:
    """Two stages whose primaries are native."""

    def __init__(self, laboratory: Laboratory, folder: Path) -> None:
        self.laboratory = laboratory
        self._folder = folder
        self.client = LaboratoryClient(laboratory)
        widen_ports(self.client)
        self.fronts = laboratory_fronts(laboratory, self.client)
        self.primaries = {name: laboratory.nodes[name].address("clients") for name in PRIMARIES}
        told = tuple(self.fronts.addresses.values())
        self._servers = [
            NativeServer(
                functools.partial(laboratory.start, name),
                name,
                laboratory.folder,
                ServerConfiguration(role="both", address=address, fronts=told),
            )
            for name, address in self.primaries.items()
        ]
        self._questions = 0

    def start(self) -> None:
        for server in self._servers:
            server.start()
        self.fronts.start([self.primaries[name] for name in PRIMARIES[:2]])
        for server, address in zip(self._servers, self.primaries.values(), strict=True):
            await_answer(self.client, address, 20.0, server.log_tail)
        self.fronts.await_ready()

    def stop(self) -> None:
        self.fronts.stop()
        for server in self._servers:
            server.stop()

    def register(self, front: str, names: str, transport: Transport = "udp") -> list[str]:
        """Have phones register at a front; give those that were acknowledged."""
        load = Load(transport=transport, rate_per_s=100, count=PHONES, names=names)
        self._questions += 1
        folder = self._folder / f"load-{self._questions}"
        sipp = start_sipp(self.client, registering(load, self.fronts.addresses[front], load.users), folder)
        return sorted(finish_load(sipp).answered_ns)

    def unknown(self, address: str, users: list[str]) -> set[str]:
        self._questions += 1
        folder = self._folder / f"asked-{self._questions}"
        return set(unknown_users(self.client, address, users, folder))

    def unknown_to_fronts(self, users: list[str]) -> set[str]:
        return {user for address in self.fronts.addresses.values() for user in self.unknown(address, users)}

    def known(self, users: list[str]) -> list[set[str]]:
        """Give which users each primary knows itself."""
        return [set(users) - self.unknown(address, users) for address in self.primaries.values()]


@pytest.fixture(scope="module")
def laboratory() -> Iterator[Laboratory]:
    with Laboratory(HOSTS, (*FIRST_STAGE_NODES, *PRIMARIES)) as standing:
        yield standing


@pytest.fixture
def stages(laboratory: Laboratory, tmp_path: Path) -> Iterator[Stages]:
    made = Stages(laboratory, tmp_path)
    made.start()
    yield made
    made.stop()


def test_phones_that_know_the_domain_alone_are_spread_over_the_fronts(stages: Stages) -> None:
    found = stages.fronts.locate(phones=200, seed=1)
    assert {one.address for one in found} == set(stages.fronts.addresses.values())
    assert {one.port for one in found} == {5060}
    assert sorted(phone for one in found for phone in one.phones) == list(range(200))
    assert stages.fronts.locate(phones=20, protocol="tcp")


def test_a_domain_that_the_name_server_does_not_have_and_a_dead_name_server_are_told(stages: Stages) -> None:
    address = stages.laboratory.nodes[NAMES_NODE].address("clients")
    with pytest.raises(StealtimeError, match=r"leads to no SIP server of other\.test: "):
        locate(stages.client, address, "other.test", phones=1)
    stages.laboratory.power_off(NAMES_NODE)
    with pytest.raises(StealtimeError, match="leads to no SIP server of"):
        locate(stages.client, address, DOMAIN, phones=1)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_primaries_share_the_users_and_every_front_finds_all_of_them(stages: Stages, transport: Transport) -> None:
    users = stages.register("front1", "u", transport)
    assert len(users) == PHONES
    assert stages.unknown_to_fronts([*users, "nobody"]) == {"nobody"}
    first, second, third = stages.known(users)
    assert first | second == set(users)
    assert first
    assert second
    assert not first & second
    assert not third


def test_no_step_of_an_addition_loses_a_user_and_renewing_moves_a_share(stages: Stages) -> None:
    before = stages.register("front1", "before")
    old_first, old_second, _ = stages.known(before)
    steps: list[list[str]] = []

    def look() -> None:
        names = f"step{len(steps)}-"
        steps.append([*stages.register("front1", f"{names}a"), *stages.register("front2", f"{names}b")])
        assert stages.unknown_to_fronts([*before, *(user for users in steps for user in users)]) == set()

    stages.fronts.add(stages.primaries["primary3"], look)
    assert [len(users) for users in steps] == [2 * PHONES] * 4
    # Users are dealt as before until every front knows of the other deal, then front by front.
    assert [bool(stages.known(users)[2]) for users in steps] == [False, False, True, True]
    assert all(all(stages.known(users)) for users in steps[2:])
    assert stages.unknown_to_fronts([*before, "nobody"]) == {"nobody"}
    assert stages.known(before) == [old_first, old_second, set()]
    stages.register("front2", "before")
    first, second, third = stages.known(before)
    # Nobody moves but to the new one; it leaves users to both.
    assert (first, second) == (old_first, old_second)
    assert third
    assert old_first - third
    assert old_second - third


@pytest.mark.truth
def test_calls_find_users_who_are_still_at_their_old_primary(stages: Stages) -> None:
    users = [f"d{number}" for number in range(12)]
    front, old = stages.fronts.addresses["front1"], set(stages.primaries.values())
    assert bare_calls.register(stages.laboratory, front, users) == ["200 OK"] * len(users)
    stages.fronts.add(stages.primaries["primary3"])
    heard = bare_calls.call(stages.laboratory, front, users)
    ways = [one.relays for one in heard.values()]
    assert all(way[-1] == front and set(way[:-1]) <= old for way in ways)
    by_the_new_one = [way for way in ways if stages.primaries["primary3"] in way]
    assert by_the_new_one
    assert all(len(way) == 3 for way in by_the_new_one)
    assert any(len(way) == 2 for way in ways)
    for user, one in heard.items():
        assert one.busy == ["ACK", "486 Busy Here"], user
        assert one.given_up[:2] == ["CANCEL", "ACK"], user
        assert one.given_up[2].startswith("487 "), user
        assert one.answered == ["ACK", "BYE", "200 OK"], user
    assert bare_calls.invite(stages.laboratory, front, "nobody").startswith("404 ")


@pytest.mark.parametrize(("transport", "kind"), some_of(product(TRANSPORTS, ("killed", "silent")), ("udp", "silent")))
def test_phones_of_a_lost_front_turn_to_the_other_one_as_on_the_wire(
    stages: Stages, tmp_path: Path, transport: Transport, kind: FaultKind
) -> None:
    load = Load(transport=transport, rate_per_s=100, count=200, names="turning")
    led = Led.by_names(cast(TwoStagePlace, stages), load)
    with Capture(stages.laboratory) as capture:
        seen = lose_front(led, kind, TIMER_F_NS, tmp_path / "phones", lambda: None)
    front, turned = seen.front, seen.turned
    lost, other = (stages.fronts.addresses[name] for name in FRONT_NODES)
    assert (len(turned.answered_ns), front.phones) == (load.count, len(seen.own))
    assert 0 < front.turned < front.phones
    # What was asked of it after the fault it never answered, and its phones went to the other one after just that.
    firsts = [one.attempts for one in turned.done if one.attempts[0].address == lost]
    late = [attempts for attempts in firsts if attempts[0].sent_ns > seen.lost_ns]
    assert late
    outcomes = {tuple((one.address, one.outcome) for one in attempts) for attempts in late}
    assert outcomes == {((lost, "undelivered" if kind == "killed" else "timed out"), (other, "answered"))}
    if kind == "killed":
        assert front.undelivered == front.turned
    else:
        assert front.timed_out == front.turned
        assert min(turned.turned_ns(lost).values()) >= TIMER_F_NS
    # The front is there again, and finds every user at its primary.
    assert stages.unknown_to_fronts(sorted(turned.answered_ns)) == set()
    if transport == "udp":
        requests = sum(1 + one.sent_again for phone in turned.done for one in phone.attempts)
        assert capture.dropped == 0
        assert (capture.counts["REGISTER"], capture.counts["200 REGISTER"]) == (requests, load.count)


def test_a_phone_cannot_say_where_a_user_is(stages: Stages) -> None:
    hiding = stages.primaries["primary3"]
    bare_calls.register(stages.laboratory, hiding, ["hidden"])
    assert bare_calls.invite(stages.laboratory, hiding, "hidden") == "INVITE"
    word = f"Other-Primary: {hiding}"
    for asked in (stages.fronts.addresses["front1"], stages.primaries["primary1"], stages.primaries["primary2"]):
        assert bare_calls.invite(stages.laboratory, asked, "hidden", word).startswith("404 "), asked


def test_one_addition_waits_for_the_other(stages: Stages) -> None:
    stages.fronts.add(stages.primaries["primary3"])
    with pytest.raises(StealtimeError, match="no second primary can be added until"):
        stages.fronts.add("10.77.1.200")


def test_a_front_that_does_not_take_its_destinations_is_named(stages: Stages) -> None:
    stages.laboratory.power_off("front2")
    with pytest.raises(StealtimeError, match="front2 does not read its destinations"):
        stages.fronts.add(stages.primaries["primary3"])


@pytest.mark.skipif(shutil.which("baresip") is None, reason="the package baresip-core is not installed")
def test_a_stock_phone_registers_by_its_domain_alone(stages: Stages, tmp_path: Path) -> None:
    address, front = stages.client.address, stages.fronts.addresses["front2"]
    lines = [
        f"sip_listen {address}:5081",
        "net_interface clients",
        f"dns_server {stages.laboratory.nodes[NAMES_NODE].address('clients')}:53",
        "module_path /usr/lib/baresip/modules",
        *("module g711.so", "module stdio.so", "module_tmp account.so", "module_app menu.so"),
    ]
    (tmp_path / "config").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "accounts").write_text(f"<sip:stock@{DOMAIN}>;regint=3600\n")
    (tmp_path / "contacts").write_text("")
    with (tmp_path / "said").open("wb") as said:
        phone = stages.laboratory.start(
            CLIENT, ["baresip", "-f", str(tmp_path), "-v"], stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + 20
        while not (contacts := bare_calls.ask(stages.laboratory, front, ["stock"])[0]):
            assert time.monotonic() < deadline, (tmp_path / "said").read_text("utf-8", "replace")
            time.sleep(0.1)
    finally:
        phone.kill()
        phone.wait()
    assert f"@{address}:5081" in contacts[0]
