"""``stealtime sched place``: which task on which virtual CPU."""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stealtime.cli.parameters import AsJson
from stealtime.cli.sched_options import Format, Machine, OfFile, OfKernel, Unit

if TYPE_CHECKING:
    from stealtime.schedulability.placement import VirtualCpu


class Fit(StrEnum):
    """How tasks get CPUs."""

    SEARCH = "search"
    FIRST = "first"
    BEST = "best"
    WORST = "worst"


def place(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="TASKS", help="The tasks, as for `analyze`; their CPUs do not count.", show_default=False
        ),
    ],
    on: Annotated[
        list[str],
        typer.Option(
            "--on",
            metavar="[NAME=]SUPPLY",
            help="A virtual CPU and what it gets: dedicated, BUDGET/PERIOD[/DEADLINE] or windows:FILE; repeatable, "
            "also of several guests.",
            show_default=False,
        ),
    ],
    fit: Annotated[
        Fit,
        typer.Option("--fit", help="A heuristic, larger tasks first, or a search that begins with all three."),
    ] = Fit.SEARCH,
    overheads: OfKernel = None,
    machine: Machine = None,
    policy: OfFile = None,
    format_name: Format = None,
    unit: Unit = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the tasks as TOML, with their CPUs.", show_default=False
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Find a virtual CPU for every task so that all deadlines are met, and prove it by the analysis.

        stealtime sched place tasks.toml --on dedicated --on dedicated

        stealtime sched place tasks.toml --on web=6ms/10ms --on db=8ms/10ms

    No task migrates. Tasks that share a resource stay together.

    Exit codes: 0 placed; 3 there is no placement that the analysis accepts; 4 not judged: a heuristic found none, or
    the search gave up.
    """
    from stealtime.cli.interruptible import interruptibly
    from stealtime.cli.output import data_console, print_document
    from stealtime.cli.sched_sources import only_one, overheads_to_analyze, write_tasks
    from stealtime.schedulability import placement
    from stealtime.schedulability.formats.reading import read_tasks
    from stealtime.schedulability.question import Terms
    from stealtime.schedulability.terminal import PlacementPage

    read = read_tasks(file, format_name, unit, apart=True)
    model, _ = only_one(str(overheads), overheads_to_analyze(overheads, machine, None))
    terms = Terms(policy=policy.value if policy is not None else read.policy or "fixed-priority", overheads=model)
    cpus = [_virtual_cpu(text, number) for number, text in enumerate(on)]
    ask = partial(placement.place, read.file, str(file), terms, cpus, fit.value)
    document = interruptibly(ask, f"placing {len(read.file.tasks):,} tasks on {len(cpus)} virtual CPUs")
    document = document.model_copy(update={"format": read.format, "remarks": read.remarks})
    if output is not None and document.placed:
        write_tasks(placement.placed_file(read.file, document), output)
    if json:
        print_document(document)
    else:
        data_console().print(PlacementPage(document))
    raise typer.Exit(placement.placement_exit_code(document))


def _virtual_cpu(text: str, number: int) -> "VirtualCpu":
    from stealtime.cli.sched_sources import supply_of
    from stealtime.schedulability.placement import VirtualCpu

    name, found, supply = text.partition("=")
    if not found:
        name, supply = f"vCPU {number}", text
    return VirtualCpu(name, supply_of(supply, None, option="--on"))
