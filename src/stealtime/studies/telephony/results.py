"""What is stored of a trial: ``result`` of ``trial.json``. Times are those of one monotonic clock, in ns."""

from collections.abc import Iterable
from typing import Literal

from stealtime.campaigns.driven_result import DrivenResult
from stealtime.hosts.checkpoints import Checkpoints
from stealtime.studies.telephony.generators.limit import Limit
from stealtime.studies.telephony.generators.work import StandbyUse, Work
from stealtime.studies.telephony.parameters import SessionVictim, StageVictim, Victim
from stealtime.vocabulary.readings import Model


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


class EstablishmentRate(DrivenResult):
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


class Registrations(DrivenResult):
    """Phones registered at a rate."""

    kind: Literal["registrations"] = "registrations"
    rate_per_s: float
    """That was wanted of each appliance."""
    offered_per_s: float
    """That SIPp sent, to all appliances together."""
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
    work: Work | None = None
    """What the servers did in that time; None where it could not be counted, and in older runs."""
    standby: StandbyUse | None = None
    """What the host that backs them had to give; None without protection, and in older runs."""


class AnswersOverTime(Model):
    """Acknowledgements around a fault, in steps of equal length."""

    step_ns: int
    first_step_ns: int
    """Where the first step begins, after the fault: negative for before it."""
    answers: list[int]


class _FailedOver(DrivenResult):
    """A server's host was lost under a load, or what else its phones depend on."""

    host: str
    """That was lost; where several were, their names with commas between."""
    rate_per_s: float
    """Of the load."""
    fault_to_detection_ns: int | None
    """Until the standby had won the register; None: no guest was lost."""
    fault_to_running_ns: int | None
    """Until the guest ran again; of several, the last one. None: no guest was lost."""
    fault_to_answer_ns: int | None
    """Until a phone or caller had the first answer from it; None: there was none."""
    clock_error_ns: int = 0
    """How far moments of hosts can be off, where clocks of other machines told them."""
    over_time: AnswersOverTime
    """To the users of the server that was lost."""


class Unprotected(Model):
    """A server lost the host that backs it, and ran on without it."""

    fault_to_noticed_ns: int
    """Until its active member had noticed."""
    fault_to_alone_ns: int
    """Until the register had said that it is alone: in ``net`` all that it says is held until then."""
    fault_to_protected_ns: int
    """Until it had another standby, with a whole copy of it: for so long its host could not die."""
    fault_to_back_ns: int | None
    """Until the host that had fallen silent was there again; None: only the member died, its host was there."""

    @property
    def back_to_protected_ns(self) -> int:
        """How long it took to be protected again, from when there was a host for its standby."""
        return self.fault_to_protected_ns - (self.fault_to_back_ns or 0)


class RegistrationFailover(_FailedOver):
    """A server's host, or the one that backs it, was lost while phones registered."""

    kind: Literal["registration-failover"] = "registration-failover"
    victim: Victim = "primary"
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
    silence_before_ns: int | None = None
    """The longest one before the fault; None: there were no two, or an older run."""
    longest_ns: int | None = None
    """The longest registration that was acknowledged after the fault, from the first copy of its request on; None:
    none was, or an older run."""
    unprotected: Unprotected | None = None
    """Where the standby was lost."""


class SessionFailover(_FailedOver):
    """A host of a server was lost while sessions were established and ended, each as soon as it was answered."""

    kind: Literal["session-failover"] = "session-failover"
    victim: SessionVictim = "primary"
    unprotected: Unprotected | None = None
    """Where the standby was lost."""
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
    runs_on: str | None = None
    """The host where its guest ran when all phones were done; None: on none or several, or an older run."""


class FrontLost(Model):
    """A front was lost, and its phones turned to the next target of their own SRV order (RFC 3263, section 4.3)."""

    name: str
    timer_f_ns: int
    """How long a phone waited for an answer of a front (RFC 3261, timer F)."""
    phones: int
    """Whose front it was."""
    turned: int
    """Of them, those that another front acknowledged."""
    undelivered: int
    """Requests to it whose phone was told that they cannot be delivered: by ICMP, or by the end of a connection."""
    timed_out: int
    """Requests to it that got no answer until timer F ended."""
    longest_wait_ns: int | None
    """Of a phone that turned: from its first request until it was acknowledged; None: none turned."""
    median_wait_ns: int | None
    """Of those that turned."""
    silence_ns: int | None
    """The longest time between two acknowledgements of its phones that ends after the fault; None: it had no end."""
    others_silence_ns: int | None
    """The same of all other phones."""
    others_silence_before_ns: int | None
    """Of the others, before the fault; None: there were no two."""
    offered_per_s: float
    """Registrations that began in a second."""


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
    """Hosts of primaries behind fronts, or a front, were lost while phones registered, after a primary was added."""

    kind: Literal["two-stage-failover"] = "two-stage-failover"
    victim: StageVictim = "primary"
    lost_within_ns: int = 0
    """Where several hosts, or the processes of a front, were lost: how long after the first one the last one was."""
    front: FrontLost | None = None
    """Where a front was lost."""
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
    """In the order in which they were added: where the host of one was lost, that of the first."""
    added: PrimaryAdded
    others_over_time: AnswersOverTime | None
    """To the users of what was not lost; None: all primaries were."""

    @property
    def died(self) -> list[PrimaryUsers]:
        """The primaries whose hosts were lost."""
        return self.primaries[: primaries_lost(self.victim, len(self.primaries))]

    @property
    def others(self) -> list[PrimaryUsers]:
        return self.primaries[len(self.died) :]

    @property
    def silence_ns(self) -> int | None:
        """Of the users of the primary that was lost, of several the longest; or of the phones of the front."""
        return longest_silence(one.silence_ns for one in self.died) if self.front is None else self.front.silence_ns

    @property
    def others_silence_ns(self) -> int | None:
        """Of the users of that other primary which had the longest; or of the phones of other fronts."""
        return (
            longest_silence(one.silence_ns for one in self.others)
            if self.front is None
            else self.front.others_silence_ns
        )

    @property
    def others_silence_before_ns(self) -> int | None:
        """Of the same users, before the fault."""
        if self.front is not None:
            return self.front.others_silence_before_ns
        return max((one.silence_before_ns for one in self.others if one.silence_before_ns is not None), default=None)

    @property
    def front_share(self) -> float:
        """The share of the phones that the front with the most has."""
        return max(self.fronts.values()) / sum(self.fronts.values())

    @property
    def primary_share(self) -> float:
        """The share of the users that the primary with the most has."""
        users = [one.users for one in self.primaries]
        return max(users) / max(1, sum(users))


def primaries_lost(victim: StageVictim, primaries: int) -> int:
    """Give how many of the primaries lose their hosts, from the first one on."""
    return {"front": 0, "primary": 1, "all-primaries": primaries}[victim]


def longest_silence(silences_ns: Iterable[int | None]) -> int | None:
    """Give the longest silence; None where one of them has no end, or there is none."""
    found = list(silences_ns)
    return None if None in found else max((one for one in found if one is not None), default=None)
