"""Equal runs, back to back, and how often `compare` calls them different: the share must be under 5 %.

The same campaign is measured over and over on this machine, nothing changed, each run by a `stealtime run` of its own.
Then every pair is compared as `stealtime compare` does it: whatever is called different is a false alarm. A verdict
that is never given is worth nothing, so the same runs also tell how many known differences are found: one of each pair
is made slower by arithmetic, over the real noise. Real disturbances are ``different_runs.py``'s.

The full form measures the builtin campaign `quick` eight times, some 25 minutes in all; --short two platforms with
short trials four times, a few minutes. Finished runs are kept: what is missing is measured when the program is started
again. Runs of another version of stealtime are left out, and counted; so are kept ones of a work tree with changes,
which ``git describe`` does not tell apart.
"""

import argparse
import json
import os
import platform
import sys
from importlib import resources
from pathlib import Path
from typing import Any

from equality.forms import FORMS
from equality.series import Series
from equality.tally import judge_equal_runs

from stealtime.store.run import default_runs_folder

TARGET = 0.05


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
    campaign = FORMS["short"].campaign if options.short else quick
    folder = (options.folder or default_runs_folder().with_name("equal-runs")).absolute() / form
    equal = Series(folder / "equal", campaign).measure(count)
    document = {
        "benchmark": f"equal runs ({form})",
        "machine": f"{os.cpu_count()} CPUs, {platform.release()}, load {os.getloadavg()[0]:.1f}",
        "target": TARGET,
        **judge_equal_runs(equal),
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
