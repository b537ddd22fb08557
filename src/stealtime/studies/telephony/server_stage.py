"""Carries trials out with a server that is as the last cell wanted it, wherever it runs."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stealtime.campaigns.planned import PlannedBoot, PlannedCell
from stealtime.hosts.reusing_stage import ReusingStage
from stealtime.lab.scenarios.placement import Placement
from stealtime.store.results import Result
from stealtime.studies.telephony.parameters import ServerParameters
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.trials import TRIALS, Server, find_saturation, unknown_saturation

NewPlace = Callable[[int, ServerParameters], Place]


class ServerStage(ReusingStage[Place, ServerParameters]):
    """A server as the last cell wanted it.

    Args:
        boot: Whose cells are carried out.
        placement: Of the scenario.
        logs: The folder for logs, until they are stored.
        folder: For the files of trials.
        new_place: Gives a place for another server, with a number that none had before; it is not started.
    """

    def __init__(self, boot: PlannedBoot, placement: Placement, logs: Path, folder: Path, new_place: NewPlace) -> None:
        super().__init__(boot, placement, logs)
        self._folder = folder
        self._new_place = new_place
        self._trials = itertools.count(1)
        self._saturation: dict[str, float] = {}

    def carry_out(self, cell: PlannedCell) -> Result:
        """Carry out a trial with a server that answers."""
        with self._trial_folder() as folder:
            transport = unknown_saturation(cell.cell, self._saturation)
            if transport is not None:
                # Also where the cells without protection are not of this run, or were measured before it was resumed.
                find_saturation(self._server(ServerParameters(mode="off")), transport, folder)
            return TRIALS[cell.cell.probe](self._server(ServerParameters.of(cell.cell)), cell, folder)

    def make(self, serial: int, wanted: ServerParameters) -> Place:
        """Give a place for another server."""
        return self._new_place(serial, wanted)

    def begin(self, kept: Place) -> None:
        """Start the server."""
        kept.start()

    def stop_kept(self, kept: Place) -> None:
        """End the server."""
        kept.stop()

    def log_tail(self) -> str:
        """Give the end of all logs."""
        return "" if self.kept is None else self.kept.log_tail()

    def _server(self, wanted: ServerParameters) -> Server:
        """Give a server that answers."""
        place = self.kept_for(wanted)
        place.await_ready()
        return Server(place, self._saturation)

    @contextmanager
    def _trial_folder(self) -> Iterator[Path]:
        """Give a folder for the files of one trial's programs."""
        folder = self._folder / f"trial-{next(self._trials)}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
