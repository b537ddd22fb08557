"""Names the causes of a traced trial's longest samples where they travel: the column ``cause`` of ``longest.parquet``.

Traces stay with their host, and who merges many hosts asks of the longest sample why it took so long: so it is said
where the traces are.
"""

import os

import pyarrow as pa
import pyarrow.parquet as pq

from stealtime.store.counts import LONGEST_KEPT, write_table
from stealtime.store.documents import LONGEST, PARTIAL_PREFIX
from stealtime.store.run import Trial
from stealtime.store.tables import read_description
from stealtime.store.travelling import has_counts, read_counts
from stealtime.studies.latency.attribution.attribute import attribute_trial
from stealtime.studies.latency.attribution.model import AttributedSpike


def name_causes(trial: Trial) -> None:
    """Write what took most of each of the longest samples, where a trial was traced and its samples are counted.

    A sample that is no spike, whose traces lost something, or most of which nothing explains has no cause.

    Raises:
        StealtimeError: The trial is damaged.
        OSError: It cannot be written.
    """
    is_traced = trial.host_trace_path is not None or trial.machine_trace_path is not None
    if not is_traced or not has_counts(trial):
        return
    # Those of a run of an earlier version are made now.
    read_counts(trial)
    path = trial.folder / LONGEST
    worst = attribute_trial(trial, worst=LONGEST_KEPT).worst
    known = {spike.index: cause for spike in worst if (cause := _cause(spike)) is not None}
    table = pq.ParquetFile(path).read(use_threads=False)
    causes = pa.array([known.get(index) for index in table.column("index").to_pylist()], pa.string())
    told = table.set_column(table.schema.get_field_index("cause"), "cause", causes)
    if told.equals(table):
        return
    temporary = path.with_name(f"{PARTIAL_PREFIX}{LONGEST}.{os.getpid()}")
    write_table(told, temporary, read_description(path))
    temporary.replace(path)


def _cause(spike: AttributedSpike) -> str | None:
    if not spike.judged or not spike.parts or spike.parts[0].cause.kind == "unexplained":
        return None
    return spike.parts[0].cause.label
