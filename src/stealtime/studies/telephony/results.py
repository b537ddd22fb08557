"""What is stored of a trial: ``result`` of ``trial.json``. Times are those of one monotonic clock, in ns."""

from typing import Literal

from pydantic import ConfigDict

from stealtime.hosts.checkpoints import Checkpoints
from stealtime.store.results import Result
from stealtime.studies.telephony.generators.limit import Limit
from stealtime.vocabulary.readings import Model


class _Stored(Result):
    model_config = ConfigDict(extra="forbid", frozen=True)

    tables: tuple[str, ...] = ()
    retries: int = 0
    """How often the trial was begun anew, because the server's guest had lost its standby meanwhile: not counted."""


class ResponseTimes(Model):
    """How long acknowledged registrations took, from the first copy of each request on."""

    min_ns: int
    q1_ns: int
    median_ns: int
    q3_ns: int
    p99_ns: int
    max_ns: int


class RateAttempt(Model):
    """One try of a rate."""

    rate_per_s: float
    duration_s: float | None = None
    """For how long it was to be offered; None in older runs."""
    offered_per_s: float
    sent: int
    acknowledged: int
    retransmissions: int
    late: int = 0
    """Acknowledged later than a client over UDP waits before it sends again."""
    failure: str | None
    """Why it was not borne; None if it was."""
    limit: Limit | None = None
    """Whether the generator, the network or the server kept it from being borne; None in older runs."""


class EstablishmentRate(_Stored):
    """The highest rate of something without a failure."""

    rate_per_s: float
    is_bounded: bool
    """Whether a higher rate was seen to fail, and neither by the generator nor by the network: if not, the server bears
    at least the rate that was found."""
    unbounded_because: str | None = None
    """What else than the server the lowest rate that failed did so by."""
    attempts: list[RateAttempt]


class RegistrationRate(EstablishmentRate):
    """Of registrations (RFC 7501: registration rate)."""

    kind: Literal["registration-rate"] = "registration-rate"


class SessionRate(EstablishmentRate):
    """Of sessions, each established and ended (RFC 7501: session establishment rate)."""

    kind: Literal["session-rate"] = "session-rate"


class Registrations(_Stored):
    """Phones registered at a rate."""

    kind: Literal["registrations"] = "registrations"
    rate_per_s: float
    """That was wanted."""
    offered_per_s: float
    """That SIPp sent."""
    saturation_per_s: float | None
    """The registration rate of the unprotected server over this transport, where the load is a share of it."""
    saturation_unbounded_because: str | None = None
    """Why the server may bear more than that."""
    limit: Limit | None = None
    """Whether the generator, the network or the server kept the load from being borne; None in older runs."""
    elapsed_ns: int
    """From the first request to the end of SIPp; CPU times are those of it."""
    sent: int
    acknowledged: int
    unanswered: int
    refused: int = 0
    """Of the unanswered ones, those that got another answer than 200."""
    retransmissions: int
    connections_failed: int
    response: ResponseTimes | None
    """None where nothing was acknowledged."""
    server_cpu_ns: int
    """All vCPU threads of its guests together; natively its processes."""
    host_cpu_ns: int | None
    """QEMU's other threads, the members and daemons of both hosts; None natively."""
    checkpoints: Checkpoints | None = None
    """Of the guest, while phones registered; None without protection, and in older runs."""
    weighed: str | None = None
    """What of the host side was in a CPU group of its own; None where it was in none."""


class AnswersOverTime(Model):
    """Acknowledgements around a fault, in steps of equal length."""

    step_ns: int
    first_step_ns: int
    """Where the first step begins, after the fault: negative for before it."""
    answers: list[int]


class _FailedOver(_Stored):
    """A server's host was lost under a load."""

    host: str
    """That was lost."""
    rate_per_s: float
    """Of the load."""
    fault_to_detection_ns: int
    """Until the standby had won the register."""
    fault_to_running_ns: int
    """Until the guest ran again."""
    fault_to_answer_ns: int | None
    """Until a phone or caller had the first answer from it; None: there was none."""
    clock_error_ns: int = 0
    """How far moments of hosts can be off, where clocks of other machines told them."""
    over_time: AnswersOverTime
    """To the users of the server that was lost."""


class RegistrationFailover(_FailedOver):
    """A server's host died while phones registered."""

    kind: Literal["registration-failover"] = "registration-failover"
    users: int
    sent: int
    acknowledged: int
    acknowledged_before: int
    """Of them, before the fault."""
    lost: int
    """Acknowledged registrations that the surviving server does not know."""
    lost_users: list[str]
    """The first of them."""
    unanswered: int
    retransmissions: int
    connections_failed: int
    silence_ns: int | None
    """The longest time between two acknowledgements that ends after the fault; None: none came any more."""
    asked_of_before: int = 0
    """Of the users that the server knew before the load, how many it was asked for after the failover."""
    lost_of_before: int = 0
    """Of these, the ones that it does not know any more."""


class SessionFailover(_FailedOver):
    """A server's host died while sessions were established and ended: all at once, each as soon as it was answered."""

    kind: Literal["session-failover"] = "session-failover"
    saturation_per_s: float | None
    """The session establishment rate of the unprotected server over this transport, where the load is a share of it."""
    saturation_unbounded_because: str | None = None
    """Why the server may bear more than that."""
    begun: int
    """What became of each is one of the six that follow (:data:`.calls.outcomes.Outcome`)."""
    kept: int
    answered_late: int
    never_answered: int
    half_open: int
    bye_refused: int
    bye_unanswered: int
    relay_ports: int
    """That callers and phones were told."""
    leaked_ports: int | None
    """Of those, the ones that are still open when all sessions are over; None: not judged, as closed ports do not
    refuse what is sent there either."""
    retransmissions: int
    """Of the callers' requests."""
    connections_lost: int
    """Over TCP, of callers."""
    silence_ns: int | None
    """The longest time between two answers to callers that ends after the fault; None: none came any more."""

    @property
    def unanswered(self) -> int:
        return self.never_answered


class PrimaryUsers(Model):
    """What the users of one of several primaries saw of a host that died."""

    host: str
    """Where the primary was before the fault."""
    users: int
    """Acknowledged registrations that it knows afterwards."""
    silence_before_ns: int | None
    """The longest time between two acknowledgements of theirs before the fault; None: there were no two."""
    silence_ns: int | None
    """The longest one that ends after the fault; None: none came any more."""
    late: int
    """Users whose acknowledgement took so long that a phone sends again meanwhile (RFC 3261, T1), over UDP at least."""


class PrimaryAdded(Model):
    """A primary was added while phones registered."""

    host: str
    acknowledged: int
    """Registrations, from before its boot until after the fronts were told of it."""
    unanswered: int
    lost: int
    """Of those acknowledged: users that a call would not have found, before any of them had renewed."""
    lost_users: list[str]
    """The first of them."""
    before: int
    """Of those acknowledged: before the fronts were told."""
    moved: int
    """Of those before: users that registered with it when they renewed."""
    boot_to_ready_ns: int
    """From the start of its boot until it was as protected as it shall be, and answered."""
    ready_to_dealt_ns: int
    """Until the last front dealt users to it."""


class TwoStageFailover(_FailedOver):
    """The host of one of several primaries behind fronts died while phones registered, after a primary was added."""

    kind: Literal["two-stage-failover"] = "two-stage-failover"
    seed: int
    """Of the phones' choice of a front, and of their order."""
    fronts: dict[str, int]
    """How many phones turned to each front, by what the name server said."""
    sent: int
    acknowledged: int
    lost: int
    """Acknowledged registrations that are unknown when their front is not the one that is asked."""
    lost_users: list[str]
    """The first of them."""
    unanswered: int
    retransmissions: int
    connections_failed: int
    primaries: list[PrimaryUsers]
    """The one that died first, then the others."""
    added: PrimaryAdded
    others_over_time: AnswersOverTime
    """To the users of all others."""

    @property
    def silence_ns(self) -> int | None:
        """Of the killed primary's users."""
        return self.primaries[0].silence_ns

    @property
    def others_silence_ns(self) -> int | None:
        """Of the users of that other primary which had the longest."""
        found = [one.silence_ns for one in self.primaries[1:]]
        return None if None in found else max((one for one in found if one is not None), default=None)

    @property
    def others_silence_before_ns(self) -> int | None:
        """Of the users of that other primary which had the longest before the fault."""
        return max(
            (one.silence_before_ns for one in self.primaries[1:] if one.silence_before_ns is not None), default=None
        )

    @property
    def front_share(self) -> float:
        """The share of the phones that the front with the most has."""
        return max(self.fronts.values()) / sum(self.fronts.values())

    @property
    def primary_share(self) -> float:
        """The share of the users that the primary with the most has."""
        users = [one.users for one in self.primaries]
        return max(users) / max(1, sum(users))
