"""One trial on a booted machine: clocks, what goes on around it, the measuring, clocks again, and the record of it."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stealtime.campaigns.booted import KeepPart, Measured, TrialSetup
from stealtime.campaigns.disturbance import KnownDisturbance
from stealtime.campaigns.events import CellProgressed, Observer
from stealtime.campaigns.host_views import with_guest_steal
from stealtime.campaigns.hypervisor import HypervisorCounting
from stealtime.campaigns.moment import ThresholdRule, kept_bytes
from stealtime.campaigns.planned import PlannedCell
from stealtime.campaigns.probe import Companion, Probe
from stealtime.campaigns.registry import parameters_of, probes
from stealtime.campaigns.strangers import findings_of
from stealtime.campaigns.trial_setup import placement_record
from stealtime.campaigns.watching import watching
from stealtime.lab.platforms.host_clock import remembered_rate
from stealtime.lab.platforms.kvm_tsc import unchanged
from stealtime.lab.platforms.model import Machine
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.scenarios.neighbour_work import Work, cpus_to_use
from stealtime.store.durations import DURATIONS
from stealtime.store.model import Alignment, ClockAgreements, MachineRecord, TrialRecord
from stealtime.store.writer import Tables
from stealtime.vocabulary.clock_agreement import ClockAgreement, host_agreement, kernel_agreement
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.readings import Facts
from stealtime.wire.incoming import Listener
from stealtime.wire.message import (
    Checkpoint,
    Injection,
    Progress,
    RunTrial,
    StreamName,
    TraceRequest,
    WholeOutcome,
)
from stealtime.wire.results import without_result

_NOT_COMPARED = ClockAgreement(
    state="not checked", reason="the trial was cut short before its clock was compared with the host's again"
)


@dataclass(frozen=True)
class TrialSettings:
    """What all trials on one machine have in common."""

    priority: int
    lift_rt_throttling: bool
    iterations: Mapping[int, int]
    """Of the busy loop, by the length in ns that was asked for."""
    findings: tuple[Finding, ...]
    """About the placement; they are added to what the agent found."""
    spool: Path
    """Where the agent's tables are put until they are Parquet."""
    timeout_s: float
    """What a trial may take beyond its duration."""
    trace_buffer_bytes: int
    """For each CPU."""
    checkpoint_ns: int
    """A longer trial is kept in parts, one at least so often."""
    injection: KnownDisturbance | None = None
    """A known disturbance of every trial."""
    on_threshold: ThresholdRule | None = None
    """What to do at the first sample that is too long."""


@dataclass(frozen=True)
class Around:
    """A booted machine, what is up around it, and what all of its trials have in common."""

    machine: Machine
    setup: TrialSetup
    settings: TrialSettings


async def measure(around: Around, cell: PlannedCell, number: int, observer: Observer, keep: KeepPart) -> Measured:
    """Carry out one trial: the neighbours' loads run and the traces are on from before its start until after its end.

    A neighbour that dies meanwhile makes the trial invalid. A host that refuses to be traced limits it.

    Args:
        around: Idle.
        cell: What to measure.
        number: Of the trial, unique on this machine.
        observer: Receives the progress.
        keep: Awaited with each part, where the trial is longer than a checkpoint.

    Raises:
        StealtimeError: The agent refused, or the machine died or went silent, or a load could not be started.
    """
    machine, setup, settings = around.machine, around.setup, around.settings
    probe = probes()[cell.cell.probe]
    request = _request(machine, setup, cell, number, settings)
    deadline_s = cell.duration_ns / 1e9 + settings.timeout_s
    work = Work(request, uses_every_cpu=probe.uses_every_cpu, needs=probe.result.needs, deadline_s=deadline_s)

    def on_progress(progress: Progress) -> None:
        observer.on_event(CellProgressed(cell, progress.elapsed_ns, progress.samples, progress.max_ns))

    started_at, begin = datetime.now(UTC), time.monotonic()
    before, offset_before = await machine.connection.exchange_clocks(), machine.tsc_offset()

    def record_of(outcome: WholeOutcome, clocks: ClockAgreements, findings: Sequence[Finding]) -> TrialRecord:
        """Write down what is known at a checkpoint as at the end."""
        return TrialRecord(
            cell=cell.cell,
            repetition=cell.repetition,
            host=setup.host,
            state="measured",
            started_at=started_at,
            elapsed_s=time.monotonic() - begin,
            outcome=without_result(outcome, [*outcome.findings, *settings.findings, *findings]),
            result=probe.result.make(outcome),
            clocks=clocks,
            machine=describe(machine, outcome.clock.facts),
            placement=placement_record(setup.placement),
        )

    async def on_part(checkpoint: Checkpoint, tables: Mapping[StreamName, Path]) -> None:
        clocks = ClockAgreements(kernel=kernel_agreement(checkpoint.clock), host=_NOT_COMPARED)
        streams = {str(name): path for name, path in tables.items()}
        await keep(record_of(checkpoint, clocks, watched.findings), probe.result, streams)

    async with (
        watching(machine, setup, cell, work, settings.spool, settings.trace_buffer_bytes) as watched,
        _companion(probe, machine, setup, settings.spool) as companion,
    ):
        counting = await HypervisorCounting.begin(machine)

        async def on_measured() -> None:
            watched.measured()
            await counting.end()
            if watched.strangers is not None:
                watched.strangers.end()
            if companion is not None:
                await companion.end()

        result = await machine.connection.run_trial(
            request,
            settings.spool,
            deadline_s=deadline_s,
            listener=Listener(on_progress, on_measured, on_part),
            needs=work.needs,
        )
    after = await machine.connection.exchange_clocks()
    clock = result.outcome.clock
    is_host = traits_of(machine.platform).is_native
    clocks = ClockAgreements(
        kernel=kernel_agreement(clock),
        host=host_agreement(clock.name, clock.units_per_s, before, after, is_host=is_host),
    )
    strangers = None if watched.strangers is None else watched.strangers.record(result.outcome.counters)
    findings = [*watched.findings, *findings_of(strangers), *_host_clock(clocks.host, machine.platform)]
    record = record_of(result.outcome, clocks, findings).model_copy(
        update={
            "alignment": Alignment(
                before=before, after=after, tsc_offset=unchanged(offset_before, machine.tsc_offset())
            ),
            "neighbours": watched.neighbours,
            "host_tracing": watched.host_trace.outcome if watched.host_trace is not None else None,
            "host_views": watched.views and with_guest_steal(watched.views, machine.platform, result.outcome.counters),
            "hypervisor_counters": counting.record(),
            "strangers": strangers,
        }
    )
    tables = Tables(
        kind=probe.result,
        result={
            **{name: stream for name, stream in result.tables.items() if name != "trace"},
            **({} if companion is None else companion.tables),
        },
        host_trace=watched.host_trace.trace if watched.host_trace is not None else None,
        machine_trace=result.trace,
        neighbours=watched.neighbour_tables,
    )
    return Measured(record, tables)


@asynccontextmanager
async def _companion(
    probe: Probe, machine: Machine, setup: TrialSetup, folder: Path
) -> AsyncIterator[Companion | None]:
    """Let the probe's companion record, where it has one."""
    if probe.companion is None:
        yield None
        return
    async with probe.companion(machine, setup, folder) as companion:
        yield companion


def _request(machine: Machine, setup: TrialSetup, cell: PlannedCell, number: int, settings: TrialSettings) -> RunTrial:
    probe = probes()[cell.cell.probe]
    own_priority = setup.placement.priority
    rule = settings.on_threshold
    asked = None if rule is None or probe.result is not DURATIONS else rule.request
    tracing = None
    if cell.cell.traced and traits_of(machine.platform).has_own_kernel_trace:
        tracing = TraceRequest(
            buffer_bytes_per_cpu=settings.trace_buffer_bytes,
            hidden_threads=probe.hidden_threads,
            extra_groups=list(probe.extra_trace_groups),
            keep_bytes_per_cpu=kept_bytes(asked),
        )
    return RunTrial(
        trial=number,
        probe=parameters_of(cell.cell).request(settings.iterations, cell.repetition),
        cpus=cpus_to_use(machine, len(setup.placement.vcpu_cpus), uses_every_cpu=probe.uses_every_cpu),
        priority=settings.priority if own_priority is None else own_priority,
        duration_ns=cell.duration_ns,
        max_samples=cell.max_samples,
        # Rows of other kinds come at the end of a trial.
        checkpoint_ns=settings.checkpoint_ns if probe.result.comes_in_parts else None,
        lift_rt_throttling=settings.lift_rt_throttling,
        injection=_injection(settings.injection),
        tracing=tracing,
        on_threshold=asked,
    )


def _injection(wanted: KnownDisturbance | None) -> Injection | None:
    return None if wanted is None else Injection(every_ns=wanted.every_ns, steal_ns=wanted.steal_ns, exit=wanted.exit)


async def is_alive(machine: Machine) -> bool:
    if machine.exit_reason() is not None:
        return False
    try:
        await machine.connection.exchange_clocks(count=1)
    except StealtimeError:
        return False
    return True


def _host_clock(agreement: ClockAgreement, platform: str) -> list[Finding]:
    """Make a trial invalid whose clock disagreed with the host's."""
    if agreement.state != "disagreed":
        return []
    hint = "its serial log shows how its kernel determined the rate of the TSC"
    if traits_of(platform).is_told_host_rate:
        hint = f"the guest was given the host's rate: remove {remembered_rate()} to measure that again"
    return [
        Finding(
            code="host_clock_disagrees",
            level="invalidates",
            text=f"the machine's clock rate differs from the host's: its clock {agreement.reason}",
            hint=hint,
        )
    ]


def describe(machine: Machine, clock_facts: Facts) -> MachineRecord:
    """Write down what the machine is and who runs where, read back now.

    Args:
        machine: Still up.
        clock_facts: As its agent read them after the trial; at its hello the kernel may not have settled on a clock.
    """
    return MachineRecord(
        boot=machine.boot,
        measured_cpu=machine.measured_cpus[-1],
        agent_facts={**machine.agent_facts, **clock_facts},
        threads=machine.threads(),
    )
