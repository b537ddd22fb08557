"""A merged run as the runs that it was made of, so that it can be merged again: with a shard that came late, say."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from stealtime.merging.tables import counted_trials, rows_of_merged
from stealtime.merging.trial_row import CountedTrial, TrialRow
from stealtime.store.documents import CELLS, COUNTS, TRIAL
from stealtime.store.merged import MergedPart
from stealtime.store.run import Run, Trial
from stealtime.store.travelling import read_counts_file
from stealtime.vocabulary.errors import StealtimeError


@dataclass(frozen=True)
class PartOfMerged(Run):
    """One of the runs that a merged run was made of; its folder is that of the merged one."""

    within: Run | None = None
    """The merged run."""
    stood: MergedPart | None = None
    """What that says of it."""

    @cached_property
    def trials(self) -> list[Trial]:
        """As of any run, but for their repetitions, which the merged run has numbered on."""
        every = [] if self.within is None else self.within.trials
        return [one for one in every if one.record.origin is not None and one.record.origin.run_id == self.run_id]


def parts_of(merged: Run) -> Iterator[Run]:
    """Give the runs that a merged one was made of.

    Raises:
        StealtimeError: The tables of the merged run are damaged.
    """
    manifest = merged.manifest
    record = manifest.merged
    for number, part in enumerate([] if record is None else record.parts):
        # What is told of all of them together is told of the first, so that it is told once.
        told: dict[str, list[str]] = {} if number == 0 else {"provenance": [], "findings": [], "unobtainable": []}
        own = manifest.model_copy(
            update={
                "run_id": part.run_id,
                "created_at": part.created_at,
                "finished_at": part.finished_at,
                "state": part.state,
                "identity": part.identity,
                "spread": part.spread,
                "hosts": {part.host: manifest.hosts.get(part.host, {})},
                "merged": None,
                **told,
            }
        )
        yield PartOfMerged(merged.folder, own, within=merged, stood=part)


def folder_of(run: Run) -> str:
    """Give the folder in which a run was measured, or came from its host."""
    return run.stood.folder if isinstance(run, PartOfMerged) and run.stood is not None else str(run.folder)


def trials_of(run: Run) -> int:
    """Tell how many trials a run has at most, without reading one."""
    if isinstance(run, PartOfMerged) and run.stood is not None:
        return run.stood.trials
    cells = run.folder / CELLS
    return sum(1 for _ in cells.iterdir()) if cells.is_dir() else 0


def counted_trials_of(run: Run, remarks: list[str]) -> list[CountedTrial]:
    """Give each trial of a run or of a part of a merged one with its counts; what is damaged is left out, and said.

    Raises:
        StealtimeError: The tables of a merged run are damaged.
    """
    if not isinstance(run, PartOfMerged):
        return counted_trials(run, remarks)
    found = []
    for row in _rows_by_run(run.folder).get(run.run_id, []):
        folder = run.folder / row.folder
        try:
            counted = None if row.samples is None else read_counts_file(folder / COUNTS)
            origin = json.loads((folder / TRIAL).read_bytes())["origin"]
            found.append(CountedTrial(replace(row, repetition=int(origin["repetition"])), counted))
        except StealtimeError as error:
            remarks.append(f"a trial of {run.run_id} is left out: {error.message}")
        except (OSError, ValueError, KeyError, TypeError) as error:
            remarks.append(f"a trial of {run.run_id} is left out: {folder / TRIAL} is damaged: {error}")
    return found


@lru_cache(maxsize=2)
def _rows_by_run(folder: Path) -> dict[str, list[TrialRow]]:
    """Give the rows of a merged run by the runs that it was made of: all of them are asked for, one after the other."""
    found: dict[str, list[TrialRow]] = defaultdict(list)
    for row in rows_of_merged(Run.open(folder)):
        found[row.run].append(row)
    return dict(found)
