"""What is stored of a trial: ``result`` of ``trial.json``. Times are those of one monotonic clock, in ns."""

from typing import Literal

from pydantic import ConfigDict

from stealtime.store.results import Result
from stealtime.vocabulary.readings import Model


class _Stored(Result):
    model_config = ConfigDict(extra="forbid", frozen=True)

    tables: tuple[str, ...] = ()
    lapses: int = 0
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
    offered_per_s: float
    sent: int
    acknowledged: int
    retransmissions: int
    failure: str | None
    """Why it was not borne; None if it was."""


class EstablishmentRate(_Stored):
    """The highest rate of something without a failure."""

    rate_per_s: float
    is_bounded: bool
    """Whether a higher rate was seen to fail."""
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
    """The vCPU threads of its guest; natively its processes."""
    host_cpu_ns: int | None
    """QEMU's other threads, the members and daemons of both hosts; None natively."""


class AnswersOverTime(Model):
    """Acknowledgements around a blow, in steps of equal length."""

    step_ns: int
    first_step_ns: int
    """Where the first step begins, after the blow: negative for before it."""
    answers: list[int]


class RegistrationFailover(_Stored):
    """A server's host died while phones registered."""

    kind: Literal["registration-failover"] = "registration-failover"
    host: str
    """That died."""
    rate_per_s: float
    users: int
    sent: int
    acknowledged: int
    acknowledged_before: int
    """Of them, before the blow."""
    lost: int
    """Acknowledged registrations that the surviving server does not know."""
    lost_users: list[str]
    """The first of them."""
    unanswered: int
    retransmissions: int
    connections_failed: int
    silence_ns: int | None
    """The longest time between two acknowledgements that ends after the blow; None: none came any more."""
    blow_to_detection_ns: int
    """Until the standby had won the register."""
    blow_to_running_ns: int
    """Until the guest ran again."""
    blow_to_answer_ns: int | None
    """Until a phone had the first acknowledgement from it; None: there was none."""
    clock_error_ns: int = 0
    """How far moments of hosts can be off, where clocks of other machines told them."""
    over_time: AnswersOverTime
