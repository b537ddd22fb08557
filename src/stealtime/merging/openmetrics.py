"""A run for the textfile collector of node_exporter: histograms of its samples, which may be added up over hosts.

Buckets are powers of two of a nanosecond, the same on every host; counts are those of ``counts.parquet``. The format is
that of Prometheus 0.0.4, which is what the collector reads, and each histogram has its sum in seconds.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from stealtime.merging.tables import RunTables, tables_of
from stealtime.merging.trial_row import TrialRow
from stealtime.report.page.file import write_page
from stealtime.store.counts import Counts
from stealtime.store.run import Run

FIRST_NS, LAST_NS = 1 << 7, 1 << 33
"""128 ns, less than any probe's floor; and 8.6 s."""


def write_openmetrics(run: Run, path: Path) -> int:
    """Write the file, whole or not at all, as the collector needs it; gives the number of its lines.

    Raises:
        StealtimeError: It cannot be written.
    """
    lines = list(metric_lines(run, tables_of(run)))
    write_page(path, ("\n".join(lines) + "\n").encode())
    return len(lines)


def metric_lines(run: Run, tables: RunTables) -> Iterator[str]:
    """Give the lines of all metrics of a run."""
    cells: dict[tuple[str, str], list[TrialRow]] = defaultdict(list)
    for row in tables.rows:
        cells[row.cell, row.host].append(row)
    name = "stealtime_sample_duration_seconds"
    yield f"# HELP {name} Durations of the samples of the last run, by cell."
    yield f"# TYPE {name} histogram"
    for rows in cells.values():
        yield from _histogram(name, rows, tables.counts)
    yield from _gauge(
        "stealtime_longest_sample_seconds",
        "The longest sample of the last run; it grows with the time watched.",
        {_labels(rows[0]): max(_longest_s(row) for row in rows) for rows in cells.values()},
    )
    yield from _gauge(
        "stealtime_watched_seconds",
        "How long the last run watched.",
        {_labels(rows[0]): sum(row.watched_s for row in rows if row.is_counted) for rows in cells.values()},
    )
    yield from _gauge(
        "stealtime_trials_not_usable",
        "Trials of the last run that may not be used.",
        {_labels(rows[0]): float(sum(not row.usable for row in rows)) for rows in cells.values()},
    )
    ended = run.manifest.finished_at or run.manifest.created_at
    at = {f'run="{_escaped(run.run_id)}"': ended.timestamp()}
    yield from _gauge("stealtime_run_timestamp_seconds", "When the last run ended.", at)


def _histogram(name: str, rows: list[TrialRow], counts: Mapping[int, Counts]) -> Iterator[str]:
    labels = _labels(rows[0])
    edges = [FIRST_NS << power for power in range((LAST_NS // FIRST_NS).bit_length())]
    beyond = [0] * len(edges)
    samples, total_s = 0, 0.0
    for row in rows:
        if not row.is_counted or row.trial not in counts or row.units_per_s is None:
            continue
        own = counts[row.trial]
        cumulated = np.concatenate(([0], np.cumsum(own.count)))
        for number, edge in enumerate(edges):
            units = np.uint64(int(edge * row.units_per_s / 1e9))
            beyond[number] += int(cumulated[np.searchsorted(own.duration, units, side="right")])
        samples += own.samples
        total_s += own.total_units / row.units_per_s
    for edge, count in zip(edges, beyond, strict=True):
        yield f'{name}_bucket{{{labels},le="{edge / 1e9!r}"}} {count}'
    yield f'{name}_bucket{{{labels},le="+Inf"}} {samples}'
    yield f"{name}_sum{{{labels}}} {total_s!r}"
    yield f"{name}_count{{{labels}}} {samples}"


def _gauge(name: str, words: str, values: Mapping[str, float]) -> Iterator[str]:
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} gauge"
    for labels, value in values.items():
        yield f"{name}{{{labels}}} {value!r}"


def _longest_s(row: TrialRow) -> float:
    if not row.is_counted or row.longest_units is None or not row.units_per_s:
        return 0.0
    return row.longest_units / row.units_per_s


def _labels(row: TrialRow) -> str:
    told = {"host": row.host, "platform": row.platform, "scenario": row.scenario, "measurement": row.measurement}
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in told.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
