"""Many runs as tables of DuckDB: ``runs``, ``trials`` and ``counts`` (``docs/sql.md``).

The counts stay in their Parquet files and are read as a query needs them, within ``MEMORY``; what does not fit goes to
a temporary folder. Queries read nothing but the runs. A part of a merged run that is also given by itself counts once.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stealtime.merging.tables import RUN_COUNTS_SCHEMA, TRIALS, TRIALS_SCHEMA, is_indexed, tables_of, write_run_tables
from stealtime.store.documents import COUNTS
from stealtime.store.run import Run
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.readings import Facts, Value

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY = "1GiB"
FACTS = ("cpu_model", "microcode", "kernel_release", "operating_system", "hypervisor_signature", "exclusivity")
"""Facts of a host that are columns of ``runs``."""
_RUNS_SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("source", pa.string()),
        ("campaign", pa.string()),
        ("created_at", pa.timestamp("us")),
        ("state", pa.string()),
        ("version", pa.string()),
        ("host", pa.string()),
        ("host_id", pa.string()),
        *((name, pa.string()) for name in FACTS),
    ]
)


@dataclass
class Database:
    """The connection, and what could not be read."""

    connection: "DuckDBPyConnection"
    remarks: list[str]
    folders: dict[str, Path] = field(default_factory=dict)
    """Of the runs, by their ids: those that were given themselves."""
    scratch: "tempfile.TemporaryDirectory[str] | None" = None

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, list(parameters)).fetchall()

    def close(self) -> None:
        self.connection.close()
        if self.scratch is not None:
            self.scratch.cleanup()


def open_database(runs: Iterable[Run], left_out: list[str] | None = None) -> Database:
    """Put runs into a database in memory; of thousands of runs one is looked at after the other, and let go.

    Args:
        runs: Any.
        left_out: What whoever reads the runs leaves out, and says there; the remarks of the database go on from it.

    Raises:
        UsageError: DuckDB is not installed, or no run can be read.
    """
    try:
        import duckdb
    except ImportError as error:
        raise UsageError("DuckDB is not installed", hint="install it with `pip install stealtime[site]`") from error
    remarks = [] if left_out is None else left_out
    scratch = tempfile.TemporaryDirectory(prefix="stealtime-site-")
    connection = duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": scratch.name})
    database = Database(connection, remarks, scratch=scratch)
    try:
        _take(database, runs)
    except BaseException:
        database.close()
        raise
    return database


def _take(database: Database, runs: Iterable[Run]) -> None:
    scratch, remarks = Path("" if database.scratch is None else database.scratch.name), database.remarks
    described: list[dict[str, Any]] = []
    sources: list[tuple[str, str]] = []
    seen: set[str] = set()
    for run in _merged_last(runs):
        if run.run_id in database.folders:
            continue
        try:
            source = _source_of(run, scratch, remarks)
        except StealtimeError as error:
            remarks.append(f"{run.run_id} is left out: {error.message}")
            continue
        database.folders[run.run_id] = run.folder
        for row in _described(run, source):
            if row["run"] in seen:
                continue
            seen.add(row["run"])
            described.append(row)
            sources.append((source, row["run"]))
    if not described:
        raise UsageError("there is no run that can be read", hint="; ".join(remarks) or "give the runs of the hosts")
    _fill(database.connection, described, sources)


def _merged_last(runs: Iterable[Run]) -> Iterator[Run]:
    """Give merged runs after all others: what is given by itself does not count as a part."""
    merged = []
    for run in runs:
        if run.manifest.merged is None:
            yield run
        else:
            merged.append(run)
    yield from merged


def _source_of(run: Run, scratch: Path, remarks: list[str]) -> str:
    """Give the folder that has the tables of a run, which are made now where they are not there."""
    if is_indexed(run):
        return str(run.folder)
    tables = tables_of(run)
    remarks += tables.remarks
    if not tables.remarks and is_indexed(run):
        return str(run.folder)
    # It cannot be written, or is still running.
    folder = scratch / run.run_id
    folder.mkdir()
    write_run_tables(folder, tables)
    return str(folder)


def _described(run: Run, source: str) -> list[dict[str, Any]]:
    manifest = run.manifest
    common = {"source": source, "campaign": manifest.campaign_name, "version": manifest.stealtime_version}
    if manifest.merged is None:
        identity = manifest.identity
        return [
            {
                **common,
                "run": run.run_id,
                "created_at": manifest.created_at.astimezone(UTC).replace(tzinfo=None),
                "state": manifest.state,
                "host": run.run_id if identity is None else identity.name,
                "host_id": None if identity is None else identity.id,
                **_facts(manifest.host),
            }
        ]
    return [
        {
            **common,
            "run": part.run_id,
            "created_at": part.created_at.astimezone(UTC).replace(tzinfo=None),
            "state": part.state,
            "host": part.host,
            "host_id": None if part.identity is None else part.identity.id,
            **_facts(manifest.hosts.get(part.host, {})),
        }
        for part in manifest.merged.parts
    ]


def _facts(facts: Facts) -> dict[str, str | None]:
    known = {name: facts.get(name) for name in FACTS}
    return {name: str(one.value) if isinstance(one, Value) else None for name, one in known.items()}


def _fill(connection: "DuckDBPyConnection", described: Sequence[dict[str, Any]], sources: Sequence[Any]) -> None:
    folders = sorted({source for source, _ in sources})
    runs = pa.Table.from_pylist(list(described), schema=_RUNS_SCHEMA)
    taken = pa.table({"source": [one for one, _ in sources], "run": [run for _, run in sources]})
    connection.register("given_runs", runs)
    connection.register("given_taken", taken)
    connection.execute("CREATE TABLE runs AS SELECT * FROM given_runs")
    connection.execute("CREATE TABLE taken AS SELECT * FROM given_taken")
    connection.unregister("given_runs")
    connection.unregister("given_taken")
    columns = ", ".join(f"t.{name}" for name in TRIALS_SCHEMA.names)
    connection.execute(
        # Identifiers of our own; the files are a parameter.
        f"CREATE TABLE trials AS SELECT {columns}, k.source FROM read_parquet($files, filename = 'file') t "  # noqa: S608
        "JOIN taken k ON k.run = t.run AND t.file = k.source || '/' || $name",
        {"files": [f"{folder}/{TRIALS}" for folder in folders], "name": TRIALS},
    )
    connection.execute("UPDATE trials SET host = r.host FROM runs r WHERE r.run = trials.run")
    listed = ", ".join("'" + f"{folder}/{COUNTS}".replace("'", "''") + "'" for folder in folders)
    counted = ", ".join(f"c.{name}" for name in RUN_COUNTS_SCHEMA.names)
    connection.execute(
        f"CREATE VIEW counts AS SELECT t.run, t.host, t.cell, t.repetition, {counted}, "  # noqa: S608
        "c.duration * 1e9 / t.units_per_s AS duration_ns "
        f"FROM read_parquet([{listed}], filename = 'file') c "
        f"JOIN trials t ON t.trial = c.trial AND c.file = t.source || '/{COUNTS}' WHERE t.usable"
    )
    directories = ", ".join("'" + f"{folder}/".replace("'", "''") + "'" for folder in folders)
    connection.execute(f"SET allowed_directories = [{directories}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
