"""SimSo's simulation file: ``simso/configuration/parser.py`` (github.com/MaximeCheramy/simso, ddfc1b5).

Times of tasks are milliseconds, overheads are cycles, a higher number is a higher priority (``schedulers/FP.py``).
"""

from xml.etree.ElementTree import Element

from stealtime.schedulability.formats.draft import Draft, TaskDraft, names_of
from stealtime.schedulability.formats.xml_input import parse_xml, tag_of
from stealtime.vocabulary.quantities import NANOSECONDS

ROOT = "simulation"
_MS = NANOSECONDS["ms"]
_EDF = ("EDF", "EDF_mono", "EDF2", "P_EDF", "P_EDF2")
_RATE_MONOTONIC = ("RM", "RM_mono", "P_RM")


def read_simso(draft: Draft, text: str) -> None:
    """Read the tasks of a simulation.

    Raises:
        UsageError: It is none, or one of several processors, of another scheduler, or with aperiodic tasks.
    """
    root = parse_xml(draft, text)
    if tag_of(root) != ROOT:
        raise draft.refuse(f"its root is <{tag_of(root)}>, not <simulation>")
    _processors(draft, root)
    scheduler = _scheduler(draft, root)
    nodes = _below(root, "tasks", "task")
    for node in nodes:
        draft.tasks.append(_task(draft, node, scheduler == "FP"))
    if scheduler in _RATE_MONOTONIC:
        draft.order_by(lambda task: task.period_ns)
    late = [one.get("name", "") for one in nodes if _is_more(one.get("activationDate"))]
    if late:
        draft.remark(f"Offsets (activationDate) of {names_of(late)} are not taken: the bounds hold for every offset.")
    followed = [one.get("name", "") for one in nodes if one.get("followed_by")]
    if followed:
        draft.remark(f"That other tasks follow {names_of(followed)} is not taken: each task arrives by its own period.")
    costly = [one.get("name", "") for one in nodes if _is_more(one.get("preemption_cost"))]
    if costly:
        draft.remark(f"preemption_cost of {names_of(costly)} is not taken: `--overheads` has cache_preemption.")
    if root.get("etm", "wcet") not in ("wcet", "acet", "fixedpenalty"):
        draft.remark(f"The model of execution times {root.get('etm')} is not taken: each job runs for its WCET.")


def _below(root: Element, group: str, tag: str) -> list[Element]:
    return [one for part in root if tag_of(part) == group for one in part if tag_of(one) == tag]


def _is_more(text: str | None) -> bool:
    return text is not None and text.strip(" 0.") != ""


def _processors(draft: Draft, root: Element) -> None:
    processors = _below(root, "processors", "processor")
    if len(processors) > 1:
        raise draft.refuse(
            f"tasks may run on any of {len(processors)} processors, and the analysis is of tasks that stay on one",
            hint="write a file for each processor",
        )
    for one in processors:
        if draft.number(one.get("speed", "1"), "the speed of a processor") != 1:
            raise draft.refuse(f"the processor {one.get('name')} has the speed {one.get('speed')}, not 1")
        taken = [key for key in ("cs_overhead", "cl_overhead") if _is_more(one.get(key))]
        if taken:
            draft.remark(f"{' and '.join(taken)} of {one.get('name')} are not taken: `--overheads` has context_switch.")


def _scheduler(draft: Draft, root: Element) -> str:
    nodes = [one for one in root if tag_of(one) == "sched"]
    name = (nodes[0].get("class") or nodes[0].get("className") or "") if nodes else ""
    scheduler = name.rsplit("/", 1)[-1].removesuffix(".py").rsplit(".", 1)[-1]
    if scheduler in _EDF:
        draft.policy = "edf"
    elif scheduler == "FP" or scheduler in _RATE_MONOTONIC:
        draft.policy = "fixed-priority"
    else:
        known = ", ".join((*_EDF, *_RATE_MONOTONIC, "FP"))
        raise draft.refuse(f"its scheduler is {name!r}, which is not analysed", hint=f"analysed: {known}")
    taken = [key for key in ("overhead", "overhead_activate", "overhead_terminate") if _is_more(nodes[0].get(key))]
    if taken:
        draft.remark(f"{', '.join(taken)} of the scheduler are not taken: `--overheads` has scheduling and release.")
    return scheduler


def _task(draft: Draft, node: Element, has_priority: bool) -> TaskDraft:
    name = node.get("name") or f"task {node.get('id', '')}".strip()
    kind = node.get("task_type") or ("APeriodic" if node.get("periodic") == "no" else "Periodic")
    if kind not in ("Periodic", "Sporadic"):
        raise draft.refuse(f"the task {name} is {kind}: nothing bounds how often it arrives")
    deadline = node.get("deadline")
    return TaskDraft(
        name=name,
        cost_ns=_MS * draft.number(node.get("WCET"), f"WCET of {name}"),
        period_ns=_MS * draft.number(node.get("period"), f"period of {name}"),
        deadline_ns=None if deadline is None else _MS * draft.number(deadline, f"deadline of {name}"),
        priority=draft.whole(node.get("priority"), f"priority of {name}") if has_priority else None,
    )
