"""From a campaign to a finished run: the checks before it, its writer, and the clean-up after it.

Nothing here measures; :mod:`stealtime.campaigns.runner` does.
"""

import asyncio
import os
import shlex
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stealtime.campaigns.aliases import wanted_platforms
from stealtime.campaigns.estimate import Estimate, estimate, read_history
from stealtime.campaigns.events import Observer, RunStarted
from stealtime.campaigns.executor import LocalExecutor
from stealtime.campaigns.intention import Intention
from stealtime.campaigns.loops import earlier_loops, loops_of
from stealtime.campaigns.model import Campaign
from stealtime.campaigns.moment import OnHit
from stealtime.campaigns.overrides import refuse_difference
from stealtime.campaigns.places import HostCpus
from stealtime.campaigns.planner import Plan, plan
from stealtime.campaigns.preflight import check_before_start
from stealtime.campaigns.provenance import OtherMakerError, machines_of, read_provenance, refuse_other_maker
from stealtime.campaigns.runner import Runner, Tally
from stealtime.campaigns.sharding import plan_of_shard
from stealtime.campaigns.trial_setup import placement_record
from stealtime.lab.host import LocalHost, pin_control_plane
from stealtime.lab.platforms.model import Availability, Platform
from stealtime.lab.platforms.traits import NATIVE
from stealtime.lab.scenarios.cpu_claims import CpuClaims
from stealtime.store.identity import read_identity
from stealtime.store.model import LoopRecord, MachineRecord, Manifest, PlatformRecord, Provenance, ScenarioRecord
from stealtime.store.run import Run, default_runs_folder, moment_to_take_up
from stealtime.store.spread import Shard, Spread
from stealtime.store.writer import DiskError, RunWriter, new_run_id
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.findings import Finding


@dataclass(frozen=True)
class Order:
    """What the user asked for."""

    campaign: Campaign
    runs_folder: Path
    command_line: tuple[str, ...]
    measured_cpu: int | None = None
    resume: Run | None = None
    named_scenarios: tuple[str, ...] = ()
    """Scenarios that stand on the command line, and not only in the campaign."""
    is_kernel_named: bool = False
    """Whether the kernel stands there."""
    loop_of: Run | None = None
    """Measure with the busy loop of this run."""
    host: LocalHost = field(default_factory=LocalHost)
    """Where."""
    on_hit: OnHit | None = None
    """Is called for each trial with a sample over the threshold of the campaign's ``on_threshold``."""
    spread: Spread | None = None
    """How the campaign is spread over hosts, and which part of it this is."""


@dataclass(frozen=True)
class Prepared:
    """A plan, and what was found out to make it."""

    plan: Plan
    estimate: Estimate
    records: tuple[PlatformRecord, ...]
    platforms: Mapping[str, Platform]
    already_there: int
    """Cells that a resumed run has already."""
    named_scenarios: tuple[str, ...] = ()
    """As in the order."""
    loops: tuple[LoopRecord, ...] = ()
    """Those of the run that the order names; the others are calibrated."""
    remarks: tuple[str, ...] = ()
    """What the checks before the start found that does not prevent it, in sentences."""

    @property
    def skipped_by_name(self) -> list[str]:
        """Give a sentence for each platform and scenario that was asked for by name and cannot be had."""
        platforms = [
            f"{record.name} was asked for and cannot be used: {record.reason}" for record in self.plan.skipped_by_name
        ]
        scenarios = [
            f"the scenario {one.name} was asked for and is not possible here: {one.reason}"
            for one in self.plan.skipped_scenarios
            if one.name in self.named_scenarios
        ]
        return [*platforms, *scenarios, *self.plan.unplaced]


@dataclass(frozen=True)
class Beforehand:
    """What was done between the plan and the measuring."""

    claims: CpuClaims | None = None
    """They are told the run's id."""
    findings: tuple[Finding, ...] = ()
    """About the host, as it was found."""


@dataclass(frozen=True)
class Finished:
    """A run that came to its end."""

    folder: Path
    plan: Plan
    tally: Tally
    stopped: DiskError | None = None
    """Why it came to its end early, or without its last notes in the manifest; what is whole counts all the same."""


class InterruptedRunError(StealtimeError):
    """A run was ended from outside; what was measured until then is kept."""


async def prepare(order: Order) -> Prepared:
    """Check the platforms, lay out the plan and make all checks before the start; no run is written.

    Raises:
        UsageError: The campaign names a platform or CPU that there is not, or differs from the run's that is resumed;
            or the loop that was asked for is not to be had.
        StealtimeError: No platform can be used, or no scenario can be had, or a check of ``campaigns.preflight`` knows
            that something would fail later.
    """
    if order.resume is not None and order.loop_of is not None:
        raise UsageError(
            f"{order.resume.run_id} has its loop already, and --loop-of {order.loop_of.run_id} is another",
            hint="leave --loop-of out, or begin a new run without --resume",
        )
    if order.resume is not None:
        # What an older stealtime wrote lacks the newer keys; their defaults are what it did.
        begun = Campaign.model_validate(order.resume.manifest.campaign)
        refuse_difference(begun.document(), order.campaign.document())
    host = order.host
    everything = host.platforms()
    names = wanted_platforms(order.campaign.platforms, list(everything))
    platforms = {name: everything.get(name) or host.platform(name) for name in names}
    answers = await _check(platforms)
    records = [
        PlatformRecord(name=name, usable=answer.usable, reason=answer.reason, hint=answer.hint)
        for name, answer in answers.items()
    ]
    planned = plan(
        order.campaign,
        records,
        HostCpus(host.cpus, order.measured_cpu, host.name, host.cpu_sets),
        {name: answer.cpus for name, answer in answers.items() if answer.cpus is not None},
    )
    if isinstance(order.spread, Shard):
        planned = plan_of_shard(planned, order.spread)
    done: set[str] = set()
    if order.resume is not None:
        done = {trial.record.trial_id for trial in order.resume.whole}
    left = planned.without(done)
    already_there = len(planned.cells) - len(left.cells)
    loops = [] if order.loop_of is None else loops_of(order.loop_of, planned.loops_ns)
    if NATIVE not in platforms:
        # The busy loop is calibrated natively, whatever is measured.
        platforms[NATIVE] = everything[NATIVE]
    intention = Intention(left, platforms, host, order.runs_folder, order.is_kernel_named, order.resume)
    remarks = await check_before_start(intention)
    return Prepared(
        left,
        estimate(left, read_history(order.runs_folder)),
        tuple(records),
        platforms,
        already_there,
        order.named_scenarios,
        tuple(loops),
        remarks,
    )


async def execute(
    order: Order, prepared: Prepared, observer: Observer, beforehand: Beforehand = Beforehand()
) -> Finished:
    """Measure what was planned.

    An interruption (Ctrl-C, SIGTERM, SIGHUP) ends all machines and leaves the run with what is whole.

    Raises:
        DiskError: The run cannot be written, and nothing was measured.
        UsageError: Another process writes the run, or something else measured it so far.
        InterruptedRunError: Interrupted; the hint names the run.
    """
    own_cpus = tuple(os.sched_getaffinity(0))
    placement = prepared.plan.places.own
    # Before the host is looked at: what a killed run has left changed is not how it is measured.
    host = order.host
    await host.put_right()
    facts = await asyncio.to_thread(host.read_facts, placement.measured_cpu)
    now = await asyncio.to_thread(read_provenance, order.command_line, {host.name: facts})
    machines: dict[str, MachineRecord] = {}
    if order.resume is not None:
        refuse_other_maker(order.resume, now)
        machines = machines_of(order.resume)
        writer = RunWriter.reopen(order.resume)
        writer.update(
            platforms=list(prepared.records),
            provenance=[*writer.manifest.provenance, now],
            taken_up_at=moment_to_take_up(writer.folder.parent, now.at),
        )
    else:
        writer = RunWriter.create(order.runs_folder, _manifest(order, prepared, now))
    way_on = f"`stealtime run --resume {writer.manifest.run_id}{elsewhere(order.runs_folder)}`"
    stopped: DiskError | None = None
    if beforehand.claims is not None:
        beforehand.claims.tell(writer.manifest.run_id)
    try:
        with _cancelled_by_signals():
            threads = pin_control_plane(prepared.plan.housekeeping_cpus)
            writer.update(host_threads=threads, findings=list(beforehand.findings))
            observer.on_event(RunStarted(prepared.plan, prepared.estimate.total_s, writer.folder))
            executor = LocalExecutor(
                prepared.plan,
                prepared.platforms,
                observer,
                writer.manifest.run_id,
                host,
                earlier_loops(order.runs_folder),
                machines,
            )
            runner = Runner(prepared.plan, {host.name: executor}, writer, observer, order.on_hit)
            try:
                await runner.run()
            except DiskError as error:
                if not runner.tally.has_figures:
                    raise
                stopped = DiskError(error.message, hint=f"free some space, then go on with {way_on}")
            except OtherMakerError:
                # Who measured nothing is none of those who made the run.
                if not runner.tally.has_figures:
                    writer.update(provenance=writer.manifest.provenance[:-1])
                raise
            known = writer.manifest.hosts
            try:
                writer.update(hosts=known | {host.name: known.get(host.name, facts) | {"load_after": host.read_load()}})
            except DiskError as error:
                stopped = stopped or error
    except asyncio.CancelledError:
        raise InterruptedRunError("interrupted; what was measured is kept", hint=f"continue with {way_on}") from None
    finally:
        # The statistics of what was measured may use every CPU again.
        pin_control_plane(own_cpus)
        writer.close()
    return Finished(writer.folder, prepared.plan, runner.tally, stopped)


def elsewhere(runs_folder: Path) -> str:
    """Give the option that a command needs to find the runs there; nothing where it looks by itself."""
    return "" if runs_folder == default_runs_folder() else f" --runs {shlex.quote(str(runs_folder))}"


async def _check(platforms: Mapping[str, Platform]) -> dict[str, Availability]:
    """Check all platforms at once; most of it is waiting."""
    answers = await asyncio.gather(*(platform.check() for platform in platforms.values()))
    return dict(zip(platforms, answers, strict=True))


def _manifest(order: Order, prepared: Prepared, now: Provenance) -> Manifest:
    return Manifest(
        run_id=new_run_id(now.at.strftime("%Y%m%dT%H%M%SZ"), order.campaign.name),
        created_at=now.at,
        taken_up_at=moment_to_take_up(order.runs_folder, now.at),
        command_line=now.command_line,
        stealtime_version=now.stealtime_version,
        git_describe=now.git_describe,
        provenance=[now],
        campaign=order.campaign.document(),
        hosts={name: {**facts, "load_before": order.host.read_load()} for name, facts in now.hosts.items()},
        platforms=list(prepared.records),
        aliases=dict(prepared.plan.aliases),
        scenarios=_scenario_records(prepared.plan),
        planned=list({one.cell.name: one.cell for one in prepared.plan.cells}.values()),
        repetitions=order.campaign.repetitions,
        unobtainable=prepared.skipped_by_name,
        loops=list(prepared.loops),
        seed=order.campaign.seed,
        identity=read_identity(os.environ),
        spread=order.spread,
    )


def _scenario_records(planned: Plan) -> list[ScenarioRecord]:
    skipped = {one.name: one for one in planned.skipped_scenarios}
    records = []
    for name in planned.campaign.scenarios:
        placed = (planned.places.of(boot.platform, name) for boot in planned.boots if boot.scenario == name)
        placement, why = planned.places.here.get(name) or next(placed, None), skipped.get(name)
        records.append(
            ScenarioRecord(
                name=name,
                description=planned.campaign.scenario(name).description,
                placement=None if placement is None else placement_record(placement),
                skipped=None if why is None else why.reason,
                hint=None if why is None else why.hint,
            )
        )
    return records


@contextmanager
def _cancelled_by_signals() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP cancel, each time that one comes.

    asyncio by itself cancels at the first Ctrl-C only: the second breaks off whatever runs, and what is said after that
    is a traceback. Who has had a signal ignored (``nohup``, a shell for what it starts in the background) wants it so.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    before = {number: handler for number in signals if (handler := signal.getsignal(number)) is not signal.SIG_IGN}
    if task is None:
        raise RuntimeError("a run needs a task that can be cancelled")
    for number in before:
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
