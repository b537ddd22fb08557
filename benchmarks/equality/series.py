"""Runs of one form, measured over and over in a folder: what is missing is measured, what is whole is kept."""

import subprocess
import sys
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from stealtime.lab.host import read_git_describe
from stealtime.store.run import Run, runs_in
from stealtime.studies.latency.analysis.model import RunSummary
from stealtime.studies.latency.analysis.summary import summarize
from stealtime.vocabulary.readings import Reading, Value


@dataclass(frozen=True)
class Series:
    """Runs of one form, in a folder of their own."""

    folder: Path
    campaign: str
    """The text of a campaign file."""
    options: tuple[str, ...] = ()
    """Of each `stealtime run`."""
    meanwhile: AbstractContextManager[object] = field(default_factory=nullcontext)
    """What goes on while a run is measured; entered anew for each."""

    def finished(self, kept: Collection[Path]) -> tuple[list[Run], int]:
        """Give the runs that are whole and of this code, oldest first, and how many others there are.

        Args:
            kept: The folders of runs that were there before: whether one of a changed work tree is of this code
                cannot be told.
        """
        version = read_git_describe()
        runs = [Run.open(folder) for folder in runs_in(self.folder)]
        own = [
            run
            for run in runs
            if run.manifest.state == "finished"
            and run.manifest.git_describe == version
            and not (run.folder in kept and _is_of_changed_tree(version))
        ]
        return own, len(runs) - len(own)

    def measure(self, count: int) -> list[RunSummary]:
        """Measure what is missing of ``count`` runs, and give them all in figures."""
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = frozenset(runs_in(self.folder))
        runs, others = self.finished(kept)
        if others:
            _say(f"{others} runs in {self.folder} are interrupted, or may be of another version, and left out")
        while len(runs) < count:
            _say(f"run {len(runs) + 1} of {count} in {self.folder}")
            self.measure_one()
            runs, _ = self.finished(kept)
        return [summarize(run) for run in runs[:count]]

    def measure_one(self) -> None:
        """Measure one more run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        campaign = self.folder / "campaign.toml"
        campaign.write_text(self.campaign)
        before = set(runs_in(self.folder))
        program = str(Path(sys.executable).with_name("stealtime"))
        argv = [program, "run", str(campaign), "--out", str(self.folder), *self.options]
        with self.meanwhile:
            ended = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        added = [Run.open(folder) for folder in runs_in(self.folder) if folder not in before]
        if not any(run.manifest.state == "finished" for run in added):
            raise SystemExit(f"a run came to no end (exit code {ended.returncode}):\n{ended.stderr}")


def _is_of_changed_tree(version: Reading) -> bool:
    """Tell whether ``git describe --dirty`` says so: its word is the same whatever the changes are."""
    return isinstance(version, Value) and str(version.value).endswith("-dirty")


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
