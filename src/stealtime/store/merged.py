"""What a merged run says of the runs that it was made of."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from stealtime.store.identity import HostIdentity
from stealtime.store.spread import EachHost, Shard
from stealtime.vocabulary.readings import Model


class TrialOrigin(Model):
    """Where a trial of a merged run was measured."""

    run_id: str
    repetition: int
    """Its number there; in the merged run the repetitions of all hosts are numbered on."""


class MergedPart(Model):
    """One of the runs that a merged run was made of."""

    run_id: str
    folder: str
    """Where it was."""
    host: str
    """As ``Manifest.hosts`` of the merged run calls it."""
    identity: HostIdentity | None
    created_at: datetime
    finished_at: datetime | None
    state: Literal["running", "finished", "interrupted"]
    spread: Shard | EachHost | None = Field(default=None, discriminator="kind")
    trials: int
    """That were taken from it."""


class MergedRecord(Model):
    """Of what a run was merged."""

    at: datetime
    parts: list[MergedPart]
    remarks: list[str]
    """What is missing, double or left out, a sentence each."""
    has_samples: bool
    """Whether the samples are in the merged run; else they stayed with their hosts (``elsewhere.json``)."""
