"""A run that is on disk: found by name, opened, and read trial by trial."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from stealtime.store.adoption import LeftInParts, adopt_parts, left_in_parts
from stealtime.store.documents import (
    CELLS,
    ELSEWHERE,
    HOST_TRACE,
    MACHINE_TRACE,
    MANIFEST,
    NEIGHBOURS,
    TRIAL,
    damaged,
    read_document,
)
from stealtime.store.model import Cell, Manifest, TrialRecord
from stealtime.store.partial import part_paths
from stealtime.store.results import OwnResult, read_as
from stealtime.store.sequence import moment_after, moment_of
from stealtime.vocabulary.errors import StealtimeError, UsageError

_PARQUET_MAGIC = b"PAR1"


def default_runs_folder() -> Path:
    """Give ``$XDG_DATA_HOME/stealtime/runs``, which need not exist yet."""
    from platformdirs import user_data_path

    return user_data_path("stealtime") / "runs"


@dataclass(frozen=True)
class Trial:
    """One execution of a cell, whole on disk or marked as cut short."""

    folder: Path
    record: TrialRecord
    parts: int | None = None
    """In how many parts each table of its result is, where those could not be joined."""

    def table(self, name: str) -> Path:
        """Give the Parquet file of one of its result's tables; of a kind that is never in parts.

        One that stayed with the host that measured it is fetched now.

        Raises:
            StealtimeError: It is elsewhere, and cannot be had from there.
        """
        path = self.folder / f"{name}.parquet"
        if self.is_elsewhere(path):
            from stealtime.store.elsewhere import fetch, note_of

            fetch(self.folder, path.name, note_of(self.folder))
        return path

    def is_elsewhere(self, path: Path) -> bool:
        """Tell whether a file of a merged run stayed with its host."""
        return not path.is_file() and self._has_parts_elsewhere()

    def _has_parts_elsewhere(self) -> bool:
        if not any((folder / ELSEWHERE).is_file() for folder in (self.folder, self.folder.parent.parent)):
            return False
        from stealtime.store.elsewhere import note_of

        return note_of(self.folder) is not None

    def tables(self, name: str) -> tuple[Path, ...]:
        """Give the Parquet files that one of its result's tables is in, one after the other."""
        return (self.table(name),) if self.parts is None else tuple(part_paths(self.folder, name, self.parts))

    def result(self, model: type[OwnResult]) -> OwnResult:
        """Give its result as one of a kind.

        Raises:
            StealtimeError: It failed, or its result is of another kind or damaged.
        """
        stored = self.record.result
        if stored is None:
            raise StealtimeError(f"{self.record.trial_id} has no result: it failed")
        try:
            return read_as(stored, model)
        except ValidationError as error:
            raise damaged(self.folder / TRIAL, "result", error, "measure it again with --resume") from error

    @property
    def host_trace_path(self) -> Path | None:
        """The Parquet file with what the host's kernel did; None if it was not traced."""
        return self._present(HOST_TRACE)

    @property
    def machine_trace_path(self) -> Path | None:
        """The Parquet file with what the machine's own kernel did; None if it was not traced, and natively."""
        return self._present(MACHINE_TRACE)

    @property
    def neighbours_path(self) -> Path | None:
        """The Parquet file with when the neighbours worked and how much; None if there were none."""
        return self._present(NEIGHBOURS)

    def _present(self, name: str) -> Path | None:
        path = self.folder / name
        return path if path.is_file() else None

    def check_tables(self) -> None:
        """See that the Parquet files are there and whole, by their length and last bytes; cheap.

        Raises:
            StealtimeError: One of them is missing or is truncated.
        """
        if self.record.has_result:
            for path in self._expected_tables():
                _check_parquet_end(path)

    def _expected_tables(self) -> list[Path]:
        record = self.record
        own = () if record.result is None else record.result.tables
        wanted = {
            HOST_TRACE: record.host_tracing is not None,
            MACHINE_TRACE: record.outcome is not None and record.outcome.tracing is not None,
            NEIGHBOURS: any(neighbour.outcome is not None for neighbour in record.neighbours),
        }
        surroundings = (self.folder / name for name, is_wanted in wanted.items() if is_wanted)
        if self._has_parts_elsewhere():
            # What stayed with its host is looked at once it is asked for.
            here = [path for name in own if (path := self.folder / f"{name}.parquet").is_file()]
            return [*here, *(path for path in surroundings if path.is_file())]
        return [*(path for name in own for path in self.tables(name)), *surroundings]


@dataclass(frozen=True)
class Run:
    """One execution of a campaign on disk."""

    folder: Path
    manifest: Manifest
    part: tuple[Trial, ...] | None = None
    """Leave all other trials out; None leaves nothing out."""
    unjoined: str | None = None
    """Why trials that were left in parts could not be joined, where that was tried."""

    @classmethod
    def open(cls, folder: Path) -> "Run":
        """Read the manifest of the run in ``folder``.

        Raises:
            StealtimeError: There is no manifest, or it is damaged or of a newer version.
        """
        path = folder / MANIFEST
        if not path.is_file():
            raise StealtimeError(
                f"{folder} is not a run: it has no {MANIFEST}", hint="see `stealtime ls` for the runs there are"
            )
        return cls(folder, read_document(path, Manifest, f"remove {folder} or put the file back from a copy"))

    @classmethod
    def taken_in(cls, folder: Path) -> "Run":
        """Open a run of which a process may have left trials in parts: those become trials that were cut short.

        Raises:
            StealtimeError: As :meth:`open`.
        """
        return replace(cls.open(folder), unjoined=adopt_parts(folder))

    @property
    def run_id(self) -> str:
        return self.manifest.run_id

    @cached_property
    def trials(self) -> list[Trial]:
        """All trials that are whole or marked as cut short, in the order they were measured.

        Raises:
            StealtimeError: A ``trial.json`` is damaged.
        """
        if self.part is not None:
            return list(self.part)
        left = (_whole_parts(one) for one in left_in_parts(self.folder, self.unjoined))
        in_parts = {trial.record.trial_id: trial for trial in left if trial is not None}
        others = map(self.read_trial, _cells_in(self.folder))
        trials = [*in_parts.values(), *(trial for trial in others if trial.record.trial_id not in in_parts)]
        return sorted(trials, key=lambda trial: trial.record.started_at)

    def only(self, probes: Iterable[str]) -> "Run":
        """Give the run as if nothing but these probes had been measured."""
        names = set(probes)
        return replace(self, part=tuple(trial for trial in self.trials if trial.record.cell.probe in names))

    @property
    def measured(self) -> list[Trial]:
        """The trials that have a result: of all of their time, or of the part until they were cut short."""
        return [trial for trial in self.trials if trial.record.has_result]

    @property
    def whole(self) -> list[Trial]:
        """The trials that measured all of their time: those that a resumed run does not measure again."""
        return [trial for trial in self.trials if trial.record.state == "measured"]

    @property
    def missing(self) -> list[tuple[Cell, int]] | None:
        """The cells that were planned and are not there, each with a repetition, in the order of the plan.

        None where that is not known, since an earlier version was interrupted.
        """
        planned = self.manifest.planned
        if self.part is not None or (planned is None and self.manifest.state == "finished"):
            return []
        if planned is None:
            return None
        there = {trial.record.trial_id for trial in self.trials}
        repetitions = range(1, self.manifest.repetitions + 1)
        return [(cell, number) for number in repetitions for cell in planned if cell.trial_id(number) not in there]

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def check_tables(self) -> None:
        """See that every trial's Parquet files are whole.

        Raises:
            StealtimeError: One is missing or is truncated.
        """
        for trial in self.trials:
            trial.check_tables()

    def read_trial(self, folder: Path) -> Trial:
        """Read one trial of it.

        Raises:
            StealtimeError: Its ``trial.json`` is damaged.
        """
        hint = f"remove {folder} and measure it again with `stealtime run --resume {self.folder.name}`"
        return Trial(folder, read_document(folder / TRIAL, TrialRecord, hint))


def _whole_parts(left: LeftInParts) -> Trial | None:
    """Give a trial in parts; None if one is damaged, because nothing says how far the others reach."""
    trial = Trial(left.folder, left.record, left.parts)
    try:
        trial.check_tables()
    except StealtimeError:
        return None
    return trial


def runs_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    runs = [path for path in folder.iterdir() if (path / MANIFEST).is_file()]
    return sorted(runs, key=lambda path: (moment_of(path / MANIFEST), path.name))


def moment_to_take_up(runs_folder: Path, now: datetime) -> datetime:
    """Give ``taken_up_at`` of a run in ``runs_folder`` that is begun or resumed at ``now``."""
    return moment_after((path / MANIFEST for path in runs_in(runs_folder)), now)


def _has_measured(folder: Path) -> bool:
    """Tell whether a run has a cell with a result, or one that is damaged: that is for its reader to meet."""
    is_there = any(_state_of(cell / TRIAL) != "failed" for cell in _cells_in(folder))
    return is_there or any(_whole_parts(left) is not None for left in left_in_parts(folder))


def _state_of(trial: Path) -> str | None:
    try:
        return str(json.loads(trial.read_bytes())["state"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _cells_in(folder: Path) -> Iterator[Path]:
    cells = folder / CELLS
    if cells.is_dir():
        yield from (cell for cell in sorted(cells.iterdir()) if not cell.name.startswith("."))


def find_run(name: str, runs_folder: Path | None = None) -> Run:
    """Open a run by its path, its name, the beginning or a part of its name, or ``last``.

    The last one is that which was begun or resumed last, of those that have measured anything. Trials that a killed
    process left in parts become trials that were cut short.

    Raises:
        UsageError: No run or more than one is meant by ``name``.
        StealtimeError: The run is damaged.
    """
    return Run.taken_in(_find(name, runs_folder))


def _find(name: str, runs_folder: Path | None) -> Path:
    folder = runs_folder if runs_folder is not None else default_runs_folder()
    as_path = Path(name)
    if (as_path / MANIFEST).is_file() or (os.sep in name and as_path.is_dir()):
        return as_path.resolve()
    runs = runs_in(folder)
    if not runs:
        raise UsageError(f"there is no run {name!r}: {folder} holds none", hint="measure one with `stealtime run`")
    if name == "last":
        for path in reversed(runs):
            if _has_measured(path):
                return path
        raise UsageError(
            f"no run in {folder} has measured anything; the newest is {runs[-1].name}",
            hint="give its name to see why, or measure one with `stealtime run`",
        )
    matches = (
        [path for path in runs if path.name == name]
        or [path for path in runs if path.name.startswith(name)]
        or [path for path in runs if name in path.name]
    )
    if len(matches) == 1:
        return matches[0]
    if matches:
        listed = ", ".join(path.name for path in matches[-3:])
        raise UsageError(
            f"{name!r} is the name of {len(matches)} runs, for example {listed}",
            hint="give a longer part of the name, or `last`",
        )
    raise UsageError(
        f"there is no run {name!r} in {folder}; the last one is {runs[-1].name}",
        hint="see `stealtime ls`, or say `last`",
    )


def _check_parquet_end(path: Path) -> None:
    """Parquet ends with the length of its footer and a magic word; a file that is truncated lacks them."""
    hint = f"remove {path.parent} and measure it again with `stealtime run --resume {path.parent.parent.parent.name}`"
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(4)
            file.seek(max(0, size - 8))
            tail = file.read(8)
    except OSError as error:
        raise StealtimeError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    footer_bytes = int.from_bytes(tail[:4], "little")
    if head != _PARQUET_MAGIC or tail[4:] != _PARQUET_MAGIC or footer_bytes + 12 > size:
        raise StealtimeError(f"{path} is damaged: it is truncated at {size} bytes", hint=hint)
