"""What a fleet run costs: each cell beside a plain run, and a worker beside what is measured.

*Dispatch*: the same campaign by ``stealtime run`` and by ``stealtime fleet run`` with one worker on this machine, in
turn. The controller's start and end are told apart by campaigns of two lengths: what is compared is what one more cell
takes, and the target is 50 ms more a cell.

*Silence*: the probe ``wakeup`` on the CPU that is measured by default, without any worker and with one beside it, in
turn: one that is idle, and the one that has it measured and is silent meanwhile. The kernel's counts of the worker's
threads tell how often it ran. The difference of the 99th percentiles comes with an interval over
the pairs; what lies within the interval could not have been seen.
"""

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median, stdev

import psutil
from pairs import arguments, spread
from scipy.stats import t

from stealtime.store.travelling import read_counts_file

STEALTIME = [sys.executable, "-c", "from stealtime.start import main; main()"]
_PORT = 8797
_FEW, _MANY = 4, 44
_CELL = ["quick", "-P", "native", "--probe", "wakeup", "-D", "20ms"]
TARGET_MS = 50.0


@contextlib.contextmanager
def site(folder: Path) -> Iterator[psutil.Process]:
    """Run a scheduler and one worker; gives the worker."""
    environment = {
        **os.environ,
        "XDG_DATA_HOME": str(folder / "data"),
        "STEALTIME_HOST": "here",
        "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
        "DASK_DISTRIBUTED__ADMIN__TICK__LIMIT": "1h",
    }
    address = f"tcp://127.0.0.1:{_PORT}"
    dask = [sys.executable, "-m", "dask"]
    scheduler = [*dask, "scheduler", "--host", "127.0.0.1", "--port", str(_PORT), "--no-dashboard"]
    worker = [*dask, "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", "here"]
    worker += ["--local-directory", str(folder / "dask"), "--preload", "stealtime.fleet.preload"]
    with contextlib.ExitStack() as started:
        for name, argv in (("scheduler", scheduler), ("worker", worker)):
            log = started.enter_context((folder / name).open("wb"))
            process = psutil.Popen(argv, env=environment, stdout=log, stderr=subprocess.STDOUT)
            started.callback(process.wait)
            started.callback(process.terminate)
            sign = {"scheduler": "Scheduler at:", "worker": "Registered to:"}[name]
            deadline = time.monotonic() + 60
            while sign not in (folder / name).read_text() and time.monotonic() < deadline:
                time.sleep(0.05)
        yield process


def seconds(command: list[str], folder: Path) -> float:
    """Run a command and give how long it took."""
    environment = {**os.environ, "XDG_DATA_HOME": str(folder / "data"), "STEALTIME_HOST": "here"}
    begin = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 4), done
    return time.monotonic() - begin


def per_cell_ms(command: list[str], folder: Path) -> float:
    """Give what one more cell takes, by a short campaign and a long one."""
    few, many = (seconds([*command, *_CELL, "-n", str(count)], folder) for count in (_FEW, _MANY))
    return 1000 * (many - few) / (_MANY - _FEW)


def dispatch(folder: Path, pairs: int) -> dict[str, object]:
    more = []
    with site(folder):
        for _ in range(pairs):
            plain = per_cell_ms([*STEALTIME, "run"], folder)
            fleet = per_cell_ms([*STEALTIME, "fleet", "run", "--scheduler", f"tcp://127.0.0.1:{_PORT}"], folder)
            more.append(fleet - plain)
            print(f"  a cell: {plain:6.1f} ms by run, {fleet:6.1f} ms by fleet run")
    print(
        f"more a cell: {median(more):.1f} ms ({min(more):.1f} to {max(more):.1f}, n={pairs}); target {TARGET_MS:.0f} ms"
    )
    return {"more_per_cell_ms": spread(more), "target_ms": TARGET_MS}


def switches(worker: psutil.Process) -> int:
    """Give how often its threads have given up the CPU by themselves."""
    total = 0
    for status in Path(f"/proc/{worker.pid}/task").glob("*/status"):
        lines = status.read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))
    return total


def silence(folder: Path, pairs: int, duration_s: float) -> dict[str, object]:
    """Measure without a worker, beside an idle one, and by one, which is silent then: in turn."""
    cell = ["quick", "-P", "native", "--probe", "wakeup", "-D", f"{duration_s:g}s", "-n", "1"]
    by_fleet = ["fleet", "run", "--scheduler", f"tcp://127.0.0.1:{_PORT}"]
    found: dict[str, list[float]] = {"none": [], "idle": [], "silent": []}
    rates: dict[str, list[float]] = {"idle": [], "silent": []}
    for _ in range(pairs):
        for manner, values in found.items():
            with tempfile.TemporaryDirectory(dir=folder) as name, contextlib.ExitStack() as started:
                place = Path(name)
                if manner != "none":
                    least = started.enter_context(_least_switches(started.enter_context(site(place))))
                seconds([*STEALTIME, *(by_fleet if manner == "silent" else ["run"]), *cell], place)
                values.append(p99_us(place))
                if manner != "none":
                    rates[manner].append(min(least))
    report: dict[str, object] = {"duration_s": duration_s, "pairs": pairs}
    for manner, each in rates.items():
        shifts = [one - none for one, none in zip(found[manner], found["none"], strict=True)]
        half = float(t.ppf(0.975, len(shifts) - 1)) * stdev(shifts) / math.sqrt(len(shifts))
        low, high = mean(shifts) - half, mean(shifts) + half
        print(
            f"{manner:6} worker: {median(each):6.1f} voluntary switches in its quietest second; p99 beside it "
            f"{mean(shifts):+.2f} µs ({low:+.2f} to {high:+.2f}, n={pairs}): a shift of more than "
            f"{max(abs(low), abs(high)):.2f} µs could not have been missed"
        )
        report[manner] = {"switches_per_s": spread(each), "p99_shift_us": [low, high]}
    return report


@contextlib.contextmanager
def _least_switches(worker: psutil.Process) -> Iterator[list[int]]:
    """Give the switches of each second until the context is left."""
    stop = threading.Event()
    each: list[int] = []

    def count() -> None:
        before = switches(worker)
        while not stop.wait(1.0):
            now = switches(worker)
            each.append(now - before)
            before = now

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield each
    finally:
        stop.set()
        thread.join()


def p99_us(place: Path) -> float:
    """Give the 99th percentile of the one trial that is there, from its counts."""
    path = next((place / "data/stealtime/runs").rglob("counts.parquet"))
    found = read_counts_file(path)
    reached = found.counts.count.cumsum()
    rank = math.ceil(0.99 * int(reached[-1]))
    return float(found.counts.duration[int(reached.searchsorted(rank))]) / found.units_per_s * 1e6


def main() -> None:
    given = arguments(__doc__, pairs=3).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report = {"dispatch": dispatch(folder, given.pairs), "silence": silence(folder, 2 * given.pairs + 2, 4.0)}
    if given.json:
        print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
