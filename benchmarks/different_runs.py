"""Disturbed runs beside equal ones, and how often `compare` finds what differs: in 90 % of pairs, on each platform.

Its twin ``equal_runs.py`` asks how often equal runs are called different; this one asks what is seen. Real runs of one
form are measured, with nothing changed and with a known disturbance, each by a `stealtime run` of its own, and every
equal run is compared with every disturbed one:

- a hog, an ordinary process that spins on the measured CPU for 8 s of every 16 s;
- a loop that does 10 % more work than the record says, as on a machine that became slower;
- a stall of 5 ms once in each 10 s of trial;
- with --short: 100 us stolen every 2 ms.

Each has figures that it must change (``equality/disturbances.py``); it is found where one of them says so. The equal
runs among themselves tell the false alarms at the same time.

What is missing of --runs and --disturbed is measured, the kind that is furthest behind first, and whole runs are kept:
the program may be stopped and started again, and --minutes stops it. The full form takes an hour of a machine that does
nothing else; the hog and the slower loop, which change different figures, are in the same runs. --kept judges runs that
are kept as lines in the repository: figures of trials, no samples, so that they can be judged anew by the code of
today. --write adds the runs of --folder to them.
"""

import argparse
import gzip
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from math import inf
from pathlib import Path
from typing import Any

from equality.disturbances import DISTURBANCES
from equality.forms import FORMS, FULL
from equality.found import found_of
from equality.kept import KeptRun, read_kept, to_line
from equality.recording import EQUAL, Wanted, finished, measure, summaries
from equality.tally import tally

from stealtime.store.run import default_runs_folder
from stealtime.studies.latency.analysis.model import RunSummary

TARGET_FOUND = 0.9
TARGET_FALSE = 0.05
PAIRS_MIN = 20
"""Of real runs, for a share of 90 % to mean something."""
KEPT = Path(__file__).parent / "equality" / "measured.jsonl.gz"


def judge(form: str, groups: Sequence[Mapping[str, Sequence[RunSummary]]]) -> dict[str, Any]:
    """Compare equal runs with each other and with disturbed ones.

    Args:
        form: Its name.
        groups: Runs by kind; only runs of one group are compared with each other.
    """
    equal = tally(pair for group in groups for pair in combinations(group.get(EQUAL, ()), 2)).document()
    disturbances = {}
    for name in FORMS[form].disturbances:
        disturbed = [
            [run for kind, runs in group.items() if name in kind.split("+") for run in runs] for group in groups
        ]
        pairs = [
            pair for group, own in zip(groups, disturbed, strict=True) for pair in product(group.get(EQUAL, ()), own)
        ]
        disturbances[name] = {
            "what": DISTURBANCES[name].words,
            "runs": sum(map(len, disturbed)),
            "platforms": found_of(DISTURBANCES[name], pairs),
        }
    return {
        "equal_runs": sum(len(group.get(EQUAL, ())) for group in groups),
        "equal_pairs": sum(len(list(combinations(group.get(EQUAL, ()), 2))) for group in groups),
        "false_alarms": {key: equal[key] for key in ("judged", "different", "share", "by_statistic", "by_platform")},
        "disturbances": disturbances,
    }


def reaches_targets(document: Mapping[str, Any], pairs_min: int = PAIRS_MIN) -> bool:
    """Tell whether a form's figures are good enough; nothing judged is not, nor are fewer pairs than wanted."""
    share = document["false_alarms"]["share"]
    platforms = [list(disturbance["platforms"].values()) for disturbance in document["disturbances"].values()]
    return (
        share is not None
        and share <= TARGET_FALSE
        and all(
            bool(own) and all(one["pairs"] >= pairs_min and one["found"] >= TARGET_FOUND for one in own)
            for own in platforms
        )
    )


def groups_of(kept: Iterable[KeptRun], form: str, *, is_held_out: bool | None) -> list[dict[str, list[RunSummary]]]:
    """Group kept runs of a form by what may be compared with each other.

    Args:
        kept: Of all forms.
        form: The one that is wanted.
        is_held_out: Only those that were measured after the method was chosen, or before; None: all.
    """
    groups: dict[str, dict[str, list[RunSummary]]] = {}
    for one in kept:
        if one.form == form and is_held_out in {None, one.is_held_out}:
            groups.setdefault(one.series, {}).setdefault(one.kind, []).append(one.summary)
    return list(groups.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--short", action="store_true", help="two platforms, short trials, two equal runs and one other"
    )
    parser.add_argument("--form", choices=FULL, help="only this one of the full form's two campaigns")
    parser.add_argument("--runs", type=int, metavar="N", help="equal runs of each campaign; default 5, with --short 2")
    parser.add_argument(
        "--disturbed", type=int, metavar="N", help="disturbed runs of each kind; default 4, with --short 1"
    )
    parser.add_argument(
        "--minutes", type=float, metavar="N", help="begin no run later than that; 0: judge what is there"
    )
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)), help="the measured one, for the hog")
    parser.add_argument("--folder", type=Path, help="where the runs are kept; default: beside the other runs")
    parser.add_argument("--kept", action="store_true", help=f"measure nothing, and judge {KEPT.name}")
    parser.add_argument("--held-out", action="store_true", help="of those, only runs that the method was not chosen by")
    parser.add_argument("--write", action="store_true", help=f"add the runs of the folder to {KEPT.name}, and end")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the tables")
    options = parser.parse_args()
    forms = ("short",) if options.short else (options.form,) if options.form else FULL
    folder = (options.folder or default_runs_folder().with_name("different-runs")).absolute()
    if options.write:
        _write(folder, forms)
        return
    equal, disturbed = options.runs or (2 if options.short else 5), options.disturbed or (1 if options.short else 4)
    until = time.monotonic() + (inf if options.minutes is None else 60.0 * options.minutes)
    documents = {}
    for form in forms:
        if options.kept:
            groups = groups_of(read_kept(KEPT), form, is_held_out=True if options.held_out else None)
        else:
            groups = [measure(Wanted(form, equal, disturbed), folder / form, options.cpu, until)]
        documents[form] = judge(form, groups)
    document = {
        "benchmark": "different runs",
        "machine": f"{os.cpu_count()} CPUs, {platform.release()}, load {os.getloadavg()[0]:.1f}",
        "kept": options.kept,
        "target_found": TARGET_FOUND,
        "target_false_alarms": TARGET_FALSE,
        "forms": documents,
    }
    if options.json:
        print(json.dumps(document, indent=1))
    else:
        for form, one in documents.items():
            _print(form, one)
    pairs_min = 1 if options.short else PAIRS_MIN
    sys.exit(0 if all(reaches_targets(one, pairs_min) for one in documents.values()) else 1)


def _write(folder: Path, forms: Sequence[str]) -> None:
    known = {one.summary.run_id for one in read_kept(KEPT)}
    with gzip.open(KEPT, "at") as file:
        for form in forms:
            figures = summaries(form, folder / form)
            base = next(iter(finished(form, folder / form)[EQUAL]), None)
            for kind, runs in figures.items():
                for run in runs:
                    if run.run_id not in known and base is not None:
                        file.write(to_line(form, kind, base.run_id, True, run) + "\n")


def _print(form: str, document: Mapping[str, Any]) -> None:
    alarms = document["false_alarms"]
    print(f"{form}: {document['equal_runs']} equal runs, {document['equal_pairs']} pairs")
    print(f"  false alarms: {alarms['different']} of {alarms['judged']}, {_percent(alarms['share'])}")
    for kind in ("by_platform", "by_statistic"):
        for name, group in alarms[kind].items():
            print(f"    {name:20}{group['different']:6} of {group['judged']:6} {group['share']:7.1%}")
    for name, disturbance in document["disturbances"].items():
        print(f"  {name} ({disturbance['what']}): {disturbance['runs']} runs")
        for on, one in disturbance["platforms"].items():
            figures = ", ".join(f"{figure} {share:.0%}" for figure, share in one["by_figure"].items())
            few = "" if one["pairs"] >= PAIRS_MIN else f", of at least {PAIRS_MIN} that are wanted"
            print(f"    {on:20} found in {one['found']:6.1%} of {one['pairs']} pairs{few}  ({figures})")


def _percent(share: float | None) -> str:
    return "nothing was judged" if share is None else f"{share:.1%}"


if __name__ == "__main__":
    main()
