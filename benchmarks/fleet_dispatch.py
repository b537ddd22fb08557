"""What it costs to have a campaign measured by a site's scheduler: time for each cell, and quiet.

*Dispatch*: one host in a network namespace, with a scheduler, a worker and TLS between them, does the same trials of
100 ms once by `stealtime fleet run` and once by `stealtime run`, few of them and many. What the many take longer than
the few, by the one less by the other, is the cost of a trial that is dispatched; starting is in neither. At most 50 ms.

*Silence*: the same trials of `tick` beside the worker and its scheduler, by `fleet run`, and with both stopped
(SIGSTOP), by `run`, in turn. Printed are the ratios of the percentiles with their intervals; what lies beyond an
interval's end could not have been missed.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "rigs"))

from fleet_site import FleetSite, fleet_site
from pairs import spread, take_turns

from stealtime.merging.tables import tables_of
from stealtime.report.interval import ratio_of_repetitions
from stealtime.store.run import Run

HOST = "a"
TARGET_MS = 50.0
FEW, MANY = 4, 44
FIGURES = ("p50_units", "p99_units", "p999_units", "longest_units")


class Host:
    """A host of a site, on which the same is measured by the scheduler and without it."""

    def __init__(self, site: FleetSite, folder: Path, cpu: int) -> None:
        self._site, self._folder, self._cpu, self._numbers = site, folder, cpu, count()

    def by_scheduler(self, duration: str, repetitions: int) -> tuple[float, list[Run]]:
        """Have it measured by a fleet run; give how long that took in s, and what came of it."""
        fleet = self._folder / f"fleet-{next(self._numbers)}"
        began_s = time.monotonic()
        done = self._site.run("quick", *self._campaign(duration, repetitions), "-o", str(fleet))
        took_s = time.monotonic() - began_s
        if done.returncode != 0:
            raise SystemExit(f"the fleet run failed: {done.stderr[-2000:]}")
        return took_s, [Run.open(path.parent) for path in (fleet / "runs").glob("*/manifest.json")]

    def by_itself(self, duration: str, repetitions: int) -> tuple[float, list[Run]]:
        """Measure it by a run of its own, while worker and scheduler are stopped."""
        runs = self._folder / f"runs-{next(self._numbers)}"
        program = [sys.executable, "-c", "from stealtime.start import main; main()", "run", "quick"]
        argv = [*self._site.laboratory.nodes[HOST].prefix, *program, *self._campaign(duration, repetitions)]
        with self._stopped():
            began_s = time.monotonic()
            done = subprocess.run(
                [*argv, "--runs", str(runs)],
                env=self._site.environment(HOST),
                capture_output=True,
                text=True,
                check=False,
            )
            took_s = time.monotonic() - began_s
        if done.returncode != 0:
            raise SystemExit(f"the run failed: {done.stderr[-2000:]}")
        return took_s, [Run.open(path.parent) for path in runs.glob("*/manifest.json")]

    def _campaign(self, duration: str, repetitions: int) -> list[str]:
        own = ["-P", "native", "--probe", "tick", "-D", duration, "-n", str(repetitions)]
        return [*own, "-a", str(self._cpu)]

    @contextmanager
    def _stopped(self) -> Iterator[None]:
        processes = [self._site.scheduler, *self._site.workers.values()]
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                process.send_signal(signal.SIGCONT)


def dispatch(host: Host, pairs: int) -> bool:
    """Measure what a dispatched trial costs; tell whether that is at most the target."""
    sides = {
        f"{name}, {number} trials": lambda measure=measure, number=number: measure("100ms", number)[0]
        for name, measure in (("fleet run", host.by_scheduler), ("run", host.by_itself))
        for number in (FEW, MANY)
    }
    costs_ms = []
    for pair in take_turns(pairs, sides):
        fleet_few, fleet_many, own_few, own_many = pair.values()
        costs_ms.append(1e3 * ((fleet_many - fleet_few) - (own_many - own_few)) / (MANY - FEW))
        print(", ".join(f"{name}: {took_s:.2f} s" for name, took_s in pair.items()), flush=True)
    found = spread(costs_ms)
    print(
        f"a dispatched trial costs {found['median']:.1f} ms ({found['min']:.1f} to {found['max']:.1f}, {pairs} pairs)"
    )
    print(f"target: at most {TARGET_MS:g} ms: {'met' if found['median'] <= TARGET_MS else 'missed'}")
    return found["median"] <= TARGET_MS


def silence(host: Host, pairs: int) -> None:
    """Measure what a trial has from the worker that waits for it."""
    values: dict[str, dict[str, list[float]]] = {"with": {}, "without": {}}
    for number in range(pairs):
        sides = [("with", host.by_scheduler), ("without", host.by_itself)]
        for name, measure in sides if number % 2 == 0 else sides[::-1]:
            _keep(values[name], measure("3s", 2)[1])
    print(f"silence: {len(values['with'][FIGURES[0]])} trials of 3 s beside the worker, as many without")
    for figure in FIGURES:
        beside, alone = values["with"][figure], values["without"][figure]
        ratio = ratio_of_repetitions(alone, beside, same_session=True)
        missed = f"{100 * (max(ratio.high, 1 / ratio.low) - 1):.1f} %"
        print(
            f"  {figure.removesuffix('_units'):8} {median(beside):10.0f} / {median(alone):10.0f} ns: ratio "
            f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f}); more than {missed} could not have been missed"
        )


def _keep(figures: dict[str, list[float]], runs: Sequence[Run]) -> None:
    for row in (row for run in runs for row in tables_of(run).rows if row.usable):
        for name in FIGURES:
            units = getattr(row, name)
            if units and row.units_per_s:
                figures.setdefault(name, []).append(units * 1e9 / row.units_per_s)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="default 5; twice as many for the silence")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)), help="to measure on")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, fleet_site(Path(name), workers=[HOST]) as site:
        host = Host(site, Path(name), options.cpu)
        is_met = dispatch(host, options.pairs)
        silence(host, 2 * options.pairs)
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
