"""What ``--overheads`` and ``--supply`` name: a file, a reservation, or a run, whose study tells what it measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from stealtime.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from stealtime.schedulability.allowed import Allowance
    from stealtime.schedulability.measured import MeasuredOverheads, Statistic
    from stealtime.schedulability.overheads import OverheadModel
    from stealtime.schedulability.supply import Supply
    from stealtime.schedulability.task_file import TaskFile
    from stealtime.store.run import Run

_FILES = (".csv", ".toml")
_Of = TypeVar("_Of")


def overheads_of(name: str, machine: str | None, statistic: str | None) -> "list[OverheadModel]":
    """Give overheads to compare with others: of a file, or of a run one model of equally many samples for each machine.

    Args:
        name: Of a ``.csv`` or ``.toml`` file, or of a run as ``show`` takes it.
        machine: The only one that is wanted.
        statistic: Of the samples of a run; the worst if left out.

    Raises:
        UsageError: There is no such run or machine in it, or a file is asked for a machine.
        StealtimeError: The run holds no overheads.
    """
    from stealtime.schedulability.measured import compared_models

    if Path(name).suffix.lower() in _FILES:
        return [_file_overheads(name, machine, statistic)]
    run, measured = measured_in(name, machine)
    return list(compared_models(run.run_id, measured.conditions, _statistic(statistic)).values())


def overheads_to_analyze(
    name: str | None, machine: str | None, statistic: str | None, allowing_under: "Supply | None" = None
) -> "list[tuple[OverheadModel, tuple[Allowance, ...]]]":
    """Give overheads to charge, or none, each with what goes with shares of misses allowed; of a run all samples count.

    Args:
        name: None for no overheads.
        machine: As of :func:`overheads_of`.
        statistic: As of :func:`overheads_of`.
        allowing_under: The supply under which misses are allowed; None where they are not.

    Raises:
        UsageError: As :func:`overheads_of`, or neither overheads nor supply were measured by a run.
        StealtimeError: As :func:`overheads_of`.
    """
    from stealtime.schedulability.allowed import constant_allowances, measured_allowances
    from stealtime.schedulability.measured import overhead_models
    from stealtime.schedulability.overheads import NO_OVERHEADS

    if name is not None and Path(name).suffix.lower() not in _FILES:
        run, measured = measured_in(name, machine)
        models = overhead_models(run.run_id, measured.conditions, _statistic(statistic))
        allowed = {} if allowing_under is None else measured_allowances(run.run_id, measured.conditions)
        return [(model, allowed.get(one, ())) for one, model in models.items()]
    model = NO_OVERHEADS if name is None else _file_overheads(name, machine, statistic)
    if allowing_under is None:
        return [(model, ())]
    if not allowing_under.has_observed:
        raise UsageError(
            "--allow-misses needs something that a run measured", hint="give a run to --overheads, to --supply, or both"
        )
    return [(model, constant_allowances(model))]


def only_one(name: str, found: "Sequence[tuple[OverheadModel, _Of]]") -> "tuple[OverheadModel, _Of]":
    """Give the overheads of the only machine.

    Raises:
        UsageError: There are several, and none was chosen.
    """
    if len(found) > 1:
        machines = [model.provenance.machine for model, _ in found if model.provenance is not None]
        raise UsageError(f"{name} measured several machines: {', '.join(machines)}", hint="choose one with --machine")
    return found[0]


def _file_overheads(name: str, machine: str | None, statistic: str | None) -> "OverheadModel":
    from stealtime.schedulability.overheads import read_overheads

    if machine is not None or statistic is not None:
        raise UsageError(
            f"--machine and --statistic choose among what a run measured, and {name} is a file", hint="leave them out"
        )
    return read_overheads(Path(name))


def measured_in(name: str, machine: str | None) -> "tuple[Run, MeasuredOverheads]":
    """Give what all studies measured in a run, of one machine or of all, and what they could not.

    Raises:
        UsageError: There is no such run or machine in it.
        StealtimeError: It holds no overheads, of that machine or of any.
    """
    from stealtime.campaigns.registry import studies
    from stealtime.schedulability.measured import MeasuredOverheads, OverheadSource
    from stealtime.vocabulary.errors import StealtimeError

    run = _run_or(name, "overheads", "write a .csv or .toml file, or a run of `stealtime ls`")
    sources = [study for study in studies() if isinstance(study, OverheadSource)]
    found = MeasuredOverheads.together([source.measured_overheads(run) for source in sources])
    named = dict.fromkeys([*(one.machine for one in found.conditions), *(one.machine for one in found.unmeasured)])
    if named:
        _refuse_unknown(run, machine, list(named))
    chosen = MeasuredOverheads(
        [one for one in found.conditions if machine in (None, one.machine)],
        [one for one in found.unmeasured if machine in (None, one.machine)],
        found.remarks,
    )
    if not chosen.conditions:
        reasons = "; ".join(one.sentence for one in chosen.unmeasured)
        raise StealtimeError(
            f"{run.run_id} holds no overheads" + (f" of {reasons}" if reasons else ""),
            hint="they are measured by the probe rtload with tracing on, natively and in guests of QEMU",
        )
    return run, chosen


def supply_of(text: str, machine: str | None, host: str | None = None, option: str = "--supply") -> "Supply":
    """Read a supply, or several with ``+`` between them, each of which takes its time of what the others leave.

    Args:
        text: ``dedicated``, a reservation, a table of windows, or a run of which a machine was seen to get something.
        machine: Of a run.
        host: As ``--host`` says: ``here`` where the tasks run on this host's kernel, which takes its time, too;
            ``lifted`` where their kernel takes none.
        option: That says it, for people.

    Raises:
        UsageError: It is none of them, or the run has several machines, and none was chosen, or another host is named.
        StealtimeError: The run does not tell, or nothing is left.
    """
    from dataclasses import replace

    from stealtime.cli.kernel_limits import supply_here
    from stealtime.schedulability.supply import combined

    if host not in (None, "here", "lifted"):
        raise UsageError(
            f"--host: {host!r} is neither 'here' nor 'lifted'",
            hint="only this host is looked at; of another one give --supply 940ms/1s",
        )
    texts = [text] if Path(text).exists() else text.split("+")
    supplies = [_supply_of(one.strip(), machine, option) for one in texts]
    supply = combined([*supplies, *([supply_here()] if host == "here" else [])])
    return replace(supply, has_kernel_limits=True) if host == "lifted" else supply


def _supply_of(text: str, machine: str | None, option: str) -> "Supply":
    from stealtime.schedulability.supply import parse_supply
    from stealtime.schedulability.windows import PREFIX, windows_supply

    if text.startswith(PREFIX):
        return windows_supply(text)
    if _is_duration(text):
        raise UsageError(
            f"{option}: {text!r} is a time alone", hint=f"a budget needs a period: {text}/PERIOD, such as 6ms/10ms"
        )
    is_reservation = text == "dedicated" or ("/" in text and text[:1].isdigit())
    if is_reservation:
        return parse_supply(text, option)
    try:
        return _observed(text, machine)
    except UsageError as error:
        if text == "last" or not error.message.startswith("there is no run"):
            raise
        raise UsageError(
            f"{option}: {text!r} is no supply, and there is no run of that name",
            hint="dedicated, BUDGET/PERIOD such as 6ms/10ms, windows:FILE, or a run as `stealtime ls` names it",
        ) from None


def _is_duration(text: str) -> bool:
    from stealtime.vocabulary.quantities import parse_duration_ns

    try:
        return parse_duration_ns(text) > 0
    except ValueError:
        return False


def _observed(name: str, machine: str | None) -> "Supply":
    from stealtime.campaigns.registry import studies
    from stealtime.schedulability.measured import SupplySource
    from stealtime.schedulability.supply import observed_supply
    from stealtime.vocabulary.errors import StealtimeError

    run = _run_or(name, "a supply", "write dedicated, 6ms/10ms, windows:FILE, or a run of `stealtime ls`")
    sources = [study for study in studies() if isinstance(study, SupplySource)]
    services = [service for source in sources for service in source.observed_services(run)]
    if not services:
        raise StealtimeError(
            f"{run.run_id} does not tell what its machines got of a CPU", hint="the probe tick measures that"
        )
    machines = [one.machine for one in services]
    _refuse_unknown(run, machine, machines)
    chosen = [one for one in services if machine in (None, one.machine)]
    if len(chosen) > 1:
        raise UsageError(f"{name} observed several machines: {', '.join(machines)}", hint="choose one with --machine")
    return observed_supply(chosen[0])


def _run_or(name: str, what: str, hint: str) -> "Run":
    """Give a run by a name that could have been something else as well.

    Raises:
        UsageError: It is neither.
    """
    from stealtime.store.run import find_run

    try:
        return find_run(name)
    except UsageError as error:
        raise UsageError(f"{name!r} is neither {what} nor a run: {error}", hint=hint) from None


def write_tasks(file: "TaskFile", output: Path) -> None:
    """Write a task file to a new place or over one.

    Raises:
        StealtimeError: It cannot be written there.
    """
    from stealtime.schedulability.task_file import write_task_file
    from stealtime.vocabulary.errors import StealtimeError

    try:
        output.write_text(write_task_file(file))
    except OSError as error:
        raise StealtimeError(
            f"{output} cannot be written: {error.strerror}", hint="check its folder and rights"
        ) from None


def _statistic(name: str | None) -> "Statistic":
    from stealtime.schedulability.measured import STATISTICS

    if name is None:
        return "worst"
    for known in STATISTICS:
        if name == known:
            return known
    raise UsageError(f"--statistic: {name!r} is none", hint=f"known: {', '.join(STATISTICS)}")


def _refuse_unknown(run: "Run", machine: str | None, known: Sequence[str]) -> None:
    if machine is not None and machine not in known:
        raise UsageError(
            f"--machine: {run.run_id} has no {machine!r}", hint=f"it has {', '.join(dict.fromkeys(known))}"
        )
