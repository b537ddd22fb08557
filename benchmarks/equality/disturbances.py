"""Disturbances that are put into real runs, and in which figures each of them must show."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.report.circumstances.company import OTHERS
from stealtime.store.run import Run
from stealtime.studies.latency.analysis.model import RunSummary, TrialSummary

SLOWER = 1.1
"""How much more work the busy loop does."""


@dataclass(frozen=True)
class MustShow:
    """A figure that a disturbance changes, whatever else it does."""

    probe: str
    statistic: str
    verdict: str = "higher"


@dataclass(frozen=True)
class Disturbance:
    """What differs from an equal run."""

    name: str
    words: str
    must_show: Mapping[str, tuple[MustShow, ...]]
    """By platform; those of ``""`` hold for all others. One of them is enough."""
    campaign_prefix: str = ""
    """Put before the text of the campaign file."""
    hog: bool = False
    """Whether a hog spins on the measured CPU."""
    is_slower: bool = False
    """Whether the loop does :data:`SLOWER` times the work."""

    def figures(self, platform: str) -> tuple[MustShow, ...]:
        """Give the figures of a platform that it must change."""
        return self.must_show.get(platform, self.must_show[""])


class Hog(AbstractContextManager["Hog"]):
    """An ordinary process that spins on the measured CPU for 8 s of every 16 s."""

    def __init__(self, cpu: int) -> None:
        self._cpu = cpu
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Hog":
        argv = [find_agent(), "load", "--cpu", str(self._cpu), "--kind", "cpu", "--on", "8s", "--off", "8s"]
        self._process = subprocess.Popen([*map(str, argv), "--duration", "1h"], stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()


def write_slower_loops(run: Run, folder: Path) -> Path:
    """Write a run without cells whose loops do :data:`SLOWER` times the work of those of ``run``, for ``--loop-of``."""
    manifest = json.loads((run.folder / "manifest.json").read_text())
    for loop in manifest["loops"]:
        loop["iterations"] = round(loop["iterations"] * SLOWER)
    copy = folder / run.folder.name
    shutil.rmtree(copy, ignore_errors=True)
    (copy / "cells").mkdir(parents=True)
    (copy / "manifest.json").write_text(json.dumps(manifest))
    return copy


def with_loops_of(equal: RunSummary, slower: RunSummary) -> RunSummary:
    """Give a run of slower loops as it would be if nobody knew: as if they had done the work of ``equal``'s."""
    trials = (trial for cell in equal.cells for trial in cell.trials)
    iterations = next(trial.loop_iterations for trial in trials if trial.loop_iterations is not None)

    def trial_of(trial: TrialSummary) -> TrialSummary:
        known = None if trial.loop_iterations is None else iterations
        return trial.model_copy(update={"loop_iterations": known})

    cells = [cell.model_copy(update={"trials": [trial_of(one) for one in cell.trials]}) for cell in slower.cells]
    return slower.model_copy(update={"cells": cells})


COMPANY = MustShow("", OTHERS)
"""That others had more of the CPUs: of all of a platform's cells together."""
_TICK = tuple(
    MustShow("tick", statistic) for statistic in ("mean_overhead_ns", "frequent_stalls", "stalls", "rare_stalls")
)
_WAKEUP = tuple(MustShow("wakeup", statistic) for statistic in ("mean_overhead_ns", "frequent_stalls", "stalls"))
DISTURBANCES = {
    one.name: one
    for one in (
        Disturbance(
            "hog",
            "an ordinary process spins on the measured CPU for 8 s of every 16 s",
            # Natively the probe has real-time priority over the hog: it loses nothing to it, and that the CPU does not
            # idle makes it wake sooner, by less than sessions differ.
            {"": (*_TICK, *_WAKEUP), "native": (COMPANY,)},
            hog=True,
        ),
        Disturbance("slower", "the loop does 10 % more work", {"": (MustShow("tick", "floor_ns"),)}, is_slower=True),
        Disturbance(
            "stall",
            "5 ms stolen once in each 10 s of trial",
            {"": (*_TICK[2:], MustShow("tick", "longest_stalls"), MustShow("tick", "recurring_stalls"))},
            # The first theft comes that long after the begin of a trial: there is one in 10 s.
            campaign_prefix='injection = { every = "9s", steal = "5ms" }\n',
        ),
        Disturbance(
            "thefts",
            "100 us stolen every 2 ms",
            # It lengthens three to ten percent of the turns, which a busy host does by itself, and one of some 1,500
            # switches, which it does not.
            {"": (MustShow("tick", "p99_ns"), MustShow("switch", "p9999_ns"))},
            campaign_prefix='injection = { every = "2ms", steal = "100us" }\n',
        ),
    )
}
"""By their names."""
