"""The circumstances in which two runs differ, found by holding all that their manifests and trials tell side by side.

Nothing is picked: every fact is compared by its key, so that one which a later version adds is compared as well. Left
out is what differs between any two runs: times, loads, ids, paths, and what is compared by other means.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from stealtime.report.cells.figures import Figures
from stealtime.report.circumstances.limits import some_names
from stealtime.store.model import TrialRecord
from stealtime.store.run import Run
from stealtime.vocabulary.quantities import approximate_size, format_duration
from stealtime.vocabulary.readings import Absent, Value

_OF_ANY_TWO_RUNS = frozenset(
    {
        # Ids and paths; the hashes of what is there say whether it is the same.
        "thread_id", "agent", "kernel_image", "trial",
        # As it was at one moment.
        "load_before", "load_after",
        # Compared cell by cell: a cell that one run alone has is listed as that.
        "platforms", "scenarios", "probes", "define", "short", "tracing",
        # What a run does, or is held against, not under what.
        "max_overhead",
        "description", "repetitions", "seed", "boot_timeout", "cell_timeout",
    }
)  # fmt: skip
"""Keys of facts, of the campaign and of requests."""
_NOT_TOLD = "not told"
_OWN_FOLDER = re.compile(r"stealtime-\d+:\d+:\d+-\w+")
"""A temporary folder of ours, as command lines name it: another one in each trial."""
_MEMORY = "memory_total_bytes"
"""What a kernel has left of what it was given, which differs a little from boot to boot."""

_Facts = dict[tuple[str, str], set[str]]
"""By what, and where: all values that were seen there."""


class Difference(Figures):
    """A circumstance that is not the same in both runs."""

    what: str
    """The key of the fact, in words."""
    where: list[str]
    """The run, hosts, platforms, scenarios or cells in which it differs in this way."""
    a: str
    """Its value there; several, if not all trials have the same."""
    b: str

    @property
    def sentence(self) -> str:
        return f"{self.what}: {self.a} and {self.b} ({some_names(self.where)})"


def differences(a: Run, b: Run) -> list[Difference]:
    """Give every circumstance that differs between two runs, in those places that both have.

    Raises:
        StealtimeError: A document of a run is damaged.
    """
    first, second = _facts_of(a), _facts_of(b)
    common = {where for _, where in first} & {where for _, where in second}
    found: dict[tuple[str, str, str], list[str]] = {}
    for what, where in dict.fromkeys([*first, *second]):
        pair = [" or ".join(sorted(facts.get((what, where), {_NOT_TOLD}))) for facts in (first, second)]
        if where in common and pair[0] != pair[1]:
            found.setdefault((what, pair[0], pair[1]), []).append(where)
    return [Difference(what=what, where=where, a=one, b=other) for (what, one, other), where in found.items()]


def _facts_of(run: Run) -> _Facts:
    facts: _Facts = {}
    for what, where, value in _told(run):
        if what.rsplit(".", 1)[-1] not in _OF_ANY_TWO_RUNS and what.split(".", 1)[0] not in _OF_ANY_TWO_RUNS:
            facts.setdefault((_words(what), where), set()).add(value)
    return facts


def _told(run: Run) -> Iterator[tuple[str, str, str]]:
    """Give everything that a run tells of its circumstances: what, where, and the value."""
    manifest = run.manifest
    yield from _values("", "the run", manifest.campaign)
    for one in manifest.provenance:
        yield "stealtime_version", "the run", one.stealtime_version
        yield "git_describe", "the run", _text("git_describe", one.git_describe)
        yield "agent_sha256", "the run", _text("agent_sha256", one.agent_sha256)
    for name, facts in manifest.hosts.items():
        yield from _values("", f"host {name}", facts)
    for scenario in manifest.scenarios:
        yield from _values("placement", f"scenario {scenario.name}", scenario.placement)
    for trial in run.measured:
        yield from _of_trial(trial.record)


def _of_trial(record: TrialRecord) -> Iterator[tuple[str, str, str]]:
    cell = record.cell
    where = f"{cell.platform} {cell.measurement} in {cell.scenario}"
    if record.machine is not None:
        yield "measured_cpu", cell.platform, str(record.machine.measured_cpu)
        yield from _values("", cell.platform, {**record.machine.boot.facts, **record.machine.agent_facts})
    if record.outcome is not None:
        yield from _values("", where, record.outcome.request)
        yield "clock_of_the_samples", where, record.outcome.clock.name
        yield "policy", where, record.outcome.placement.policy
        yield "priority_kept", where, str(record.outcome.placement.priority)
    if record.duration_ns is not None:
        yield "duration_ns", where, _text("duration_ns", record.duration_ns)
    for neighbour in record.neighbours:
        about = neighbour.model_dump(include={"kind", "platform", "cpus", "vcpus", "share", "load"})
        yield from _values(neighbour.name, where, about)


def _values(prefix: str, where: str, value: object) -> Iterator[tuple[str, str, str]]:
    """Take apart what has keys; a reading, a list and everything else is a value."""
    if isinstance(value, BaseModel) and not isinstance(value, Value | Absent):
        value = value.model_dump(mode="json")
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _values(f"{prefix}.{key}" if prefix else str(key), where, part)
    elif value is not None:
        yield prefix, where, _text(prefix, value)


def _text(key: str, value: Any) -> str:
    if isinstance(value, Value):
        value = value.value
    if isinstance(value, Absent):
        return f"absent ({value.absent})"
    if key.endswith("_ns") and isinstance(value, int) and not isinstance(value, bool):
        return format_duration(value)
    if key.endswith(_MEMORY) and isinstance(value, int):
        step = 1 << 30 if value >= 1 << 30 else 128 << 20
        return approximate_size(-(-value // step) * step)
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return _OWN_FOLDER.sub("stealtime-*", text)


def _words(key: str) -> str:
    return key.replace(".", " ").replace("_ns", "").replace("_", " ")
