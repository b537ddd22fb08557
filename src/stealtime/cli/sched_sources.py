"""What ``--overheads`` and ``--supply`` name: a file, a reservation, or a run, whose study tells what it measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stealtime.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from stealtime.schedulability.measured import MeasuredCondition, Statistic
    from stealtime.schedulability.overheads import OverheadModel
    from stealtime.schedulability.supply import Supply
    from stealtime.store.run import Run

_FILES = (".csv", ".toml")


def overheads_of(name: str, machine: str | None, statistic: str | None) -> "list[OverheadModel]":
    """Give the overheads of a file, or of a run one model for each of its machines.

    Args:
        name: Of a ``.csv`` or ``.toml`` file, or of a run as ``show`` takes it.
        machine: The only one that is wanted.
        statistic: Of the samples of a run; the worst if left out.

    Raises:
        UsageError: There is no such run or machine in it, or a file is asked for a machine.
        StealtimeError: The run holds no overheads.
    """
    from stealtime.schedulability.measured import overhead_models
    from stealtime.schedulability.overheads import read_overheads

    if Path(name).suffix.lower() in _FILES:
        if machine is not None or statistic is not None:
            raise UsageError(
                f"--machine and --statistic choose among what a run measured, and {name} is a file",
                hint="leave them out",
            )
        return [read_overheads(Path(name))]
    run, conditions = conditions_of(name, machine)
    models = overhead_models(run.run_id, conditions, _statistic(statistic))
    return list(models.values())


def only_overheads(name: str, machine: str | None, statistic: str | None) -> "OverheadModel":
    """Give the overheads of a file, or of the only machine of a run.

    Raises:
        UsageError: The run has several, and none was chosen.
    """
    models = overheads_of(name, machine, statistic)
    if len(models) > 1:
        machines = [model.provenance.machine for model in models if model.provenance is not None]
        raise UsageError(f"{name} measured several machines: {', '.join(machines)}", hint="choose one with --machine")
    return models[0]


def conditions_of(name: str, machine: str | None) -> "tuple[Run, list[MeasuredCondition]]":
    """Give what all studies measured in a run, of one machine or of all."""
    from stealtime.campaigns.registry import studies
    from stealtime.schedulability.measured import OverheadSource
    from stealtime.store.run import find_run
    from stealtime.vocabulary.errors import StealtimeError

    run = find_run(name)
    sources = [study for study in studies() if isinstance(study, OverheadSource)]
    conditions = [condition for source in sources for condition in source.measured_overheads(run)]
    if not conditions:
        raise StealtimeError(
            f"{run.run_id} holds no overheads", hint="they are measured by the probe rtload with tracing on"
        )
    chosen = [one for one in conditions if machine in (None, one.machine)]
    _refuse_unknown(run, machine, [one.machine for one in conditions])
    return run, chosen


def supply_of(text: str, machine: str | None) -> "Supply":
    """Read a supply: ``dedicated``, a reservation, or what a machine of a run was seen to get.

    Raises:
        UsageError: It is none of them, or the run has several machines, and none was chosen.
        StealtimeError: The run does not tell.
    """
    from stealtime.schedulability.supply import parse_supply

    is_reservation = text == "dedicated" or ("/" in text and text[:1].isdigit())
    if is_reservation:
        return parse_supply(text)
    return _observed(text, machine)


def _observed(name: str, machine: str | None) -> "Supply":
    from stealtime.campaigns.registry import studies
    from stealtime.schedulability.measured import SupplySource
    from stealtime.schedulability.supply import observed_supply
    from stealtime.store.run import find_run
    from stealtime.vocabulary.errors import StealtimeError

    run = find_run(name)
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
