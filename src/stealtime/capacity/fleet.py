"""The verdicts of many hosts together: documents of ``stealtime advise --json`` in one table."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from stealtime.capacity.document import SCHEMA_VERSION as ADVICE_VERSION
from stealtime.capacity.document import AdviceDocument
from stealtime.capacity.rules import Verdict
from stealtime.capacity.severity import TO_CHANGE, severity
from stealtime.vocabulary.errors import ExitCode, UsageError
from stealtime.vocabulary.readings import Model

SCHEMA_VERSION = 1
_MOST_BYTES = 256 << 20
"""Of a document: that of a host with a thousand guests is a fiftieth."""
_HINT = "name files that `stealtime advise --json` has written"


class HostSummary(Model):
    """One host."""

    source: str
    """The file that tells of it."""
    host_name: str | None
    ended_at: datetime | None
    elapsed_s: float
    verdict: Verdict
    because: str | None
    """Why it is not judged."""
    change: str | None
    guests: dict[Verdict, int]
    """How many of its guests have each verdict."""
    worst_guest: str | None
    """One with the worst verdict, where something is to be changed."""


class FleetDocument(Model):
    """What ``stealtime advise --from --json`` prints."""

    schema_version: int
    hosts: list[HostSummary]
    """The worst first."""


def read_fleet(paths: Sequence[Path]) -> FleetDocument:
    """Read documents of many hosts.

    Raises:
        UsageError: One cannot be read, or is no such document.
    """
    hosts = [_summary(path, _read(path)) for path in paths]
    hosts.sort(key=lambda one: (severity(one.verdict), -_to_change(one), one.host_name or one.source))
    return FleetDocument(schema_version=SCHEMA_VERSION, hosts=hosts)


def fleet_exit_code(fleet: FleetDocument, fail_on: Sequence[Verdict]) -> ExitCode:
    """3 where a host or guest has a verdict to fail on; else 4 where one is not judged; else 0."""
    verdicts = {one.verdict for one in fleet.hosts} | {verdict for one in fleet.hosts for verdict in one.guests}
    if verdicts & set(fail_on):
        return ExitCode.THRESHOLD
    return ExitCode.NOT_JUDGED if "not judged" in verdicts else ExitCode.FINE


def _to_change(host: HostSummary) -> int:
    return sum(host.guests.get(verdict, 0) for verdict in TO_CHANGE)


def _summary(path: Path, document: AdviceDocument) -> HostSummary:
    guests: dict[Verdict, int] = {}
    for guest in document.guests:
        guests[guest.verdict] = guests.get(guest.verdict, 0) + 1
    worst = min(document.guests, key=lambda one: severity(one.verdict), default=None)
    is_told = worst is not None and worst.verdict in TO_CHANGE
    return HostSummary(
        source=str(path),
        host_name=document.host_name,
        ended_at=document.ended_at,
        elapsed_s=document.elapsed_s,
        verdict=document.host.verdict,
        because=document.host.because,
        change=None if document.host.rule is None else document.host.rule.change,
        guests=guests,
        worst_guest=worst.name if worst is not None and is_told else None,
    )


def _read(path: Path) -> AdviceDocument:
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise UsageError(
                f"--from {path}: it is no document of `advise`: it is over {_MOST_BYTES >> 20} MiB", hint=_HINT
            )
        document = AdviceDocument.model_validate_json(text)
    except OSError as error:
        raise UsageError(f"--from {path}: it cannot be read: {error.strerror}", hint=_HINT) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        at = f" ({where})" if where else ""
        raise UsageError(f"--from {path}: it is no document of `advise`: {first['msg']}{at}", hint=_HINT) from error
    if document.schema_version > ADVICE_VERSION:
        raise UsageError(
            f"--from {path}: its schema_version is {document.schema_version}, this stealtime knows {ADVICE_VERSION}",
            hint="read it with the stealtime that wrote it, or a newer one",
        )
    return document
