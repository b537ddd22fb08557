"""The stage ``telephony``: two hosts, a server as the last cell wanted it, natively or in guests, and its phones."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from pydantic import JsonValue

from stealtime.campaigns.blocking_stage import BlockingStage, entered_in_thread
from stealtime.campaigns.planner import PlannedBoot, PlannedCell
from stealtime.lab.platforms.qemu_flavour import paravirtual_accelerator
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.scenarios.placement import Placement
from stealtime.protect.laboratory import Laboratory
from stealtime.protect.stand import HOSTS, NotProtectedError, Stand
from stealtime.store.results import Result
from stealtime.studies.telephony.client import LaboratoryClient
from stealtime.studies.telephony.place.guest import GuestPlace
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.place.native import NativePlace
from stealtime.studies.telephony.place.replicated import STORE_HOST, ReplicatedPlace
from stealtime.studies.telephony.sipp.program import find_sipp, widen_ports
from stealtime.studies.telephony.trials import TRIALS, Server
from stealtime.vocabulary.errors import StealtimeError

_SERVER_PARAMETERS = ("mode", "interval_ns", "placement")


@asynccontextmanager
async def telephony_stage(boot: PlannedBoot, placement: Placement, folder: Path) -> AsyncIterator["TelephonyStage"]:
    """Set up the hosts and their networks; see ``campaigns.probe.Stage``."""
    find_sipp()
    accelerator = None
    if not traits_of(boot.platform).is_native:
        accelerator = paravirtual_accelerator(boot.platform)
        if accelerator is None:
            raise StealtimeError(
                f"a SIP server is not to be had as {boot.platform}", hint="choose the platforms `native` and `paravirt`"
            )
    async with entered_in_thread(Laboratory((*HOSTS, STORE_HOST))) as laboratory:
        stage = TelephonyStage(boot, placement, folder, laboratory, accelerator)
        await asyncio.to_thread(stage.open)
        yield stage


class TelephonyStage(BlockingStage):
    """The networks, and a server as the last cell wanted it."""

    lapses = (NotProtectedError,)

    def __init__(
        self, boot: PlannedBoot, placement: Placement, folder: Path, laboratory: Laboratory, accelerator: str | None
    ) -> None:
        super().__init__(boot, placement, folder)
        self._laboratory = laboratory
        self._accelerator = accelerator
        self._stand: Stand | None = None
        self._place: Place | None = None
        self._wanted: dict[str, JsonValue] = {}
        self._serial = 0
        self._saturation: dict[str, float] = {}

    def open(self) -> None:
        """Give the client its ports, and have both hosts receive machines where there are guests."""
        with self.on_its_cpus():
            widen_ports(LaboratoryClient(self._laboratory))
            if self._accelerator is not None:
                self._stand = Stand(self._laboratory)

    def carry_out(self, cell: PlannedCell) -> Result:
        """Carry out a trial with a server that answers."""
        with self._folder() as folder:
            return TRIALS[cell.cell.probe](self._server(cell.cell.parameters), cell, folder)

    def give_up(self) -> None:
        """End the server."""
        place, self._place = self._place, None
        if place is not None:
            place.stop()

    def last_words(self) -> str:
        """Give the end of all logs."""
        if self._place is not None:
            return self._place.last_words()
        return "" if self._stand is None else self._stand.last_words()

    def _server(self, parameters: Mapping[str, JsonValue]) -> Server:
        """Give a server that answers, begun anew if the last cell wanted another one."""
        wanted = {name: parameters[name] for name in _SERVER_PARAMETERS if name in parameters}
        if self._place is not None and wanted != self._wanted:
            self.give_up()
        if self._place is None:
            self._serial += 1
            self._place, self._wanted = self._new_place(wanted), wanted
            self._place.start()
        self._place.await_ready()
        return Server(self._place, self._saturation)

    def _new_place(self, wanted: Mapping[str, JsonValue]) -> Place:
        if self._stand is None or self._accelerator is None:
            return NativePlace(self._laboratory)
        # The register remembers the last one of a name.
        if wanted["mode"] == "replicated":
            return ReplicatedPlace.of_parameters(self._stand, f"sip{self._serial}", wanted, self._accelerator)
        return GuestPlace.of_parameters(self._stand, f"sip{self._serial}", wanted, self._accelerator)

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """Give a folder for the files of one trial's programs."""
        self._serial += 1
        folder = self._laboratory.folder / f"trial-{self._serial}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
