"""``stealtime sched``: is a task set schedulable, and how much room is left?"""

import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from stealtime.cli import commands, completion
from stealtime.cli.parameters import AsJson, RunName, analysed_duration_of
from stealtime.cli.sched_extract import extract, verify
from stealtime.cli.sched_options import (
    Format,
    Machine,
    OfFile,
    OfHost,
    OfInterference,
    OfKernel,
    OfSamples,
    Policy,
    Unit,
)
from stealtime.cli.sched_place import place

SHORT = "Tell whether sets of real-time tasks are schedulable"


class Accounting(StrEnum):
    """What overheads are charged for, under fixed priorities."""

    JOB = "job"
    STRETCH = "stretch"


def application() -> typer.Typer:
    group = typer.Typer(
        help=f"{SHORT}, with overheads and under a share of a CPU.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    commands.add(group, generate, analyze, place, curve, overheads)
    # What follows the program's name is its own.
    commands.add(group, extract, verify, takes_a_command=True)
    return group


def generate(
    law: Annotated[
        str,
        typer.Option(
            "--law",
            help="Utilizations: light-, medium- or heavy- with uniform, bimodal or exponential; "
            "very-light-uniform, mixed-uniform; uunifast-discard or randfixedsum with --total.",
            show_default=False,
        ),
    ],
    per_cpu: Annotated[int, typer.Option("-k", metavar="N", help="Tasks for each CPU.")] = 10,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same set.")] = 1,
    cpus: Annotated[int, typer.Option("--cpus", help="CPUs that the tasks are partitioned to.")] = 1,
    total: Annotated[
        float | None,
        typer.Option("--total", help="The utilization of all tasks together.", show_default=False),
    ] = None,
    periods: Annotated[
        str,
        typer.Option(
            "--periods",
            help="Periods: short (3 to 33 ms), moderate (10 to 100), long (50 to 250), the same with log-, or harmonic "
            "(25, 50, 100, 200).",
        ),
    ] = "moderate",
    deadlines: Annotated[
        str, typer.Option("--deadlines", help="Deadlines: implicit, constrained (up to the period) or arbitrary.")
    ] = "implicit",
    over_utilized: Annotated[
        str,
        typer.Option(
            "--over-utilized",
            help="A set above 100 % of the CPUs: redraw it (at most 1000 times), scale its costs, shed tasks, "
            "or keep it.",
        ),
    ] = "redraw",
    fit: Annotated[
        str, typer.Option("--fit", help="How tasks get CPUs, larger ones first: worst, best or first fit.")
    ] = "worst",
) -> None:
    """Draw a task set by a published law and print it as a task file, with how it was drawn.

        stealtime sched generate --law light-uniform -k 10 --seed 1 > t.toml

    Exit codes: 1 no set was found under the rule.
    """
    from stealtime.cli.interruptible import interruptibly
    from stealtime.schedulability import generation
    from stealtime.schedulability.task_file import write_task_file

    recipe = generation.Recipe(
        law=law,
        per_cpu=per_cpu,
        seed=seed,
        cpus=cpus,
        total=total,
        periods=periods,
        deadlines=deadlines,
        over_utilized=over_utilized,
        fit=fit,
    )
    drawn = interruptibly(partial(generation.generate, recipe), f"drawing {per_cpu * cpus:,} tasks")
    sys.stdout.write(write_task_file(drawn))


def analyze(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="TASKS",
            help="The tasks: TOML (`stealtime schema tasks`), LiME's folder or JSON, rt-app's JSON, the XML of "
            "SchedCAT, Cheddar or SimSo, or a CSV.",
            show_default=False,
        ),
    ] = None,
    sheet: Annotated[
        Path | None,
        typer.Option(
            "--sheet",
            metavar="FILE.csv",
            help="The tasks as a table: columns for name, cost (C), period (T), deadline (D), jitter (J), priority.",
        ),
    ] = None,
    format_name: Format = None,
    unit: Unit = None,
    overheads: OfKernel = None,
    machine: Machine = None,
    statistic: OfSamples = None,
    policy: OfFile = None,
    accounting: Annotated[
        Accounting,
        typer.Option(
            "--accounting",
            help="Fixed priorities: charge overheads for each job (as SchedCAT), or for each stretch of one "
            "running job (as PROSA has proved it).",
        ),
    ] = Accounting.JOB,
    supply: Annotated[
        str,
        typer.Option(
            "--supply",
            metavar="SUPPLY",
            help="dedicated, or the share of a vCPU: BUDGET/PERIOD, BUDGET/PERIOD/DEADLINE, windows:FILE (ARINC 653; "
            "`stealtime schema windows`), or a run that observed it; several with + between them each take their time, "
            "such as 6ms/10ms+940ms/1s.",
        ),
    ] = "dedicated",
    host: OfHost = None,
    budget_period: Annotated[
        str | None,
        typer.Option(
            "--least-budget", metavar="PERIOD", help="Also find the smallest budget of a periodic resource of PERIOD."
        ),
    ] = None,
    allow_misses: Annotated[
        bool,
        typer.Option(
            "--allow-misses",
            help="Also judge misses of 0.1 % or 1 % of the jobs, from the percentiles of a run's overheads and without "
            "the rarest gaps of its supply: empirical, not proven.",
        ),
    ] = False,
    tick_period: Annotated[
        str | None,
        typer.Option(
            "--tick-period", metavar="DURATION", help="From one tick to the next.  [default: the file's, or 1ms]"
        ),
    ] = None,
    interrupts_elsewhere: Annotated[
        bool,
        typer.Option("--interrupts-elsewhere", help="Another CPU handles the timers and sends an interrupt."),
    ] = False,
    interference: OfInterference = True,
    assign: Annotated[
        bool,
        typer.Option(
            "--assign", help="Search priorities with which all deadlines are met (Audsley); finds some if any do."
        ),
    ] = False,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity", help="Also tell of each task how much longer it may run, or how much more often."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the tasks as TOML, with the priorities of --assign.",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Bound the response time of every task; say whether all deadlines are met, and with what margin.

        stealtime sched analyze --sheet tasks.csv --unit ms

        stealtime sched analyze tasks.toml --assign --sensitivity -o better.toml

    What a file says that tasks cannot express is told in notes. With the overheads of a run, each of its machines is
    analysed, unless one is chosen.

    Exit codes, of several machines the highest: 0 schedulable; 3 not schedulable; 4 not judged, and the output says
    why.
    """
    from dataclasses import replace

    from stealtime.cli.output import data_console, print_document
    from stealtime.cli.sched_sources import only_one, overheads_to_analyze, supply_of, write_tasks
    from stealtime.schedulability.allowed import analyze_allowing
    from stealtime.schedulability.analysis import exit_code
    from stealtime.schedulability.chains import with_chains
    from stealtime.schedulability.design import assign_priorities, with_assignment, with_room
    from stealtime.schedulability.formats.reading import read_tasks
    from stealtime.schedulability.machine_limits import with_limits_of_machine
    from stealtime.schedulability.question import Terms
    from stealtime.schedulability.terminal import AnalysisPage

    tick_period_ns = analysed_duration_of("--tick-period", tick_period)
    path = _task_source(file, sheet, format_name)
    read = read_tasks(path, "sheet" if sheet is not None else format_name, unit)
    terms = Terms(
        policy=policy.value if policy is not None else read.policy or "fixed-priority",
        accounting=accounting.value,
        interrupts="on another CPU" if interrupts_elsewhere else "here",
        supply=supply_of(supply, machine, host),
        interference=interference,
        budget_period_ns=analysed_duration_of("--least-budget", budget_period),
    )
    found = overheads_to_analyze(overheads, machine, statistic, terms.supply if allow_misses else None)
    if json or (assign and output is not None):
        found = [only_one(str(overheads), found)]
    codes = []
    for model, allowances in found:
        under = model if tick_period_ns is None else replace(model, tick_period_ns=tick_period_ns)
        here = replace(terms, overheads=under)
        assigned = assign_priorities(read.file, here) if assign else None
        tasks = read.file if assigned is None else assigned.file
        charged = with_limits_of_machine(tasks, here)
        here = charged.terms
        document = analyze_allowing(tasks, str(path), here, allowances)
        if charged.remark is not None:
            document = document.model_copy(update={"remarks": (*document.remarks, charged.remark)})
        if assigned is not None:
            document = with_assignment(document, assigned.outcomes)
        if sensitivity:
            document = with_room(document, tasks, here)
        document = with_chains(document, tasks, here)
        if output is not None:
            write_tasks(tasks, output)
        document = document.model_copy(update={"format": read.format, "remarks": document.remarks + read.remarks})
        if json:
            print_document(document)
        else:
            data_console().print(AnalysisPage(document))
        codes.append(exit_code(document))
    raise typer.Exit(max(codes))


def _task_source(file: Path | None, sheet: Path | None, format_name: str | None) -> Path:
    from stealtime.vocabulary.errors import UsageError

    if sheet is not None and file is None:
        if format_name not in (None, "sheet"):
            raise UsageError(f"--sheet {sheet} is no {format_name}", hint="leave --format out")
        return sheet
    if file is not None and sheet is None:
        return file
    given = "neither TASKS nor --sheet is given" if file is None else f"both {file} and --sheet {sheet} are given"
    raise UsageError(given, hint="name one file of tasks: `stealtime sched analyze -h`")


def curve(
    law: Annotated[
        str,
        typer.Option(
            "--law",
            help="Utilizations: light-, medium- or heavy- with uniform, bimodal or exponential; "
            "very-light-uniform, mixed-uniform.",
        ),
    ] = "light-uniform",
    overheads: Annotated[
        list[str] | None,
        typer.Option(
            "--overheads",
            metavar="FILE|RUN",
            help="Adds a condition with these overheads: CSV, TOML, or each machine of a run; repeatable.",
            autocompletion=completion.runs,
        ),
    ] = None,
    machine: Machine = None,
    statistic: OfSamples = None,
    supply: Annotated[
        str | None,
        typer.Option(
            "--supply",
            metavar="SUPPLY",
            help="Adds all conditions under BUDGET/PERIOD[/DEADLINE], a run, or several (+).",
        ),
    ] = None,
    host: OfHost = None,
    policy: Annotated[Policy, typer.Option("--policy", help="Scheduling policy.")] = Policy.FIXED_PRIORITY,
    accounting: Annotated[
        Accounting, typer.Option("--accounting", help="Fixed priorities: charge overheads for each job or stretch.")
    ] = Accounting.JOB,
    sets: Annotated[int, typer.Option("--sets", "-n", metavar="N", help="Sets for each utilization.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same sets.")] = 1,
    periods: Annotated[str, typer.Option("--periods", help="As for `generate`.")] = "moderate",
    deadlines: Annotated[
        str, typer.Option("--deadlines", help="Deadlines: implicit, constrained or arbitrary.")
    ] = "implicit",
    interrupts_elsewhere: Annotated[
        bool,
        typer.Option("--interrupts-elsewhere", help="Another CPU handles the timers and sends an interrupt."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write a page with the figure, one HTML file.", show_default=False
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show which share of random task sets is schedulable, by utilization: what overheads and a vCPU's share cost.

    Every condition sees the same sets, of one CPU. The first line, and the page, say how much capacity is lost.

    Exit codes: 4 a set is not judged.
    """
    from stealtime.cli.interruptible import interruptibly
    from stealtime.cli.output import data_console, print_document, write_last
    from stealtime.cli.sched_sources import overheads_of, supply_of
    from stealtime.report.page.file import check_place
    from stealtime.schedulability.curve import CurveRequest, curve_exit_code, trace_curve
    from stealtime.schedulability.terminal import CurvePage

    if output is not None:
        check_place(output.absolute())
    request = CurveRequest(
        law=law,
        periods=periods,
        deadlines=deadlines,
        sets=sets,
        seed=seed,
        overheads=tuple(one for name in overheads or [] for one in overheads_of(name, machine, statistic)),
        supply=None if supply is host is None else supply_of(supply or "dedicated", machine, host),
        policy=policy.value,
        accounting=accounting.value,
        interrupts="on another CPU" if interrupts_elsewhere else "here",
    )
    doing = f"analysing {sets:,} sets at each of {len(request.utilizations)} utilizations"
    document = interruptibly(partial(trace_curve, request), doing)
    if json:
        print_document(document)
    else:
        data_console().print(CurvePage(document))
    steps = []
    if output is not None:
        from stealtime.schedulability.page import write_curve

        steps.append(partial(write_curve, document, ["stealtime", *sys.argv[1:]], output.absolute()))
    raise typer.Exit(write_last(curve_exit_code(document), steps))


def overheads(
    run: RunName = "last",
    machine: Machine = None,
    statistic: OfSamples = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print one machine's model with the columns of SchedCAT.")] = False,
) -> None:
    """Show what the kernels of RUN took, against the number of tasks, or print it for other programs.

    Machines of RUN that could not be measured are named, with the reason.

        stealtime sched overheads last --machine native --csv > native.csv

    Exit codes: 1 the run holds no overheads.
    """
    from stealtime.cli.output import data_console
    from stealtime.cli.sched_sources import measured_in, only_one, overheads_to_analyze
    from stealtime.schedulability.overheads import write_overheads
    from stealtime.schedulability.overheads_shown import OverheadsPage

    if csv:
        model, _ = only_one(run, overheads_to_analyze(run, machine, statistic))
        sys.stdout.write(write_overheads(model))
        return
    _, measured = measured_in(run, machine)
    data_console().print(OverheadsPage(measured))
