"""A merged run as CSV: its figures over hosts, and the counts that they are made of."""

import csv
from pathlib import Path

from stealtime.merging.figures import figures_of
from stealtime.merging.pooling import pools_of_rows
from stealtime.merging.tables import tables_of
from stealtime.store.export import whole_or_absent
from stealtime.store.run import Run
from stealtime.store.writer import disk_errors


def write_hosts_csv(run: Run, folder: Path) -> dict[str, int]:
    """Write ``hosts.csv`` and ``counts.csv``; gives the number of rows of each file.

    Raises:
        StealtimeError: The run's tables are damaged, or a file cannot be written.
    """
    tables = tables_of(run)
    hosts, counts = folder / "hosts.csv", folder / "counts.csv"
    written = {str(hosts): 0, str(counts): 0}
    with whole_or_absent(hosts), disk_errors(hosts):
        folder.mkdir(parents=True, exist_ok=True)
        with hosts.open("w", newline="") as file:
            writer = csv.writer(file)
            head = (
                "cell",
                "figure",
                "hosts",
                "pooled_ns",
                "smallest_ns",
                "smallest_host",
                "largest_ns",
                "largest_host",
            )
            writer.writerow((*head, "value_ns", "low_ns", "high_ns", "not_judged_because"))
            for cell in figures_of(tables.rows, pools_of_rows(tables.rows, tables.counts)):
                for one in cell.figures:
                    range_of = (one.pooled_ns, one.smallest_ns, one.smallest_host, one.largest_ns, one.largest_host)
                    interval = (one.value_ns, one.low_ns, one.high_ns, one.because)
                    writer.writerow((cell.cell, one.name, len(cell.hosts), *range_of, *interval))
                    written[str(hosts)] += 1
    with whole_or_absent(counts), disk_errors(counts), counts.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("cell", "host", "repetition", "duration_units", "units_per_s", "count"))
        for row in tables.rows:
            if row.trial not in tables.counts:
                continue
            own = tables.counts[row.trial]
            for duration, count in zip(own.duration.tolist(), own.count.tolist(), strict=True):
                writer.writerow((row.cell, row.host, row.repetition, duration, row.units_per_s, count))
            written[str(counts)] += len(own.count)
    return written
