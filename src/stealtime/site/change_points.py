"""When a host's figures changed from run to run, by Apache Otava (E-divisive means; ``docs/many-hosts.md``).

Otava is called as a program: it pins an old numpy and lives in an environment of its own. It is fed one series for each
host, cell and quantile, a value a run. What it finds must also be worth a word and be seen on both sides.
"""

import csv
import json
import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import Field, ValidationError

from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.readings import Model

PROGRAM = "STEALTIME_OTAVA"
RUNS_MIN = 8
"""Of fewer runs a change is not told from a bad day."""
SIDE_MIN = 3
"""Runs on each side of a change."""
P_MOST = 1e-5
"""Of Otava's test: it looks at every point of a series, so that its p is too small; this value raised at most one alarm
in 1,000 quiet series (``tests/unit/test_change_points.py``)."""
LEAST_CHANGE = 0.05
_TIMEOUT_S = 600.0
_SERIES_A_CALL = 500


@dataclass(frozen=True)
class Series:
    """One figure of one host in one cell, a value a run, in the order of time."""

    host: str
    cell: str
    figure: str
    at: tuple[datetime, ...]
    runs: tuple[str, ...]
    values: tuple[float, ...]


class ChangePoint(Model):
    """A change that was found."""

    host: str
    cell: str
    figure: str
    at: datetime
    """Of the first run after it."""
    run: str
    before: float
    after: float
    p: float
    known: str | None = None
    """Why it is known and no alarm, where somebody has said so."""

    @property
    def factor(self) -> float:
        return self.after / self.before


class Known(Model):
    """A regression that was acknowledged; what is not named fits everything."""

    why: str = Field(min_length=1)
    host: str | None = None
    cell: str | None = None
    figure: str | None = None
    since: date
    until: date | None = None

    def fits(self, point: ChangePoint) -> bool:
        named = (self.host, self.cell, self.figure)
        told = (point.host, point.cell, point.figure)
        is_same = all(mine is None or mine == its for mine, its in zip(named, told, strict=True))
        return is_same and self.since <= point.at.date() and (self.until is None or point.at.date() <= self.until)


class KnownFile(Model):
    """A TOML file of ``--known``: a table ``[[known]]`` for each."""

    known: list[Known] = Field(default_factory=list)


def read_known(path: Path) -> list[Known]:
    """Read acknowledged regressions.

    Raises:
        UsageError: The file cannot be read, or says something else.
    """
    hint = 'write [[known]] with since = 2026-11-20 and why = "...", and host, cell or figure as far as it is about one'
    try:
        return KnownFile.model_validate(tomllib.loads(path.read_text("utf-8"))).known
    except OSError as error:
        raise UsageError(f"--known {path} cannot be read: {error.strerror}", hint=hint) from error
    except (ValueError, ValidationError) as error:
        words = error.errors()[0] if isinstance(error, ValidationError) else None
        told = str(error) if words is None else f"{'.'.join(map(str, words['loc']))}: {words['msg']}"
        raise UsageError(f"--known {path}: {told}", hint=hint) from error


def find_otava(environment: Mapping[str, str]) -> str | None:
    """Give the program; None where it is not installed."""
    named = environment.get(PROGRAM)
    return shutil.which(named) if named is not None else shutil.which("otava")


def find_changes(series: Sequence[Series], known: Sequence[Known], program: str) -> list[ChangePoint]:
    """Find the changes of some series; those of fewer than ``RUNS_MIN`` runs have none.

    Raises:
        StealtimeError: Otava failed.
    """
    long = [one for one in series if len(one.values) >= RUNS_MIN and min(one.values) > 0]
    found: list[ChangePoint] = []
    for begin in range(0, len(long), _SERIES_A_CALL):
        found += _asked(long[begin : begin + _SERIES_A_CALL], program)
    told = []
    for point in found:
        why = next((one.why for one in known if one.fits(point)), None)
        told.append(point.model_copy(update={"known": why}))
    return sorted(told, key=lambda one: (one.known is not None, one.at, one.host))


def _asked(series: Sequence[Series], program: str) -> list[ChangePoint]:
    """Ask about series of any lengths: those of one length are columns of one table, a day a run.

    Otava reads a moment in any language that there is, which takes it longer than all else: their real times would.
    """
    lengths = sorted({len(one.values) for one in series})
    tests = {f"runs{length}": [one for one in series if len(one.values) == length] for length in lengths}
    with tempfile.TemporaryDirectory(prefix="stealtime-otava-") as name:
        folder = Path(name)
        for test, own in tests.items():
            _write_csv(folder / f"{test}.csv", own)
        config = {"tests": {test: _test(folder / f"{test}.csv", len(own)) for test, own in tests.items()}}
        # JSON is YAML.
        (folder / "otava.yaml").write_text(json.dumps(config))
        command = [program, "analyze", "--config-file", str(folder / "otava.yaml"), "--output", "json"]
        command += ["-P", str(P_MOST), "-M", str(LEAST_CHANGE), "--since", _day(-1), *tests]
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_TIMEOUT_S, env=environment, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StealtimeError(f"{program} failed: {error}", hint=f"see `{program} analyze --help`") from error
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or {test for one in told for test in one} != set(tests):
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["no message"]
        raise StealtimeError(f"{program} failed: {last[0]}", hint="this stealtime was tried with apache-otava 0.8")
    changes = [
        (test, change) for one in told for test, groups in one.items() for each in groups for change in each["changes"]
    ]
    points = [_point(tests[test][int(change["metric"].removeprefix("v"))], change) for test, change in changes]
    return [one for one in points if one is not None]


def _write_csv(path: Path, series: Sequence[Series]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("time", *(f"v{number}" for number in range(len(series)))))
        for row in range(len(series[0].values)):
            writer.writerow((_day(row), *(repr(one.values[row]) for one in series)))


def _day(row: int) -> str:
    return (datetime(2000, 1, 1, tzinfo=UTC) + timedelta(days=row)).isoformat()


def _test(path: Path, columns: int) -> dict[str, object]:
    names = [f"v{number}" for number in range(columns)]
    return {
        "type": "csv",
        "file": str(path),
        "time_column": "time",
        "metrics": {name: {"column": name, "direction": -1, "scale": 1} for name in names},
        "attributes": [],
    }


def _point(one: Series, change: Mapping[str, Any]) -> ChangePoint | None:
    index = int(change["index"])
    if not SIDE_MIN <= index <= len(one.values) - SIDE_MIN:
        return None
    return ChangePoint(
        host=one.host,
        cell=one.cell,
        figure=one.figure,
        at=one.at[index],
        run=one.runs[index],
        before=median(one.values[:index]),
        after=median(one.values[index:]),
        p=float(change["pvalue"]),
    )
