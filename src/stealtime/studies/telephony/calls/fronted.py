"""Calls through both of two stages: callers are led to their fronts by the name server, and voice goes by primaries.

A phone registers by way of another front than that of its caller: no front knows what another one was told, so each
call is found in what its primary keeps.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from stealtime.hosts.client import Client
from stealtime.studies.telephony.calls.dialogues import CallSignalling
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.calls.relays import Destinations, Relays
from stealtime.studies.telephony.calls.results import Dialogues, spread_of
from stealtime.studies.telephony.lengths import FIRST_STAGE_CALL
from stealtime.studies.telephony.place.location import Located


def stage_plan(streams: int) -> CallPlan:
    """Give the calls through two stages in which so many streams, one way each, pass relays.

    Raises:
        UsageError: They are no whole calls, or too many.
    """
    calls = CallPlan.of_streams(streams).calls
    return CallPlan(calls, numbers=tuple(range(FIRST_STAGE_CALL, FIRST_STAGE_CALL + calls)))


@dataclass(frozen=True)
class Through:
    """The calls of those callers whose front is this one."""

    front: str
    """Its name."""
    address: str
    registrar: str
    """The address of the front by which their phones register."""
    calls: tuple[int, ...]
    """Their places among all calls."""


def through_fronts(located: Sequence[Located], addresses: Sequence[str]) -> list[Through]:
    """Deal calls to fronts, by where the name server led their callers.

    Args:
        located: Which callers were led to which front; several orders of targets can begin with the same one.
        addresses: Of all fronts: the phones of a front's callers register at the one after it.
    """
    dealt: dict[str, list[int]] = {}
    names: dict[str, str] = {}
    for one in located:
        dealt.setdefault(one.address, []).extend(one.phones)
        names[one.address] = one.name
    return [
        Through(names[address], address, addresses[(number + 1) % len(addresses)], tuple(sorted(dealt[address])))
        for number, address in enumerate(addresses)
        if address in dealt
    ]


class FrontedSignalling:
    """Phones and their callers at all fronts; as a context it ends all of SIPp's processes.

    Args:
        client: Where phones and callers are.
        fronts: The calls of each front.
        plan: All calls.
        folder: For files.
    """

    def __init__(self, client: Client, fronts: Sequence[Through], plan: CallPlan, folder: Path) -> None:
        self.plan = plan
        self._parts: list[CallSignalling] = []
        for number, one in enumerate(fronts):
            own = folder / one.front
            own.mkdir()
            part = CallSignalling(
                client, one.address, plan.part(one.calls), own, registrar=one.registrar, number=number
            )
            self._parts.append(part)

    def __enter__(self) -> "FrontedSignalling":
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._parts:
            part.__exit__()

    def register(self) -> None:
        """Have all phones wait for calls, and their primaries know them.

        Raises:
            StealtimeError: Some are not taken.
        """
        first, *others = self._parts
        first.register(answered=self.plan.calls)
        for part in others:
            part.register_phones_of(first)

    def call(self, hold_s: float, relays: Sequence[str]) -> Destinations:
        """Have every caller call its phone, at all fronts at once; give the relays' ports when all are answered.

        Args:
            hold_s: From the answer of a call to its BYE.
            relays: The addresses of the primaries, one of which relays each call.

        Raises:
            StealtimeError: Not all are answered, or by no primary.
        """
        with ThreadPoolExecutor(len(self._parts)) as at_once:
            each = list(at_once.map(lambda part: part.call(hold_s), self._parts))
        told = Relays(
            {port: relay for one in each for port, relay in one.of_callers.items()},
            {port: relay for one in each for port, relay in one.of_phones.items()},
        )
        return told.destinations(self.plan, *relays)

    def refuse_hung_up_before(self, last_word_ns: int) -> None:
        """See that all calls were up until the last word.

        Raises:
            StealtimeError: Some were not.
        """
        for part in self._parts:
            part.refuse_hung_up_before(last_word_ns)

    def end(self) -> tuple[Dialogues, frozenset[int]]:
        """Wait until all calls are hung up, or given up; give what became of all, and the places of those kept."""
        each = [part.end() for part in self._parts]
        answers = [part.answers() for part in self._parts]
        ended = {port for one in answers for port in one.ended_ns}
        kept = frozenset(number for number, port in enumerate(self.plan.caller_ports) if port in ended)
        return dialogues_together(
            each,
            [time for one in answers for time in one.answer_times_ns],
            [time for one in answers for time in one.end_times_ns],
        ), kept


def dialogues_together(
    each: Sequence[Dialogues], answer_times_ns: Sequence[float], end_times_ns: Sequence[float]
) -> Dialogues:
    """Put together what callers at several fronts saw.

    Args:
        each: Of each front; all phones are those of one SIPp, which each tells of.
        answer_times_ns: From the INVITE of each call to its 200.
        end_times_ns: From the BYE of each call to its 200.
    """
    added: Mapping[str, int] = {
        name: sum(getattr(one, name) for one in each)
        for name in (
            "begun",
            "answered",
            "ended",
            "ended_anew",
            "retransmissions",
            "connections_lost",
            "failed",
        )
    }
    phones = max(one.callee_retransmissions for one in each)
    return Dialogues(
        **added, callee_retransmissions=phones, answer_ns=spread_of(answer_times_ns), end_ns=spread_of(end_times_ns)
    )
