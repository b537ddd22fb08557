"""The surroundings of a measured machine: its neighbours, and the agent that traces the host.

That agent's clocks are the host's: by its readings the neighbours' times are brought to the host's counter.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from stealtime.campaigns.booted import TrialSetup
from stealtime.campaigns.host_views import host_views, with_guest_steal
from stealtime.campaigns.planned import PlannedCell
from stealtime.lab.host import LocalHost
from stealtime.lab.platforms.model import MachineRequest, Platform
from stealtime.lab.platforms.share import Share
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.scenarios.neighbour_load import Loaded, load_request
from stealtime.lab.scenarios.neighbour_work import Worked
from stealtime.lab.scenarios.neighbours import Neighbour, NeighbourResult, neighbours
from stealtime.lab.scenarios.placement import SAME_WORK, Placement
from stealtime.store.model import (
    Alignment,
    NeighbourRecord,
    NeighbourWork,
    PlacementRecord,
    ShareRecord,
)
from stealtime.store.neighbour_table import SAME_COUNTER, CounterMap, NeighbourTable
from stealtime.store.result_kinds import ResultKind
from stealtime.vocabulary.alignment import Alignment as ClockAlignment
from stealtime.vocabulary.clock_agreement import host_agreement
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.findings import Finding
from stealtime.wire.message import TrialDone
from stealtime.wire.results import without_result

_SAME_RATE = 500e-6
"""Guests of QEMU read the host's counter less a constant, unless its rate is scaled: then by more than a guest may be
wrong about its rate."""

_MOVED = "cpu_changed"
"""The agent's finding of a load whose thread was put elsewhere (``crates/probe/src/load/staying.rs``)."""


class NeighbourError(StealtimeError):
    """A neighbour did not boot; the platform of the machine under test is not to blame."""


@asynccontextmanager
async def set_up_trials(
    host: LocalHost, placement: Placement, platform: Platform, request: MachineRequest, cells: Sequence[PlannedCell]
) -> AsyncIterator[TrialSetup]:
    """Boot what the trials on one machine need around it on the same host; leaving the context ends it.

    Raises:
        NeighbourError: A neighbour did not boot.
    """
    async with AsyncExitStack() as stack:
        try:
            around = await stack.enter_async_context(neighbours(placement, platform, request))
        except StealtimeError as error:
            raise NeighbourError(error.message, hint=error.hint) from error
        tracer = None
        if _needs_tracer(platform, placement, cells):
            own = request.folder / "tracer"
            await asyncio.to_thread(own.mkdir)
            tracer = await stack.enter_async_context(host.tracer(own, placement.housekeeping_cpus))
        yield TrialSetup(host.name, placement, around, tracer)


def placement_record(placement: Placement) -> PlacementRecord:
    """Write down who may run where."""
    return PlacementRecord(
        vcpu_cpus=[list(cpus) for cpus in placement.vcpu_cpus],
        emulator_cpus=list(placement.emulator_cpus),
        housekeeping_cpus=list(placement.housekeeping_cpus),
        share=_share_record(placement.share),
        scaled=placement.scaled,
    )


def neighbour_record(result: NeighbourResult, kind: ResultKind) -> NeighbourRecord:
    """Write down what a neighbour did.

    Args:
        result: Of one trial.
        kind: Of the trial's result, and so of a neighbour's that did the same.
    """
    did = result.did
    views = host_views(result.platform, result.delays, result.throttling)
    if isinstance(did, Worked):
        views = with_guest_steal(views, result.platform, did.done.counters)
    return NeighbourRecord(
        name=result.name,
        kind=result.kind,
        platform=result.platform,
        cpus=list(result.cpus),
        vcpus=result.vcpus,
        share=_share_record(result.share),
        load=did.load if isinstance(did, Loaded) else None,
        outcome=did.outcome if isinstance(did, Loaded) else None,
        work=_work_record(did.done, kind) if isinstance(did, Worked) else None,
        host_views=views,
        alignment=Alignment(before=result.before, after=result.after),
        threads=list(result.threads),
    )


def _work_record(done: TrialDone, kind: ResultKind) -> NeighbourWork:
    return NeighbourWork(
        outcome=without_result(done, done.findings), result=kind.make(done).model_copy(update={"tables": ()})
    )


def lost_neighbour_record(neighbour: Neighbour) -> NeighbourRecord:
    placed = neighbour.placed
    does_same = placed.load == SAME_WORK
    return NeighbourRecord(
        name=placed.name,
        kind=neighbour.kind,
        platform=neighbour.machine.platform,
        cpus=list(placed.cpus),
        vcpus=placed.vcpus,
        share=_share_record(placed.share),
        load=None if does_same else load_request(placed, neighbour.machine.measured_cpus),
    )


def neighbour_findings(result: NeighbourResult) -> list[Finding]:
    """Say what is wrong with what a neighbour did.

    Work that was not done by the end is no neighbour's share of the host, and a load that was put on another CPU took
    from that one. Where the clock's rate differs from the host's, the rate of a load and all times are in such seconds.
    """
    did, found = result.did, []
    if isinstance(did, Loaded):
        moved = [one for one in did.outcome.findings if one.code == _MOVED]
        found = [one.model_copy(update={"text": f"{result.name}: {one.text}"}) for one in moved]
    if isinstance(did, Worked):
        found = [
            Finding(code="neighbour_invalid", level="invalidates", text=f"{result.name}: {one.text}", hint=one.hint)
            for one in did.done.findings
            if one.level == "invalidates"
        ]
    tsc_hz = did.outcome.tsc_hz if isinstance(did, Loaded) else did.done.clock.tsc_hz
    is_host = traits_of(result.platform).is_native
    agreement = host_agreement("tsc", tsc_hz, result.before, result.after, is_host=is_host)
    if agreement.state == "disagreed":
        text = f"the rate of {result.name} is wrong: its clock {agreement.reason}"
        found.append(Finding(code="neighbour_clock_disagrees", level="limits", text=text))
    return found


def neighbour_table(
    result: NeighbourResult, before: ClockAlignment | None, after: ClockAlignment | None
) -> NeighbourTable | None:
    """Say how the rows of a neighbour's load come to the host's counter; None where it had no load.

    Args:
        result: Of one trial.
        before: The host's clocks before the trial, as the recording agent read them.
        after: The same after it.
    """
    did = result.did
    if not isinstance(did, Loaded):
        return None
    if traits_of(result.platform).shares_host_counter or before is None or after is None:
        return NeighbourTable(result.number, did.table, SAME_COUNTER)
    # Two readings of the host's clocks, each back to back, give its counter at any moment between them. The moment
    # that was the best exchange's with the neighbour is known as the host's CLOCK_MONOTONIC_RAW.
    host_hz = (after.machine_tsc - before.machine_tsc) * 1e9
    host_hz /= after.machine_monotonic_raw_ns - before.machine_monotonic_raw_ns
    best = min((result.before, result.after), key=lambda one: one.error_ns)
    since_s = (best.host_monotonic_raw_ns - before.machine_monotonic_raw_ns) / 1e9
    ratio = host_hz / did.outcome.tsc_hz
    if abs(ratio - 1) < _SAME_RATE:
        ratio = 1.0
    counter = CounterMap(best.machine_tsc, before.machine_tsc + round(since_s * host_hz), ratio)
    return NeighbourTable(result.number, did.table, counter)


def _needs_tracer(platform: Platform, placement: Placement, cells: Sequence[PlannedCell]) -> bool:
    if traits_of(platform.name).is_remote:
        return False  # the host that could be watched is not the one that matters
    if any(cell.cell.traced for cell in cells):
        return True
    guests = any(each.kind == "machine" and each.load != SAME_WORK for each in placement.neighbours)
    return guests and not traits_of(platform.name).shares_host_counter


def _share_record(share: Share | None) -> ShareRecord | None:
    return None if share is None else ShareRecord(quota_percent=share.quota_percent, weight=share.weight)
