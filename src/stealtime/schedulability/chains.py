"""End-to-end times of chains of tasks that hand data over in registers: read at the begin of a job, written at its end.

*Data age*: from when the first task read to when the last task wrote what depends on it. *Reaction time*: from an event
that the first task has just missed to when the last task has written what depends on it. Both are defined by Feiertag,
Richter, Nordlander and Jonsson (CRTS 2008).

Job k of a task arrives at k T, and has written by its arrival + R. Backwards: whoever reads at s reads the job whose
next one had not ended by s, so that its arrival was less than T + R before s. Where the writer goes before the reader
on the same CPU, no released job of the writer is left when the reader begins: less than T + J before s. So

    age = sum over all but the last of (T + X) + R of the last, with X = J where it goes before the next one, else R.

Forwards, the reader that begins next after a write arrived less than its own period after the last one that had begun
before it, and that one began before the write, or before the writer's release where the writer goes first. So

    reaction = T of the first + sum over all but the last of (T of the next + X) + R of the last.

Tasks that start each other (:mod:`stealtime.schedulability.starts`) are one task in all this: what the first reads is
in what the last writes, the jobs of each go in order, and R is that of the last from the event on. So of a chain that
one event drives the age is at most R, and the reaction T + R.

With X = R for all this is the bound of Davare and others (DAC 2007). That priorities make it shorter has been used by
Dürr, von der Brüggen, Chen and Chen (TECS 18(5s), 2019); the argument above is ours, with jitter.
"""

from collections.abc import Sequence
from itertools import pairwise

from stealtime.schedulability.document import AnalysisDocument, ChainDocument, Verdict
from stealtime.schedulability.question import Terms
from stealtime.schedulability.starts import segments
from stealtime.schedulability.task_file import ChainTable, TaskFile, TaskTable

PERIODIC = (
    "Chains: each task is taken to arrive once in every period exactly, to read when it begins and to write at its end."
)


def with_chains(document: AnalysisDocument, file: TaskFile, terms: Terms) -> AnalysisDocument:
    """Add the end-to-end times of a file's chains; one that takes longer than it may decides the verdict."""
    if not file.chains:
        return document
    responses = {task.name: task.response_ns for cpu in document.cpus for task in cpu.tasks}
    chains = tuple(_chain(one, file, terms, responses) for one in file.chains)
    verdict = document.verdict
    if any(one.verdict == "not schedulable" for one in chains):
        verdict = "not schedulable"
    elif verdict == "schedulable" and any(one.verdict == "not judged" for one in chains):
        verdict = "not judged"
    remarks = (*document.remarks, PERIODIC)
    return document.model_copy(update={"chains": chains, "verdict": verdict, "remarks": remarks})


def _chain(chain: ChainTable, file: TaskFile, terms: Terms, responses: dict[str, int | None]) -> ChainDocument:
    by_name = {task.name: task for task in file.tasks}
    tasks = [by_name[name] for name in chain.tasks]
    parts = segments(tasks)
    bounds = [responses[part[-1].name] for part in parts]
    ends = [part[-1] for part in parts]
    unbounded = next((task.name for task, bound in zip(ends, bounds, strict=True) if bound is None), None)
    limits = {"max_age_ns": chain.max_age, "max_reaction_ns": chain.max_reaction}
    if unbounded is not None:
        because = f"{unbounded} has no bound of its response"
        return ChainDocument(
            name=chain.name,
            tasks=tuple(chain.tasks),
            age_ns=None,
            reaction_ns=None,
            verdict="not judged",
            because=because,
            **limits,
        )
    known = [bound or 0 for bound in bounds]
    before = [_goes_before(file, terms, writer, reader) for writer, reader in pairwise(parts)]
    age, reaction = end_to_end(ends, known, before)
    late = chain.max_age is not None and age > chain.max_age
    slow = chain.max_reaction is not None and reaction > chain.max_reaction
    verdict: Verdict = "not schedulable" if late or slow else "schedulable"
    reason = "its data may be older than it may be" if late else "it may react later than it may" if slow else None
    return ChainDocument(
        name=chain.name,
        tasks=tuple(chain.tasks),
        age_ns=age,
        reaction_ns=reaction,
        verdict=verdict,
        because=reason,
        **limits,
    )


def end_to_end(tasks: Sequence[TaskTable], responses_ns: Sequence[int], before: Sequence[bool]) -> tuple[int, int]:
    """Bound data age and reaction time, in ns.

    Args:
        tasks: In the order of the data; of tasks that start each other the last, which has their period.
        responses_ns: The bound of each, from arrival to end; of tasks that start each other from the event on.
        before: Of all but the last, whether it goes before the next one on the same CPU.
    """
    waits = [
        (task.jitter or 0) if first else response
        for task, response, first in zip(tasks[:-1], responses_ns, before, strict=False)
    ]
    age = sum(task.period + wait for task, wait in zip(tasks[:-1], waits, strict=True)) + responses_ns[-1]
    reaction = tasks[0].period + sum(task.period + wait for task, wait in zip(tasks[1:], waits, strict=True))
    return age, reaction + responses_ns[-1]


def _goes_before(file: TaskFile, terms: Terms, writers: Sequence[TaskTable], readers: Sequence[TaskTable]) -> bool:
    """Tell whether a released job of the writer is always done before the reader begins.

    Overheads release jobs later than their arrival and jitter say; then the response is taken. So it is where other
    tasks start one of them, or a thread has several callbacks.
    """
    if any(task.after is not None or task.executor is not None for task in (*writers, *readers)):
        return False
    writer, reader = writers[-1], readers[0]
    if terms.policy == "edf" or writer.cpu != reader.cpu or any(terms.overheads.at(len(file.tasks)).values()):
        return False
    # What blocks by `blocking` may be anything, also what lets the reader begin meanwhile; a ceiling does not.
    if writer.blocking or writer.reservation is not None or reader.reservation is not None:
        return False
    order = [task.name for task in file.on(writer.cpu)]
    return order.index(writer.name) < order.index(reader.name)
