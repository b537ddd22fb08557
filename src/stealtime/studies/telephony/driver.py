"""Drives the scenario ``telephony``: hosts in namespaces or real ones, a server as a cell wants it, and its phones."""

import asyncio
import itertools
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stealtime.campaigns.blocking_driver import entered_in_thread, in_thread_on
from stealtime.campaigns.driven_result import DrivenResult
from stealtime.campaigns.planned import PlannedBoot, PlannedCell
from stealtime.hosts.client import AtAddress, Client, LaboratoryClient
from stealtime.hosts.guest import ProtectionLostError
from stealtime.hosts.host_side import HostSide
from stealtime.hosts.laboratory import Laboratory, refuse_without_root
from stealtime.hosts.lent_testbed import LentTestbed, lent_testbed, refuse_foreign
from stealtime.hosts.members_here import HostProcess
from stealtime.hosts.namespace_testbed import ALL_HOSTS, HOSTS, NamespaceTestbed
from stealtime.hosts.reusing_driver import ReusingDriver
from stealtime.hosts.setting_up import accelerator_of, refuse_testbed
from stealtime.hosts.testbed import Testbed
from stealtime.lab.platforms.cgroup import cpu_group, refuse_without_groups
from stealtime.lab.platforms.share import Share
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.scenarios.placement import Placement
from stealtime.lab.scenarios.real_hosts import RealHosts
from stealtime.studies.telephony.appliance.image import Size
from stealtime.studies.telephony.calls.results import Calls
from stealtime.studies.telephony.calls.sweep import Sweep
from stealtime.studies.telephony.loads import CallParameters
from stealtime.studies.telephony.parameters import DEFAULT_ADVERTISEMENT_NS, ServerParameters
from stealtime.studies.telephony.place.appliances import AppliancesPlace
from stealtime.studies.telephony.place.fronts import FIRST_STAGE_NODES, Fronts, laboratory_fronts
from stealtime.studies.telephony.place.guest import CheckpointIntervals, GuestPlace
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.place.native import NativePlace
from stealtime.studies.telephony.place.replicated import STORE_HOST, ReplicatedPlace, store_node
from stealtime.studies.telephony.place.separate_hosts import SeparateHostsPlace
from stealtime.studies.telephony.place.two_stage import TwoStagePlace, standby_numbers
from stealtime.studies.telephony.registrations.enrolment import Enrolment
from stealtime.studies.telephony.sipp.program import find_sipp, widen_ports
from stealtime.studies.telephony.trials import TRIALS, Borne, Saturated, Server, find_saturation, unknown_saturation
from stealtime.vocabulary.errors import AS_ROOT_HINT, StealtimeError, UsageError

NewPlace = Callable[[int, ServerParameters], Place]


@dataclass(frozen=True)
class Stage:
    """What servers of a boot stand on."""

    new_place: NewPlace
    """Gives a place for another server, with a number that none had before; it is not started."""
    host_processes: Callable[[], Sequence[HostProcess]] = tuple
    """Gives those of the hosts, where they are on this machine."""


class ServerDriver(ReusingDriver[Place, ServerParameters]):
    """A server as the last cell wanted it.

    Args:
        boot: Whose cells are carried out.
        placement: Of the scenario.
        logs: The folder for logs, until they are stored.
        folder: For the files of trials.
        stage: What servers stand on.
    """

    def __init__(self, boot: PlannedBoot, placement: Placement, logs: Path, folder: Path, stage: Stage) -> None:
        super().__init__(boot, placement, logs)
        self._folder = folder
        self._stage = stage
        self._enrolment: Enrolment | None = None
        """Of the server that is kept."""
        self._trials = itertools.count(1)
        self._saturation: dict[Saturated, Borne] = {}
        self._sweep = Sweep()

    def carry_out(self, cell: PlannedCell) -> DrivenResult:
        with self._trial_folder() as folder:
            saturated = unknown_saturation(cell.cell, self._saturation)
            if saturated is not None:
                # Also where the cells without protection are not of this run, or were measured before it was resumed.
                find_saturation(self._server(ServerParameters(mode="off"), folder), saturated, cell.cell, folder)
            calls = CallParameters.of(cell.cell) if cell.cell.probe == "call" else None
            if calls is not None:
                self._sweep.refuse(calls)
            wanted = ServerParameters.of(cell.cell)
            server = self._server(wanted, folder)
            trial = partial(TRIALS[cell.cell.probe], server, cell, folder)
            result = trial() if wanted.host_weight is None else asyncio.run(self._weighed(wanted.host_weight, trial))
            if calls is not None and isinstance(result, Calls):
                self._sweep.note(calls, result)
            return result

    def make(self, serial: int, wanted: ServerParameters) -> Place:
        place = self._stage.new_place(serial, wanted)
        self._enrolment = Enrolment(place, wanted.registered)
        return place

    def begin(self, kept: Place) -> None:
        kept.start()

    def stop_kept(self, kept: Place) -> None:
        kept.stop()

    def before_retry(self, error: StealtimeError) -> None:
        """Take the same server once more, which gets another standby, unless it does not run any more: a boot takes
        longer than a copy of its memory, and longer still to register its users anew."""
        if not isinstance(error, ProtectionLostError):
            self.give_up()

    def log_tail(self) -> str:
        return "" if self.kept is None else self.kept.log_tail()

    def _server(self, wanted: ServerParameters, folder: Path) -> Server:
        place = self.kept_for(wanted)
        place.await_ready()
        if self._enrolment is not None:
            self._enrolment.see_to(folder)
        return Server(place, self._saturation)

    async def _weighed(self, weight: int, trial: Callable[[], DrivenResult]) -> DrivenResult:
        """Carry out a trial, which blocks, with the host side in a group of its own.

        The group is there for the trial alone: a folder of groups has the weight of all that are in it.
        """
        async with cpu_group(f"host-side-{weight}", Share(weight=weight)) as group:
            side = HostSide.of(group)
            side.take(self._stage.host_processes())
            try:
                return trial().model_copy(update={"weighed": side.held})
            finally:
                side.release()

    @contextmanager
    def _trial_folder(self) -> Iterator[Path]:
        folder = self._folder / f"trial-{next(self._trials)}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def refuse(boot: PlannedBoot, placement: Placement) -> None:
    """See that the hosts and their networks can be set up, without doing so; see ``campaigns.probe.Driver``.

    Raises:
        StealtimeError: The platform has no server, or rights or programs are missing.
    """
    find_sipp()
    if weights := _host_weights(boot):
        if placement.hosts is not None:
            raise UsageError(
                f"host_weight = {weights[0]} is not to be had on hosts over ssh, whose CPU groups are their own",
                hint="leave it out, or measure it in the scenario `telephony`",
            )
        refuse_without_groups()
    if placement.hosts is not None:
        refuse_few_hosts([ServerParameters.of(planned.cell) for planned in boot.cells], placement.hosts)
    else:
        if _accelerator_of(boot.platform) is None:
            refuse_without_root()
        else:
            refuse_testbed()


def refuse_few_hosts(servers: Iterable[ServerParameters], terms: RealHosts) -> None:
    """See that a scenario names as many hosts as the servers of its cells need.

    Raises:
        UsageError: It does not.
    """
    most = max(servers, key=lambda one: one.hosts_needed, default=None)
    # The platform, and its standby.
    named = 2 + len(terms.more_hosts)
    if most is not None and most.hosts_needed > named:
        what = f"{most.primaries} primaries" if most.primaries is not None else f"the roles {most.roles!r}"
        raise UsageError(
            f"{what} need {most.hosts_needed} hosts, and the scenario names {named}",
            hint="name others as `more_hosts` under [define.hosts]",
        )


@asynccontextmanager
async def set_up(boot: PlannedBoot, placement: Placement, folder: Path) -> AsyncIterator[ServerDriver]:
    """Set up the hosts and their networks, or borrow those of the scenario; see ``campaigns.probe.Driver``."""
    find_sipp()
    if placement.hosts is not None:
        async with lent_testbed(boot.platform, placement.hosts, folder) as lent:
            # Phones, and the store of replicated servers, are on this machine.
            stage = Stage(_places_on(lent, lambda: _fronts_here(lent), lambda: lent.client))
            yield ServerDriver(boot, placement, folder, lent.folder, stage)
        return
    accelerator = _accelerator_of(boot.platform)
    async with entered_in_thread(_laboratory(boot)) as laboratory:
        stage = await in_thread_on(placement, lambda: _stage_in(laboratory, accelerator))
        yield ServerDriver(boot, placement, folder, laboratory.folder, stage)


def _host_weights(boot: PlannedBoot) -> list[int]:
    weights = {ServerParameters.of(planned.cell).host_weight for planned in boot.cells}
    return sorted(weight for weight in weights if weight is not None)


def _stage_in(laboratory: Laboratory, accelerator: str | None) -> Stage:
    """Give the client its ports, and have hosts receive machines where there are guests."""
    widen_ports(LaboratoryClient(laboratory))
    if accelerator is None:
        return Stage(lambda _serial, _wanted: NativePlace(laboratory))
    testbed = NamespaceTestbed(laboratory, accelerator=accelerator)
    new_place = _places_on(
        testbed, lambda: laboratory_fronts(laboratory, testbed.client), lambda: store_node(laboratory, testbed)
    )
    return Stage(new_place, testbed.processes)


def _places_on(testbed: Testbed, new_fronts: Callable[[], Fronts], new_store: Callable[[], Client]) -> NewPlace:
    """Have servers on hosts.

    Args:
        testbed: Those hosts.
        new_fronts: Gives the first stage of two.
        new_store: Gives where replicated servers store their calls.
    """

    def new_place(serial: int, wanted: ServerParameters) -> Place:
        # The register remembers the last one of a name.
        name, intervals = f"sip{serial}", CheckpointIntervals(wanted.interval_ns, wanted.min_interval_ns)
        size = Size(cpus=wanted.cpus, registered=wanted.registered)
        if wanted.primaries is not None:
            # The last one is still to be added.
            first = wanted.primaries - 1
            return TwoStagePlace(
                testbed,
                new_fronts(),
                name,
                wanted.mode,
                primaries=first,
                standbys=standby_numbers(wanted.primaries, wanted.standbys),
                vcpus=wanted.cpus,
                **intervals.described(wanted.mode),
            )
        if wanted.mode == "replicated":
            advertisement_ns = wanted.interval_ns or DEFAULT_ADVERTISEMENT_NS
            return ReplicatedPlace(testbed, name, advertisement_ns=advertisement_ns, store=new_store(), size=size)
        if wanted.roles == "hosts":
            return SeparateHostsPlace(testbed, name, wanted.mode, intervals=intervals, size=size)
        if wanted.appliances > 1:
            return AppliancesPlace(
                testbed, name, wanted.mode, appliances=wanted.appliances, intervals=intervals, size=size
            )
        return GuestPlace(testbed, name, wanted.mode, intervals=intervals, roles=wanted.roles, size=size)

    return new_place


def _fronts_here(lent: LentTestbed) -> Fronts:
    """Have the first stage on this machine, where the phones are.

    Raises:
        UsageError: The scenario names no addresses for it, or not those of this machine.
        StealtimeError: We are not root.
    """
    terms = lent.terms
    if terms.fronts is None or terms.name_server is None:
        raise UsageError(
            "two stages need addresses of this machine for their first one",
            hint="name them as `fronts` and `name_server` under [define.hosts]",
        )
    if os.geteuid() != 0:
        raise StealtimeError("the first of two stages runs below chroot, which needs root", hint=AS_ROOT_HINT)
    addresses = (*terms.fronts, terms.name_server)
    for address in addresses:
        refuse_foreign(address)
    nodes = {name: AtAddress(lent.client, address) for name, address in zip(FIRST_STAGE_NODES, addresses, strict=True)}
    return Fronts(nodes, lent.folder, lent.client)


def _accelerator_of(platform: str) -> str | None:
    """Give the accelerator of a server's guest; None where it runs natively."""
    if traits_of(platform).is_native:
        return None
    return accelerator_of(platform, "a SIP server", "the platforms `native` and `paravirt`")


def _laboratory(boot: PlannedBoot) -> Laboratory:
    """Give the networks for the cells of a boot; those of one stage are smaller."""
    hosts: tuple[str, ...] = (*HOSTS, STORE_HOST)
    servers = [ServerParameters.of(planned.cell) for planned in boot.cells]
    if all(one.primaries is None for one in servers):
        return Laboratory(hosts)
    needed = ALL_HOSTS[: max(one.hosts_needed for one in servers)]
    return Laboratory(tuple(dict.fromkeys((*hosts, *needed))), FIRST_STAGE_NODES)
