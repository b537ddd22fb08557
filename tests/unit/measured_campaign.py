"""Figures of a made-up run of the campaign ``hyperv2013``, in memory: the paper's own maxima times a factor."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from pydantic import JsonValue

from stealtime.report.claims.library import find_published
from stealtime.report.claims.model import PeriodClaims, PublishedRow
from stealtime.report.interval import REPETITIONS_MIN
from stealtime.studies.latency.analysis.model import CellSummary, HeldBack, Period, RunSummary, Stats
from stealtime.vocabulary.readings import Facts, Value

PLATFORMS = {"bare": "native", "emulated": "qemu-tcg-emulated", "paravirt": "qemu-tcg-paravirt"}
FLOOR_NS = 68_000.0
SAMPLES = 150_000

Factor = Callable[[PublishedRow, str], float]


def as_published(_row: PublishedRow, _role: str) -> float:
    """Every maximum is the paper's."""
    return 1.0


def stats(probe: str, worst_ns: float, count: int = SAMPLES) -> Stats:
    """A trial whose largest overhead (tick) or longest latency (switch) is ``worst_ns``."""
    floor_ns = FLOOR_NS if probe == "tick" else 0.1 * worst_ns
    over_ns = worst_ns if probe == "tick" else worst_ns - floor_ns
    shares = {"p50_ns": 0.01, "p90_ns": 0.02, "p99_ns": 0.1, "p999_ns": 0.3, "p9999_ns": 0.5, "p99999_ns": 1.0}
    unresolved = [key for key, tail in (("p9999_ns", 10_000), ("p99999_ns", 100_000)) if count < tail]
    return Stats(
        count=count, floor_ns=floor_ns, min_ns=floor_ns, mean_ns=floor_ns, sd_ns=1.0,
        **{key: floor_ns + share * over_ns for key, share in shares.items()},
        max_ns=floor_ns + over_ns, max_at_s=0.5, max_overhead_ns=over_ns, unresolved=unresolved,
    )  # fmt: skip


def cell(
    platform: str,
    scenario: str,
    test: str,
    worst_ns: float,
    *reasons: str,
    count: int = SAMPLES,
    loop_ns: int = 68_000,
    periods: Sequence[Period] = (),
) -> CellSummary:
    """One untraced cell; invalid if there are reasons."""
    probe, _, threads = test.partition("-")
    parameters: dict[str, JsonValue] = {"threads": int(threads)} if threads else {"loop_ns": loop_ns}
    return CellSummary.model_validate(
        {
            "platform": platform, "scenario": scenario, "probe": probe, "parameters": parameters,
            "valid": not reasons, "reasons": list(reasons), "limits": [], "clock": None,
            "stats": stats(probe, worst_ns, count), "periods": periods,
            "trials": [
                {
                    "repetition": number, "valid": True, "reasons": [], "folder": "",
                    "stats": stats(probe, worst_ns, count),
                }
                for number in range(1, REPETITIONS_MIN + 1)
            ],
        }
    )  # fmt: skip


def period(period_s: float, found: int = REPETITIONS_MIN) -> Period:
    """A period that is in some of the repetitions."""
    return Period(
        period_s=period_s, rate_hz=1 / period_s, cost_p50_ns=1e6, cost_p90_ns=1e6, events=10, coverage=1.0,
        lost_share=0.5, level_ns=1e5, repetition=1, found_in_repetitions=found, searched_repetitions=REPETITIONS_MIN,
    )  # fmt: skip


def is_of(claims: PeriodClaims, row: PublishedRow) -> bool:
    return row.test == claims.test and row.scenario in claims.scenarios


def campaign_cells(factor: Factor = as_published, platforms: dict[str, str] | None = None) -> list[CellSummary]:
    """Give every cell of the campaign; the bare machine also runs beside neighbours, ten times slower there."""
    names = PLATFORMS if platforms is None else platforms
    published = find_published("hyperv2013")
    return [
        cell(
            names[role],
            row.scenario,
            row.test,
            published.figure(row, role) * factor(row, role) * (10.0 if role == "bare" and row.neighbours else 1.0),
            periods=[period(one.period_s) for one in published.periods if is_of(one, row)],
        )
        for row in published.rows
        for role in published.roles
    ]


def run_of(cells: list[CellSummary], *, skipped: dict[str, str] | None = None, host: Facts | None = None) -> RunSummary:
    """A run with these cells."""
    return RunSummary(
        run_id="20261121T200000Z-hyperv2013-3f2a",
        created_at=datetime(2026, 11, 21, 20, tzinfo=UTC),
        campaign="hyperv2013",
        host={"hypervisor": Value(value=True)} if host is None else host,
        cells=cells,
        skipped=skipped or {},
    )


def replaced(cells: Sequence[CellSummary], new: CellSummary) -> list[CellSummary]:
    """Put a cell in the place of the one that did the same."""
    return [new if one.key == new.key else one for one in cells]


def held_back(rest_ns: float) -> HeldBack:
    """What RT throttling explains, and the longest of the rest."""
    return HeldBack(
        cause="RT throttling", pause_ns=50e6, count=4, longest_ns=51e6, rest_max_ns=rest_ns + 68e3,
        rest_max_overhead_ns=rest_ns, rest_max_at_s=0.5, rest_paused_ns=rest_ns,
    )  # fmt: skip
