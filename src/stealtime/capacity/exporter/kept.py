"""What the exporter keeps: a line for the host and each guest a minute, as Parquet files in a ring of bounded size.

The minute's lines are appended to ``current.jsonl``, so that a crash loses a minute at most. Each hour another process
makes a Parquet file of them (``python -m stealtime.capacity.exporter.kept FOLDER``): what writes Parquet takes 60 MB,
which the exporter would never give back. A day of 300 guests takes some MB; the oldest files go beyond ``MOST_BYTES``.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stealtime.vocabulary.errors import StealtimeError, UsageError

KEPT_S = 25 * 3600
"""A day, and the hour that is being written."""
SEGMENT_S = 3600
MOST_BYTES = 64 << 20
"""Of all files together."""
CURRENT = "current.jsonl"
_PARQUET, _LINES = ".parquet", ".jsonl"


class Line(NamedTuple):
    """What was so of the host or of one guest in a minute."""

    at_s: int
    """The end of the minute, seconds since 1970."""
    elapsed_s: float
    guest: str
    """Empty for the host."""
    name: str
    uuid: str
    verdict: str
    rule: str
    """Which gave it; empty where none held."""
    run_s: float
    wait_s: float
    """Of all its virtual CPUs together; 0 for the host."""
    watched_seconds: int
    crowded_seconds: int


class Keeper:
    """Keeps lines in a folder.

    Args:
        folder: Made where it is not there.

    Raises:
        StealtimeError: It cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._packing: subprocess.Popen[bytes] | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._rotate()
        except OSError as error:
            raise StealtimeError(
                f"--keep {folder}: verdicts cannot be kept there: {error.strerror}", hint="name a folder of your own"
            ) from error
        self._began_s: int | None = None

    def add(self, lines: Sequence[Line]) -> None:
        """Keep the lines of a minute.

        Raises:
            OSError: They cannot be written.
        """
        if not lines:
            return
        now_s = lines[0].at_s
        if self._began_s is not None and now_s - self._began_s >= SEGMENT_S:
            self._rotate()
            self._began_s = None
        if self._began_s is None:
            self._began_s = now_s
        with (self._folder / CURRENT).open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines)

    def close(self) -> None:
        if self._packing is not None:
            self._packing.wait()
            self._packing = None

    def _rotate(self) -> None:
        """Put the lines aside, and let another process pack them."""
        current = self._folder / CURRENT
        if current.exists():
            current.rename(self._folder / f"{_first_s(current)}{_LINES}")
        if any(path.name != CURRENT for path in self._folder.glob(f"*{_LINES}")):
            self.close()
            self._packing = subprocess.Popen([sys.executable, "-m", __name__, str(self._folder)])


def pack(folder: Path) -> None:
    """Make a Parquet file of each file of lines that is whole, and let what is too old or too much go."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in sorted(folder.glob(f"*{_LINES}")):
        if path.name == CURRENT:
            continue
        lines = list(_read_lines(path))
        if lines:
            columns = {name: [line[place] for line in lines] for place, name in enumerate(Line._fields)}
            unfinished = path.with_suffix(".unfinished")
            pq.write_table(pa.table(columns), unfinished, compression="zstd")
            unfinished.rename(path.with_suffix(_PARQUET))
        path.unlink()
    drop(folder)


def drop(folder: Path, most_bytes: int = MOST_BYTES) -> None:
    """Remove the oldest files, by their names, until the rest is as young and as small as it may be."""
    files = sorted(
        (path for path in folder.glob(f"*{_PARQUET}") if path.stem.isdigit()), key=lambda one: -int(one.stem)
    )
    total = 0
    for path in files:
        total += path.stat().st_size
        is_old = int(path.stem) < int(files[0].stem) - KEPT_S
        if is_old or total > most_bytes:
            path.unlink()


def read_kept(folder: Path, since_s: int) -> list[Line]:
    """Read what was kept, the oldest first.

    Args:
        folder: Of a :class:`Keeper`.
        since_s: What ended before is left out.

    Raises:
        UsageError: It cannot be read.
        StealtimeError: Nothing was kept there.
    """
    try:
        found = [line for path in sorted(folder.iterdir()) for line in _read(path) if line.at_s >= since_s]
    except OSError as error:
        raise UsageError(f"--history {folder}: it cannot be read: {error.strerror}", hint=_HINT) from error
    if not found:
        raise StealtimeError(f"--history {folder}: nothing was kept there in that time", hint=_HINT)
    return sorted(found)


_HINT = "name the folder of `stealtime watch --prometheus ADDRESS --keep FOLDER`; the unit's is below /var/lib"


def _read(path: Path) -> Iterator[Line]:
    if path.suffix == _LINES:
        yield from _read_lines(path)
    elif path.suffix == _PARQUET:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            columns: Mapping[str, list[Any]] = pq.read_table(path, columns=list(Line._fields)).to_pydict()
        except pa.ArrowException as error:
            raise StealtimeError(
                f"{path} is damaged: {error}", hint="remove that file; the others are whole"
            ) from error
        yield from (Line(*values) for values in zip(*(columns[name] for name in Line._fields), strict=True))


def _read_lines(path: Path) -> Iterator[Line]:
    for text in path.read_text("utf-8", "replace").splitlines():
        try:
            yield Line(*json.loads(text))
        except (ValueError, TypeError):
            continue  # the last one, where the machine stopped within it


def _first_s(path: Path) -> int:
    return next((line.at_s for line in _read_lines(path)), 0)


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
