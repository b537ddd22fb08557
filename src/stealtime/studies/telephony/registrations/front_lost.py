"""A front is lost while phones register: its phones turn to the other one (RFC 3263, section 4.3).

These phones are a program of our own (:mod:`.turning_phones`): a wait is that of one phone, from its first request on,
through all that it tries.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from stealtime.hosts.host import FaultKind
from stealtime.studies.telephony.place.fronts import FRONT_NODES
from stealtime.studies.telephony.registrations.failover import await_first_answer, longest_gap_ns, silence_ns
from stealtime.studies.telephony.registrations.led import Answers, Led
from stealtime.studies.telephony.registrations.load import offered_per_s
from stealtime.studies.telephony.registrations.turning import Turned, start_phones
from stealtime.studies.telephony.results import FrontLost
from stealtime.vocabulary.errors import StealtimeError

LOST_FRONT = FRONT_NODES[0]


@dataclass(frozen=True)
class FrontSeen:
    """What phones saw of a front that was lost."""

    struck_ns: int
    lost_ns: int
    """When all its processes were gone, or stood still: some may have answered until then."""
    own: frozenset[str]
    """The users whose front it was."""
    answers: Answers
    turned: Turned
    front: FrontLost


def lose_front(led: Led, kind: FaultKind, timer_f_ns: int, folder: Path, check: Callable[[], None]) -> FrontSeen:
    """Lose a front in the middle of a load; it is there again afterwards.

    Args:
        led: The phones, none of which has begun.
        kind: How it is lost.
        timer_f_ns: How long a phone waits for an answer of a front.
        folder: For their files, made here.
        check: Is called just before the front is lost, and when all phones are done; it raises where something else
            was lost meanwhile.

    Raises:
        StealtimeError: No phone has it for its own, or the front does not come up again.
    """
    fronts = led.place.fronts
    address = fronts.addresses[LOST_FRONT]
    own = frozenset(user for user, front in led.own_fronts.items() if front == address)
    if not own:
        raise StealtimeError(f"none of {led.load.count} phones was led to {LOST_FRONT}", hint="have more phones")
    phones = start_phones(led.place.client, led.turning(timer_f_ns), folder)
    try:
        await_first_answer(phones)
        time.sleep(led.load.duration_s / 2)
        check()
        struck_ns, lost_ns = fronts.lose(LOST_FRONT, kind)
        turned = Turned(phones.wait())
        check()
    finally:
        phones.end()
        fronts.revive(LOST_FRONT)
    addresses = list(fronts.addresses.values())
    answers = Answers.of_turned(turned, addresses, is_over_tcp=led.load.transport != "udp")
    front = front_lost(turned, own, address, struck_ns, timer_f_ns)
    return FrontSeen(struck_ns, lost_ns, own, answers, turned, front)


def front_lost(turned: Turned, own: frozenset[str], address: str, struck_ns: int, timer_f_ns: int) -> FrontLost:
    """Say what the phones of a front saw that was lost, and those of the others meanwhile.

    Args:
        turned: What came of all phones.
        own: The users whose front it was.
        address: Its own.
        struck_ns: When it was lost.
        timer_f_ns: How long phones wait for an answer.
    """
    answered, waits = turned.answered_ns, sorted(turned.turned_ns(address).values())
    unanswered = {user: at_ns for user, at_ns in turned.sent_ns.items() if user not in answered}
    times = {is_own: [at_ns for user, at_ns in answered.items() if (user in own) is is_own] for is_own in (True, False)}
    never = {is_own: [at_ns for user, at_ns in unanswered.items() if (user in own) is is_own] for is_own in times}
    return FrontLost(
        name=LOST_FRONT,
        timer_f_ns=timer_f_ns,
        phones=len(own),
        turned=len(waits),
        undelivered=turned.count(address, "undelivered"),
        timed_out=turned.count(address, "timed out"),
        longest_wait_ns=max(waits, default=None),
        median_wait_ns=round(median(waits)) if waits else None,
        silence_ns=silence_ns(times[True], never[True], struck_ns),
        others_silence_ns=silence_ns(times[False], never[False], struck_ns),
        others_silence_before_ns=longest_gap_ns(times[False], struck_ns),
        offered_per_s=offered_per_s(turned.sent_ns.values()),
    )
