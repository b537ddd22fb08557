"""The stage ``telephony``: two hosts, a server as the last cell wanted it, natively or in guests, and its phones."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import JsonValue

from stealtime.campaigns.blocking_stage import entered_in_thread
from stealtime.campaigns.planned import PlannedBoot
from stealtime.hosts.laboratory import Laboratory, refuse_without_root
from stealtime.hosts.stand import HOSTS, Stand
from stealtime.lab.platforms.qemu_flavour import paravirtual_accelerator
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.scenarios.placement import Placement
from stealtime.protect.programs import find_pagetrack, find_replicator
from stealtime.studies.telephony.client import LaboratoryClient
from stealtime.studies.telephony.place.fronts import FIRST_STAGE_NODES
from stealtime.studies.telephony.place.guest import GuestPlace
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.place.native import NativePlace
from stealtime.studies.telephony.place.replicated import STORE_HOST, ReplicatedPlace
from stealtime.studies.telephony.place.two_stage import PRIMARY_HOSTS, TwoStagePlace
from stealtime.studies.telephony.server_stage import ServerStage
from stealtime.studies.telephony.sipp.program import find_sipp, widen_ports
from stealtime.vocabulary.errors import StealtimeError


def refuse(boot: PlannedBoot, placement: Placement) -> None:
    """See that the hosts and their networks can be set up, without doing so; see ``campaigns.probe.Stage``.

    Raises:
        StealtimeError: The platform has no server, or rights or programs are missing.
    """
    find_sipp()
    if placement.hosts is None:
        is_native = _accelerator_of(boot.platform) is None
        refuse_without_root()
        if not is_native:
            find_replicator()
            find_pagetrack()


@asynccontextmanager
async def telephony_stage(boot: PlannedBoot, placement: Placement, folder: Path) -> AsyncIterator[ServerStage]:
    """Set up the hosts and their networks, or borrow those of the scenario; see ``campaigns.probe.Stage``."""
    find_sipp()
    if placement.hosts is not None:
        from stealtime.studies.telephony.remote_stage import remote_stage

        async with remote_stage(boot, placement, placement.hosts, folder) as remote:
            yield remote
        return
    accelerator = _accelerator_of(boot.platform)
    async with entered_in_thread(_laboratory(boot)) as laboratory:
        stage = TelephonyStage(boot, placement, folder, laboratory, accelerator)
        await asyncio.to_thread(stage.open)
        yield stage


def _accelerator_of(platform: str) -> str | None:
    """Give the accelerator of a server's guest; None where it runs natively."""
    if traits_of(platform).is_native:
        return None
    accelerator = paravirtual_accelerator(platform)
    if accelerator is None:
        raise StealtimeError(
            f"a SIP server is not to be had as {platform}", hint="choose the platforms `native` and `paravirt`"
        )
    return accelerator


def _laboratory(boot: PlannedBoot) -> Laboratory:
    """Give the networks for the cells of a boot; those of one stage are smaller."""
    hosts: tuple[str, ...] = (*HOSTS, STORE_HOST)
    if not any("primaries" in planned.cell.parameters for planned in boot.cells):
        return Laboratory(hosts)
    return Laboratory(tuple(dict.fromkeys((*hosts, *PRIMARY_HOSTS))), FIRST_STAGE_NODES)


class TelephonyStage(ServerStage):
    """The networks, and a server as the last cell wanted it."""

    def __init__(
        self, boot: PlannedBoot, placement: Placement, folder: Path, laboratory: Laboratory, accelerator: str | None
    ) -> None:
        super().__init__(boot, placement, folder, laboratory.folder)
        self._laboratory = laboratory
        self._accelerator = accelerator
        self._stand: Stand | None = None

    def open(self) -> None:
        """Give the client its ports, and have both hosts receive machines where there are guests."""
        with self.on_its_cpus():
            widen_ports(LaboratoryClient(self._laboratory))
            if self._accelerator is not None:
                self._stand = Stand(self._laboratory)

    def last_words(self) -> str:
        """Give the end of all logs."""
        return super().last_words() or ("" if self._stand is None else self._stand.last_words())

    def new_place(self, serial: int, wanted: Mapping[str, JsonValue]) -> Place:
        """Give a place for another server in the laboratory."""
        if self._stand is None or self._accelerator is None:
            return NativePlace(self._laboratory)
        # The register remembers the last one of a name.
        name = f"sip{serial}"
        if "primaries" in wanted:
            return TwoStagePlace.of_parameters(self._stand, name, wanted, self._accelerator)
        if wanted["mode"] == "replicated":
            return ReplicatedPlace.of_parameters(self._stand, name, wanted, self._accelerator)
        return GuestPlace.of_parameters(self._stand, name, wanted, self._accelerator)
