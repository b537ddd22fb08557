"""What is asked of a server: the parameters of the cells of each probe, and how long their trials take."""

from typing import Annotated

from pydantic import PlainSerializer

from stealtime.hosts.host import FaultKind
from stealtime.studies.telephony.lengths import (
    BEGUN_PER_S,
    HELD_TRIES,
    STREAMS_OF_A_CALL,
    VOICE_WITHOUT_STANDBY_S,
)
from stealtime.studies.telephony.parameters import (
    DEFAULT_TIMER_F_NS,
    Media,
    PrimaryVictim,
    ServerParameters,
    SessionVictim,
    StageVictim,
    Transport,
    Victim,
)

# As seen on a host of 2 CPUs, of a server that is there already.
_SETTING_UP_S = 6.0
_ASKING_S = 3.0
_GIVING_UP_S = 35.0
_ADDED_S = 12.0
_TRIES_OF_A_RATE = 12
_UNANSWERED_S = 8.0
_PROTECTED_AGAIN_S = 3.0


Number = Annotated[float, PlainSerializer(lambda value: int(value) if value == int(value) else value)]
"""A whole number is stored as such: it stands in the names of cells."""


class SearchedParameters(ServerParameters):
    """A server whose highest rate is searched."""

    generators: int = 1
    """How many SIPps offer a rate together."""

    def beyond_s(self, duration_s: float) -> float:
        return (_TRIES_OF_A_RATE + HELD_TRIES - 1) * duration_s + _UNANSWERED_S


class SessionRateParameters(SearchedParameters):
    """That of sessions."""

    transport: Transport = "udp"


class RegistrationRateParameters(SearchedParameters):
    """That of registrations."""

    transport: Transport
    auth: bool = False
    """Whether the server asks phones for their passwords."""


class RateOrShareParameters(ServerParameters):
    """A server with a load at a rate, or at a share of what it bears unprotected."""

    transport: Transport
    rate_per_s: Number = 0.0
    """0 where it is a share."""
    share: Number | None = None


class RegisterParameters(RateOrShareParameters):
    """A server and its phones, which register."""

    auth: bool = False
    """Whether the server asks phones for their passwords."""
    generators: int = 1
    """How many SIPps offer the load together."""

    def beyond_s(self, _duration_s: float) -> float:
        return _ASKING_S


class RegisterFailoverParameters(RateOrShareParameters):
    """A server of which a host is lost while phones register."""

    fault: FaultKind = "killed"
    victim: Victim = "primary"
    users: int | None = None

    def beyond_s(self, duration_s: float) -> float:
        again_s = 0.0
        if self.victim == "standby":
            # A silent host comes back after the duration.
            again_s = _PROTECTED_AGAIN_S + (duration_s if self.fault == "silent" else 0.0)
        return duration_s + again_s + _ASKING_S


class SessionFailoverParameters(RateOrShareParameters):
    """A server of which a host is lost while sessions are established and ended."""

    transport: Transport = "udp"
    fault: FaultKind = "killed"
    victim: SessionVictim = "primary"

    def beyond_s(self, duration_s: float) -> float:
        return _SETTING_UP_S + duration_s + _GIVING_UP_S


class TwoStageFailoverParameters(ServerParameters):
    """Several servers behind fronts, of which one is added and something is lost."""

    primaries: int
    transport: Transport
    rate_per_s: Number
    fault: FaultKind = "killed"
    victim: StageVictim = "primary"
    timer_f_ns: int = DEFAULT_TIMER_F_NS
    """Of phones whose front is lost; of the others it is not asked."""

    def beyond_s(self, duration_s: float) -> float:
        waited_s = self.timer_f_ns / 1e9 if (self.victim, self.fault) == ("front", "silent") else 0.0
        return _ADDED_S + duration_s + waited_s + 2 * _ASKING_S


class TwoStageCallFailoverParameters(ServerParameters):
    """Several servers behind fronts, of which hosts are lost while calls are up."""

    primaries: int
    streams: int
    fault: FaultKind = "killed"
    victim: PrimaryVictim = "primary"

    def beyond_s(self, duration_s: float) -> float:
        setting_up_s = _SETTING_UP_S + 2 * (self.streams / STREAMS_OF_A_CALL) / BEGUN_PER_S
        return setting_up_s + duration_s + 2 * _ASKING_S


class CallParameters(ServerParameters):
    """A server and its calls."""

    streams: int
    transport: Transport = "udp"
    media: Media = "relay"
    while_borne: bool = False
    """Whether they are tried only where the server has not lost too much of fewer."""

    def beyond_s(self, _duration_s: float) -> float:
        # As many phones as calls are registered first.
        return _SETTING_UP_S + 2 * (self.streams / STREAMS_OF_A_CALL) / BEGUN_PER_S


class CallFailoverParameters(CallParameters):
    """A server of which a host is lost while calls are up."""

    fault: FaultKind = "killed"
    victim: SessionVictim = "primary"

    def beyond_s(self, duration_s: float) -> float:
        again_s = 0.0
        if self.victim == "standby":
            # A silent host comes back after the duration.
            again_s = VOICE_WITHOUT_STANDBY_S + (duration_s if self.fault == "silent" else 0.0)
        return super().beyond_s(duration_s) + duration_s + again_s + _ASKING_S
