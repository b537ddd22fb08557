"""What ``stealtime advise --json`` prints."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from stealtime.capacity.advice import Advice
from stealtime.capacity.blame import Account
from stealtime.capacity.counters.monitor import MonitorGained
from stealtime.capacity.figures import SubjectFigures
from stealtime.capacity.guests.identity import Identity
from stealtime.capacity.judgement import Evidence
from stealtime.capacity.prediction.document import PredictionDocument
from stealtime.capacity.rules import Verdict
from stealtime.capacity.severity import severity
from stealtime.vocabulary.errors import ExitCode
from stealtime.vocabulary.readings import Absent, Model, Reading, Value

SCHEMA_VERSION = 1
"""Rises when a key goes away or means something else; new figures and keys do not raise it."""


class RuleQuoted(Model):
    """The rule that gave a verdict."""

    id: str
    source: str
    date: str
    why: str
    change: str
    uncalibrated: bool = False
    """Whether its limits were never held against guests whose work was timed inside."""


class HypervisorDocument(Model):
    """What the guest's QEMU and KVM told, which no rule looks at: how many exits are too many nobody has published."""

    balloon_bytes: Reading
    per_second: dict[str, Reading] | Absent
    """KVM's counters by their names, of all virtual CPUs; those that end in ``_ns`` are times."""

    @classmethod
    def of(cls, gained: MonitorGained, elapsed_s: float) -> Self:
        if isinstance(gained.counters, Absent):
            return cls(balloon_bytes=gained.balloon_bytes, per_second=gained.counters)
        rates = {name: _rate(count, elapsed_s) for name, count in gained.counters.total.items()}
        return cls(balloon_bytes=gained.balloon_bytes, per_second=rates)


class ClaimDocument(Model):
    """What one guest or process has of some CPUs."""

    name: str
    pid: int
    is_guest: bool
    has_cpus: float
    waits_cpus: float
    wants_cpus: float
    """Both together."""


class AccountDocument(Model):
    """Who has the CPUs that a guest waits for: what all claims have, the rest and what is idle are what is there."""

    cpus: list[int]
    there_cpus: float
    """Without what the host's own host took."""
    claims: list[ClaimDocument]
    """Who wants most first."""
    rest_cpus: float
    """Had by nobody whose name is known: interrupts, short-lived processes, what ticks and nanoseconds differ by."""
    idle_cpus: float

    @classmethod
    def of(cls, account: Account) -> Self:
        claims = [
            ClaimDocument(
                name=one.name,
                pid=one.pid,
                is_guest=one.is_guest,
                has_cpus=round(one.has_cpus, 3),
                waits_cpus=round(one.waits_cpus, 3),
                wants_cpus=round(one.wants_cpus, 3),
            )
            for one in account.claims
        ]
        return cls(
            cpus=sorted(account.cpus),
            there_cpus=round(account.there_cpus, 3),
            claims=claims,
            rest_cpus=round(account.rest_cpus, 3),
            idle_cpus=round(account.idle_cpus, 3),
        )


class IdentityDocument(Model):
    """Who a guest is, from its QEMU's command line; null is what that does not tell."""

    name: str | None
    uuid: str | None
    manager: str | None
    """``nova``, ``kubevirt``, ``proxmox`` or ``libvirt``."""
    manager_id: str | None
    """Proxmox's VMID."""

    @classmethod
    def of(cls, identity: Identity) -> Self:
        return cls(
            name=identity.name or None,
            uuid=identity.uuid or None,
            manager=identity.manager or None,
            manager_id=identity.number or None,
        )


class SubjectDocument(Model):
    """The verdict on the host or on one guest."""

    name: str
    """``host``; of a guest what tells it from all others of this host."""
    kind: str
    """``host``, ``qemu``, ``uml``, or ``kvm`` for any other program that runs a guest under KVM."""
    pid: int | None
    verdict: Verdict
    because: str | None
    """Why it is not judged."""
    rule: RuleQuoted | None
    """null where no rule held: it is efficiently provisioned, or not judged."""
    of_guest: str | None
    """Of which guest the evidence is, where the host is judged by it."""
    evidence: list[Evidence]
    samples: int
    figures: dict[str, Reading]
    """Means over the time, units in the names."""
    account: AccountDocument | None = None
    """null where nothing is waited for, or it is not known on which CPUs."""
    hypervisor: HypervisorDocument | None = None
    """null for the host, for User-Mode Linux, and for guests that were not there all the time."""
    identity: IdentityDocument | None = None
    """Who the guest is to whoever started it; null for the host."""


class AdviceDocument(Model):
    """The verdicts."""

    schema_version: int
    host_name: str | None = None
    """Of this host; null in what older versions wrote."""
    ended_at: datetime | None = None
    """When the watching ended."""
    elapsed_s: float
    rules: str
    """Where the rules come from."""
    host: SubjectDocument
    guests: list[SubjectDocument]
    """The worst first."""
    notes: list[str]
    prediction: PredictionDocument | None = None
    """How guests fare now, and after each change that was asked for; null in a document without counters."""


@dataclass(frozen=True)
class Watched:
    """What was watched."""

    host_name: str
    ended_at: datetime
    elapsed_s: float
    rules: str
    """Where the rules come from."""
    notes: Sequence[str] = ()


def make_document(
    host: Advice,
    guests: Sequence[Advice],
    watched: Watched,
    *,
    hypervisors: Mapping[tuple[int, int], HypervisorDocument],
    identities: Mapping[tuple[int, int], Identity],
) -> AdviceDocument:
    return AdviceDocument(
        schema_version=SCHEMA_VERSION,
        host_name=watched.host_name,
        ended_at=watched.ended_at,
        elapsed_s=watched.elapsed_s,
        rules=watched.rules,
        host=_subject(host, None, None),
        guests=sorted(
            (
                _subject(one, hypervisors.get(guest.key), IdentityDocument.of(identities.get(guest.key, Identity())))
                for one in guests
                if (guest := one.judgement.guest) is not None
            ),
            key=lambda one: (severity(one.verdict), one.name),
        ),
        notes=list(watched.notes),
    )


def exit_code(document: AdviceDocument, fail_on: Collection[Verdict] = ()) -> ExitCode:
    """3 where a verdict is one of those to fail on; else 4 unless the host and every guest were judged; else 0."""
    verdicts = {document.host.verdict, *(guest.verdict for guest in document.guests)}
    if verdicts & set(fail_on):
        return ExitCode.THRESHOLD
    return ExitCode.NOT_JUDGED if "not judged" in verdicts else ExitCode.FINE


def _subject(
    advice: Advice, hypervisor: HypervisorDocument | None, identity: IdentityDocument | None
) -> SubjectDocument:
    judgement = advice.judgement
    outcome = judgement.outcome
    # Without a rule that held, the conditions that came nearest tell why none did.
    evidence = (
        outcome.evidence
        if outcome is not None
        else tuple(one for each in judgement.outcomes if not each.rule.optional for one in each.evidence)
    )
    return SubjectDocument(
        name=judgement.subject,
        kind="host" if judgement.guest is None else judgement.guest.kind,
        pid=None if judgement.guest is None else judgement.guest.pid,
        verdict=judgement.verdict,
        because=judgement.because,
        rule=None
        if outcome is None
        else RuleQuoted(
            id=outcome.rule.id,
            source=outcome.rule.source,
            date=outcome.rule.date,
            why=advice.why or outcome.rule.why,
            change=advice.change or outcome.rule.change,
            uncalibrated=outcome.rule.uncalibrated,
        ),
        of_guest=None if outcome is None else outcome.of_guest,
        evidence=list(evidence),
        samples=judgement.samples,
        figures=readings(judgement.figures),
        account=None if advice.account is None else AccountDocument.of(advice.account),
        hypervisor=hypervisor,
        identity=identity,
    )


def _rate(count: Reading, elapsed_s: float) -> Reading:
    if isinstance(count, Absent) or not isinstance(count.value, int):
        return count
    return Value(value=round(count.value / elapsed_s, 3))


def readings(figures: SubjectFigures) -> dict[str, Reading]:
    """Give the mean of every figure; those of a part are called ``FIGURE of PART``."""
    named = dict(figures.whole)
    named |= {f"{name} of {part}": one for part, series in figures.parts.items() for name, one in series.items()}
    return {
        name: Value(value=round(one.mean, 3)) if one.values else one.absent or Absent(absent="there was no sample")
        for name, one in named.items()
    }
