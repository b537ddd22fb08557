"""The per-epoch figures of a member, from its own CSV to Parquet or another CSV.

Columns as ``crates/replicator/src/epoch_log.rs`` writes them: times in ns of the monotonic clock, whole numbers all.
"""

import csv
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from stealtime.vocabulary.errors import StealtimeError, UsageError


def export_epochs(source: Path, target: Path, *, vm: str, host: str) -> int:
    """Write the epochs of a member's present life to a file.

    A member that runs adds lines meanwhile; a last line that is not whole is left out. What the member has put aside
    for the bound of its log, ``epochs.csv.1``, comes first.

    Args:
        source: The member's ``epochs.csv``.
        target: ``*.parquet`` or ``*.csv``.
        vm: Stands in the Parquet file's metadata.
        host: Likewise.

    Returns:
        How many epochs.

    Raises:
        UsageError: The target is of another kind.
        StealtimeError: There are no figures, or they are damaged.
    """
    if target.suffix not in (".parquet", ".csv"):
        raise UsageError(f"{target} is neither *.parquet nor *.csv", hint="name the file epochs.parquet or epochs.csv")
    older = source.with_name(f"{source.name}.1")
    try:
        # The newer one first: if it is put aside in between, its lines are not lost but twice, and shown to be.
        newer_text = _newer_half(source, older)
        older_text = older.read_bytes() if older.exists() else b""
    except OSError as error:
        raise StealtimeError(
            f"{source} cannot be read: {error.strerror}", hint="a member writes it from its first epoch on"
        ) from error
    whole = _joined(older_text, newer_text[: newer_text.rfind(b"\n") + 1])
    rows = whole.count(b"\n") - 1
    if rows < 1:
        raise StealtimeError(f"{source} holds no epoch yet", hint="see `stealtime protect status`")
    partial = target.with_name(f".{target.name}.partial")
    if target.suffix == ".csv":
        partial.write_bytes(whole)
    else:
        _write_parquet(whole, partial, source, {"vm": vm, "host": host})
    shutil.move(partial, target)
    return rows


def read_epochs(source: Path, from_ns: int = 0) -> list[dict[str, int]]:
    """Give the whole rows of a member's ``epochs.csv``, by the names of its columns; it may be writing the last one.

    Args:
        source: The file. What was put aside for the bound of the log is read, too, where it may hold some of them.
        from_ns: Only epochs that began then or later, in ns of the member's monotonic clock.
    """
    older = source.with_name(f"{source.name}.1")
    newer_text = _newer_half(source, older)
    rows = _rows(newer_text)
    if from_ns and older.exists() and not (rows and rows[0]["begin_ns"] < from_ns):
        rows = _rows(_joined(older.read_bytes(), newer_text))
    return [row for row in rows if row["begin_ns"] >= from_ns]


def _rows(data: bytes) -> list[dict[str, int]]:
    lines = data[: data.rfind(b"\n") + 1].decode("ascii").splitlines()
    return [{name: int(value) for name, value in row.items()} for row in csv.DictReader(lines)]


def summarize_epochs(rows: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Give what some epochs took, at least one: their number, pauses and holds in ns, pages, and bytes on the link."""
    pauses = [row["pause_ns"] for row in rows]
    return {
        "epochs": len(rows),
        "pause_p50_ns": round(median(pauses)),
        # A measured value, as one of those that are at least as long as 99 of 100.
        "pause_p99_ns": sorted(pauses)[max(0, -(-99 * len(pauses) // 100) - 1)],
        "pause_max_ns": max(pauses),
        "pause_total_ns": sum(pauses),
        "hold_p50_ns": round(median(row["hold_ns"] for row in rows)),
        "shipped_bytes": sum(row["shipped_bytes"] for row in rows),
        "pages": sum(row["pages"] for row in rows),
    }


def _newer_half(source: Path, older: Path) -> bytes:
    try:
        return source.read_bytes()
    except FileNotFoundError:
        if older.exists():
            return b""  # it has just been put aside, and the next one is not begun
        raise


def _joined(older: bytes, newer: bytes) -> bytes:
    """Join two parts of which each begins with the names; the newer one may have been put aside while it was read."""
    rows = newer[newer.find(b"\n") + 1 :]
    if not older or (rows and older.startswith(newer)):
        return newer
    return older + rows


def _write_parquet(text: bytes, target: Path, source: Path, facts: dict[str, str]) -> None:
    import pyarrow as pa
    from pyarrow import csv as pa_csv
    from pyarrow import parquet

    try:
        table = pa_csv.read_csv(pa.BufferReader(text))
    except pa.ArrowInvalid as error:
        raise StealtimeError(f"{source} is damaged: {error}") from error
    wrong = [field.name for field in table.schema if not pa.types.is_integer(field.type)]
    if wrong:
        raise StealtimeError(f"{source} is damaged: the column {wrong[0]!r} does not hold whole numbers")
    metadata = {f"stealtime.{key}": value for key, value in facts.items()}
    parquet.write_table(table.replace_schema_metadata(metadata), target, compression="zstd")
