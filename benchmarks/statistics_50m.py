"""Statistics, periods and the report's figures of 50 million samples: ours against numpy and pandas written plainly.

A realistic ``tick`` series (a loop of 68 us, noise, ticks at nearly 250 Hz, a cause of every second, rare long
stalls) is made once from a seed and written as a trial folder. Each side then runs in a process of its own, in turn,
from the Parquet file to the figures; wall time is without the imports, peak memory is that of the whole process.

Targets: at most 3 s and 1.5 GiB, and at least 10 times faster than plain numpy/pandas. Printed, not asserted.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pairs import spread

UNITS_PER_S = 2.1e9
LOOP_UNITS = 68e-6 * UNITS_PER_S
TARGET_S = 3.0
TARGET_GIB = 1.5
TARGET_RATIO = 10.0
BUCKETS = 65_536
CHUNK = 1 << 20


def write_series(folder: Path, samples: int, seed: int) -> None:
    """Write the Parquet files of a trial, and the part of ``trial.json`` that is read, as in ``docs/run-format.md``."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from stealtime.store.tables import EVENTS_SCHEMA, PARQUET_KEY

    random = np.random.default_rng(seed)
    description = {"schema_version": 1, "layout": {"name": "tiled"}, "units_per_s": UNITS_PER_S}
    metadata = {PARQUET_KEY: json.dumps(description).encode()}
    schema = pa.schema([("duration", pa.uint32())], metadata=metadata)
    now = 0.0
    with pq.ParquetWriter(
        folder / "samples.parquet",
        schema,
        compression="zstd",
        use_dictionary=False,
        column_encoding={"duration": "BYTE_STREAM_SPLIT"},
    ) as writer:
        for first in range(0, samples, CHUNK):
            count = min(CHUNK, samples - first)
            duration = LOOP_UNITS + random.exponential(0.05e-6 * UNITS_PER_S, count)
            start = now + np.cumsum(duration) - duration
            for rate_hz, cost_s in ((250.0, 3e-6), (1.0, 400e-6)):
                cycle = start / UNITS_PER_S * rate_hz
                hit = np.floor(cycle + LOOP_UNITS / UNITS_PER_S * rate_hz) > np.floor(cycle)
                duration[hit] += cost_s * UNITS_PER_S * random.uniform(0.9, 1.3, int(hit.sum()))
            stalled = random.random(count) < 1e-5
            duration[stalled] += random.pareto(1.5, int(stalled.sum())) * 10e-6 * UNITS_PER_S
            rows = np.minimum(duration, 2**32 - 2).astype(np.uint32)
            now += float(rows.sum(dtype=np.uint64))
            writer.write_table(pa.table({"duration": rows}, schema=schema))
    with pq.ParquetWriter(folder / "events.parquet", EVENTS_SCHEMA.with_metadata(metadata)) as writer:
        writer.write_table(EVENTS_SCHEMA.with_metadata(metadata).empty_table())


def compute_ours(folder: Path) -> dict[str, Any]:
    from stealtime.studies.latency.analysis.series import read_series

    series = read_series(folder, int(LOOP_UNITS))
    loaded_at_s = time.perf_counter()
    summary = series.summary()
    periods = series.periods()
    periods_at_s = time.perf_counter()
    series.envelope(BUCKETS)
    series.percentile_curve()
    series.histogram()
    series.worst(256)
    return {
        "loaded_at_s": loaded_at_s,
        "periods_at_s": periods_at_s,
        "p999_ns": summary["p999_ns"],
        "max_ns": summary["max_ns"],
        "max_at_s": summary["max_at_s"],
        "rates_hz": sorted(round(period["rate_hz"], 2) for period in periods),
    }


def compute_plainly(folder: Path) -> dict[str, Any]:
    """The same as one would write it at once: columns, ``quantile``, ``groupby``, and an FFT for the periods."""
    import numpy as np
    import pandas as pd

    frame = pd.read_parquet(folder / "samples.parquet")
    loaded_at_s = time.perf_counter()
    frame["ns"] = frame["duration"] * (1e9 / UNITS_PER_S)
    frame["start_s"] = (frame["duration"].astype("uint64").cumsum() - frame["duration"]) / UNITS_PER_S
    frame["ns"].describe()
    quantiles = frame["ns"].quantile([0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999], interpolation="lower")
    worst = frame.nlargest(256, "ns")

    # Ticks: a periodogram of which of the short steps of time hold a sample well above the median.
    rates = []
    for threshold_ns, step_s in ((1_000, 200e-6), (100_000, 0.05)):
        event = frame["ns"] > frame["ns"].median() + threshold_ns
        train = np.bincount((frame.loc[event, "start_s"] / step_s).astype("int64"))
        power = np.abs(np.fft.rfft(train - train.mean())) ** 2
        rates.append(round(float(np.argmax(power)) / (len(train) * step_s), 2))
    periods_at_s = time.perf_counter()

    bucket = (frame["start_s"] / (frame["start_s"].iloc[-1] / BUCKETS)).astype("int64")
    grouped = frame.groupby(bucket)["ns"]
    grouped.agg(["count", "min", "max"])
    frame.loc[grouped.idxmax(), "start_s"]
    np.quantile(frame["ns"], 1 - np.logspace(0, -7.5, 180))
    np.histogram(frame["ns"], bins=np.geomspace(frame["ns"].min(), frame["ns"].max(), 200))
    near = frame["ns"][frame["ns"] <= quantiles[0.99]]
    np.histogram(near, bins=256)
    return {
        "loaded_at_s": loaded_at_s,
        "periods_at_s": periods_at_s,
        "p999_ns": float(quantiles[0.999]),
        "max_ns": float(worst["ns"].iloc[0]),
        "max_at_s": float(worst["start_s"].iloc[0]),
        "rates_hz": sorted(rates),
    }


SIDES: dict[str, Callable[[Path], dict[str, Any]]] = {"ours": compute_ours, "plain": compute_plainly}


def run_child(side: str, folder: Path) -> None:
    """Compute one side and print what it took, as JSON."""
    import numpy  # noqa: F401 - imports are not what is compared
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    import stealtime.studies.latency.analysis.series  # noqa: F401

    began = time.perf_counter()
    figures = SIDES[side](folder)
    ended = time.perf_counter()
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    steps = {
        "load_s": figures.pop("loaded_at_s") - began,
        "statistics_and_periods_s": figures["periods_at_s"] - began,
    }
    steps["statistics_and_periods_s"] -= steps["load_s"]
    steps["figures_s"] = ended - figures.pop("periods_at_s")
    print(json.dumps({"wall_s": ended - began, "peak_gib": peak_gib, **steps, "figures": figures}))


def measure(side: str, folder: Path) -> dict[str, Any]:
    argv = [sys.executable, __file__, "--child", side, "--folder", str(folder)]
    finished = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(finished.stdout)
    return result


def report(samples: int, pairs: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    document: dict[str, Any] = {"benchmark": "statistics_50m", "samples": samples, "pairs": len(pairs)}
    for side in SIDES:
        keys = ("wall_s", "load_s", "statistics_and_periods_s", "figures_s", "peak_gib")
        document[side] = {key: spread([pair[side][key] for pair in pairs]) for key in keys}
        document[side]["figures"] = pairs[0][side]["figures"]
    document["ratio"] = spread([pair["plain"]["wall_s"] / pair["ours"]["wall_s"] for pair in pairs])
    document["targets"] = {"wall_s": TARGET_S, "peak_gib": TARGET_GIB, "ratio": TARGET_RATIO}
    return document


def print_table(document: dict[str, Any]) -> None:
    print(f"{document['samples']:,} samples, {document['pairs']} interleaved pairs; min / median / max")
    for side in SIDES:
        for key, values in document[side].items():
            if key != "figures":
                print(f"{side:6} {key:25} {values['min']:8.2f} {values['median']:8.2f} {values['max']:8.2f}")
        print(f"{side:6} {document[side]['figures']}")
    ratio = document["ratio"]
    print(f"ratio  plain / ours              {ratio['min']:8.2f} {ratio['median']:8.2f} {ratio['max']:8.2f}")
    print(f"targets: wall <= {TARGET_S} s, peak <= {TARGET_GIB} GiB, ratio >= {TARGET_RATIO}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=50_000_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    parser.add_argument("--child", choices=list(SIDES), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        run_child(arguments.child, arguments.folder)
        return
    with tempfile.TemporaryDirectory(prefix="stealtime-statistics-") as temporary:
        folder = Path(temporary)
        print(f"writing {arguments.samples:,} samples, seed {arguments.seed}", file=sys.stderr)
        write_series(folder, arguments.samples, arguments.seed)
        pairs = []
        for number in range(arguments.pairs):
            order = list(SIDES) if number % 2 == 0 else list(reversed(SIDES))
            pairs.append({side: measure(side, folder) for side in order})
            print(f"pair {number + 1} of {arguments.pairs} is done", file=sys.stderr)
    document = report(arguments.samples, pairs)
    if arguments.json:
        print(json.dumps(document, indent=2))
    else:
        print_table(document)


if __name__ == "__main__":
    main()
