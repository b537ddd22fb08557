"""Whether the tasks that were found meet their deadlines, and what would break that first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from stealtime.extraction.document import ExtractDocument, TaskDocument, VerifyDocument
from stealtime.extraction.extracting import DEADLINE
from stealtime.extraction.task_set import Charged, task_set
from stealtime.report import notation
from stealtime.schedulability.analysis import analyze, exit_code
from stealtime.schedulability.document import AnalysisDocument, CpuDocument
from stealtime.schedulability.machine_limits import with_limits_of_machine
from stealtime.schedulability.overheads import NO_OVERHEADS
from stealtime.schedulability.question import Terms
from stealtime.schedulability.task_file import TaskFile
from stealtime.vocabulary.errors import ExitCode

NOT_MEASURED = "not measured"
_BEYOND = Fraction(1001, 1000)
"""Costs that are by so much larger than the margin allows miss for sure: it is known in steps of a millionth."""


@dataclass(frozen=True)
class Found:
    """The answer, before it is a document."""

    verdict: ExitCode
    summary: str
    analysis: AnalysisDocument | None = None
    first: str | None = None
    cpu: CpuDocument | None = None


def verify(extracted: ExtractDocument, terms: Terms, how_measured: str | None = None) -> VerifyDocument:
    """Analyse the tasks that were found.

    Args:
        extracted: Of :func:`stealtime.extraction.extracting.extract`.
        terms: Overheads and supply; the policy is that of the threads.
        how_measured: How this command measured overheads, or why it did not; None where it did not try.
    """
    found = _verify(extracted, terms)
    words = {ExitCode.FINE: "schedulable", ExitCode.THRESHOLD: "not schedulable"}
    is_measured = terms.overheads is not NO_OVERHEADS
    return VerifyDocument(
        verdict=words.get(found.verdict, "not judged"),
        summary=found.summary,
        first=found.first,
        cost_factor=None if found.cpu is None else found.cpu.cost_factor,
        dominant_overhead=None if found.cpu is None else found.cpu.dominant_overhead,
        overheads=terms.overheads.source if is_measured else NOT_MEASURED,
        notes=tuple(_notes(extracted, found.analysis, how_measured, is_measured)),
        analysis=found.analysis,
        extracted=extracted,
    )


def verify_exit_code(document: VerifyDocument) -> ExitCode:
    codes = {"schedulable": ExitCode.FINE, "not schedulable": ExitCode.THRESHOLD}
    return codes.get(document.verdict, ExitCode.NOT_JUDGED)


def _verify(extracted: ExtractDocument, terms: Terms) -> Found:
    tasks = [task for task in extracted.tasks if task.excluded is None]
    is_measured = terms.overheads is not NO_OVERHEADS
    charged = terms.overheads.at(max(1, len(tasks)))
    file, because = task_set(tasks, Charged(charged.get("event_latency", 0), with_interrupts=not is_measured))
    because = _unknown(extracted.tasks) or because
    if because is None or file is None:
        over = _overfull(tasks)
        if over is not None and _unknown(extracted.tasks) is None:
            return Found(ExitCode.THRESHOLD, over)
    if file is None or because is not None:
        return Found(ExitCode.NOT_JUDGED, because or "there is no task set")
    policy = "edf" if any(task.policy == DEADLINE for task in tasks) else "fixed-priority"
    of_policy = Terms(
        policy=policy,  # type: ignore[arg-type]
        accounting=terms.accounting,
        overheads=terms.overheads,
        interrupts=terms.interrupts,
        supply=terms.supply,
        interference=terms.interference,
    )
    limited = with_limits_of_machine(file, of_policy)
    of_policy = limited.terms
    analysis = analyze(file, extracted.program, of_policy)
    if limited.remark is not None:
        analysis = analysis.model_copy(update={"remarks": (*analysis.remarks, limited.remark)})
    code = exit_code(analysis)
    cpu = _tightest(analysis.cpus)
    if code is ExitCode.FINE and (seen := _seen_to_miss(tasks)) is not None:
        return Found(ExitCode.THRESHOLD, seen, analysis, None, cpu)
    if code is ExitCode.FINE and terms.supply.kind == "dedicated" and (taken := _taken_by_host(tasks)) is not None:
        return Found(ExitCode.NOT_JUDGED, taken, analysis, None, cpu)
    first = _first_to_miss(file, cpu, of_policy)
    return Found(code, _sentence(cpu, first, file), analysis, first, cpu)


def _unknown(tasks: Sequence[TaskDocument]) -> str | None:
    """Say what of the real-time threads is not known well enough for any verdict."""
    for task in tasks:
        is_real_time = task.priority is not None or task.policy == DEADLINE
        if is_real_time and task.excluded is not None:
            return f"{task.name} is a real-time thread, and {task.excluded}: watch longer"
        if is_real_time and len(task.cpus) > 1:
            cpus = ", ".join(map(str, task.cpus))
            if task.policy == DEADLINE:
                return (
                    f"{task.name} is under SCHED_DEADLINE on the CPUs {cpus}, where the kernel only guarantees that "
                    "lateness is bounded"
                )
            return f"{task.name} ran on the CPUs {cpus}, and the analysis is of tasks that stay on one: pin it"
        if is_real_time and task.left_out.holed:
            return f"events were lost in {task.left_out.holed} jobs of {task.name}: watch again"
        if task.policy == DEADLINE and (stopped := _stopped_by_reservation(task)) is not None:
            return stopped
    return None


def _stopped_by_reservation(task: TaskDocument) -> str | None:
    """Say why the deadlines that a reservation gives are not those of jobs; None where each job has a period of it."""
    if task.suspending:
        return f"{task.suspending} jobs of {task.name} wait inside, and a reservation does not wait with them"
    if task.reserved_ns is not None and task.cost.with_calls_ns > task.reserved_ns:
        return (
            f"a job of {task.name} took {notation.duration(task.cost.with_calls_ns)}, more than its reservation of "
            f"{notation.duration(task.reserved_ns)}, and waits for the next period then"
        )
    again_ns = (task.arrival.period_ns or 0) - task.arrival.jitter_ns
    if task.reserved_period_ns is not None and again_ns + task.arrival.period_error_ns < task.reserved_period_ns:
        return (
            f"jobs of {task.name} may come {notation.duration(max(0, again_ns))} after one another, and its "
            f"reservation has one period in {notation.duration(task.reserved_period_ns)}"
        )
    return None


def _overfull(tasks: Sequence[TaskDocument]) -> str | None:
    """Say which CPU is asked for more than it has; such a set is no task file."""
    for cpu in sorted({task.cpus[0] for task in tasks if task.cpus}):
        here = [task for task in tasks if task.cpus[:1] == (cpu,) and task.arrival.period_ns]
        asked = sum(task.cost.with_calls_ns / (task.arrival.period_ns or 1) for task in here)
        if asked > 1:
            return f"the tasks on CPU {cpu} ask for {100 * asked:.1f} % of it, when all jobs take what the longest took"
    return None


def _taken_by_host(tasks: Sequence[TaskDocument]) -> str | None:
    """Say that the host took the CPU, which costs are without: what is certain of it, no trace can tell."""
    jobs = sum(task.host.jobs for task in tasks if task.host is not None)
    if jobs == 0:
        return None
    longest_ns = max(task.host.taken_ns for task in tasks if task.host is not None)
    return (
        f"the host was seen to take the CPU in {jobs} jobs, from one for {notation.duration(longest_ns)}, and nothing "
        "says what share is certain: --supply BUDGET/PERIOD, or a run"
    )


def _seen_to_miss(tasks: Sequence[TaskDocument]) -> str | None:
    for task in tasks:
        deadline_ns = task.deadline_ns or task.arrival.period_ns or 0
        if task.left_out.merged:
            return (
                f"the analysis would allow it, but {task.left_out.merged} jobs of {task.name} were seen to run into "
                "the next period"
            )
        if task.arrival.kind != "sporadic" and task.response_ns > deadline_ns:
            return (
                f"the analysis would allow it, but a job of {task.name} was seen to end "
                f"{notation.duration(task.response_ns)} after its release, beyond {notation.duration(deadline_ns)}"
            )
    return None


def _tightest(cpus: Sequence[CpuDocument]) -> CpuDocument:
    order = {"not schedulable": 0, "not judged": 1, "schedulable": 2}
    return min(cpus, key=lambda cpu: (order[cpu.verdict], cpu.cost_factor or 0.0))


def _first_to_miss(file: TaskFile, cpu: CpuDocument, terms: Terms) -> str | None:
    """Give the task that misses now, or else the first that does when all costs grow alike."""
    if cpu.verdict == "schedulable" and cpu.cost_factor is not None:
        factor = Fraction(cpu.cost_factor).limit_denominator(1_000_000) * _BEYOND
        here = [task.model_copy(update={"cost": int(task.cost * factor) + 1}) for task in file.on(cpu.cpu)]
        # Not validated: with these costs it asks for more than a CPU, or than a period.
        analysis = analyze(TaskFile.model_construct(tasks=here), "", terms)
        cpu = analysis.cpus[0]
    missing = (task.name for task in cpu.tasks if task.verdict == "misses its deadline")
    return next(missing, None)


def _sentence(cpu: CpuDocument, first: str | None, file: TaskFile) -> str:
    where = f"on CPU {cpu.cpu}"
    who = "its deadlines" if first is None else f"the deadline of {first}"
    if cpu.verdict == "not judged":
        return f"{where} {cpu.because}"
    if cpu.verdict == "not schedulable":
        why = cpu.because or f"{who} cannot be met"
        if cpu.cost_factor is None:
            return f"{where} {why}, however small the costs are{_dominant(cpu)}"
        return f"{where} {why}; all costs must shrink by {100 * (1 - cpu.cost_factor):.1f} %{_dominant(cpu)}"
    if cpu.cost_factor is None:
        return f"all deadlines are met; the margin is not judged, because {cpu.margin_because}"
    deadline = next((one for one in file.tasks if one.name == first), None)
    of = "" if deadline is None else f" of {notation.duration(deadline.deadline_ns)}"
    return (
        f"all costs may grow by {100 * (cpu.cost_factor - 1):.1f} % before {who}{of} is missed {where}{_dominant(cpu)}"
    )


def _dominant(cpu: CpuDocument) -> str:
    one = next((one for one in cpu.overheads if one.overhead == cpu.dominant_overhead), None)
    if one is None:
        return ""
    name = one.overhead.replace("_", " ")
    without = one.cost_factor_without
    margin = "" if without is None else f", without which it would be {100 * (without - 1):+.1f} %"
    return f"; of the overheads {name} ({notation.duration(one.overhead_ns)}) takes most{margin}"


def _notes(
    extracted: ExtractDocument, analysis: AnalysisDocument | None, how_measured: str | None, is_measured: bool
) -> Iterator[str]:
    yield "costs, jitter and overheads are the worst that was seen: a longer watch may see worse"
    sources = () if analysis is None else analysis.interference
    if sources:
        most = max(sources, key=lambda one: one.share_percent)
        yield (
            f"only this program's threads are analysed; what the overheads' run saw of devices, softirqs and real-time "
            f"threads of others is charged, of {len(sources)} sources, most of it {most.what} ({most.count:,} times, "
            f"up to {notation.duration(most.longest_ns)})"
        )
    else:
        yield "only this program's threads are analysed; threads of others with a higher priority are not charged"
    if is_measured and how_measured is not None:
        yield f"overheads: {how_measured}"
    if not is_measured:
        because = "" if how_measured is None else f", because {how_measured}"
        yield (
            f"overheads: not measured{because}; the most that interrupts took of a job, and the latest release, are "
            "charged as seen. `stealtime run` with rtload and tracing measures them: --overheads RUN"
        )
    if extracted.quiet_threads:
        yield f"nothing is known of threads that began no job: {', '.join(extracted.quiet_threads)}"
