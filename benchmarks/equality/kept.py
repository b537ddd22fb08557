"""Runs as lines of a file: what a comparison uses of each trial, so that it can be judged again without its samples.

Lines outlive the code that measured them. They hold figures, not verdicts: those are made anew by the code of today.
"""

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from stealtime.report.cells.surroundings import Clock
from stealtime.report.strangers import StrangersFigures
from stealtime.studies.latency.analysis.model import CellSummary, HeldBack, RunSummary, Stalls, Stats, TrialSummary

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class KeptRun:
    """A run, and how it was measured."""

    form: str
    kind: str
    """``equal``, or the disturbance's name."""
    series: str
    """Only runs of one series, which one code measured with one loop, are compared with each other."""
    is_held_out: bool
    """Whether it was measured after the method of comparing was chosen."""
    summary: RunSummary


def to_line(form: str, kind: str, series: str, is_held_out: bool, run: RunSummary) -> str:
    """Write a run as a line; times are rounded to a tenth of a ns, those of the longest samples to whole ones."""
    document = {
        "form": form,
        "kind": kind,
        "run": run.run_id,
        "series": series,
        "held_out": is_held_out,
        "cells": [_cell(cell) for cell in run.cells],
    }
    return json.dumps(document, separators=(",", ":"))


def read_lines(lines: Iterable[str]) -> list[KeptRun]:
    """Read runs that :func:`to_line` wrote."""
    return [
        KeptRun(one["form"], one["kind"], one["series"], one["held_out"], _run(one)) for one in map(json.loads, lines)
    ]


def read_kept(path: Path) -> list[KeptRun]:
    """Read a compressed file of runs; none where there is no file."""
    if not path.exists():
        return []
    with gzip.open(path, "rt") as file:
        return read_lines(file)


def _cell(cell: CellSummary) -> dict[str, Any]:
    return {
        "platform": cell.platform,
        "scenario": cell.scenario,
        "probe": cell.probe,
        "parameters": cell.parameters,
        "units_per_s": None if cell.clock is None else cell.clock.units_per_s,
        "others": None if cell.strangers is None else [cell.strangers.watched_s, cell.strangers.taken_s],
        "trials": [_trial(trial) for trial in cell.trials],
    }


def _trial(trial: TrialSummary) -> dict[str, Any]:
    return {
        "repetition": trial.repetition,
        "valid": trial.valid,
        "reasons": trial.reasons,
        "loop": trial.loop_iterations,
        "stats": None if trial.stats is None else {name: _rounded(one) for name, one in dict(trial.stats).items()},
        "held_back": None if trial.held_back is None else trial.held_back.model_dump(),
        "lost_s": None if trial.stalls is None else round(trial.stalls.lost_s, 9),
        "left_out": None if trial.stalls is None else trial.stalls.left_out,
        "longest_ns": None if trial.stalls is None else [round(one) for one in trial.stalls.longest_ns],
    }


def _rounded(value: object) -> object:
    return round(value, 1) if isinstance(value, float) else value


def _run(document: dict[str, Any]) -> RunSummary:
    return _known(RunSummary, run_id=document["run"], cells=[_read_cell(cell) for cell in document["cells"]])


def _read_cell(cell: dict[str, Any]) -> CellSummary:
    units_per_s, others = cell["units_per_s"], cell["others"]
    return _known(
        CellSummary,
        platform=cell["platform"],
        scenario=cell["scenario"],
        probe=cell["probe"],
        parameters=cell["parameters"],
        traced=False,
        clock=None if units_per_s is None else _known(Clock, units_per_s=units_per_s),
        strangers=None if others is None else _known(StrangersFigures, watched_s=others[0], taken_s=others[1]),
        trials=[_read_trial(trial) for trial in cell["trials"]],
    )


def _read_trial(trial: dict[str, Any]) -> TrialSummary:
    stalls = None
    if trial["longest_ns"] is not None:
        stalls = Stalls(lost_s=trial["lost_s"], left_out=trial["left_out"], longest_ns=trial["longest_ns"])
    held_back = trial["held_back"]
    return _known(
        TrialSummary,
        repetition=trial["repetition"],
        valid=trial["valid"],
        reasons=trial["reasons"],
        stats=None if trial["stats"] is None else Stats(**trial["stats"]),
        held_back=None if held_back is None else _known(HeldBack, **held_back),
        stalls=stalls,
        loop_iterations=trial["loop"],
    )


def _known(model: type[_Model], **values: Any) -> _Model:
    """Make a part of a run of what is known of it: a comparison asks for nothing else."""
    return model.model_construct(**values)
