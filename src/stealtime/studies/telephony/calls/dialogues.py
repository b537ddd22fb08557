"""The signalling of calls by SIPp, in the client's namespace: phones that are registered and answer, and callers.

The phones register, as phones do, rather than being reached by a route in the server's configuration: so the server has
to find them in the state that protection keeps, and a server that has lost a phone loses its calls.
"""

import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from stealtime.hosts.client import Client
from stealtime.studies.telephony.appliance.configuration import WIDEBAND_DOMAIN
from stealtime.studies.telephony.calls.answers import Answers, gather
from stealtime.studies.telephony.calls.hang_up import Dialogue, hang_up
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.calls.relays import Relays, told_relays
from stealtime.studies.telephony.calls.results import Dialogues, spread_of
from stealtime.studies.telephony.lengths import BEGUN_PER_S
from stealtime.studies.telephony.parameters import Transport
from stealtime.studies.telephony.sipp.log import LoggedMessage
from stealtime.studies.telephony.sipp.ports import free_port
from stealtime.studies.telephony.sipp.program import Sipp, SippOrder, SippUse, start_sipp
from stealtime.studies.telephony.sipp.statistics import parse_statistics
from stealtime.vocabulary.errors import StealtimeError

CALLERS_PORT = 5061
PHONES_PORT = 5071
_REGISTERING_PORT = 5072
PORTS_APART = 20
"""From those of one SIPp to those of the next one that does the same: others' are in between."""

ANSWERED_WITHIN_S = 20.0
"""After the last one was begun."""
GIVES_UP_AFTER_S = 32.0
"""SIPp, as every client, sends a BYE anew for so long (64 x T1, RFC 3261 section 17.1.2.2)."""
_STATISTICS_EVERY_S = 1.0
_FAR_S = 3600.0
"""Phones answer until they are ended."""
_POLL_S = 0.02


def scenario_path(name: str) -> Path:
    return Path(str(resources.files("stealtime.studies.telephony.calls") / "scenarios" / f"{name}.xml"))


def callers_port(client: Client, transport: Transport, usual: int = CALLERS_PORT) -> int:
    """Give the port from which callers call: the usual one, unless a lost connection of earlier callers has it."""
    return usual if transport == "udp" else free_port(client, usual)


class CallSignalling:
    """Phones and their callers; as a context it ends all of SIPp's processes.

    Args:
        client: Where phones and callers are.
        server: The address of the proxy.
        plan: The calls.
        folder: For files.
        registrar: Where phones register; None: at the proxy.
        number: Of several at once, each of which has its callers at ports of its own; the first one has all phones.
    """

    def __init__(
        self,
        client: Client,
        server: str,
        plan: CallPlan,
        folder: Path,
        *,
        registrar: str | None = None,
        number: int = 0,
    ) -> None:
        self._client = client
        self._server = server
        self._registrar = registrar or server
        self._beyond = PORTS_APART * number
        self.plan = plan
        self._folder = folder
        self._running: list[Sipp] = []

    def __enter__(self) -> "CallSignalling":
        return self

    def __exit__(self, *_: object) -> None:
        for sipp in self._running:
            sipp.end()

    def register(self, scenario: str = "callee", answered: int | None = None) -> None:
        """Have all phones wait for calls, and the server know them.

        Args:
            scenario: What they do with a call.
            answered: How many calls they answer; None: one each.

        Raises:
            StealtimeError: It does not take them.
        """
        codec = self.plan.phones_codec
        speaking = ("-key", "payload_type", str(codec.payload_type), "-key", "codec", codec.name)
        self._phones = self._start(
            scenario, PHONES_PORT, *speaking, calls=answered, limit_s=_FAR_S, answered_within_s=_FAR_S
        )
        self._enrol()

    def register_phones_of(self, other: "CallSignalling") -> None:
        """Have the server know the phones of these calls, which wait for calls beside those of others.

        A phone that is somewhere else the next time would be called there and where it was before.

        Args:
            other: It has them, which are as many as it was told.

        Raises:
            StealtimeError: The server does not take them.
        """
        self._phones = other._phones
        self._enrol()

    def _enrol(self) -> None:
        wanted = self.plan.calls
        registering = self._start(
            "register_phones",
            _REGISTERING_PORT,
            "-key",
            "phones_port",
            str(PHONES_PORT),
            limit_s=ANSWERED_WITHIN_S + wanted / BEGUN_PER_S,
        )
        done = registering.wait()
        if done.counts.successful < wanted:
            raise StealtimeError(f"the server registered {done.counts.successful} of {wanted} phones: {done.said}")

    def call(self, hold_s: float) -> Relays:
        """Have every caller call its phone; give the relay's ports for both when all are answered.

        Args:
            hold_s: From the answer of a call to its BYE.

        Raises:
            StealtimeError: Not all are answered.
        """
        wanted = self.plan.calls
        setting_up_s = ANSWERED_WITHIN_S + wanted / BEGUN_PER_S
        self._callers = self._start(
            "caller",
            CALLERS_PORT,
            *("-d", str(round(hold_s * 1e3))),
            *("-key", "called_at", WIDEBAND_DOMAIN if self.plan.media == "transcoding" else self._server),
            limit_s=setting_up_s + hold_s + GIVES_UP_AFTER_S,
        )
        deadline = time.monotonic() + setting_up_s
        while len((answers := self.answers()).relays) < wanted:
            if self._callers.process.poll() is not None or time.monotonic() > deadline:
                raise StealtimeError(
                    f"{len(answers.relays)} of {wanted} calls were answered: {self._callers.log_tail()}",
                    hint="what the server wrote last is in the log of the trial; if it says nothing, try fewer streams",
                )
            time.sleep(_POLL_S)
        # Every phone was invited before it answered.
        return Relays(answers.relays, told_relays(self.phones_messages(), "invited"))

    def phones_messages(self) -> list[LoggedMessage]:
        """Give what the phones have written down so far.

        Raises:
            StealtimeError: They have ended: what is missing there says nothing of the server.
        """
        if self._phones.process.poll() is not None:
            raise StealtimeError(f"the phones' SIPp has ended: {self._phones.log_tail()}")
        return self._phones.messages()

    def phones_use(self) -> SippUse:
        """Give what the phones' SIPp had of its machine so far."""
        return self._phones.use()

    def refuse_hung_up_before(self, last_word_ns: int) -> None:
        """See that all calls were up until the last word.

        Not until it was heard: an overloaded relay has voice of many seconds ago, and ends that miss the closing
        reports wait for them.

        Args:
            last_word_ns: When it was said, on the monotonic clock.

        Raises:
            StealtimeError: Some were not, so that their voice had no relay at its end.
        """
        left = self.answers().left_before(last_word_ns)
        if left:
            raise StealtimeError(f"{len(left)} calls were hung up before their voice had ended")

    def end(self) -> Dialogues:
        """Wait until all calls are hung up, or given up; give what became of them."""
        counts = self._callers.wait().counts
        # SIPp writes only from time to time what the phones counted.
        time.sleep(_STATISTICS_EVERY_S + 2 * _POLL_S)
        phones = parse_statistics((self._phones.folder / "statistics.csv").read_text())
        answers = self.answers()
        lost = [] if self.plan.transport == "udp" else sorted(answers.relays.keys() - answers.ended_ns.keys())
        return Dialogues(
            begun=counts.created,
            answered=len(answers.relays),
            ended=len(answers.ended_ns),
            ended_anew=len(self._hang_up_anew(answers, lost)),
            retransmissions=counts.retransmissions,
            callee_retransmissions=phones.retransmissions,
            connections_lost=self._callers.lost_connections() + self._phones.lost_connections(),
            failed=counts.failed,
            answer_ns=spread_of(answers.answer_times_ns),
            end_ns=spread_of(answers.end_times_ns),
        )

    @property
    def _of_phones(self) -> Transport:
        return "udp" if self.plan.transport == "udp" else "tcp-one"

    def _hang_up_anew(self, answers: Answers, calls: Sequence[int]) -> list[int]:
        """Hang up calls that could not be over their connection; give those that were.

        A phone's SIPp answers over the connection by which it was called, which may be lost as well. What it writes
        down then tells that the server still knew the call.
        """
        if not calls:
            return []
        phones = dict(zip(self.plan.caller_ports, self.plan.phones, strict=True))
        client, server = self._client.address, self._server
        left = [Dialogue.told(call, phones[call], answers.dialogues[call], client, server) for call in calls]
        began_ns = time.monotonic_ns()
        ended = set(hang_up(self._client, server, left))
        told = {int(one.user) for one in self.phones_messages() if one.kind == "left" and one.at_ns >= began_ns}
        return [call for call in calls if call in ended or phones[call] in told]

    def answers(self) -> Answers:
        """Give what the callers have written down so far."""
        return gather(self._callers.messages())

    def _start(
        self,
        name: str,
        port: int,
        *options: str,
        calls: int | None = None,
        limit_s: float,
        answered_within_s: float | None = None,
    ) -> Sipp:
        own_port = port + self._beyond
        if port == CALLERS_PORT:
            own_port = callers_port(self._client, self.plan.transport, own_port)
        order = SippOrder(
            scenario=scenario_path(name),
            target=self._registrar if port == _REGISTERING_PORT else self._server,
            transport=self.plan.transport if port == CALLERS_PORT else self._of_phones,
            calls=calls or self.plan.calls,
            rate_per_s=BEGUN_PER_S,
            users=() if port == PHONES_PORT else self.plan.fields,
            limit_s=limit_s,
            answered_within_s=answered_within_s or GIVES_UP_AFTER_S,
            lost_stay_open=True,
            options=("-p", str(own_port), *options),
        )
        sipp = start_sipp(self._client, order, self._folder / name)
        self._running.append(sipp)
        return sipp
