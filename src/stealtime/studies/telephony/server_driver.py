"""Carries trials out with a server that is as the last cell wanted it, wherever it runs."""

import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import JsonValue

from stealtime.campaigns.planned import PlannedBoot, PlannedCell
from stealtime.hosts.reusing_driver import ReusingDriver
from stealtime.lab.scenarios.placement import Placement
from stealtime.store.results import Result
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.trials import TRIALS, Server, find_saturation, unknown_saturation

NewPlace = Callable[[int, Mapping[str, JsonValue]], Place]


class ServerDriver(ReusingDriver[Place]):
    """A server as the last cell wanted it.

    Args:
        folder: For the files of trials.
        new_place: Gives a place for another server, with a number that none had before; it is not started.
    """

    wanted_parameters = ("mode", "interval_ns", "roles", "primaries")

    def __init__(self, boot: PlannedBoot, placement: Placement, logs: Path, folder: Path, new_place: NewPlace) -> None:
        super().__init__(boot, placement, logs)
        self._folder = folder
        self._new_place = new_place
        self._trials = itertools.count(1)
        self._saturation: dict[str, float] = {}

    def carry_out(self, cell: PlannedCell) -> Result:
        with self._trial_folder() as folder:
            transport = unknown_saturation(cell.cell.parameters, self._saturation)
            if transport is not None:
                # Also where the cells without protection are not of this run, or were measured before it was resumed.
                find_saturation(self._server({"mode": "off"}), transport, folder)
            return TRIALS[cell.cell.probe](self._server(cell.cell.parameters), cell, folder)

    def make(self, serial: int, wanted: Mapping[str, JsonValue]) -> Place:
        return self._new_place(serial, wanted)

    def begin(self, kept: Place) -> None:
        kept.start()

    def stop_kept(self, kept: Place) -> None:
        kept.stop()

    def log_tail(self) -> str:
        return "" if self.kept is None else self.kept.log_tail()

    def _server(self, parameters: Mapping[str, JsonValue]) -> Server:
        place = self.kept_for(parameters)
        place.await_ready()
        return Server(place, self._saturation)

    @contextmanager
    def _trial_folder(self) -> Iterator[Path]:
        folder = self._folder / f"trial-{next(self._trials)}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
