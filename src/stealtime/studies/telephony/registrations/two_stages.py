"""Two stages: a primary is added while phones register, then hosts or a front are lost while phones register.

Phones find their front by the name server. Every acknowledged one is asked for by way of another front, since no front
knows what another one was told.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stealtime.studies.telephony.loads import TwoStageFailoverParameters
from stealtime.studies.telephony.parameters import Transport
from stealtime.studies.telephony.place.two_stage import TwoStagePlace
from stealtime.studies.telephony.registrations.failover import (
    LOST_SHOWN,
    await_first_answer,
    first_answer_ns,
    longest_gap_ns,
    over_time,
    silence_ns,
    told_of,
)
from stealtime.studies.telephony.registrations.front_lost import lose_front
from stealtime.studies.telephony.registrations.led import Answers, Led
from stealtime.studies.telephony.registrations.load import (
    Load,
    finish_load,
    fresh_names,
    registering,
    unknown_users,
)
from stealtime.studies.telephony.results import PrimaryAdded, PrimaryUsers, TwoStageFailover, primaries_lost
from stealtime.studies.telephony.sipp.program import start_sipp
from stealtime.vocabulary.errors import StealtimeError

_WHILE_ADDED_PER_S = 20.0
"""While a primary boots: enough to see that there is no moment at which a user is lost, too little to slow the boot."""
_BOOTED_WITHIN_S = 180.0
_RENEWED_PER_S = 100.0
_LATE_NS = 500_000_000
"""T1: a phone sends its request again over UDP then (RFC 3261, section 17.1.2.2)."""


@dataclass(frozen=True)
class _Asked:
    """Phones whose place lost something, and what was asked of it afterwards."""

    led: Led
    answers: Answers
    struck_ns: int
    added: PrimaryAdded
    lost: Sequence[str]
    """Users that are not known by way of another front."""
    owners: Sequence[Sequence[str]]
    """The users that each primary knows."""
    before: Sequence[str]
    """Where the guest of each ran before the fault: a crowded host may have lost one earlier."""
    homes: Sequence[str | None]
    """The same when all phones were done; None: on none or several."""


def fail_over_of_several(
    place: TwoStagePlace, wanted: TwoStageFailoverParameters, duration_s: float, folder: Path
) -> TwoStageFailover:
    """Add a primary, then lose what is to be lost, each while phones register.

    Args:
        place: Fronts and primaries, one of which is still to be added.
        wanted: Of them and their phones.
        duration_s: How long they do so before the fault, and as long after it.
        folder: For the files of phones.

    Raises:
        NotProtectedError: A primary lost its standby before the fault.
        StealtimeError: One does not go on, or does not come up.
    """
    added = add_primary(place, wanted.transport, folder / "added")
    count = max(2, round(2 * duration_s * wanted.rate_per_s))
    load = Load(transport=wanted.transport, rate_per_s=wanted.rate_per_s, count=count, names=fresh_names())
    led = Led.by_names(place, load)
    return (_lose_a_front if wanted.victim == "front" else _lose_hosts)(led, wanted, added, folder)


def _lose_hosts(led: Led, wanted: TwoStageFailoverParameters, added: PrimaryAdded, folder: Path) -> TwoStageFailover:
    place = led.place
    active, from_ns = place.await_protected(), time.monotonic_ns()
    running = led.start(folder / "load")
    try:
        await_first_answer(running[0])
        time.sleep(led.load.duration_s / 2)
        place.check_protected(active, from_ns)
        fault = (place.lose_all_hosts if wanted.victim == "all-primaries" else place.lose_host)(wanted.fault)
        answers = Answers.of_sipp([finish_load(sipp) for sipp in running])
    finally:
        for sipp in running:
            sipp.end()
    homes, acknowledged = homes_of(place), sorted(answers.answered_ns)
    lost = led.unknown(acknowledged, folder / "asked")
    owners, before = owners_of(place, acknowledged, folder), [one.host for one in active]
    asked = _Asked(led, answers, fault.struck_ns, added, lost, owners, before, homes)
    died = asked.owners[: primaries_lost(wanted.victim, len(asked.owners))]
    own = {user for users in died for user in users}
    told = told_of(fault, [answers.answered_ns[user] for user in own])
    place.revive()
    return _result(asked, wanted, own, {**told, "lost_within_ns": fault.apart_ns})


def _lose_a_front(led: Led, wanted: TwoStageFailoverParameters, added: PrimaryAdded, folder: Path) -> TwoStageFailover:
    place = led.place
    active, from_ns = place.await_protected(), time.monotonic_ns()
    seen = lose_front(
        led, wanted.fault, wanted.timer_f_ns, folder / "load", lambda: place.check_protected(active, from_ns)
    )
    homes, acknowledged = homes_of(place), sorted(seen.answers.answered_ns)
    # Through the front that was lost, too, which is there again: it knows nothing of before.
    lost = led.unknown(acknowledged, folder / "asked", seen.turned.answered_by)
    owners, before = owners_of(place, acknowledged, folder), [one.host for one in active]
    asked = _Asked(led, seen.answers, seen.struck_ns, added, lost, owners, before, homes)
    times = [at_ns for user, at_ns in seen.answers.answered_ns.items() if user in seen.own]
    told = {
        "host": seen.front.name,
        "fault_to_detection_ns": None,
        "fault_to_running_ns": None,
        "fault_to_answer_ns": first_answer_ns(times, seen.struck_ns, seen.struck_ns),
        "over_time": over_time(times, seen.struck_ns),
        "front": seen.front,
        "lost_within_ns": seen.lost_ns - seen.struck_ns,
    }
    return _result(asked, wanted, seen.own, told)


def add_primary(place: TwoStagePlace, transport: Transport, folder: Path) -> PrimaryAdded:
    """Add a primary to those that serve while phones register, and see whether any of them is lost meanwhile.

    Raises:
        StealtimeError: It does not come up, or the phones did not register until after it had.
    """
    folder.mkdir()
    count = round(_BOOTED_WITHIN_S * _WHILE_ADDED_PER_S)
    load = Load(transport=transport, rate_per_s=_WHILE_ADDED_PER_S, count=count, names=fresh_names())
    led = Led.by_names(place, load)
    ready_ns: list[int] = []
    running = led.start(folder / "load")
    try:
        await_first_answer(running[0])
        begun_ns = time.monotonic_ns()
        guest = place.add_primary(lambda: ready_ns.append(time.monotonic_ns()))
        dealt_ns = time.monotonic_ns()
        # As many steps of the fronts later, so that phones have met both.
        time.sleep((dealt_ns - ready_ns[0]) / 1e9)
        for sipp in running:
            sipp.begin_no_more()
        answers = Answers.of_sipp([finish_load(sipp) for sipp in running])
    finally:
        for sipp in running:
            sipp.end()
    if max(answers.sent_ns.values()) < dealt_ns:
        raise StealtimeError(f"no phone registered any more when a primary was added after {_BOOTED_WITHIN_S:g} s")
    acknowledged = sorted(answers.answered_ns)
    lost = led.unknown(acknowledged, folder / "asked")
    before = sorted(user for user, at_ns in answers.answered_ns.items() if at_ns < ready_ns[0])
    moved = _moved(place, transport, before, guest.ip_address, folder)
    return PrimaryAdded(
        host=guest.home,
        acknowledged=len(acknowledged),
        unanswered=len(answers.unanswered_ns),
        lost=len(lost),
        lost_users=lost[:LOST_SHOWN],
        before=len(before),
        moved=moved,
        boot_to_ready_ns=ready_ns[0] - begun_ns,
        ready_to_dealt_ns=dealt_ns - ready_ns[0],
    )


def _moved(place: TwoStagePlace, transport: Transport, users: Sequence[str], primary: str, folder: Path) -> int:
    """Have users renew their registrations; give how many of them a primary knows then."""
    load = Load(transport=transport, rate_per_s=_RENEWED_PER_S, count=len(users))
    renewing = start_sipp(place.client, registering(load, place.address, users), folder / "renewed")
    try:
        finish_load(renewing)
    finally:
        renewing.end()
    (folder / "primary").mkdir()
    return len(users) - len(unknown_users(place.client, primary, users, folder / "primary"))


def owners_of(place: TwoStagePlace, users: Sequence[str], folder: Path) -> list[list[str]]:
    """Ask each primary which users it knows itself; it takes no front's word for another one here.

    Returns:
        The users that each knows, in the order of the primaries.
    """
    known = []
    for guest in place.guests:
        unknown = set(unknown_users(place.client, guest.ip_address, users, folder / f"known-{guest.home}"))
        known.append([user for user in users if user not in unknown])
    return known


def users_seen(
    host: str, users: Sequence[str], answers: Answers, struck_ns: int, is_lost: bool, runs_on: str | None
) -> PrimaryUsers:
    """Tell what the users of a primary saw when something was lost.

    Args:
        host: Where it was before.
        users: Those that were acknowledged, and that it knows.
        answers: What came of all phones.
        struck_ns: When something was lost.
        is_lost: Whether that was its host.
        runs_on: Where its guest ran afterwards.
    """
    times = [answers.answered_ns[user] for user in users]
    return PrimaryUsers(
        host=host,
        users=len(users),
        silence_before_ns=longest_gap_ns(times, struck_ns),
        # Whose users they are nobody can say; those of the primaries that went on were answered.
        silence_ns=silence_ns(times, answers.unanswered_ns if is_lost else [], struck_ns),
        late=sum(answers.answered_ns[user] - answers.sent_ns[user] >= _LATE_NS for user in users),
        runs_on=runs_on,
    )


def homes_of(place: TwoStagePlace) -> list[str | None]:
    """Give where the guest of each primary runs; None where it runs on none or several hosts."""
    members = [guest.running_members() for guest in place.guests]
    return [each[0].host if len(each) == 1 else None for each in members]


def _result(
    asked: _Asked, wanted: TwoStageFailoverParameters, own: Collection[str], told: Mapping[str, Any]
) -> TwoStageFailover:
    """Put together what was seen.

    Args:
        asked: It.
        wanted: Of the place and its phones.
        own: The users of what was lost.
        told: More fields of the result.
    """
    led, answers = asked.led, asked.answers
    sent, answered, unanswered_ns = answers.sent_ns, answers.answered_ns, answers.unanswered_ns
    died = primaries_lost(wanted.victim, len(asked.owners))
    others = [at_ns for user, at_ns in answered.items() if user not in own]
    fronts: dict[str, int] = {}
    for front in led.fronts:
        fronts[front.name] = fronts.get(front.name, 0) + len(front.phones)

    return TwoStageFailover(
        **told,
        victim=wanted.victim,
        rate_per_s=led.load.rate_per_s,
        seed=led.seed,
        fronts=fronts,
        sent=len(sent),
        acknowledged=len(answered),
        lost=len(asked.lost),
        lost_users=list(asked.lost[:LOST_SHOWN]),
        unanswered=len(unanswered_ns),
        retransmissions=answers.retransmissions,
        connections_failed=answers.connections_failed,
        primaries=[
            users_seen(asked.before[number], users, answers, asked.struck_ns, number < died, asked.homes[number])
            for number, users in enumerate(asked.owners)
        ],
        added=asked.added,
        others_over_time=None if died == len(asked.owners) else over_time(others, asked.struck_ns),
    )
