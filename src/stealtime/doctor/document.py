"""What ``stealtime doctor --json`` prints."""

from collections import Counter
from collections.abc import Sequence

from pydantic import Field

from stealtime.doctor.model import Finding, Level
from stealtime.doctor.rights import Right
from stealtime.vocabulary.errors import ExitCode
from stealtime.vocabulary.readings import Model

SCHEMA_VERSION = 1
"""Rises when a key goes away or means something else; new findings and keys do not raise it."""


class Summary(Model):
    """How many findings there are of each level."""

    ok: int
    limits: int
    blocks: int
    can_do_main_job: bool
    """Whether native and at least one guest can be measured: no finding blocks."""


class DoctorDocument(Model):
    """The findings of one machine."""

    schema_version: int
    summary: Summary
    findings: list[Finding]
    rights: list[Right] = Field(default=[])
    """What the user who asks may do, root or not; empty in documents of releases up to 0.2."""


def make_document(findings: Sequence[Finding], rights: Sequence[Right] = ()) -> DoctorDocument:
    """Count the findings by level."""
    count = Counter(finding.level for finding in findings)
    summary = Summary(
        ok=count[Level.OK],
        limits=count[Level.LIMITS],
        blocks=count[Level.BLOCKS],
        can_do_main_job=count[Level.BLOCKS] == 0,
    )
    return DoctorDocument(schema_version=SCHEMA_VERSION, summary=summary, findings=list(findings), rights=list(rights))


def exit_code(document: DoctorDocument) -> ExitCode:
    """0 if the main job can be done, with whatever limits; 4 if something blocks it: the machine cannot be judged."""
    return ExitCode.FINE if document.summary.can_do_main_job else ExitCode.NOT_JUDGED
