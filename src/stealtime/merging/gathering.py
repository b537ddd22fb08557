"""Reads the parts of a merged run host by host, and writes its trials: some in each of several processes.

What counts is read once and never as a whole: of each host its pools remain, and of each cell what all its hosts
counted. Integers add up to the same whoever adds them.
"""

import os
import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from stealtime.merging.again import counted_trials_of
from stealtime.merging.pooling import Gathered, is_pooled
from stealtime.merging.trial_row import TrialRow
from stealtime.store.counts import Counts
from stealtime.store.documents import COUNTS, ELSEWHERE, PARTIAL_PREFIX, TRIAL
from stealtime.store.durations import SAMPLES
from stealtime.store.elsewhere import Elsewhere, ElsewhereFile, fetch, note_of, put
from stealtime.store.merged import TrialOrigin
from stealtime.store.run import Run
from stealtime.vocabulary.errors import StealtimeError

HERE, STAY = "here", "stay"
TRIALS_A_PROCESS = 500
"""Fewer are read in less time than a process takes to begin."""
_SAMPLES_FILE = f"{SAMPLES}.parquet"


@dataclass(frozen=True)
class HostParts:
    """The runs of one host."""

    host: str
    """As the merged run calls it."""
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class CountedRow:
    """A trial of a part."""

    row: TrialRow
    """As its own run has it."""
    samples_sha256: str | None
    """Of the table of its samples, where it was counted from one."""


@dataclass(frozen=True)
class Read:
    """What was read of some hosts."""

    rows: dict[str, list[CountedRow]]
    """By the run's id."""
    remarks: dict[str, list[str]]
    """By the run's id: what could not be read and is left out."""
    gathered: Gathered


@dataclass(frozen=True)
class TrialToWrite:
    """A trial with its place in the merged run."""

    source: Path
    """Its folder in its own run."""
    target: Path
    host: str
    repetition: int
    """Its number in the merged run."""
    origin: TrialOrigin
    is_counted: bool
    samples_sha256: str | None


def processes_for(trials: int) -> int:
    """Tell how many processes so many trials are worth."""
    return max(1, min(len(os.sched_getaffinity(0)), trials // TRIALS_A_PROCESS))


def read_hosts(hosts: Sequence[HostParts]) -> Read:
    """Read all trials of some hosts.

    Raises:
        StealtimeError: The tables of a merged run are damaged.
    """
    rows: dict[str, list[CountedRow]] = {}
    remarks: dict[str, list[str]] = {}
    gathered = Gathered()
    for one in hosts:
        counted: dict[str, list[tuple[Counts, float]]] = defaultdict(list)
        for run in one.runs:
            told: list[str] = []
            trials = counted_trials_of(run, told)
            rows[run.run_id] = [
                CountedRow(trial.row, None if trial.counted is None else trial.counted.sha256.get(_SAMPLES_FILE))
                for trial in trials
            ]
            remarks[run.run_id] = told
            for trial in trials:
                if trial.counted is not None and is_pooled(trial.row):
                    counted[trial.row.cell].append((trial.counted.counts, trial.row.units_per_s or 1.0))
        for cell, own in counted.items():
            gathered.add_host(cell, one.host, own)
    gathered.add_up()
    return Read(rows, remarks, gathered)


def write_trials(trials: Sequence[tuple[TrialToWrite, str]]) -> dict[str, dict[str, Any]]:
    """Write trials, each with what becomes of its samples (``merging.merge``).

    Returns:
        What of them is elsewhere, by the name of the trial's folder (:class:`stealtime.store.elsewhere.Elsewhere`).

    Raises:
        StealtimeError: A trial is damaged, or its samples cannot be put into their place.
        OSError: One cannot be written.
    """
    written = ((trial.target.name, _write_trial(trial, samples)) for trial, samples in trials)
    # In other processes there are thousands of them: models would take longer to travel than to be made.
    return {name: note.model_dump() for name, note in written if note is not None}


def _write_trial(trial: TrialToWrite, samples: str) -> Elsewhere | None:
    trial.target.mkdir()
    # As it was written, but for its place here: nothing that an older version wrote is made over.
    try:
        document: dict[str, Any] = from_json((trial.source / TRIAL).read_bytes())
    except ValueError as error:
        raise StealtimeError(f"{trial.source / TRIAL} is damaged: {error}", hint="put it back from a copy") from error
    document |= {"repetition": trial.repetition, "host": trial.host, "origin": trial.origin.model_dump()}
    (trial.target / TRIAL).write_bytes(to_json(document))
    # As text: putting the paths of all files of thousands of trials together would take as long as linking them.
    source, target = str(trial.source), str(trial.target)
    with os.scandir(source) as found:
        names = [entry.name for entry in found]
    stays = trial.is_counted and samples != HERE and COUNTS in names
    for name in names:
        is_left = name in (TRIAL, ELSEWHERE) or name.startswith(PARTIAL_PREFIX) or (stays and name == _SAMPLES_FILE)
        if not is_left:
            _link(f"{source}/{name}", f"{target}/{name}")
    known = note_of(trial.source)
    if known is not None:
        # It is a merged run's already.
        if samples != HERE:
            return known
        fetch(trial.target, _SAMPLES_FILE, known)
        return None
    sha256 = trial.samples_sha256
    if not stays or sha256 is None:
        # Without a hash they are in parts: those were linked.
        return None
    path = trial.source / _SAMPLES_FILE
    urls = [path.absolute().as_uri()]
    if samples != STAY and path.is_file():
        urls.insert(0, put(path, sha256, samples))
    return Elsewhere(host=trial.host, files={_SAMPLES_FILE: ElsewhereFile(sha256=sha256, urls=urls)})


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
