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
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from math import log
from pathlib import Path

import numpy as np
from pydantic import Field, ValidationError
from scipy import stats

from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.readings import Model

PROGRAM = "STEALTIME_OTAVA"
RUNS_MIN = 8
"""Of fewer runs a change is not told from a bad day."""
SIDE_MIN = 3
"""Runs on each side of a change."""
P_MOST = 1e-5
"""Of a change in a series of up to ``RUNS_OF_P`` runs, by Student's t of the logarithms of the two levels. Whoever
looks for the best of all borders finds too small a p: in longer series this is divided by the cube of how many times
longer they are. So 1,000 quiet series of 8 to 120 runs raise at most one alarm (``docs/many-hosts.md``)."""
RUNS_OF_P = 20
P_ASKED = 0.001
"""What Otava is asked for: with less it does not begin to split a series in which a rise has gone back again."""
LEAST_CHANGE = 0.05
_TIMEOUT_S = 600.0
_SERIES_A_CALL = 500
_OFFSET = 100.0
"""Otava takes ratios to the mean, which must not be near 0."""


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
    """Of the levels before and after it, up to the next changes; not corrected for having looked for it."""
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
        command += ["-P", str(P_ASKED), "-M", "0", "--since", _day(-1), *tests]
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
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for test, groups in ((test, groups) for one in told for test, groups in one.items()):
        for change in (change for each in groups for change in each["changes"]):
            found[test, int(change["metric"].removeprefix("v"))].append(int(change["index"]))
    return [point for (test, column), borders in found.items() for point in _points(tests[test][column], borders)]


def _write_csv(path: Path, series: Sequence[Series]) -> None:
    """Write logarithms: a duration differs by a factor, and those of a noisy host lie more evenly by them."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("time", *(f"v{number}" for number in range(len(series)))))
        for row in range(len(series[0].values)):
            writer.writerow((_day(row), *(repr(log(one.values[row]) + _OFFSET) for one in series)))


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


def _points(one: Series, borders: Sequence[int]) -> Iterator[ChangePoint]:
    """Give the changes that are worth a word, of those borders between two levels that Otava tells.

    A single run that stands out is found as two borders, or as one where Otava's window ends: too few runs are between
    them, or the levels beside it are the same.
    """
    values = np.array(one.values)
    p_most = P_MOST / max(1.0, len(values) / RUNS_OF_P) ** 3
    ordered = [0, *sorted(borders), len(values)]
    for begin, index, end in zip(ordered, ordered[1:], ordered[2:], strict=False):
        before, after = values[begin:index], values[index:end]
        if min(len(before), len(after)) < SIDE_MIN:
            continue
        levels = float(np.median(before)), float(np.median(after))
        with warnings.catch_warnings():
            # The floor of a host may be the same to the nanosecond.
            warnings.simplefilter("ignore", RuntimeWarning)
            p = float(stats.ttest_ind(np.log(before), np.log(after)).pvalue)
        if p <= p_most and max(levels) >= (1 + LEAST_CHANGE) * min(levels):
            yield ChangePoint(
                host=one.host,
                cell=one.cell,
                figure=one.figure,
                at=one.at[index],
                run=one.runs[index],
                before=levels[0],
                after=levels[1],
                p=p,
            )
