"""Equal and disturbed runs of a form, measured in turn: what is missing is measured, what is whole is kept."""

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from equality.disturbances import DISTURBANCES, Disturbance, Hog, with_loops_of, write_slower_loops
from equality.forms import FORMS
from equality.series import Series
from stealtime.store.run import Run
from stealtime.studies.latency.analysis.model import RunSummary
from stealtime.studies.latency.analysis.summary import summarize

EQUAL = "equal"


@dataclass(frozen=True)
class Wanted:
    """How many runs of a form there shall be."""

    form: str
    equal: int
    disturbed: int
    """Of each kind."""

    @property
    def counts(self) -> dict[str, int]:
        """By kind, ``equal`` first."""
        return {EQUAL: self.equal, **dict.fromkeys(FORMS[self.form].kinds, self.disturbed)}


def disturbances_of(kind: str) -> list[Disturbance]:
    """Give what a run of some kind is disturbed by."""
    return [] if kind == EQUAL else [DISTURBANCES[name] for name in kind.split("+")]


def measure(wanted: Wanted, folder: Path, cpu: int, until: float) -> dict[str, list[RunSummary]]:
    """Measure what is missing, the kind that is furthest behind first, and give all runs in figures.

    Args:
        wanted: How many.
        folder: Of the runs of this form.
        cpu: The measured one, for the hog.
        until: When no further run is begun, by ``time.monotonic``.

    Returns:
        By kind; of a loop that does more work the record says that it did the same.
    """
    while True:
        runs = finished(wanted.form, folder)
        behind = {kind: len(runs[kind]) / count for kind, count in wanted.counts.items() if len(runs[kind]) < count}
        if not behind or time.monotonic() >= until:
            return summaries(wanted.form, folder)
        kind = min(behind, key=lambda one: behind[one])
        print(f"{wanted.form}: run {len(runs[kind]) + 1} of kind {kind}", file=sys.stderr, flush=True)
        base = next(iter(runs[EQUAL]), None)
        _series(wanted.form, kind, folder, base, cpu).measure_one()


def finished(form: str, folder: Path) -> dict[str, list[Run]]:
    """Give the runs of this code that are whole, oldest first, by kind."""
    kinds = (EQUAL, *FORMS[form].kinds)
    return {kind: Series(folder / kind, "").finished(())[0] if (folder / kind).exists() else [] for kind in kinds}


def summaries(form: str, folder: Path) -> dict[str, list[RunSummary]]:
    """Give their figures."""
    runs = finished(form, folder)
    figures = {kind: [summarize(run) for run in own] for kind, own in runs.items()}
    for kind, own in figures.items():
        if any(one.is_slower for one in disturbances_of(kind)) and figures[EQUAL]:
            figures[kind] = [with_loops_of(figures[EQUAL][0], run) for run in own]
    return figures


def _series(form: str, kind: str, folder: Path, base: Run | None, cpu: int) -> Series:
    campaign = FORMS[form].campaign
    meanwhile: AbstractContextManager[object] = nullcontext()
    loops = None if base is None else base.folder
    for disturbance in disturbances_of(kind):
        campaign = disturbance.campaign_prefix + campaign
        if disturbance.hog:
            meanwhile = Hog(cpu)
        if disturbance.is_slower and base is not None:
            loops = write_slower_loops(base, folder / "slower-loops")
    options = () if loops is None else ("--loop-of", str(loops))
    return Series(folder / kind, campaign, options, meanwhile)
