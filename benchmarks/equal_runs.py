"""Equal runs, back to back, and how often `compare` calls them different: the share must be under 5 %.

The same campaign is measured over and over on this machine, nothing changed, each run by a `stealtime run` of its own.
Then every pair is compared as `stealtime compare` does it: whatever is called different is a false alarm. A verdict
that is never given is worth nothing, so the same runs also tell how many known differences are found: one of each pair
is made slower by arithmetic, over the real noise; and one more run has a real disturbance injected (100 us stolen every
2 ms).

The full form measures the builtin campaign `quick` eight times, some 25 minutes in all; --short two platforms with
short trials four times, a few minutes. Finished runs are kept: what is missing is measured when the program is started
again. Runs of another version of stealtime are left out, and counted; so are kept ones of a work tree with changes,
which ``git describe`` does not tell apart.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

from equality.tally import found_share, judge_equal_runs

from stealtime.lab.host import read_git_describe
from stealtime.report.comparison import compare
from stealtime.store.run import Run, default_runs_folder, runs_in
from stealtime.studies.latency.analysis.model import RunSummary
from stealtime.studies.latency.analysis.summary import summarize
from stealtime.vocabulary.readings import Reading, Value

TARGET = 0.05
SHORT = """
name = "equal-short"
platforms = ["native", "uml"]
repetitions = 4
[[probes]]
probe = "tick"
duration = "200ms"
[[probes]]
probe = "switch"
threads = [2]
duration = "200ms"
[[probes]]
probe = "wakeup"
duration = "200ms"
"""
INJECTION = 'injection = { every = "2ms", steal = "100us" }\n'
DISTURBED_STATISTIC = ("tick", "p99_ns")
"""Of the injected disturbance: it lengthens three to ten percent of the turns by 100 us."""


@dataclass(frozen=True)
class Series:
    """Runs of one form, in a folder of their own."""

    folder: Path
    campaign: str
    """The text of a campaign file."""
    options: tuple[str, ...] = ()
    """Of each `stealtime run`."""

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
        campaign = self.folder / "campaign.toml"
        campaign.write_text(self.campaign)
        kept = frozenset(runs_in(self.folder))
        runs, others = self.finished(kept)
        if others:
            _say(f"{others} runs in {self.folder} are interrupted, or may be of another version, and left out")
        while len(runs) < count:
            _say(f"run {len(runs) + 1} of {count} in {self.folder}")
            argv = [
                str(Path(sys.executable).with_name("stealtime")),
                "run",
                str(campaign),
                "--out",
                str(self.folder),
                *self.options,
            ]
            ended = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            before, (runs, _) = len(runs), self.finished(kept)
            if len(runs) == before:
                raise SystemExit(f"a run came to no end (exit code {ended.returncode}):\n{ended.stderr}")
        return [summarize(run) for run in runs[:count]]


def _is_of_changed_tree(version: Reading) -> bool:
    """Tell whether ``git describe --dirty`` says so: its word is the same whatever the changes are."""
    return isinstance(version, Value) and str(version.value).endswith("-dirty")


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def injected_figures(equal: list[RunSummary], disturbed: list[RunSummary]) -> dict[str, Any]:
    """Tell by platform how often the disturbance was found in the statistic that it must change, and anywhere."""
    probe, statistic = DISTURBED_STATISTIC
    found: dict[str, list[bool]] = {}
    for a, b in product(equal, disturbed):
        for cell in compare(a, b).cells:
            for one in cell.statistics:
                if (cell.probe, one.statistic) == (probe, statistic) and one.verdict != "not judged":
                    found.setdefault(cell.platform, []).append(one.verdict == "higher")
    shares = {name: sum(each) / len(each) for name, each in found.items()}
    return {f"{probe} {statistic}": shares, "all": found_share(product(equal, disturbed))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="two platforms, short trials, four runs")
    parser.add_argument("--runs", type=int, metavar="N", help="equal runs; default 8, with --short 4; at least 2")
    parser.add_argument("--folder", type=Path, help="where the runs are kept; default: beside the other runs")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    options = parser.parse_args()
    count = options.runs or (4 if options.short else 8)
    if count < 2:
        parser.error("--runs: two runs are needed to compare them")
    form = "short" if options.short else "full"
    quick = (resources.files("stealtime.studies.latency") / "campaigns" / "quick.toml").read_text("utf-8")
    campaign = SHORT if options.short else quick
    folder = (options.folder or default_runs_folder().with_name("equal-runs")).absolute() / form
    equal = Series(folder / "equal", campaign).measure(count)
    same_loop = ("--loop-of", str(folder / "equal" / equal[0].run_id))
    disturbed = Series(folder / "disturbed", INJECTION + campaign, same_loop).measure(1)
    document = {
        "benchmark": f"equal runs ({form})",
        "machine": f"{os.cpu_count()} CPUs, {platform.release()}, load {os.getloadavg()[0]:.1f}",
        "target": TARGET,
        **judge_equal_runs(equal),
        "found_of_the_injected": injected_figures(equal, disturbed),
    }
    if options.json:
        print(json.dumps(document, indent=1))
    else:
        _print(document)
    share = document["false_alarm_share"]
    # Nothing judged is no success either.
    sys.exit(0 if share is not None and share < TARGET else 1)


def _print(document: dict[str, Any]) -> None:
    print(f"{document['benchmark']}: {document['runs']} runs, {document['pairs']} pairs ({document['machine']})")
    for kind in ("by_statistic", "by_probe", "by_platform"):
        for name, group in document[kind].items():
            print(f"  {name:24}{group['different']:6} of {group['judged']:6} {group['share']:8.1%}")
    for title, shares in (
        ("called different with so many repetitions", document["by_repetitions"]),
        ("found, where one run is slower by", document["found_of_known_shifts"]),
        ("found in tick's p99 with 100 us stolen every 2 ms", document["found_of_the_injected"]["tick p99_ns"]),
    ):
        print(f"{title}: " + ", ".join(f"{name}: {_percent(share)}" for name, share in shares.items()))
    variances = document["variance_between_sessions"]
    if variances is not None:
        print(
            "variance between sessions, as a share of that between repetitions: "
            f"median {variances['median']:.2f}, 90th percentile {variances['p90']:.2f}"
        )
    for because, many in document["not_judged"].items():
        print(f"not judged: {many} statistics, because {because}")
    around = document["false_alarm_share_without_one_run"]
    spread = f" ({_percent(around[0])} to {_percent(around[1])} without one run)" if around else ""
    print(f"false_alarm_share: {_percent(document['false_alarm_share'])}{spread}; target: under {TARGET:.0%}")


def _percent(share: float | None) -> str:
    return "nothing was judged" if share is None else f"{share:.1%}"


if __name__ == "__main__":
    main()
