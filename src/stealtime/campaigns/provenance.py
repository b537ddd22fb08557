"""Provenance: the versions that a resumed run must share with those that measured its cells so far.

Samples of two versions, of two QEMUs or of two guest kernels would be pooled as one cell, and shown as one. So what
would measure now is held against what the manifest and the trials say, and a run is not resumed with anything else.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import stealtime
from stealtime.campaigns.intention import Intention
from stealtime.lab.host import read_git_describe
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.model import Machine
from stealtime.store.lock import refuse_if_written
from stealtime.store.model import MachineRecord, Provenance
from stealtime.store.run import Run
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.readings import Absent, Facts, Reading, Value

_HOST_FACTS = (
    "kernel_release",
    "kernel_version",
    "kernel_command_line",
    "cpu_model",
    "cpus_allowed",
    "cpus_isolated",
    "measured_cpu",
    "smt",
    "frequency_governor",
    "clocksource",
    "sched_rt_period_us",
    "qemu_version",
)
"""Of ``lab.host.read_host_facts``: what changes figures. Not ``sched_rt_runtime_us``, which a run beside may have
lifted at either time: each trial says itself whether it was limited."""

_AGENT_FACTS = ("kernel_release", "kernel_version", "cpu_model")
_NOT_OF_THE_MACHINE = ("agent", "kernel_image")
"""Paths, which say nothing of what is there; the hashes beside them do."""

_HINT = "begin a new run, since samples of both would be pooled in one cell; or resume with what it was begun with"


class OtherMakerError(UsageError):
    """A run is to be resumed by something else than what has measured it so far."""


def read_provenance(command_line: tuple[str, ...], hosts: Mapping[str, Facts]) -> Provenance:
    """Note who would measure now.

    Args:
        command_line: As the user gave it.
        hosts: The facts of each host, by its name.
    """
    return Provenance(
        at=datetime.now(UTC),
        command_line=list(command_line),
        stealtime_version=stealtime.__version__,
        git_describe=read_git_describe(),
        agent_sha256=_agent_sha256(),
        hosts=dict(hosts),
    )


def refuse_other_maker(run: Run, now: Provenance) -> None:
    """See that a run is resumed by what has measured it so far.

    Raises:
        OtherMakerError: The version, the agent or the host is another one.
    """
    for then in run.manifest.provenance:
        for what, before, after in _pairs(then, now):
            # What could not be read at one of the two times tells nothing.
            if isinstance(before, Value) and isinstance(after, Value) and before.value != after.value:
                raise OtherMakerError(
                    f"{run.run_id} was measured with {what} {before.value!r}, and now it is {after.value!r}",
                    hint=_HINT,
                )


def refuse_resumption(intention: Intention) -> Sequence[str]:
    """See that a run that is to go on can be written, and is resumed by what has measured it so far.

    Raises:
        OtherMakerError: The version, the agent or the host is another one.
        UsageError: Another process writes it.
    """
    run, host = intention.resume, intention.host
    if run is None or not intention.boots:
        return ()
    refuse_if_written(run.folder)
    facts = host.read_facts(intention.plan.places.own.measured_cpu)
    refuse_other_maker(run, read_provenance((), {host.name: facts}))
    return ()


def refuse_other_machine(run_id: str, known: Mapping[str, MachineRecord], machine: Machine) -> None:
    """See that a machine that has booted is the one that its platform's cells were measured on.

    Args:
        run_id: For the message.
        known: By platform, what the trials say.
        machine: Just booted.

    Raises:
        OtherMakerError: Its emulator, kernel or image is another one.
    """
    then = known.get(machine.platform)
    if then is None:
        return
    for key in sorted(then.boot.facts.keys() & machine.boot.facts.keys() - set(_NOT_OF_THE_MACHINE)):
        _refuse_difference(run_id, machine.platform, key, then.boot.facts[key], machine.boot.facts[key])
    for key in _AGENT_FACTS:
        before, after = then.agent_facts.get(key), machine.agent_facts.get(key)
        if isinstance(before, Value) and isinstance(after, Value):
            _refuse_difference(run_id, machine.platform, key, before.value, after.value)


def machines_of(run: Run) -> dict[str, MachineRecord]:
    """Give, for each platform that a run has cells of, the machine that the last one was measured on."""
    return {
        trial.record.cell.platform: trial.record.machine for trial in run.measured if trial.record.machine is not None
    }


def _refuse_difference(run_id: str, platform: str, key: str, before: object, after: object) -> None:
    if before != after:
        raise OtherMakerError(
            f"{run_id} was measured on {platform} with {key} {before!r}, and now it boots with {after!r}", hint=_HINT
        )


def _pairs(then: Provenance, now: Provenance) -> Iterator[tuple[str, Reading, Reading]]:
    yield "stealtime", Value(value=then.stealtime_version), Value(value=now.stealtime_version)
    yield "the commit", then.git_describe, now.git_describe
    yield "an agent of sha256", then.agent_sha256, now.agent_sha256
    missing = Absent(absent="it was not recorded")
    for name in then.hosts.keys() & now.hosts.keys():
        for key in _HOST_FACTS:
            yield key, then.hosts[name].get(key, missing), now.hosts[name].get(key, missing)


def _agent_sha256() -> Reading:
    try:
        with Path(find_agent()).open("rb") as file:
            return Value(value=hashlib.file_digest(file, "sha256").hexdigest())
    except (StealtimeError, OSError) as error:
        return Absent(absent=str(error))
