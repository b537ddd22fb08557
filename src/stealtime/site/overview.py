"""Everything that the page shows, as one document: what DuckDB tells of all runs, and the verdicts."""

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from math import exp
from pathlib import Path
from typing import Any

from pydantic import Field

from stealtime.site.change_points import (
    RUNS_MIN,
    ChangePoint,
    Known,
    Series,
    find_changes,
    find_otava,
)
from stealtime.site.database import Database
from stealtime.site.peers import (
    FALSE_DISCOVERY_RATE,
    LEAST_FACTOR,
    STALLS,
    PeerJudgement,
    TrialValues,
    judge_hosts,
)
from stealtime.vocabulary.readings import Model

_LEVEL_COLUMNS = {"floor": "min_units", "p50": "p50_units", "p99": "p99_units", "p99.9": "p999_units"}
_STALL_COLUMNS = dict(zip(STALLS, ("stalls_1ms", "stalls_4ms"), strict=True))
_FOLLOWED = ("floor", "p50", "p99")
"""Figures whose changes are looked for: rarer ones change by themselves."""
BINS_A_FACTOR = 20
"""Of a curve: so many for each factor of e, 5 % wide."""


class Named(Model):
    """A host that is worse than its peers."""

    host: str
    platform: str
    cell: str
    figure: str
    value: float
    """In ns, or stalls a minute."""
    peers_median: float
    peers: int
    trials: int
    p: float
    cause: str | None
    group: list[str]


class NotJudged(Model):
    """Hosts that have too few peers, with why."""

    hosts: list[str]
    because: str
    group: list[str]


class Row(Model):
    """A row of the tables by host, kernel, platform and day."""

    key: str
    cell: str
    hosts: int
    runs: int
    trials: int
    watched_s: float
    p50_ns: float | None
    """The median of the trials' own."""
    p99_ns: float | None
    p999_ns: float | None
    longest_ns: float | None
    longest_host: str | None
    longest_at: datetime | None


class Curve(Model):
    """How many samples of a host last longer, by duration."""

    host: str
    ns: list[float]
    share: list[float]


class CellCurves(Model):
    """The distributions of a cell's hosts, and of all of them together."""

    cell: str
    hosts: int
    curves: list[Curve]
    pooled: Curve


class RunRow(Model):
    """A run, with the page of its own, where there is one."""

    run: str
    host: str
    created_at: datetime
    kernel: str | None
    microcode: str | None
    exclusivity: str | None
    state: str
    page: str | None


class SiteDocument(Model):
    """What ``stealtime site --json`` prints."""

    schema_version: int = 1
    runs: int
    hosts: int
    trials: int
    samples: int
    watched_s: float
    false_discovery_rate: float = FALSE_DISCOVERY_RATE
    least_factor: float = LEAST_FACTOR
    tests: int
    named: list[Named]
    also: dict[str, int]
    """By host, how many further figures of it are worse."""
    not_judged: list[NotJudged]
    changes: list[ChangePoint]
    changes_because: str | None
    """Why changes were not looked for."""
    series: int
    """In which changes were looked for."""
    remarks: list[str]
    rows: dict[str, list[Row]] = Field(default_factory=dict)
    """``host``, ``kernel``, ``platform``, ``day``."""
    curves: list[CellCurves] = Field(default_factory=list)
    run_rows: list[RunRow] = Field(default_factory=list)


def overview_of(database: Database, known: Sequence[Known], output: Path) -> SiteDocument:
    """Ask the database for all that the page shows.

    Args:
        database: Of the runs.
        known: Regressions that were acknowledged.
        output: The folder of the page, from which links to the runs' own pages lead.

    Raises:
        StealtimeError: Otava failed.
    """
    judgement = judge_hosts(_trial_values(database))
    series = _series(database)
    changes, because = _changes(series, known)
    named, also = _named(judgement)
    head = database.rows(
        "SELECT count(DISTINCT run), count(DISTINCT host), count(*), coalesce(sum(samples), 0)::BIGINT, "
        "coalesce(sum(watched_units / units_per_s), 0) FROM trials WHERE usable AND samples IS NOT NULL"
    )[0]
    runs = database.rows("SELECT count(*), count(DISTINCT host) FROM runs")[0]
    return SiteDocument(
        runs=runs[0],
        hosts=runs[1],
        trials=head[2],
        samples=head[3],
        watched_s=head[4],
        tests=judgement.tests,
        named=named,
        also=also,
        not_judged=_not_judged(judgement),
        changes=changes,
        changes_because=because,
        series=0 if because else len(series),
        remarks=[*database.remarks, *_left_out(database)],
        rows={name: _rows(database, key) for name, key in _KEYS.items()},
        curves=_curves(database),
        run_rows=_run_rows(database, output),
    )


_KEYS = {
    "host": "t.host",
    "kernel": "coalesce(r.kernel_release, 'unknown')",
    "platform": "t.platform",
    "day": "strftime(t.started_at, '%Y-%m-%d')",
}


def _trial_values(database: Database) -> list[TrialValues]:
    levels = ", ".join(f"t.{column} * 1e9 / t.units_per_s" for column in _LEVEL_COLUMNS.values())
    stalls = ", ".join(f"t.{column}" for column in _STALL_COLUMNS.values())
    rows = database.rows(
        "SELECT t.host, r.cpu_model, r.microcode, r.kernel_release, t.cell, t.loop_iterations, "  # noqa: S608
        f"t.watched_units / t.units_per_s, t.cause, {levels}, {stalls} "
        "FROM trials t JOIN runs r ON r.run = t.run WHERE t.usable AND t.samples IS NOT NULL "
        "ORDER BY t.host, t.cell, t.started_at, t.run, t.trial"
    )
    first, second = 8, 8 + len(_LEVEL_COLUMNS)
    return [
        TrialValues(
            host=row[0],
            group=tuple("unknown" if one is None else one for one in row[1:4]),
            cell=row[4],
            work="" if row[5] is None else str(row[5]),
            levels=dict(zip(_LEVEL_COLUMNS, row[first:second], strict=True)),
            stalls=dict(zip(_STALL_COLUMNS, row[second:], strict=True)),
            watched_s=row[6] or 0.0,
            cause=row[7],
        )
        for row in rows
    ]


def _series(database: Database) -> list[Series]:
    columns = ", ".join(
        f"median({_LEVEL_COLUMNS[name]} * 1e9 / t.units_per_s) AS v{number}" for number, name in enumerate(_FOLLOWED)
    )
    rows = database.rows(
        "SELECT t.host, t.cell, coalesce(t.loop_iterations, 0), t.run, r.created_at, "  # noqa: S608
        f"{columns} FROM trials t JOIN runs r ON r.run = t.run WHERE t.usable AND t.samples IS NOT NULL "
        "GROUP BY ALL ORDER BY t.host, t.cell, 3, r.created_at, t.run"
    )
    own: dict[tuple[str, str, int], list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        own[row[0], row[1], row[2]].append(row)
    found = []
    for (host, cell, _), told in own.items():
        if len(told) < RUNS_MIN:
            continue
        for number, name in enumerate(_FOLLOWED):
            whole = [row for row in told if row[5 + number] is not None]
            if len(whole) >= RUNS_MIN:
                at = tuple(row[4] for row in whole)
                found.append(
                    Series(
                        host, cell, name, at, tuple(row[3] for row in whole), tuple(row[5 + number] for row in whole)
                    )
                )
    return found


def _changes(series: Sequence[Series], known: Sequence[Known]) -> tuple[list[ChangePoint], str | None]:
    if not series:
        return [], f"no host has {RUNS_MIN} runs of a cell"
    program = find_otava(os.environ)
    if program is None:
        return [], (
            "Apache Otava is not installed: install it in an environment of its own with "
            "`uv tool install apache-otava`, or name it in $STEALTIME_OTAVA"
        )
    return find_changes(series, known, program), None


def _named(judgement: PeerJudgement) -> tuple[list[Named], dict[str, int]]:
    shown: dict[tuple[str, str], Named] = {}
    also: dict[str, int] = defaultdict(int)
    for one in judgement.named:
        kind = "stalls" if one.figure in STALLS else "level"
        if (one.host, kind) in shown:
            also[one.host] += 1
            continue
        fields = {**asdict(one), "group": list(one.group), "platform": one.cell.partition(".")[0]}
        del fields["is_named"]
        shown[one.host, kind] = Named(**fields)
    return list(shown.values()), dict(also)


def _not_judged(judgement: PeerJudgement) -> list[NotJudged]:
    grouped: dict[tuple[tuple[str, ...], str], list[str]] = defaultdict(list)
    for one in judgement.unjudged:
        grouped[one.group, one.because].append(one.host)
    return [NotJudged(hosts=hosts, because=why, group=list(group)) for (group, why), hosts in grouped.items()]


def _left_out(database: Database) -> list[str]:
    rows = database.rows("SELECT count(*), min(why_not) FROM trials WHERE NOT usable")
    count, why = rows[0]
    return [f"{count} trials may not be used and count nowhere, for example because {why}"] if count else []


def _rows(database: Database, key: str) -> list[Row]:
    longest = "t.longest_units / t.units_per_s"
    at = "t.started_at + to_microseconds((t.longest_start_units * 1e6 / t.units_per_s)::BIGINT)"
    # Of those that are as long the earliest: which thread of DuckDB comes first is not to show.
    in_order = f"ORDER BY {longest} DESC NULLS LAST, {at}, t.host"
    found = database.rows(
        f"SELECT {key} AS k, t.cell, count(DISTINCT t.host), count(DISTINCT t.run), count(*), "  # noqa: S608
        "sum(t.watched_units / t.units_per_s ORDER BY t.started_at, t.run, t.trial), "
        "median(t.p50_units * 1e9 / t.units_per_s), median(t.p99_units * 1e9 / t.units_per_s), "
        "median(t.p999_units * 1e9 / t.units_per_s), max(t.longest_units * 1e9 / t.units_per_s), "
        f"first(t.host {in_order}), first({at} {in_order}) "
        "FROM trials t JOIN runs r ON r.run = t.run WHERE t.usable AND t.samples IS NOT NULL "
        "GROUP BY k, t.cell ORDER BY t.cell, k"
    )
    return [Row(**dict(zip(Row.model_fields, row, strict=True))) for row in found]


def _curves(database: Database) -> list[CellCurves]:
    rows = database.rows(
        "SELECT cell, host, floor(ln(greatest(duration_ns, 1)) * ?)::INTEGER AS bin, sum(count)::BIGINT "
        "FROM counts GROUP BY ALL ORDER BY cell, host, bin",
        [BINS_A_FACTOR],
    )
    cells: dict[str, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for cell, host, position, count in rows:
        cells[cell][host].append((position, count))
    found = []
    for cell, hosts in cells.items():
        together: dict[int, int] = defaultdict(int)
        for bins in hosts.values():
            for position, count in bins:
                together[position] += count
        curves = [_curve(host, bins) for host, bins in hosts.items()]
        pooled = _curve("all", sorted(together.items()))
        found.append(CellCurves(cell=cell, hosts=len(hosts), curves=curves, pooled=pooled))
    return found


def _curve(host: str, bins: Sequence[tuple[int, int]]) -> Curve:
    total = left = sum(count for _, count in bins)
    ns, share = [], []
    for position, count in bins:
        ns.append(round(exp(position / BINS_A_FACTOR), 1))
        share.append(left / total)
        left -= count
    return Curve(host=host, ns=ns, share=share)


def _run_rows(database: Database, output: Path) -> list[RunRow]:
    rows = database.rows(
        "SELECT run, host, created_at, kernel_release, microcode, exclusivity, state FROM runs "
        "ORDER BY created_at DESC, run"
    )
    return [
        RunRow(
            run=row[0],
            host=row[1],
            created_at=row[2],
            kernel=row[3],
            microcode=row[4],
            exclusivity=row[5],
            state=row[6],
            page=_page_of(database.folders.get(row[0]), output),
        )
        for row in rows
    ]


def _page_of(folder: Path | None, output: Path) -> str | None:
    """Give the way to a run's own page from ``output``; None where it has none."""
    if folder is None or not (folder / "report.html").is_file():
        return None
    return os.path.relpath(folder / "report.html", output)
