"""The stage ``telephony``: two hosts, a server as the last cell wanted it, natively or in guests, and its phones.

It blocks, so it goes on in threads; these, and all that they start, run on the CPUs that the scenario gives the guest.
"""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psutil
from pydantic import JsonValue

from stealtime.campaigns.beside import placement_record
from stealtime.campaigns.planner import PlannedBoot, PlannedCell
from stealtime.campaigns.trial import Measured
from stealtime.lab.platforms.qemu_flavour import FLAVOURS
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.scenarios.placement import Placement
from stealtime.protect.laboratory import Laboratory
from stealtime.protect.stand import HOSTS, Stand
from stealtime.store.model import TrialRecord
from stealtime.store.results import Result
from stealtime.studies.telephony.place.guest import GuestPlace, NotProtectedError
from stealtime.studies.telephony.place.native import NativePlace
from stealtime.studies.telephony.place.replicated import STORE_HOST, ReplicatedPlace
from stealtime.studies.telephony.sipp.program import find_sipp, widen_ports
from stealtime.studies.telephony.trials import TRIALS, AnyPlace, Server
from stealtime.vocabulary.errors import StealtimeError

_TRIES = 3
"""A guest that has just lost its standby, as on a crowded host, is not the one that was to be measured."""
_LOG = "agent.log"
_SERVER_PARAMETERS = ("mode", "interval_ns", "placement")


@asynccontextmanager
async def telephony_stage(boot: PlannedBoot, placement: Placement, folder: Path) -> AsyncIterator["TelephonyStage"]:
    """Set up the hosts and their networks; see ``campaigns.probe.Stage``."""
    find_sipp()
    accelerator = None
    if not traits_of(boot.platform).is_native:
        accelerator = next(
            (one.accelerator for one in FLAVOURS if (one.name, one.style) == (boot.platform, "paravirt")), None
        )
        if accelerator is None:
            raise StealtimeError(
                f"a SIP server is not to be had as {boot.platform}", hint="choose the platforms `native` and `paravirt`"
            )
    cpus = {cpu for cpus in (*placement.vcpu_cpus, placement.emulator_cpus) for cpu in cpus}
    laboratory = Laboratory((*HOSTS, STORE_HOST))
    await asyncio.to_thread(laboratory.__enter__)
    try:
        stage = TelephonyStage(boot, placement, folder, laboratory, accelerator, cpus)
        await asyncio.to_thread(stage.open)
        yield stage
    finally:
        await asyncio.to_thread(laboratory.__exit__, None, None, None)


class TelephonyStage:
    """The networks, and a server as the last cell wanted it."""

    def __init__(
        self,
        boot: PlannedBoot,
        placement: Placement,
        folder: Path,
        laboratory: Laboratory,
        accelerator: str | None,
        cpus: set[int],
    ) -> None:
        self._boot = boot
        self._placement = placement
        self._log = folder / _LOG
        self._laboratory = laboratory
        self._accelerator = accelerator
        self._cpus = cpus
        self._stand: Stand | None = None
        self._place: AnyPlace | None = None
        self._wanted: dict[str, JsonValue] = {}
        self._serial = 0
        self._saturation: dict[str, float] = {}

    def open(self) -> None:
        """Give the client its ports, and have both hosts receive machines where there are guests."""
        with _on(self._cpus):
            widen_ports(self._laboratory)
            if self._accelerator is not None:
                self._stand = Stand(self._laboratory)

    async def measure(self, cell: PlannedCell) -> Measured:
        """Carry out one trial; see ``campaigns.executor.Booted``."""
        return await asyncio.to_thread(self._measure, cell)

    async def is_alive(self) -> bool:
        """The networks stand; a server with which a trial failed was given up."""
        return True

    def end(self) -> str | None:
        """Nothing is known to have ended."""
        return None

    def _measure(self, cell: PlannedCell) -> Measured:
        started_at, begin = datetime.now(UTC), time.monotonic()
        with _on(self._cpus):
            try:
                result = self._carry_out(cell)
            except (StealtimeError, subprocess.TimeoutExpired, psutil.Error, OSError) as error:
                self._log.write_text(self._last_words())
                self._give_up()
                if isinstance(error, StealtimeError):
                    raise
                raise StealtimeError(f"{type(error).__name__}: {error}") from error
        record = TrialRecord(
            cell=cell.cell,
            repetition=cell.repetition,
            host=self._boot.host,
            state="measured",
            started_at=started_at,
            elapsed_s=time.monotonic() - begin,
            result=result,
            placement=placement_record(self._placement),
        )
        return Measured(record, None)

    def _carry_out(self, cell: PlannedCell) -> Result:
        carry_out = TRIALS[cell.cell.probe]
        lapses = 0
        while True:
            try:
                with self._folder() as folder:
                    result = carry_out(self._server(cell.cell.parameters), cell, folder)
                return result.model_copy(update={"lapses": lapses})
            except NotProtectedError:
                lapses += 1
                if lapses == _TRIES:
                    raise
                self._give_up()

    def _server(self, parameters: Mapping[str, JsonValue]) -> Server:
        """Give a server that answers, begun anew if the last cell wanted another one."""
        wanted = {name: parameters[name] for name in _SERVER_PARAMETERS if name in parameters}
        if self._place is not None and wanted != self._wanted:
            self._give_up()
        if self._place is None:
            self._serial += 1
            self._place, self._wanted = self._new_place(wanted), wanted
            self._place.start()
        self._place.await_ready()
        return Server(self._place, self._saturation)

    def _new_place(self, wanted: Mapping[str, JsonValue]) -> AnyPlace:
        if self._stand is None or self._accelerator is None:
            return NativePlace(self._laboratory)
        # The register remembers the last one of a name.
        if wanted["mode"] == "replicated":
            return ReplicatedPlace.of_parameters(self._stand, f"sip{self._serial}", wanted, self._accelerator)
        return GuestPlace.of_parameters(self._stand, f"sip{self._serial}", wanted, self._accelerator)

    def _give_up(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            place.stop()

    def _last_words(self) -> str:
        if self._place is not None:
            return self._place.last_words()
        return "" if self._stand is None else self._stand.last_words()

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


@contextmanager
def _on(cpus: set[int]) -> Iterator[None]:
    """Let this thread, and what it starts, run on other CPUs than the control plane is kept on."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
