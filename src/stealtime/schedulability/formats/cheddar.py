"""Cheddar's ADL, version 3 (``*.xmlv3``): beru.univ-brest.fr/cheddar; its examples in github.com/Tahouz/cheddarSRC.

Times are whole numbers without a unit. A higher number is a higher priority, as in POSIX. Versions of Cheddar write
tags in small letters and otherwise.
"""

from xml.etree.ElementTree import Element

from stealtime.schedulability.document import Policy
from stealtime.schedulability.formats.draft import Draft, TaskDraft, names_of, unit_ns, unit_remark
from stealtime.schedulability.formats.xml_input import parse_xml, tag_of

ROOT = "cheddar"
_FIXED = "POSIX_1003_HIGHEST_PRIORITY_FIRST_PROTOCOL"
_RATE = "RATE_MONOTONIC_PROTOCOL"
_SCHEDULERS: dict[str, Policy] = {
    _FIXED: "fixed-priority",
    _RATE: "fixed-priority",
    "DEADLINE_MONOTONIC_PROTOCOL": "fixed-priority",
    "EARLIEST_DEADLINE_FIRST_PROTOCOL": "edf",
}
_CEILINGS = ("PRIORITY_CEILING_PROTOCOL", "IMMEDIATE_PRIORITY_CEILING_PROTOCOL")
_ARRIVING = ("periodic_task", "sporadic_task")


def read_cheddar(draft: Draft, text: str, unit: str | None) -> None:
    """Read the tasks of a model.

    Raises:
        UsageError: It is none of version 3, or has schedulers, partitions or tasks that are not analysed.
    """
    root = parse_xml(draft, text)
    if tag_of(root) != ROOT:
        raise draft.refuse(f"its root is <{tag_of(root)}>, not <cheddar>")
    size = unit_ns(unit or "ms")
    if unit is None:
        draft.remark(unit_remark("ms", "--unit names another"))
    _partitions(draft, root)
    cpus, schedulers = _cpus(draft, root)
    nodes = _below(root, "tasks")
    for node in nodes:
        draft.tasks.append(_task(draft, node, size, cpus))
    used = {schedulers[task.cpu] for task in draft.tasks}
    policies = {_SCHEDULERS[name] for name in used}
    if len(used) > 1:
        raise draft.refuse(
            f"its processors have different schedulers: {', '.join(sorted(used))}",
            hint="write a file for each processor",
        )
    draft.policy = next(iter(policies), None)
    if used != {_FIXED}:
        for task in draft.tasks:
            task.priority = None
    if used == {_RATE}:
        draft.order_by(lambda task: task.period_ns)
    _resources(draft, root, size)
    _remarks(draft, root, nodes)


def _below(root: Element, group: str) -> list[Element]:
    return [one for part in root if tag_of(part) == group for one in part]


def _text(node: Element, tag: str) -> str | None:
    found = next((one for one in node if tag_of(one) == tag), None)
    return None if found is None or found.text is None else found.text.strip()


def _is_more(node: Element, tag: str) -> bool:
    return (_text(node, tag) or "").strip(" 0.") != ""


def _parameter(node: Element, tag: str) -> str | None:
    for scheduling in (one for one in node if tag_of(one) == "scheduling"):
        for parameters in scheduling:
            if (found := _text(parameters, tag)) is not None:
                return found
    return None


def _partitions(draft: Draft, root: Element) -> None:
    for space in _below(root, "address_spaces"):
        scheduler = _parameter(space, "scheduler_type")
        if scheduler not in (None, "NO_SCHEDULING_PROTOCOL"):
            raise draft.refuse(
                f"the address space {_text(space, 'name')} is a partition with a scheduler of its own, {scheduler}",
                hint="write the tasks of one partition to a file, and give its share of the CPU by --supply",
            )


def _cpus(draft: Draft, root: Element) -> tuple[dict[tuple[str, str | None], int], dict[int, str]]:
    """Give the number of each processor and core, and the scheduler of each number."""
    cores = {(core.get("id") or "").strip(): core for core in _below(root, "core_units")}
    if not cores:
        raise draft.refuse("it has no <core_units>: it was written by a Cheddar before version 3")
    numbers: dict[tuple[str, str | None], int] = {}
    schedulers: dict[int, str] = {}
    shown = []
    for processor in _below(root, "processors"):
        name = _text(processor, "name") or ""
        references = [one.get("ref") or "" for one in processor.iter() if tag_of(one) in ("core", "core_unit")]
        for reference in references:
            core = cores.get(reference.strip())
            if core is None:
                raise draft.refuse(f"the processor {name} has the core {reference.strip()!r}, which is not there")
            number = len(schedulers)
            schedulers[number] = _scheduler(draft, core)
            numbers[name, _text(core, "name")] = number
            if len(references) == 1:
                numbers[name, None] = number
            of = "" if len(references) == 1 else f"{_text(core, 'name')} of "
            shown.append(f"CPU {number} is {of}{name}")
    if len(shown) > 1:
        draft.remark(f"{', '.join(shown)}.")
    return numbers, schedulers


def _scheduler(draft: Draft, core: Element) -> str:
    name = _text(core, "name")
    scheduler = _parameter(core, "scheduler_type") or ""
    if scheduler not in _SCHEDULERS:
        raise draft.refuse(
            f"the scheduler of {name} is {scheduler or 'not named'}, which is not analysed",
            hint=f"analysed: {', '.join(_SCHEDULERS)}",
        )
    preemptive = _parameter(core, "preemptive_type")
    if preemptive not in (None, "PREEMPTIVE"):
        raise draft.refuse(f"{name} is {preemptive}, and only preemptive scheduling is analysed")
    if (speed := _text(core, "speed")) is not None and draft.number(speed, f"speed of {name}") != 1:
        raise draft.refuse(f"{name} has the speed {speed}, not 1", hint="divide the capacities by it")
    return scheduler


def _task(draft: Draft, node: Element, size: int, cpus: dict[tuple[str, str | None], int]) -> TaskDraft:
    name = _text(node, "name") or (node.get("id") or "").strip()
    if tag_of(node) not in _ARRIVING:
        raise draft.refuse(f"the task {name} is of the kind <{tag_of(node)}>: nothing bounds how often it arrives")
    processor, core = _text(node, "cpu_name") or "", _text(node, "core_name") or None
    cpu = cpus.get((processor, core))
    if cpu is None:
        raise draft.refuse(
            f"the task {name} may run on any core of {processor!r}, and the analysis is of tasks that stay on one",
            hint="give it a core_name",
        )
    policy = _text(node, "policy")
    if policy not in (None, "SCHED_FIFO"):
        draft.remark(f"The policy {policy} of {name} is not taken: it has its priority alone.")
    deadline = _text(node, "deadline")
    return TaskDraft(
        name=name,
        cost_ns=size * draft.number(_text(node, "capacity"), f"capacity of {name}"),
        period_ns=size * draft.number(_text(node, "period"), f"period of {name}"),
        deadline_ns=None if deadline is None else size * draft.number(deadline, f"deadline of {name}"),
        jitter_ns=size * draft.number(_text(node, "jitter") or "0", f"jitter of {name}"),
        blocking_ns=size * draft.number(_text(node, "blocking_time") or "0", f"blocking_time of {name}"),
        priority=draft.whole(_text(node, "priority"), f"priority of {name}"),
        cpu=cpu,
    )


def _resources(draft: Draft, root: Element, size: int) -> None:
    """Take the critical sections of each resource: ``task_begin`` and ``task_end`` are its first and last unit."""
    tasks = {task.name: task for task in draft.tasks}
    for resource in _below(root, "resources"):
        name = _text(resource, "name") or ""
        sections = [one for part in resource if tag_of(part) == "critical_sections" for one in part]
        protocol = _text(resource, "protocol")
        if sections and protocol not in _CEILINGS:
            raise draft.refuse(
                f"the resource {name} has the protocol {protocol}, whose blocking is not computed",
                hint=f"computed is that of {' and '.join(_CEILINGS)}",
            )
        user = None
        for one in sections:
            if tag_of(one) == "task_name":
                user = tasks.get((one.text or "").strip())
                if user is None:
                    raise draft.refuse(f"the resource {name} is used by {one.text!r}, which is no task")
            elif user is not None:
                begin = draft.number(_text(one, "task_begin"), f"task_begin of {name}")
                end = draft.number(_text(one, "task_end"), f"task_end of {name}")
                if begin > end:
                    raise draft.refuse(f"a section of {name} begins at {begin} and ends at {end}")
                length = size * (end - begin + 1)
                user.resources[name] = max(user.resources.get(name, length), length)


def _remarks(draft: Draft, root: Element, nodes: list[Element]) -> None:
    def named(tag: str) -> str:
        return names_of(_text(one, "name") or "" for one in nodes if _is_more(one, tag))

    if late := named("start_time"):
        draft.remark(f"Offsets (start_time) of {late} are not taken: the bounds hold for every offset.")
    if costly := named("context_switch_overhead"):
        draft.remark(f"context_switch_overhead of {costly} is not taken: `--overheads` has context_switch.")
    if skipping := named("every"):
        draft.remark(f"That {skipping} run in some periods only (every) is not taken: they run in each.")
    if _below(root, "dependencies"):
        draft.remark("Dependencies between tasks are not taken: each task arrives by its own period.")
    if _below(root, "messages") or _below(root, "buffers"):
        draft.remark("Messages and buffers are not taken.")
