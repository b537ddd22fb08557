"""``--on-threshold`` of ``stealtime run``: its options, and what is made of the sample that is too long."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stealtime.cli.option_groups import OptionGroup
from stealtime.cli.parameters import duration_of
from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError

if TYPE_CHECKING:
    from stealtime.campaigns.moment import ThresholdRule
    from stealtime.campaigns.session import Finished
    from stealtime.report.moment import Moment
    from stealtime.store.model import TrialRecord


@dataclass(frozen=True)
class AtThreshold(OptionGroup):
    """What happens at the first sample that is too long."""

    on_threshold: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="At the first sample that exceeds the floor by more than this, e.g. 100us, freeze the traces of host"
            " and guest and stop; tell in percent what took its time; exit with 3.",
        ),
    ] = None
    on_threshold_action: Annotated[
        Literal["stop", "go-on"] | None,
        typer.Option(help="Whether the run ends at that sample, or goes on and counts the others.  [default: stop]"),
    ] = None
    on_threshold_run: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Run this by the shell once that trial has ended; $STEALTIME_SAMPLE_NS, $STEALTIME_CAUSE and others"
            " tell it what was found.",
        ),
    ] = None

    @property
    def rule(self) -> "ThresholdRule | None":
        from stealtime.campaigns.moment import ThresholdRule

        overhead_ns = duration_of("--on-threshold", self.on_threshold)
        if overhead_ns is None:
            for flag, value in (("action", self.on_threshold_action), ("run", self.on_threshold_run)):
                if value is not None:
                    raise UsageError(f"--on-threshold-{flag} needs a threshold", hint="give --on-threshold 100us")
            return None
        return ThresholdRule.model_validate(
            {"overhead": self.on_threshold, "action": self.on_threshold_action or "stop"}
        )


_STDERR = 2
"""Where a command's output goes: our standard output is for data."""


def explain(moments: "list[Moment]", command: str | None, run: Path, record: "TrialRecord") -> None:
    """Find what took the sample over the threshold, and run the command for it; called between two trials."""
    from stealtime.cli.output import tell_error
    from stealtime.report.studies import study_of
    from stealtime.store.run import Run

    trial = next(one for one in Run.open(run).trials if one.record.trial_id == record.trial_id)
    try:
        moment = study_of(record.cell.probe).moment(trial)
    except StealtimeError as error:
        tell_error(f"the sample over the threshold is not explained: {error.message}", error.hint)
        return
    if moment is None:
        return
    moments.append(moment)
    if command is not None:
        told = os.environ | moment.environment(str(trial.folder))
        ended = subprocess.run(["sh", "-c", command], env=told, stdin=subprocess.DEVNULL, stdout=_STDERR, check=False)
        if ended.returncode != 0:
            tell_error(f"the command of --on-threshold-run ended with {ended.returncode}: {command}", None)


def tell_moments(moments: "Sequence[Moment]", finished: "Finished") -> ExitCode:
    """Print what was found of samples over the threshold; give the exit code that they stand for."""
    from stealtime.cli.output import message_console
    from stealtime.report.terminal.moment import render_moments

    if not finished.tally.hits:
        return ExitCode.FINE
    console = message_console()
    console.print(render_moments(moments), soft_wrap=True)
    left = len(finished.plan.cells) - len(finished.tally.measured) - len(finished.tally.failed)
    if left > 0:
        name = finished.folder.name
        told = "1 cell is" if left == 1 else f"{left} cells are"
        words = f"stopped there: {told} left; `stealtime run --resume {name}` goes on"
        console.print(words, markup=False, highlight=False, soft_wrap=True)
    return ExitCode.THRESHOLD
