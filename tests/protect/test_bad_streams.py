"""A damaged stream is refused: nothing of it is applied, and nothing is lost."""

import contextlib
import os
import random
import socket
import sys
from collections.abc import Iterator

import pytest
from evidence import Witness
from odd_host import counting_on
from spoiled_hosts import SpoiledHosts
from spoiled_line import (
    GREETING_BYTES,
    Damage,
    Kind,
    after_garbage,
    cut_short,
    flip_in_length,
    flip_in_payload,
    lost,
    twice,
)
from truth import seed
from two_hosts import (
    HOSTS,
    PATIENCE_S,
    TwoHosts,
    assert_unharmed,
    await_that,
    laboratory_or_skip,
    other,
)

from stealtime.hosts.network import processes_in
from stealtime.protect.status import MemberStatus

pytestmark = [
    pytest.mark.protect,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

SEED = seed()
"""Printed by every failure; give it to have the same damages again."""

_PAYLOAD = ("do not match their checksum",)
_HEADER = ("does not match its checksum",)
_INCOMPLETE = ("comes where batch", ", and announced ")

IN_THE_FIRST_COPY = Damage("a bit of the first copy", Kind.PAGES, flip_in_payload, _PAYLOAD)
DAMAGES = (
    Damage("a bit of a page", Kind.PAGES, flip_in_payload, _PAYLOAD),
    Damage("a bit of a length", Kind.DEVICES, flip_in_length, _HEADER),
    Damage("the end of a frame", Kind.DEVICES, cut_short, ("ended inside a frame",)),
    Damage("garbage between frames", Kind.EPOCH_BEGIN, after_garbage, ("a frame begins with the bytes",)),
    Damage("pages that come twice", Kind.PAGES, twice, _INCOMPLETE),
    Damage("pages that do not come", Kind.PAGES, lost, _INCOMPLETE),
    Damage("devices that do not come", Kind.DEVICES, lost, _INCOMPLETE),
    Damage("an end that does not come", Kind.EPOCH_END, lost, ("comes within an epoch",)),
    Damage("a bit of an acknowledgement", Kind.ACKNOWLEDGE, flip_in_length, _HEADER),
)


@pytest.fixture(scope="module")
def hosts() -> Iterator[SpoiledHosts]:
    with laboratory_or_skip() as laboratory:
        hosts = SpoiledHosts(laboratory, random.Random(SEED), interval="50ms")  # noqa: S311 - it must be repeatable
        yield hosts
        for line in hosts.lines.values():
            line.close()


def pids(hosts: TwoHosts) -> set[int | None]:
    statuses = [hosts.status(name) for name in HOSTS]
    return {status.pid for status in statuses if status is not None}


def refusals(hosts: TwoHosts, name: str, damage: Damage) -> int:
    """Count how often members on a host said that they met such a damage."""
    texts = [str(event.get("reason", event.get("text", ""))) for event in hosts.events(name)]
    return sum(any(words in text for words in damage.said) for text in texts)


def settled_anew(hosts: TwoHosts, members: set[int | None], damage: Damage) -> MemberStatus:
    """Wait until the machine is protected by other members than before: either may have gone on, the other is gone."""
    await_that(
        lambda: len(pids(hosts) - members) == 1 and len(pids(hosts)) == len(HOSTS),
        lambda: f"{damage.name}: the same members go on (seed {SEED})\n{hosts.log_tail()}",
    )
    return hosts.settled()


@pytest.mark.truth
def test_a_damaged_stream_is_refused_and_nothing_is_lost(hosts: SpoiledHosts) -> None:
    chance = random.Random(SEED)  # noqa: S311 - it must be repeatable
    damages = list(DAMAGES)
    chance.shuffle(damages)
    moved = 0
    with Witness(hosts) as witness:
        hosts.line_to("b").spoil(IN_THE_FIRST_COPY)
        hosts.boot()
        assert hosts.line_to("b").was_spoiled.is_set()
        assert refusals(hosts, "b", IN_THE_FIRST_COPY), hosts.log_tail()
        counting = counting_on(hosts)
        for damage in damages:
            before = hosts.settled()
            members = pids(hosts)
            heard = {name: refusals(hosts, name, damage) for name in HOSTS}
            line = hosts.line_to(other(before.host))
            line.spoil(damage)
            assert line.was_spoiled.wait(PATIENCE_S), damage.name
            after = settled_anew(hosts, members, damage)
            moved += after.host != before.host
            hears = before.host if damage.kind is Kind.ACKNOWLEDGE else other(before.host)
            assert refusals(hosts, hears, damage) > heard[hears], (
                f"{damage.name}: {hears} does not say {damage.said!r} (seed {SEED})\n{hosts.log_tail()}"
            )
            witness.note_releases()
        # And then the active member dies: what the standby holds is whole.
        before = hosts.kill_active()
        assert before.pid is not None
        after = hosts.settled(unlike=frozenset({before.pid}))
        assert after.host == other(before.host)
        seen = counting.end()
    sys.stdout.write(f"seed {SEED}: {len(damages)} damages, after {moved} of which the standby went on\n")
    assert_unharmed(seen)
    assert witness.assert_one_holder() >= 2
    witness.assert_all()


@pytest.mark.truth
def test_strangers_at_the_door_change_nothing(hosts: SpoiledHosts) -> None:
    chance = random.Random(SEED)  # noqa: S311 - it must be repeatable
    before = hosts.settled()
    members = pids(hosts)
    standby = other(before.host)
    namespace = hosts.laboratory.host(standby).namespace
    usual = len(processes_in(namespace))
    hello = hosts.line_to(standby).hello
    assert hello is not None
    counting = counting_on(hosts)
    # Nothing at all, anything, a hello that is damaged or that was overheard.
    damaged = flip_in_payload(hello, chance)[0]
    answers = [knock(hosts, standby, said) for said in (b"", chance.randbytes(100_000), damaged, hello[:-1], hello)]
    assert all(len(answer) == GREETING_BYTES for answer in answers[:-1]), answers
    # It was overheard in an earlier term, or its member has its place.
    assert any(cause in answers[-1] for cause in (b"is on", b"already-here", b"old-term")), answers[-1]
    # The process that hears strangers is another one after each hello.
    await_that(lambda: len(processes_in(namespace)) == usual, lambda: f"somebody stays\n{hosts.log_tail()}")
    assert pids(hosts) == members
    after = hosts.settled()
    assert (after.pid, after.term) == (before.pid, before.term)
    assert_unharmed(counting.end())


def knock(hosts: TwoHosts, name: str, said: bytes) -> bytes:
    """Say something to the daemon of a host, and give all that it answers until it ends the connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.settimeout(PATIENCE_S)
        stranger.connect(str(hosts.state.host(name).socket))
        # Who is refused need not listen to the end.
        with contextlib.suppress(BrokenPipeError):
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := stranger.recv(4096):
                answer += piece
        return answer
