"""A fleet run on the controller's disk: what was asked, what each host has given, and what it owes.

``fleet.json``, and ``runs/RUN`` for each host as an ordinary run without its samples. A trial is put there as soon as
it has arrived, so that a host or a scheduler that is lost takes nothing with it that was whole.
"""

import base64
import binascii
import os
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from stealtime.fleet.order import Said
from stealtime.store.documents import CELLS, MANIFEST, TRIAL
from stealtime.store.files import sync_folder, write_synced
from stealtime.vocabulary.errors import StealtimeError, UsageError

FLEET = "fleet.json"
RUNS = "runs"
SCHEMA_VERSION = 1
State = Literal["waiting", "measuring", "whole", "incomplete", "interrupted", "failed", "lost", "refused"]
OWES: tuple[State, ...] = ("waiting", "measuring", "incomplete", "interrupted", "failed", "lost", "refused")
"""The states of hosts that are asked again with ``--resume``."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,200}")
"""Of runs, trials and files: what a host says must not lead out of the folder."""


class HostRecord(BaseModel):
    """One host of the fleet."""

    name: str
    """Of its worker."""
    identity: str | None = None
    state: State = "waiting"
    words: str | None = None
    """Why it is in this state, where that needs words."""
    hint: str | None = None
    shard_index: int | None = None
    """From 1; None: the whole campaign."""
    run_id: str | None = None
    planned: int | None = None
    """How many trials it has to measure in all."""
    whole: int = 0
    """How many have arrived."""
    failed: int = 0
    spoken_to: int = 0
    """How many times its worker had to wake while a trial measured."""


class FleetRecord(BaseModel):
    """What ``fleet.json`` holds."""

    schema_version: int = SCHEMA_VERSION
    fleet_id: str
    created_at: datetime
    stealtime_version: str
    scheduler: str
    is_split: bool
    """Whether each host has a part of the campaign, and not the whole."""
    campaign: dict[str, Any]
    measured_cpu: int | None = None
    named_scenarios: tuple[str, ...] = ()
    is_kernel_named: bool = False
    hosts: list[HostRecord] = Field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return bool(self.hosts) and all(host.state == "whole" for host in self.hosts)

    def host(self, name: str) -> HostRecord:
        return next(host for host in self.hosts if host.name == name)


def new_fleet_id(campaign: str) -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-fleet-{campaign}-{token_hex(2)}"


def default_fleets_folder() -> Path:
    """Give ``$XDG_DATA_HOME/stealtime/fleets``, which need not exist yet."""
    from platformdirs import user_data_path

    return user_data_path("stealtime") / "fleets"


class FleetFolder:
    """The folder of a fleet run, for its controller."""

    def __init__(self, folder: Path, record: FleetRecord) -> None:
        self.folder, self.record = folder, record

    @classmethod
    def create(cls, folder: Path, record: FleetRecord) -> "FleetFolder":
        """Make the folder.

        Raises:
            UsageError: There is something already.
        """
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(
                f"{folder} is there already and not empty", hint="name another folder, or go on with it by --resume"
            )
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
        made = cls(folder, record)
        made.save()
        return made

    @classmethod
    def open(cls, folder: Path) -> "FleetFolder":
        """Read a fleet run.

        Raises:
            UsageError: It is none, or damaged, or of a newer version.
        """
        try:
            content = (folder / FLEET).read_bytes()
        except OSError as error:
            raise UsageError(
                f"{folder} is no fleet run: its {FLEET} cannot be read ({error.strerror})",
                hint="name the folder that `stealtime fleet run` has told",
            ) from None
        try:
            record = FleetRecord.model_validate_json(content)
        except ValidationError as error:
            raise UsageError(
                f"{folder / FLEET} is damaged: {error.errors()[0]['msg']}",
                hint="what hosts have sent is in their folders beside it: merge those, and measure the rest anew",
            ) from None
        if record.schema_version > SCHEMA_VERSION:
            raise UsageError(
                f"{folder / FLEET} has schema version {record.schema_version}; this stealtime reads {SCHEMA_VERSION}",
                hint="go on with the stealtime that wrote it, or a newer one",
            )
        return cls(folder, record)

    def save(self) -> None:
        """Write the record, whole or not at all."""
        partial = self.folder / f".{FLEET}"
        write_synced(partial, self.record.model_dump_json(indent=2).encode())
        partial.rename(self.folder / FLEET)
        sync_folder(self.folder)

    def trials_of(self, host: HostRecord) -> tuple[str, ...]:
        """Give the trials of a host that have arrived."""
        cells = self._run(host) / CELLS if host.run_id is not None else None
        if cells is None or not cells.is_dir():
            return ()
        return tuple(sorted(path.name for path in cells.iterdir() if (path / TRIAL).is_file()))

    def runs(self) -> list[Path]:
        """Give the folders of all runs that have arrived, in the order of the hosts."""
        return [self._run(one) for one in self.record.hosts if one.run_id and (self._run(one) / MANIFEST).is_file()]

    def take_manifest(self, host: HostRecord, said: Said) -> None:
        host.run_id = _name(said.run_id)
        run = self._run(host)
        run.mkdir(exist_ok=True)
        partial = run / f".{MANIFEST}"
        write_synced(partial, _content(said.files.get(MANIFEST, "")))
        partial.rename(run / MANIFEST)

    def take_trial(self, host: HostRecord, said: Said) -> None:
        """Put a trial in its place, whole or not at all.

        Raises:
            StealtimeError: Its files are damaged.
        """
        host.run_id = _name(said.run_id)
        cells = self._run(host) / CELLS
        cells.mkdir(parents=True, exist_ok=True)
        place = cells / _name(said.trial_id)
        partial = cells / f".partial-{place.name}-{os.getpid()}"
        partial.mkdir()
        for name, written in said.files.items():
            write_synced(partial / _name(name), _content(written))
        if place.exists():
            # Aside first and by its own new name: nothing that a host says is ever the path that is removed.
            replaced = cells / f".replaced-{os.getpid()}"
            _within(cells, place).rename(replaced)
            shutil.rmtree(replaced)
        partial.rename(_within(cells, place))
        sync_folder(cells)

    def _run(self, host: HostRecord) -> Path:
        return self.folder / RUNS / _name(host.run_id)


def _name(text: str | None) -> str:
    if text is None or not _NAME.fullmatch(text):
        raise StealtimeError(f"a host says a name that is none: {text!r}")
    return text


def _within(folder: Path, path: Path) -> Path:
    """Give a path that is directly in a folder, whatever its name was made of.

    Raises:
        StealtimeError: It is elsewhere.
    """
    if path.parent.resolve() != folder.resolve():
        raise StealtimeError(f"{path} is not in {folder}")
    return path


def _content(written: str) -> bytes:
    try:
        return base64.b64decode(written, validate=True)
    except (binascii.Error, ValueError):
        raise StealtimeError("a host says a file that is damaged") from None
