"""What the requests to an agent give that are answered by tables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stealtime.vocabulary.findings import Finding
from stealtime.wire.load import LoadOutcome
from stealtime.wire.message import StreamName, TracingOutcome, TrialDone, TrialOutcome, WholeOutcome


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What a trial gave."""

    outcome: TrialDone
    tables: Mapping[StreamName, Path]
    """By name, the Arrow IPC stream files that the agent sent (``docs/run-format.md``)."""

    @property
    def samples(self) -> Path:
        """The table whose columns are given by ``outcome.layout``."""
        return self.tables["samples"]

    @property
    def events(self) -> Path | None:
        """The table of ``kind``, ``index``, ``start``, ``duration``; None if the agent sent none."""
        return self.tables.get("events")

    @property
    def trace(self) -> Path | None:
        """The table of what the machine's own kernel did; None if it was not recorded."""
        return self.tables.get("trace")


@dataclass(frozen=True, slots=True)
class TraceResult:
    """What a kernel did."""

    outcome: TracingOutcome
    trace: Path
    """An Arrow IPC stream file, one row an event, sorted by time (``docs/run-format.md``)."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load did."""

    outcome: LoadOutcome
    load: Path
    """An Arrow IPC stream file: ``thread``, ``start``, ``duration`` (cycles of the machine's counter), ``work``."""


def without_result(outcome: WholeOutcome, findings: Iterable[Finding]) -> TrialOutcome:
    """Give what is told of every trial, with other findings."""
    fields = {name: getattr(outcome, name) for name in TrialOutcome.model_fields}
    return TrialOutcome.model_construct(**{**fields, "findings": list(findings)})
