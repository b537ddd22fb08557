"""``stealtime run``: measure this machine against its virtual machines."""

import asyncio
import inspect
import os
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stealtime.campaigns.probe_options import ProbeOption, probe_options
from stealtime.cli import completion
from stealtime.cli.moment import AtThreshold, explain, tell_moments
from stealtime.cli.option_groups import OptionGroup, grouped
from stealtime.cli.parameters import AsJson, duration_of, names_of, numbers_of
from stealtime.cli.spread import spread_of, spread_words, tell_empty
from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError, weightiest

if TYPE_CHECKING:
    from rich.console import Console

    from stealtime.campaigns.overrides import Overrides
    from stealtime.campaigns.session import Finished, Order, Prepared
    from stealtime.report.moment import Moment
    from stealtime.report.summary import RunSummary
    from stealtime.store.run import Run


@dataclass(frozen=True)
class Changes(OptionGroup):
    """What of the campaign is measured, and how."""

    platform: Annotated[
        list[str] | None,
        typer.Option(
            "--platform",
            "-P",
            metavar="NAME",
            help="Measure only this platform; repeatable.",
            autocompletion=completion.platforms,
        ),
    ] = None
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Measure only in this scenario; repeatable.", autocompletion=completion.scenarios
        ),
    ] = None
    short: Annotated[
        bool, typer.Option("--short", help="Use the campaign's short form: seconds per cell instead of an hour.")
    ] = False
    tracing: Annotated[
        Literal["off", "on", "both"] | None,
        typer.Option(help="Trace host and guest to attribute spikes to causes; both: with and without, in turn."),
    ] = None
    probe: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Measure only this probe; repeatable.", autocompletion=completion.probes),
    ] = None
    duration: Annotated[
        str | None,
        typer.Option("--duration", "-D", metavar="DURATION", help="How long to measure each cell, e.g. 500ms, 1m30s."),
    ] = None
    max_samples: Annotated[
        int | None, typer.Option("--max-samples", "-l", metavar="N", help="End a cell after this many samples.")
    ] = None
    priority: Annotated[
        int | None, typer.Option("--priority", "-p", metavar="N", help="SCHED_FIFO priority, 1 to 99; 0: SCHED_OTHER.")
    ] = None
    cpu: Annotated[str | None, typer.Option("--cpu", "-a", metavar="CPU", help="The CPU to measure on.")] = None
    loop_of: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Take the busy loops of this run, so that both can be compared."),
    ] = None
    repetitions: Annotated[
        int | None, typer.Option("--repetitions", "-n", metavar="N", help="How many times to measure each cell.")
    ] = None
    kernel: Annotated[
        str | None,
        typer.Option(
            metavar="KERNEL", help="Kernel of the guests: rt, rt-new, cloud, standard, backports, host, or a path."
        ),
    ] = None
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How much longer than its duration a cell may take.")
    ] = None
    lift_rt_throttling: Annotated[
        bool, typer.Option("--lift-rt-throttling", help="Lift RT throttling while measuring, then restore it.")
    ] = False


class OfProbes(OptionGroup):
    """What is about one probe alone, as its study declares it."""

    __signature__ = inspect.Signature(
        [
            inspect.Parameter(
                one.parameter,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[str | None, typer.Option(*one.flags, metavar=one.takes, help=one.help)],
            )
            for one in probe_options()
        ]
    )

    def __init__(self, **values: str | None) -> None:
        self.given: dict[ProbeOption, object] = {}
        for one in probe_options():
            if (text := values[one.parameter]) is not None:
                read = duration_of if one.takes == "DURATION" else numbers_of
                self.given[one] = read(one.flags[0], text)


@dataclass(frozen=True)
class Course(OptionGroup):
    """Where the run is kept, when it begins, and what is made of it in the end."""

    runs: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where runs are kept.  [default: $XDG_DATA_HOME/stealtime/runs]"),
    ] = None
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Continue this run: measure the cells that are missing or failed.",
            autocompletion=completion.runs,
        ),
    ] = None
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Measure only part I of N of the cells; auto: which one, Slurm, Kubernetes or a CI says.",
        ),
    ] = None
    each_host: Annotated[
        bool,
        typer.Option("--each-host", help="Mark this as one of several hosts that each measure the whole campaign."),
    ] = False
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait while another run measures on one of the CPUs, instead of failing.")
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be measured and how long it takes.")
    ] = False
    max_overhead: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[pN=]DURATION",
            help="Exit with code 3 if a valid cell exceeds this: 100us is for the longest value, p99.9=50us for a "
            "percentile; repeatable. With 4 if one was not judged.",
        ),
    ] = None
    junit: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a JUnit file: a test case per cell, failed if over --max-overhead, error if not judged.",
        ),
    ] = None
    json: AsJson = False
    listing: Annotated[bool, typer.Option("--list", help="List the builtin campaigns, and end.")] = False


@grouped
def run(
    campaign: Annotated[
        str | None,
        typer.Argument(
            metavar="CAMPAIGN",
            help="A builtin campaign or a TOML file.  [default: quick]",
            autocompletion=completion.campaigns,
        ),
    ] = None,
    *,
    changes: Changes,
    of_probes: OfProbes,
    at_threshold: AtThreshold,
    course: Course,
) -> None:
    """Measure this machine against its virtual machines: alone or beside noisy neighbours.

    A campaign is a set of cells: platforms x scenarios x probes; those that come with stealtime are listed below. See
    first what would be measured, and how long that takes here:

        stealtime run hyperv2013 --short --dry-run

        stealtime run hyperv2013 --short --scenario one-to-one -P native

    `stealtime doctor` lists the platforms; emulated and paravirt stand for QEMU with KVM where that works, otherwise
    with TCG. Scenarios: alone, one-to-all, one-to-one, contention-cpu, contention-memory, all-to-all-cpu,
    all-to-all-memory, two-to-all-memory, and those that a campaign defines.

    Exit codes: 0 everything was measured and is valid; 1 nothing could be measured, or the run was interrupted
    (complete cells are kept: continue with --resume); 2 wrong usage; 3 --max-overhead or --on-threshold was exceeded;
    4 a cell failed, is invalid, was watched too short or not judged, or a platform or scenario that was named is not
    available here.
    """
    if course.listing:
        from stealtime.cli.listing import list_campaigns

        list_campaigns(course.json)
        return
    thresholds = _thresholds(course.max_overhead)
    overrides = replace(overrides_of(changes, of_probes), max_overhead=thresholds, on_threshold=at_threshold.rule)
    if course.junit is not None:
        _check_is_file_name(course.junit)
    order = _order(campaign, overrides, changes, course)
    if course.dry_run:
        from stealtime.cli.plan import print_plan, print_plan_document

        prepared = asyncio.run(_prepare(order))
        (print_plan_document if course.json else print_plan)(prepared)
        return
    moments: list[Moment] = []
    order = replace(order, on_hit=partial(explain, moments, at_threshold.on_threshold_run))
    finished = measure_order(order, course.junit, wait=course.wait)
    if not finished.plan.boots:
        tell_empty(finished, course.json)
        return
    code = _conclude(finished, order, course.junit, course.json)
    raise typer.Exit(weightiest(code, tell_moments(moments, finished)))


def overrides_of(changes: Changes, of_probes: OfProbes) -> "Overrides":
    from stealtime.campaigns.overrides import Overrides

    return Overrides(
        short=changes.short,
        platforms=names_of(changes.platform),
        scenarios=names_of(changes.scenario),
        tracing=changes.tracing,
        probes=names_of(changes.probe),
        duration_ns=duration_of("--duration", changes.duration),
        max_samples=changes.max_samples,
        of_probes=of_probes.given,
        priority=changes.priority,
        repetitions=changes.repetitions,
        kernel=changes.kernel,
        cell_timeout_ns=duration_of("--timeout", changes.timeout),
        lift_rt_throttling=changes.lift_rt_throttling,
    )


def _thresholds(texts: list[str] | None) -> tuple[str, ...]:
    from stealtime.campaigns.threshold import FORMS, parse_thresholds

    try:
        return tuple(one.text for one in parse_thresholds(texts or []))
    except ValueError as error:
        raise UsageError(f"--max-overhead: {error}", hint=FORMS) from None


def _check_is_file_name(junit: Path) -> None:
    """Raise before anything is measured what would otherwise be found at the end."""
    if not junit.absolute().parent.is_dir():
        raise UsageError(
            f"--junit {junit}: the folder {junit.absolute().parent} does not exist",
            hint="create it, or name another file",
        )
    if junit.is_dir():
        raise UsageError(f"--junit {junit}: this is a folder", hint=f"name a file, for example {junit / 'cells.xml'}")
    where = junit if junit.exists() else junit.absolute().parent
    if not os.access(where, os.W_OK, effective_ids=True):
        raise UsageError(f"--junit {junit}: {where} may not be written", hint="name another file")


def _order(campaign: str | None, overrides: "Overrides", changes: Changes, course: Course) -> "Order":
    from stealtime.campaigns.file import find_campaign
    from stealtime.campaigns.model import Campaign
    from stealtime.campaigns.overrides import apply_overrides
    from stealtime.campaigns.session import Order
    from stealtime.lab.platforms.traits import traits_of
    from stealtime.lab.processors import read_cpu_sets
    from stealtime.lab.scenarios.cpus import parse_cpus
    from stealtime.store.run import default_runs_folder, find_run

    runs_folder = (course.runs or default_runs_folder()).absolute()
    if runs_folder.exists() and not runs_folder.is_dir():
        raise UsageError(f"--runs: {runs_folder} is no folder", hint="name another folder; it is made if need be")
    resumed = None if course.resume is None else find_run(course.resume, runs_folder)
    if campaign is None and resumed is not None:
        chosen = Campaign.model_validate(resumed.manifest.campaign)
    else:
        chosen = find_campaign(campaign or "quick")
    measured_cpu = None
    if changes.cpu is not None:
        # A CPU of a host over ssh is looked for there, when the platforms are checked.
        is_elsewhere = any(traits_of(name).is_remote for name in (overrides.platforms or chosen.platforms))
        wanted = parse_cpus(changes.cpu, None if is_elsewhere else read_cpu_sets().granted)
        if len(wanted) > 1:
            raise UsageError(
                f"--cpu names {len(wanted)} CPUs, and one is measured",
                hint="name one, such as -a 1; a scenario says where else a machine may run",
            )
        measured_cpu = wanted[0]
    elif resumed is not None:
        measured_cpu = _measured_cpu_of(resumed)
    return Order(
        campaign=apply_overrides(chosen, overrides),
        runs_folder=runs_folder,
        command_line=("stealtime", *sys.argv[1:]),
        measured_cpu=measured_cpu,
        resume=resumed,
        named_scenarios=overrides.scenarios,
        is_kernel_named=overrides.kernel is not None,
        loop_of=find_run(changes.loop_of, runs_folder) if changes.loop_of is not None else None,
        spread=spread_of(course.shard, resumed, each_host=course.each_host),
    )


def _measured_cpu_of(run: "Run") -> int | None:
    from stealtime.lab.platforms.traits import traits_of
    from stealtime.vocabulary.readings import Value

    measured = [trial.record for trial in run.measured]
    if measured and all(traits_of(record.cell.platform).is_remote for record in measured):
        # Of the host over ssh: this one has measured nothing.
        return next((record.machine.measured_cpu for record in measured if record.machine is not None), None)
    reading = run.manifest.host.get("measured_cpu")
    return reading.value if isinstance(reading, Value) and isinstance(reading.value, int) else None


async def _prepare(order: "Order") -> "Prepared":
    from stealtime.campaigns.session import prepare
    from stealtime.cli.output import message_console

    console = message_console()
    if not console.is_terminal:
        return await prepare(order)
    with console.status("checking the platforms"):
        return await prepare(order)


def measure_order(order: "Order", junit: Path | None, *, wait: bool) -> "Finished":
    """Prepare and measure; an interruption ends in one sentence and how to go on."""
    try:
        return asyncio.run(_prepare_and_execute(order, junit, wait=wait))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise StealtimeError(
            "interrupted before anything was measured", hint="start it again with the same command"
        ) from None


async def _prepare_and_execute(order: "Order", junit: Path | None, *, wait: bool) -> "Finished":
    from stealtime.campaigns.busy_host import findings_before, sentence_of
    from stealtime.campaigns.claims import claimed
    from stealtime.campaigns.progress import show_progress
    from stealtime.campaigns.session import Beforehand, execute
    from stealtime.campaigns.throttling_warning import throttling_warning
    from stealtime.cli.output import message_console

    prepared = await _prepare(order)
    console = message_console()
    for words in prepared.plan.alias_words:
        console.print(words, soft_wrap=True)
    for words in prepared.plan.skipped_words:
        console.print(words, style="yellow", soft_wrap=True)
    throttled = throttling_warning(prepared.plan)
    for words in [*([throttled] if throttled is not None else []), *prepared.remarks]:
        console.print(words, style="yellow", soft_wrap=True)
    is_empty = order.spread is not None and order.resume is None and not prepared.plan.boots
    if is_empty:
        # Its run says so, or whoever merges would miss it.
        console.print(f"{spread_words(order.spread)} there is nothing to measure here", soft_wrap=True)
    elif not prepared.plan.boots:
        raise UsageError(
            f"there is nothing left to measure: all {prepared.already_there} cells have been measured",
            hint="see them with `stealtime show`",
        )
    _forget(junit)
    what = f"stealtime run {order.campaign.name}"
    async with claimed(prepared.plan, what, wait=wait, tell=partial(_warn, console)) as claims:
        before = await asyncio.to_thread(findings_before, prepared.plan)
        for finding in before:
            _warn(console, sentence_of(finding))
        with show_progress(console) as observer:
            return await execute(order, prepared, observer, Beforehand(claims, tuple(before)))


def _warn(console: "Console", words: str) -> None:
    console.print(words, style="yellow", soft_wrap=True)


def _forget(junit: Path | None) -> None:
    """Remove an earlier run's results: after an interruption they would be taken for this one's."""
    if junit is not None and junit.is_file():
        junit.unlink()


def _conclude(finished: "Finished", order: "Order", junit: Path | None, as_json: bool) -> ExitCode:
    """Show the figures, judge, and then write the files, the JUnit file before the report.

    What fails at the end must not take with it what was there before: each step that fails is told.
    """
    from stealtime.campaigns.session import elsewhere
    from stealtime.cli.output import message_console, tell_error, write_last
    from stealtime.cli.travelling import prepare_to_travel
    from stealtime.report.summarizing import held, summarize
    from stealtime.store.run import Run

    stored = Run.taken_in(finished.folder)
    where = elsewhere(order.runs_folder)
    code = ExitCode.FINE
    try:
        # A run that is resumed may be held against others than it was begun with.
        summary = held(summarize(stored), order.campaign.max_overhead)
        _print_result(stored, summary, as_json)
        code, remarks = judge(summary)
        for remark in remarks:
            message_console().print(remark, soft_wrap=True)
        steps = [partial(_write_report, stored, summary, where, as_json)]
        if junit is not None:
            steps.insert(0, partial(_write_junit, stored, summary, junit))
        code = write_last(code, steps)
        prepare_to_travel(stored)
    except KeyboardInterrupt:
        tell_error(
            "interrupted; the run itself is complete",
            f"see it with `stealtime show {stored.run_id}{where}`, or `stealtime report {stored.run_id}{where}`",
        )
        code = weightiest(code, ExitCode.FAILED)
    if finished.stopped is not None:
        tell_error(finished.stopped.message, finished.stopped.hint)
        code = weightiest(code, ExitCode.FAILED)
    return code


def _print_result(run: "Run", summary: "RunSummary", as_json: bool) -> None:
    from stealtime.cli.output import data_console, print_document
    from stealtime.report.terminal.answer import print_answers
    from stealtime.report.terminal.run import print_tables
    from stealtime.report.terminal.thresholds import print_thresholds

    if as_json:
        print_document(summary)
        return
    console = data_console()
    print_thresholds(summary, console)
    print_answers(summary, console)
    print_tables(summary, console, everything=False)
    console.print(f"\nrun     {run.run_id} (every figure: stealtime show --all)", soft_wrap=True)


def _write_report(run: "Run", summary: "RunSummary", where: str, as_json: bool) -> None:
    from stealtime.cli.output import data_console
    from stealtime.report.page.html import write_report

    path = run.folder / "report.html"
    try:
        write_report(run, path, summary)
    except StealtimeError as error:
        raise StealtimeError(
            f"the report was not written: {error.message}",
            hint=f"write it to another place with `stealtime report {run.run_id}{where} -o FILE`",
        ) from error
    if not as_json:
        data_console().print(f"report  {path}", soft_wrap=True)


def _write_junit(run: "Run", summary: "RunSummary", path: Path) -> None:
    from stealtime.report.junit import write_junit

    try:
        write_junit(run, summary, path)
    except OSError as error:
        raise StealtimeError(
            f"--junit {path} cannot be written: {error.strerror or error}",
            hint=f"the run itself is complete: see it with `stealtime show {run.run_id}`",
        ) from error


def judge(summary: "RunSummary") -> tuple[ExitCode, list[str]]:
    """Give the exit code of a run that came to its end, and a sentence for each thing that was not fine.

    Args:
        summary: The figures; with its gate, where a threshold was given.
    """
    from stealtime.report.ending import exit_code, remarks_on

    remarks = remarks_on(summary)
    if not any(cell.is_measured for cell in summary.cells):
        return ExitCode.FAILED, remarks
    return exit_code(summary, remarks), remarks
