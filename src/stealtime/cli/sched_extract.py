"""``stealtime sched extract`` and ``sched verify``: the tasks of a running program."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stealtime.cli import completion
from stealtime.cli.parameters import AsJson, duration_of
from stealtime.cli.sched_options import OfInterference, OfSamples

if TYPE_CHECKING:
    from stealtime.extraction.watching import Order, Watched

Program = Annotated[
    list[str],
    typer.Argument(
        metavar="PID|COMMAND...",
        help="The process to watch, or the command to run meanwhile. Options come before it.",
        show_default=False,
    ),
]
Place = Annotated[
    str,
    typer.Option(
        "--machine",
        metavar="NAME",
        help="Where it runs: native; ssh:[user@]host[:port]; or a guest that is booted for the command, such as "
        "qemu-tcg-paravirt (`stealtime-agent` is there).",
    ),
]
For = Annotated[str, typer.Option("--for", metavar="DURATION", help="How long to watch: 10s, 1m; at most 1h.")]


def extract(
    program: Program,
    machine: Place = "native",
    duration: For = "1m",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the task file.", show_default=False),
    ] = None,
    json: AsJson = False,
) -> None:
    """Find the tasks of a running program: how often, how long, at what priority, and with which waits inside.

    The kernel's scheduler is recorded for the program's threads alone, and nothing of the program is changed. Figures
    are the most that was seen, each with its count. It takes root.

        stealtime sched extract --for 30s -o engine.toml $(pgrep engine)

        stealtime sched extract stealtime-agent rtload 1ms/10ms 5ms/50ms

        stealtime sched analyze engine.toml

    Exit codes: 0 tasks were found; 1 it could not be watched; 4 no task was found, and the output says why.
    """
    from stealtime.cli.output import data_console, print_document
    from stealtime.extraction.extracting import extract as extract_tasks
    from stealtime.extraction.terminal import ExtractPage
    from stealtime.extraction.watching import Order
    from stealtime.report.page.file import check_place
    from stealtime.vocabulary.errors import ExitCode

    if output is not None:
        check_place(output.absolute())
    watched = watch_program(Order(machine, tuple(program), duration_of("--for", duration) or 0))
    document = extract_tasks(watched)
    if json:
        print_document(document)
    else:
        data_console().print(ExtractPage(document))
    if document.task_file is None:
        raise typer.Exit(ExitCode.NOT_JUDGED)
    if output is not None:
        output.write_text(document.task_file)


def watch_program(order: "Order") -> "Watched":
    """Watch a program, with progress on a terminal."""
    from stealtime.cli.output import message_console
    from stealtime.extraction.watching import watch

    with message_console().status(f"watching {order.words}") as status:
        return asyncio.run(watch(order, lambda line: status.update(f"{order.machine}: {line}")))


def verify(
    program: Program,
    machine: Place = "native",
    duration: For = "1m",
    overheads: Annotated[
        str | None,
        typer.Option(
            "--overheads",
            metavar="FILE|RUN",
            help="What the kernel takes: CSV, TOML, or a run that measured this machine.  [default: measured after "
            "watching, for some seconds]",
            autocompletion=completion.runs,
        ),
    ] = None,
    statistic: OfSamples = None,
    supply: Annotated[
        str,
        typer.Option(
            "--supply", metavar="SUPPLY", help="dedicated, or the share of a vCPU: BUDGET/PERIOD[/DEADLINE], or a run."
        ),
    ] = "dedicated",
    interference: OfInterference = True,
    measures: Annotated[
        bool,
        typer.Option(
            "--measure/--no-measure",
            help="Measure the kernel's overheads where none are given: natively on a CPU that the program leaves free. "
            "Without, what interrupts took of its jobs is charged as it was seen.",
        ),
    ] = True,
    json: AsJson = False,
) -> None:
    """Watch a program, and say whether its tasks meet their deadlines and what would break that first.

    A trace tells no deadlines: each is one period, or what SCHED_DEADLINE declares. With the overheads of a run those
    of --machine are taken. Without --overheads they are measured after watching, by tasks of our own.

        stealtime sched verify --for 1m --overheads last $(pgrep engine)

    Exit codes: 0 schedulable; 1 it could not be watched; 3 not schedulable, or a deadline was seen to be missed; 4 not
    judged, and the output says why.
    """
    from stealtime.cli.output import data_console, print_document
    from stealtime.cli.own_overheads import measure_own
    from stealtime.cli.sched_sources import only_one, overheads_to_analyze, supply_of
    from stealtime.extraction.extracting import extract as extract_tasks
    from stealtime.extraction.terminal import VerifyPage
    from stealtime.extraction.verifying import verify as verify_tasks
    from stealtime.extraction.verifying import verify_exit_code
    from stealtime.extraction.watching import Order
    from stealtime.schedulability.question import Terms

    order = Order(machine, tuple(program), duration_of("--for", duration) or 0)
    # Before anything is watched for a minute.
    is_run = overheads is not None and Path(overheads).suffix.lower() not in (".csv", ".toml")
    model, _ = only_one(str(overheads), overheads_to_analyze(overheads, machine if is_run else None, statistic))
    terms = Terms(overheads=model, supply=supply_of(supply, machine), interference=interference)
    extracted = extract_tasks(watch_program(order))
    how = None
    if overheads is None and measures and extracted.task_file is not None:
        real_time = [task for task in extracted.tasks if task.excluded is None]
        busy = sorted({cpu for task in real_time for cpu in task.cpus})
        found, how = measure_own(machine, len(real_time), busy)
        terms = terms if found is None else replace(terms, overheads=found)
    document = verify_tasks(extracted, terms, how)
    if json:
        print_document(document)
    else:
        data_console().print(VerifyPage(document))
    raise typer.Exit(verify_exit_code(document))
