"""What the stages of this study have in common, wherever the server is: it is as the last cell wanted it."""

import shutil
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import JsonValue

from stealtime.campaigns.blocking_stage import BlockingStage
from stealtime.campaigns.planned import PlannedBoot, PlannedCell
from stealtime.hosts.stand import NotProtectedError
from stealtime.lab.scenarios.placement import Placement
from stealtime.store.results import Result
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.trials import TRIALS, Server, find_saturation, unknown_saturation

_SERVER_PARAMETERS = ("mode", "interval_ns", "placement", "primaries")


class ServerStage(BlockingStage):
    """A server as the last cell wanted it.

    Args:
        boot: Whose cells are carried out.
        placement: Of the scenario.
        logs: The folder for logs, until they are stored.
        folder: For the files of trials.
    """

    lapses = (NotProtectedError,)

    def __init__(self, boot: PlannedBoot, placement: Placement, logs: Path, folder: Path) -> None:
        super().__init__(boot, placement, logs)
        self._folder = folder
        self._place: Place | None = None
        self._wanted: dict[str, JsonValue] = {}
        self._serial = 0
        self._saturation: dict[str, float] = {}

    @abstractmethod
    def new_place(self, serial: int, wanted: Mapping[str, JsonValue]) -> Place:
        """Give a place for another server, with a number that none had before; it is not started."""

    def carry_out(self, cell: PlannedCell) -> Result:
        """Carry out a trial with a server that answers."""
        with self._trial_folder() as folder:
            transport = unknown_saturation(cell.cell.parameters, self._saturation)
            if transport is not None:
                # Also where the cells without protection are not of this run, or were measured before it was resumed.
                find_saturation(self._server({"mode": "off"}), transport, folder)
            return TRIALS[cell.cell.probe](self._server(cell.cell.parameters), cell, folder)

    def give_up(self) -> None:
        """End the server."""
        place, self._place = self._place, None
        if place is not None:
            place.stop()

    def last_words(self) -> str:
        """Give the end of all logs."""
        return "" if self._place is None else self._place.last_words()

    def _server(self, parameters: Mapping[str, JsonValue]) -> Server:
        """Give a server that answers, begun anew if the last cell wanted another one."""
        wanted = {name: parameters[name] for name in _SERVER_PARAMETERS if name in parameters}
        if self._place is not None and wanted != self._wanted:
            self.give_up()
        if self._place is None:
            self._serial += 1
            self._place, self._wanted = self.new_place(self._serial, wanted), wanted
            self._place.start()
        self._place.await_ready()
        return Server(self._place, self._saturation)

    @contextmanager
    def _trial_folder(self) -> Iterator[Path]:
        """Give a folder for the files of one trial's programs."""
        self._serial += 1
        folder = self._folder / f"trial-{self._serial}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
