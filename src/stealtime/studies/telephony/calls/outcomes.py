"""What became of sessions whose server died: each by what its caller and its phone wrote down of it. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args

from stealtime.studies.telephony.lengths import ANSWERED_BY_NS
from stealtime.studies.telephony.sipp.log import LoggedMessage

Outcome = Literal["kept", "answered_late", "never_answered", "half_open", "bye_refused", "bye_unanswered"]
"""
kept: answered in time, and ended on both sides.
answered_late: the same, but a client over UDP had sent its INVITE again by then.
never_answered: its caller got no 200, and its phone was never called; there is no session.
half_open: its phone has answered, was never told of the end, and so believes that it talks; its caller has hung up,
whatever the server said to that, or was told nothing of the answer.
bye_refused: ended on both sides, but the caller was told that there is no such session.
bye_unanswered: ended on both sides, but the caller was told nothing.
"""


@dataclass(frozen=True)
class Sessions:
    """What both ends wrote down, by the Call-ID; moments are those of the monotonic clock."""

    sent_ns: dict[str, int] = field(default_factory=dict)
    answered_ns: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    """Whose BYE got another answer than 200."""
    called: set[str] = field(default_factory=set)
    """Whose phone was called, which it answers at once."""
    left: set[str] = field(default_factory=set)
    """That the phone was told the end of."""
    relays: set[str] = field(default_factory=set)
    """``ADDRESS:PORT`` of the relay, as both ends were told."""

    def outcome(self, session: str) -> Outcome:
        answered_ns = self.answered_ns.get(session)
        if session in (self.called | self.answered_ns.keys()) - self.left:
            return "half_open"
        if answered_ns is None:
            return "never_answered"
        if session in self.refused:
            return "bye_refused"
        if session not in self.ended:
            return "bye_unanswered"
        return "answered_late" if answered_ns - self.sent_ns[session] > ANSWERED_BY_NS else "kept"

    def counts(self) -> dict[Outcome, int]:
        """Give how many sessions had each outcome; together they are all that were begun."""
        found = Counter(map(self.outcome, self.sent_ns))
        return {outcome: found[outcome] for outcome in get_args(Outcome)}

    @property
    def unanswered_ns(self) -> list[int]:
        """When those were begun that were never answered."""
        return [at_ns for session, at_ns in self.sent_ns.items() if session not in self.answered_ns]


def sessions_of(callers: Iterable[LoggedMessage], phones: Iterable[LoggedMessage]) -> Sessions:
    """Put the lines of ``scenarios/accounted_caller.xml`` and ``accounted_phone.xml`` together."""
    found = Sessions()
    moments = {"sent": found.sent_ns, "answered": found.answered_ns}
    marks = {"ended": found.ended, "refused": found.refused, "invited": found.called, "left": found.left}
    for message in (*callers, *phones):
        if message.kind in moments:
            moments[message.kind].setdefault(message.user, message.at_ns)
        if message.kind in marks:
            marks[message.kind].add(message.user)
        if message.kind in ("answered", "invited"):
            found.relays.add(message.status)
    return found
