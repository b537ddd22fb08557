"""SchedCAT's XML of a task set: ``schedcat/model/serialize.py`` (github.com/brandenburg/schedcat, 86211bc).

Times are whole numbers without a unit; SchedCAT's own overheads are microseconds.
"""

from collections.abc import Iterator
from fractions import Fraction
from xml.etree.ElementTree import Element

from stealtime.schedulability.formats.draft import Draft, TaskDraft, names_of, unit_ns, unit_remark
from stealtime.schedulability.formats.xml_input import parse_xml, tag_of

ROOTS = ("taskset", "testpoint", "task")


def read_schedcat(draft: Draft, text: str, unit: str | None) -> None:
    """Read ``<taskset>``, ``<task>``, or a ``<testpoint>`` of one set.

    Raises:
        UsageError: It is none of them, or no time is there where one must be.
    """
    root = parse_xml(draft, text)
    kind = tag_of(root)
    if kind == "testpoint":
        sets = [one for one in root if tag_of(one) == "taskset"]
        if len(sets) != 1:
            raise draft.refuse(f"it holds {len(sets)} task sets", hint="write one <taskset> to a file of its own")
        root = sets[0]
    elif kind not in ROOTS:
        raise draft.refuse(f"its root is <{kind}>, not <taskset>")
    size = unit_ns(unit or "us")
    if unit is None:
        draft.remark(unit_remark("us", "as SchedCAT's overheads are; --unit names another"))
    nodes = [root] if tag_of(root) == "task" else [one for one in root if tag_of(one) == "task"]
    for number, node in enumerate(nodes, start=1):
        draft.tasks.append(_task(draft, node, number, size))
    if nested := [task.name for task, node in zip(draft.tasks, nodes, strict=True) if _has(node, "critical_sections")]:
        raise draft.refuse(
            f"the tasks {names_of(nested)} name nested critical sections, which are not read",
            hint="write them as <resources>, an outer one with its whole length",
        )
    if any(task.resources for task in draft.tasks):
        draft.remark("Blocking is that of a priority ceiling or the stack resource policy: SchedCAT names no protocol.")
    if any(node.get("wss") is not None for node in nodes):
        draft.remark("Working sets (wss) are not taken: `--overheads` has one cache-related delay for all tasks.")


def _has(node: Element, tag: str) -> bool:
    return any(tag_of(one) == tag and len(one) for one in node)


def _task(draft: Draft, node: Element, number: int, size: int) -> TaskDraft:
    name = f"task {node.get('id', str(number))}"
    deadline = node.get("deadline")
    return TaskDraft(
        name=name,
        cost_ns=size * draft.number(node.get("wcet"), f"wcet of {name}"),
        period_ns=size * draft.number(node.get("period"), f"period of {name}"),
        deadline_ns=None if deadline is None else size * draft.number(deadline, f"deadline of {name}"),
        cpu=_cpu(draft, node, name),
        resources=dict(_resources(draft, node, name, size)),
    )


def _resources(draft: Draft, node: Element, name: str, size: int) -> Iterator[tuple[str, Fraction]]:
    """Give the longest request for each resource; readers exclude each other, too, which is on the safe side."""
    for one in (one for part in node if tag_of(part) == "resources" for one in part):
        resource = f"resource {one.get('res_id', '0')}"
        # What is left out is one write of length 1, as SchedCAT reads it.
        kinds = (("max_writes", "1", "max_write_length", "1"), ("max_reads", "0", "max_read_length", "0"))
        lengths = [
            size * draft.number(one.get(length, default_length), f"{length} of {name}")
            for count, default_count, length, default_length in kinds
            if draft.number(one.get(count, default_count), f"{count} of {name}") > 0
        ]
        yield resource, max(lengths, default=Fraction(0))


def _cpu(draft: Draft, node: Element, name: str) -> int:
    if node.get("partition") is not None:
        cpu = draft.whole(node.get("partition"), f"partition of {name}")
        if cpu < 0:
            raise draft.refuse(f"{name} is in partition {cpu}, which SchedCAT writes for none")
        return cpu
    allowed = [cpu.get("id") for one in node if tag_of(one) == "affinity" for cpu in one]
    if len(allowed) == 1:
        return draft.whole(allowed[0], f"affinity of {name}")
    if allowed:
        raise draft.refuse(
            f"{name} may migrate among {len(allowed)} CPUs, and the analysis is of tasks that stay on one",
            hint="give each task a partition",
        )
    return 0
