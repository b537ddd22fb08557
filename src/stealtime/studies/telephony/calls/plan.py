"""The calls of a trial: how many, how fast they begin, and their ports, below those that a kernel gives by itself."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stealtime.studies.telephony.lengths import STREAMS_OF_A_CALL
from stealtime.studies.telephony.parameters import Media, Transport
from stealtime.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from stealtime.studies.telephony.calls.transcoding.codecs import Codec

CALLS_MAX = 2000
"""Beyond it the ports of callers would be those of phones."""
STEP = 2
"""From the port of one call to that of the next: RTP has the even ones (RFC 3550 section 11)."""
FIRST_CALLER_PORT = 20000
FIRST_PHONE_PORT = 24000


@dataclass(frozen=True)
class CallPlan:
    """As many calls as are up at once; call *i* is from a media port of its own to a phone of its own.

    Attributes:
        calls: How many.
        transport: How callers reach the server. It reaches all phones over UDP, or over one connection.
        numbers: Those of the calls, by which they have their ports; None: from 0 on.

    Raises:
        UsageError: There are no such calls.
    """

    calls: int
    transport: Transport = "udp"
    """How callers reach the server. It reaches all phones over UDP, or over one connection."""
    media: Media = "relay"
    """Whether phones speak another codec than callers."""
    numbers: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.calls <= CALLS_MAX or max(self._numbers) >= CALLS_MAX:
            raise UsageError(f"{self.calls} calls cannot be made", hint=f"from 1 to {CALLS_MAX} are possible")

    @classmethod
    def of_streams(cls, streams: int, transport: Transport = "udp", media: Media = "relay") -> "CallPlan":
        """Give the calls in which so many streams, one way each, pass the relay.

        Raises:
            UsageError: They are no whole calls.
        """
        if streams % STREAMS_OF_A_CALL:
            raise UsageError(
                f"{streams} streams are no whole calls", hint=f"a call has {STREAMS_OF_A_CALL}, one each way"
            )
        return cls(streams // STREAMS_OF_A_CALL, transport, media)

    @property
    def phones_codec(self) -> "Codec":
        """Give what phones speak; callers always speak PCMU."""
        # What codes by arrays takes a tenth of a second to load, and every run has these plans.
        from stealtime.studies.telephony.calls.transcoding.codecs import G722, PCMU

        return G722 if self.media == "transcoding" else PCMU

    @property
    def caller_ports(self) -> list[int]:
        """Where each caller speaks and hears."""
        return [FIRST_CALLER_PORT + STEP * call for call in self._numbers]

    @property
    def phones(self) -> list[int]:
        """The number of each phone, which is also the port where it speaks and hears."""
        return [FIRST_PHONE_PORT + STEP * call for call in self._numbers]

    def part(self, numbers: Sequence[int]) -> "CallPlan":
        """Give some of its calls, by their places among these."""
        return replace(self, calls=len(numbers), numbers=tuple(self._numbers[number] for number in numbers))

    @property
    def _numbers(self) -> Sequence[int]:
        return range(self.calls) if self.numbers is None else self.numbers

    @property
    def fields(self) -> list[str]:
        """The lines of SIPp's file of users: the number of a phone, and the media port of who calls it."""
        return [f"{phone};{port}" for phone, port in zip(self.phones, self.caller_ports, strict=True)]
