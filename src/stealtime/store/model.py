"""The documents of a run: ``manifest.json`` and each cell's ``trial.json`` (``docs/run-format.md``)."""

import re
from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue, SerializeAsAny

from stealtime.lab.platforms.affinity import HostThread
from stealtime.lab.platforms.kvm_counters import CountersGained
from stealtime.lab.platforms.model import BootRecord
from stealtime.store.identity import HostIdentity
from stealtime.store.merged import MergedRecord, TrialOrigin
from stealtime.store.results import Result
from stealtime.store.spread import EachHost, Shard
from stealtime.store.strangers import StrangersRecord
from stealtime.vocabulary.alignment import Alignment as ClockAlignment
from stealtime.vocabulary.clock_agreement import ClockAgreement
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.quantities import word_of
from stealtime.vocabulary.readings import Absent, Facts, Model, Reading
from stealtime.wire.load import LoadOutcome, LoadRequest
from stealtime.wire.message import TracingOutcome, TrialOutcome

SCHEMA_VERSION = 5
"""Of ``manifest.json`` and ``trial.json``; rises when an older reader could misunderstand them. What older ones lack is
put in by ``store.upgrade``."""

_NOT_FOR_FILES = re.compile(r"[^A-Za-z0-9._@-]")


class Cell(Model):
    """What is measured, where and beside what; repetitions of it are the same cell."""

    platform: str
    scenario: str
    probe: str = Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")
    parameters: dict[str, JsonValue]
    """As the probe names them: ``loop_ns``, ``threads`` ..."""
    traced: bool = False
    """Whether host and machine were traced meanwhile, which costs something."""

    @property
    def name(self) -> str:
        """A name fit for a file: ``qemu-tcg-paravirt.alone.switch-1000``, with ``.traced`` behind it if it is."""
        return _NOT_FOR_FILES.sub("-", f"{self.platform}.{self.scenario}.{self.measurement}")

    @property
    def measurement(self) -> str:
        """What is measured, without where: ``switch-1000``, ``tick-68us.traced``.

        Tables and lists fit no name: a probe that has such a parameter has another that names it.
        """
        told = [(key, value) for key, value in sorted(self.parameters.items()) if not isinstance(value, list | dict)]
        name = "-".join([self.probe, *(word_of(key, value) for key, value in told)])
        return f"{name}.traced" if self.traced else name

    @property
    def untraced(self) -> "Cell":
        """The same cell measured without tracing: what a traced one is compared with."""
        return self.model_copy(update={"traced": False})

    def trial_id(self, repetition: int) -> str:
        """The name of the folder of one trial, e.g. ``uml.alone.wakeup-1ms.r2``."""
        return f"{self.name}.r{repetition}"


class Alignment(Model):
    """Host and machine under test on one time line, before and after a trial."""

    before: ClockAlignment
    after: ClockAlignment
    tsc_offset: Reading | None = None
    """The machine's time-stamp counter minus the host's in cycles, as its hypervisor says; None in older runs."""


class ClockAgreements(Model):
    """Whether the clock of the samples was right, and by what that is known."""

    kernel: ClockAgreement
    """The time-stamp counter beside the clock of the machine's kernel."""
    host: ClockAgreement
    """The clock of the samples beside the host's."""


class MachineRecord(Model):
    """The machine that a trial ran on."""

    boot: BootRecord
    measured_cpu: int
    """As the machine under test counts its CPUs."""
    agent_facts: Facts
    threads: list[HostThread]


class ShareRecord(Model):
    """How much of its CPUs a machine may use."""

    quota_percent: float | None = None
    """Of one CPU; None is no limit."""
    weight: int | None = None
    """Against others that want the same CPU, as cgroup v2 counts it: 100 is ordinary."""


class PlacementRecord(Model):
    """Which CPUs of the host a scenario gave to whom."""

    vcpu_cpus: list[list[int]]
    """The CPUs that each virtual CPU of the machine under test may run on; the last one is measured."""
    emulator_cpus: list[int]
    housekeeping_cpus: list[int]
    share: ShareRecord | None = None
    """Of the machine under test."""
    scaled: str | None = None
    """How "all" was scaled from the paper's four CPUs to those of this host."""


class ScenarioRecord(Model):
    """What became of a scenario on this host."""

    name: str
    description: str
    placement: PlacementRecord | None = None
    """None if it was skipped."""
    skipped: str | None = None
    """Why it cannot be honest here."""
    hint: str | None = None


class HostViews(Model):
    """The time that a machine could not run, as three instruments saw it over one trial."""

    run_delay_ns: Reading
    """Of its vCPU threads together: runnable, but not on a CPU (``/proc/PID/task/TID/schedstat``)."""
    host_steal_ns: Reading
    """That the host's own host took from the CPUs that it may use (``/proc/stat``)."""
    guest_steal_ns: Reading
    """That the guest's kernel knows of (its ``/proc/stat``)."""
    throttled_ns: Reading = Absent(absent="no CPU group of its own was made for the machine")
    """That the quota of the machine's share held its threads back (``cpu.stat``)."""
    run_ns: Reading = Absent(absent="it was not read by the version that measured this")
    """That its vCPU threads together were on a CPU."""
    guest_ns: Reading = Absent(absent="it was not read by the version that measured this")
    """Of ``run_ns``, executing the guest's instructions: KVM tells the host's kernel (``/proc/PID/task/TID/stat``)."""
    begin_monotonic_raw_ns: int | None = None
    """When the counters were read first, by the host's clock: a little before the trial, and again a little after."""
    end_monotonic_raw_ns: int | None = None


class NeighbourWork(Model):
    """What came of a neighbour's work that was the same as that of the machine under test."""

    outcome: TrialOutcome
    result: SerializeAsAny[Result]
    """Of the same kind as the trial's, but without tables."""


class NeighbourRecord(Model):
    """What ran beside the machine under test during a trial."""

    name: str
    """``neighbour 1`` ...; the first one is 1 in ``neighbours.parquet``."""
    kind: Literal["machine", "process"]
    platform: str
    """Of a machine; ``native`` for a process."""
    cpus: list[int]
    """Of the host, where it was allowed to run."""
    vcpus: int = 1
    share: ShareRecord | None = None
    load: LoadRequest | None = None
    """None if it did the same work as the machine under test."""
    outcome: LoadOutcome | None = None
    """None if it had no load, or died."""
    work: NeighbourWork | None = None
    """None if it had a load, or died."""
    host_views: HostViews | None = None
    """As of the machine under test; None if it died, and in older runs."""
    alignment: Alignment | None = None
    """Of its clock with the host's."""
    threads: list[HostThread] = Field(default_factory=list)
    """On the host."""


class Failure(Model):
    """Why there is no outcome."""

    message: str
    hint: str | None = None
    log_tail: list[str] = Field(default_factory=list)
    """The last lines of the serial log, or of the agent's where there is none."""


class CutShort(Model):
    """A trial that ended before its time; what it had measured is kept until the cell is measured as a whole."""

    watched_s: float
    """How long it measured, without the pauses in which samples were stored."""
    wanted_s: float
    """How long it was to measure."""
    why: str
    """What ended it: a part of a sentence."""


class TrialRecord(Model):
    """``trial.json``: one execution of a cell."""

    schema_version: Literal[5] = 5
    cell: Cell
    repetition: int = Field(ge=1)
    host: str
    """The name of the one that it was measured on, as in ``Manifest.hosts``."""
    state: Literal["measured", "cut_short", "failed"]
    started_at: datetime
    elapsed_s: float
    """Of all of it: clocks, loads, tracing, tables; for the estimate of later plans."""
    duration_ns: int | None = None
    """What a driver was asked for; None where ``outcome`` has the request, and in runs of earlier versions."""
    outcome: TrialOutcome | None = None
    result: SerializeAsAny[Result] | None = None
    """By its kind; a failed trial has none."""
    alignment: Alignment | None = None
    clocks: ClockAgreements | None = None
    """None in runs of versions that compared no rates."""
    machine: MachineRecord | None = None
    placement: PlacementRecord | None = None
    neighbours: list[NeighbourRecord] = Field(default_factory=list)
    host_tracing: TracingOutcome | None = None
    """Of ``host_trace.parquet``; that of the machine's own trace is in ``outcome.tracing``."""
    host_views: HostViews | None = None
    hypervisor_counters: CountersGained | Absent | None = None
    """Over the trial, until the agent announced its first table; None in runs of versions that did not ask for them."""
    cut_short: CutShort | None = None
    """How far a trial came that was cut short; None of every other."""
    strangers: StrangersRecord | None = None
    """None in runs of versions that did not look, and for machines on other hosts."""
    failure: Failure | None = None
    """Why it failed; of one that was cut short what ended it, where that was no wish."""
    origin: TrialOrigin | None = None
    """Where a trial of a merged run was measured; None of every other."""

    @property
    def has_result(self) -> bool:
        """Whether there are figures: of all of its time, or of the part of it until it was cut short."""
        return self.state != "failed"

    @property
    def trial_id(self) -> str:
        """The name of the folder, e.g. ``native.alone.tick-68us.r1``."""
        return self.cell.trial_id(self.repetition)


class PlatformRecord(Model):
    """Whether a platform could be used when the run began."""

    name: str
    usable: bool
    reason: str
    hint: str | None = None


class LoopRecord(Model):
    """The busy loop of ``tick``: calibrated natively or taken from an earlier run, and the same on every platform."""

    loop_ns: int
    """What was asked for."""
    iterations: int
    floor_ns: float
    """The shortest loop seen in the calibration."""
    taken_from: str | None = None
    """The run whose loop this is, so that the two can be compared; None if it was calibrated for this run."""


class Provenance(Model):
    """What measured a run from its beginning, or from a resumption, on."""

    at: datetime
    command_line: list[str]
    stealtime_version: str
    git_describe: Reading
    agent_sha256: Reading
    hosts: dict[str, Facts]
    """By name."""


class Manifest(Model):
    """``manifest.json``: what was run, on what, and how far it came."""

    schema_version: Literal[5] = 5
    run_id: str
    created_at: datetime
    taken_up_at: datetime | None = None
    """When it was begun or resumed last, in the order of the runs beside it (``store.sequence``); None in runs of
    earlier versions."""
    finished_at: datetime | None = None
    state: Literal["running", "finished", "interrupted"] = "running"
    command_line: list[str]
    stealtime_version: str
    git_describe: Reading
    provenance: list[Provenance] = Field(default_factory=list)
    """Of the beginning and of each resumption, in their order; all of them measure alike (``campaigns.provenance``)."""
    campaign: dict[str, JsonValue]
    """The whole campaign, as ``stealtime.campaigns.model.Campaign`` writes it."""
    hosts: dict[str, Facts]
    """What is measured on, by name."""
    identity: HostIdentity | None = None
    """Which host it is; None of a merged run, and of runs of versions that did not ask."""
    spread: Shard | EachHost | None = Field(default=None, discriminator="kind")
    """Which part of a campaign over several hosts this is; None of a campaign on one."""
    merged: MergedRecord | None = None
    """Of what runs it was merged; None of a run that was measured."""
    platforms: list[PlatformRecord] = Field(default_factory=list)
    aliases: dict[str, str] = Field(default_factory=dict)
    """What an alias of the campaign, such as ``emulated``, stands for here."""
    scenarios: list[ScenarioRecord] = Field(default_factory=list)
    """Those of the campaign, in its order, also the skipped ones."""
    planned: list[Cell] | None = None
    """The cells that were to be measured, each in ``repetitions``; None in runs of earlier versions."""
    repetitions: int = 1
    unobtainable: list[str] = Field(default_factory=list)
    """A sentence for each platform and scenario that was asked for by name and cannot be had."""
    loops: list[LoopRecord] = Field(default_factory=list)
    findings: list[Finding] = Field(default_factory=list)
    """What was found of the host just before the run, or before its last resumption."""
    host_threads: list[HostThread] = Field(default_factory=list)
    """The control plane's threads; those of machines are in each ``trial.json``."""
    seed: int
    """Of the order of platforms within the repetitions after the first."""

    @property
    def host(self) -> Facts:
        """What the first host says of itself: of a run on one host, the only one."""
        return next(iter(self.hosts.values()), {})

    @property
    def campaign_name(self) -> str:
        return str(self.campaign.get("name", "unnamed"))

    @property
    def thresholds(self) -> list[str]:
        """What the run is held against, as its campaign writes it; a run of an older version has none."""
        told = self.campaign.get("max_overhead", [])
        return [str(one) for one in told] if isinstance(told, list) else [str(told)]
