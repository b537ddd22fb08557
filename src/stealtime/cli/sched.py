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

Machine = Annotated[
    str | None,
    typer.Option("--machine", metavar="NAME", help="Take this machine of a run, such as native."),
]
OfSamples = Annotated[
    str | None,
    typer.Option("--statistic", help="Statistic of a run's samples: average, p99, p99.9 or worst.  [default: worst]"),
]

SHORT = "Tell whether sets of real-time tasks are schedulable"


class Policy(StrEnum):
    """Who runs next."""

    FIXED_PRIORITY = "fixed-priority"
    EDF = "edf"


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
    commands.add(group, generate, analyze, curve, overheads)
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
        Path, typer.Argument(metavar="TASKS.toml", help="The tasks; `stealtime schema tasks`.", show_default=False)
    ],
    overheads: Annotated[
        str | None,
        typer.Option(
            "--overheads",
            metavar="FILE|RUN",
            help="The kernel's overheads: CSV with the columns of SchedCAT, TOML, or a run that measured them.  "
            "[default: nothing]",
            autocompletion=completion.runs,
        ),
    ] = None,
    machine: Machine = None,
    statistic: OfSamples = None,
    policy: Annotated[Policy, typer.Option("--policy", help="Scheduling policy.")] = Policy.FIXED_PRIORITY,
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
            help="dedicated, or the share of a vCPU: BUDGET/PERIOD, BUDGET/PERIOD/DEADLINE, or a run that observed it.",
        ),
    ] = "dedicated",
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
    json: AsJson = False,
) -> None:
    """Bound the response time of every task; say whether all deadlines are met, and with what margin.

    With the overheads of a run, each of its machines is analysed, unless one is chosen.

    Exit codes, of several machines the highest: 0 schedulable; 3 not schedulable; 4 not judged, and the output says
    why.
    """
    from dataclasses import replace

    from stealtime.cli.output import data_console, print_document
    from stealtime.cli.sched_sources import only_one, overheads_to_analyze, supply_of
    from stealtime.schedulability.allowed import analyze_allowing
    from stealtime.schedulability.analysis import Terms, exit_code
    from stealtime.schedulability.task_file import read_task_file
    from stealtime.schedulability.terminal import AnalysisPage

    tick_period_ns = analysed_duration_of("--tick-period", tick_period)
    terms = Terms(
        policy=policy.value,
        accounting=accounting.value,
        interrupts="on another CPU" if interrupts_elsewhere else "here",
        supply=supply_of(supply, machine),
        budget_period_ns=analysed_duration_of("--least-budget", budget_period),
    )
    found = overheads_to_analyze(overheads, machine, statistic, terms.supply if allow_misses else None)
    if json:
        found = [only_one(str(overheads), found)]
    tasks = read_task_file(file)
    codes = []
    for model, allowances in found:
        under = model if tick_period_ns is None else replace(model, tick_period_ns=tick_period_ns)
        document = analyze_allowing(tasks, str(file), replace(terms, overheads=under), allowances)
        if json:
            print_document(document)
        else:
            data_console().print(AnalysisPage(document))
        codes.append(exit_code(document))
    raise typer.Exit(max(codes))


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
        typer.Option("--supply", metavar="SUPPLY", help="Adds all conditions under BUDGET/PERIOD[/DEADLINE] or a run."),
    ] = None,
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
        supply=None if supply is None else supply_of(supply, machine),
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
