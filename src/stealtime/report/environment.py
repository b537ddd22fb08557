"""What a run was measured on: facts of host and machines side by side, clocks, and who ran where."""

from collections.abc import Iterable
from dataclasses import dataclass

from stealtime.report.notation import ABSENT
from stealtime.store.model import Manifest, TrialRecord
from stealtime.vocabulary.clock_agreement import ClockAgreement, kernel_agreement
from stealtime.vocabulary.readings import Absent, Facts, Reading, Value


@dataclass(frozen=True)
class Cell:
    """A value in a table of facts."""

    text: str
    absent_because: str | None = None


@dataclass(frozen=True)
class FactTable:
    """Facts as lines, machines as columns."""

    machines: tuple[str, ...]
    shared: tuple[tuple[str, tuple[Cell, ...]], ...]
    """What several machines report: the fact and its value on each machine."""
    single: tuple[tuple[str, str, Cell], ...]
    """What one machine alone reports: the fact, the machine, the value."""


@dataclass(frozen=True)
class ClockLine:
    """The clock of one trial and why it may be trusted."""

    trial: str
    clock: str
    source: str
    kernel: ClockAgreement
    """Beside the clock of the machine's kernel."""
    host: ClockAgreement | None
    """Beside the host's; None where they were not compared."""
    alignment_bound_ns: float | None
    """The larger error bound of host and machine on one time line; None where they were not aligned."""

    @property
    def is_trusted(self) -> bool:
        return all(one is None or one.state != "disagreed" for one in (self.kernel, self.host))


@dataclass(frozen=True)
class ThreadLine:
    """A thread, the CPUs it was allowed on (as its machine counts them, for ``measuring`` ones), and its trials."""

    machine: str
    role: str
    name: str
    cpus: str
    trials: int


def fact_table(manifest: Manifest, trials: tuple[TrialRecord, ...]) -> FactTable:
    """Put the facts of the hosts beside those of each machine; of each platform its first trial speaks."""
    columns: dict[str, Facts] = dict(manifest.hosts) if len(manifest.hosts) > 1 else {"host": manifest.host}
    for trial in trials:
        if trial.machine is not None and trial.cell.platform not in columns:
            booted: Facts = {name: Value(value=text) for name, text in trial.machine.boot.facts.items()}
            columns[trial.cell.platform] = {**booted, **trial.machine.agent_facts}
    shared, single = [], []
    for name in sorted({name for facts in columns.values() for name in facts}):
        label = name.replace("_", " ")
        reporting = [machine for machine, facts in columns.items() if name in facts]
        if len(reporting) > 1:
            shared.append((label, tuple(_cell(facts.get(name)) for facts in columns.values())))
        else:
            single.append((label, reporting[0], _cell(columns[reporting[0]][name])))
    return FactTable(tuple(columns), tuple(shared), tuple(single))


def clock_lines(trials: tuple[TrialRecord, ...]) -> list[ClockLine]:
    """Tell of each measured trial by which clock it was timed."""
    lines = []
    for trial in trials:
        if trial.outcome is None:
            continue
        clock = trial.outcome.clock
        rate = f"{clock.units_per_s / 1e6:,.3f} MHz" if clock.name == "tsc" else f"{clock.units_per_s:,.0f} units/s"
        bound = None
        if trial.alignment is not None:
            bound = max(trial.alignment.before.error_ns, trial.alignment.after.error_ns)
        lines.append(
            ClockLine(
                trial=trial.trial_id,
                clock=f"{clock.name}, {rate}",
                source=clock.tsc_hz_source,
                kernel=kernel_agreement(clock) if trial.clocks is None else trial.clocks.kernel,
                host=None if trial.clocks is None else trial.clocks.host,
                alignment_bound_ns=bound,
            )
        )
    return lines


def thread_lines(manifest: Manifest, trials: tuple[TrialRecord, ...]) -> list[ThreadLine]:
    """Tell which threads ran on which CPUs of the host; what was the same in several trials is one line."""
    seen: dict[tuple[str, str, str, str], set[str]] = {}
    for thread in manifest.host_threads:
        seen[("host", thread.role, thread.name, cpu_list(thread.cpus))] = set()
    for trial in trials:
        for thread in trial.machine.threads if trial.machine is not None else ():
            key = (trial.cell.platform, thread.role, thread.name, cpu_list(thread.cpus))
            seen.setdefault(key, set()).add(trial.trial_id)
        for neighbour in trial.neighbours:
            for thread in neighbour.threads:
                beside = f"{neighbour.name} of {trial.cell.platform}"
                seen.setdefault((beside, thread.role, thread.name, cpu_list(thread.cpus)), set()).add(trial.trial_id)
        if trial.outcome is not None:
            placement = trial.outcome.placement
            policy = f"{placement.policy} {placement.priority}"
            measuring = (trial.cell.platform, "measuring", policy, f"{cpu_list(placement.cpus)} of this machine")
            seen.setdefault(measuring, set()).add(trial.trial_id)
    return [ThreadLine(*key, trials=len(trials_seen)) for key, trials_seen in seen.items()]


def cpu_list(cpus: Iterable[int]) -> str:
    """Write CPUs as the kernel does: ``0-3,8``."""
    parts: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if parts and parts[-1][-1] == cpu - 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(f"{part[0]}" if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts) or ABSENT


def _cell(reading: Reading | None) -> Cell:
    if reading is None:
        return Cell(ABSENT, "this machine does not report it")
    if isinstance(reading, Absent):
        return Cell("absent", reading.absent)
    value = reading.value
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if isinstance(value, list):
        return Cell(", ".join(str(item) for item in value))
    if isinstance(value, dict):
        return Cell(", ".join(f"{key}: {item}" for key, item in value.items()))
    return Cell(str(value))
