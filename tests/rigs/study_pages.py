"""A page of every study, as full as a long run makes it, for tests that look at pages. Nothing in it was measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import call_cells
import realtime_pictures
import stretch_cells
import telephony_cells
from synthetic_attribution import synthetic_attribution, synthetic_tracing_overhead
from synthetic_run import SyntheticCell, write_synthetic_run

from stealtime.hosts.checkpoints import Checkpoints
from stealtime.report.answer import Answer
from stealtime.report.catalogue.page import section_of
from stealtime.report.circumstances.limits import Limits, limits_of
from stealtime.report.page.html import render
from stealtime.report.page.section import Section
from stealtime.report.summarizing import summarize
from stealtime.schedulability.curve import CurveRequest, trace_curve
from stealtime.schedulability.overheads import OverheadModel
from stealtime.schedulability.page import write_curve
from stealtime.schedulability.supply import parse_supply
from stealtime.store.model import Cell, TrialRecord
from stealtime.store.results import Result
from stealtime.store.run import Run, Trial
from stealtime.studies.latency.analysis.model import own_part
from stealtime.studies.latency.attribution.cells import gather_causes
from stealtime.studies.latency.page.gather import gather
from stealtime.studies.latency.page.section import section as latency_section
from stealtime.studies.protection.figures import ProtectionFigures
from stealtime.studies.protection.results import Failover, RoundTrips
from stealtime.studies.protection.study import STUDY as PROTECTION
from stealtime.studies.realtime.page.section import section as realtime_section
from stealtime.studies.stretch.analysis.relate import relate
from stealtime.studies.stretch.page.section import section as stretch_section
from stealtime.studies.telephony.study import STUDY as TELEPHONY

MS = 1_000_000
REPETITIONS = 4
PLATFORMS = {"native": 1.0, "uml": 1.7, "qemu-tcg-paravirt": 8.4}
PROBES: tuple[tuple[str, dict[str, int], float, float], ...] = (
    ("tick", {"loop_ns": 68_000}, 68_000.0, 3e6),
    ("wakeup", {"interval_ns": MS}, 1_900.0, 410_000.0),
)
"""Each with its floor and its longest sample, natively."""
STRANGERS = ("before the run: the host is busy: other programs had 100 % of CPU 1 just before the run", *(
    f"{platform} alone {probe}: not alone in 4 of 4 trials: others had 70 % (median; most 78 %) of CPU 1: cc"
    for platform in PLATFORMS for probe in ("tick 68us", "switch 2", "switch 10", "switch 100", "wakeup 1ms")
))  # fmt: skip
"""As on a busy host: a line for each cell."""
TRACED = ("uml", "tick", 1)
GUEST = "qemu-tcg-paravirt"


def write_latency(path: Path) -> None:
    """Three platforms, two probes, four repetitions; one trial of a guest traced besides."""
    cells = [
        SyntheticCell(
            platform, probe, parameters, floor * min(factor, 3.0), worst * factor * (1 + 0.3 * number),
            0.15 + 0.2 * number, 1_200, repetition=number + 1, tick_cost_ns=2_000.0 * factor,
        )
        for platform, factor in PLATFORMS.items()
        for probe, parameters, floor, worst in PROBES
        for number in range(REPETITIONS)
    ]  # fmt: skip
    traced = [replace(cell, traced=True) for cell in cells if (cell.platform, cell.probe, cell.repetition) == TRACED]
    run = Run.open(write_synthetic_run(path.parent / "latency", cells=[*cells, *traced]).folder)
    summary = summarize(run)
    causes = gather_causes(run, synthetic_attribution, synthetic_tracing_overhead)
    section = latency_section(gather(run, own_part(summary)), causes, {})
    records = tuple(trial.record for trial in run.trials)
    limits = replace(limits_of(run, summary), strangers=STRANGERS)
    path.write_text(render(run.manifest, records, [section], limits, [_answer("latency")]))


def write_stretch(path: Path) -> None:
    """A guest alone and beside others, and guests that did the same; with the host's counters over time."""
    native = stretch_cells.cell("native", "whole", [0.5, 0.51, 0.5, 0.505], vcpus=2, cpu_s=1.0)
    alike = stretch_cells.together("overcommitted-with-three", *([[2.0, 2.1, 1.9, 2.0], [2.4] * 4, [2.2] * 4]))
    cells = [*stretch_cells.provisioned(), *relate([native, alike])[1:]]
    _write(path, stretch_section(cells, [*stretch_cells.recordings(), None]))


def write_realtime(path: Path) -> None:
    _write(path, realtime_section(realtime_pictures.cells(), realtime_pictures.gathered()))


def write_telephony(path: Path) -> None:
    _write(path, section_of(TELEPHONY, [*telephony_cells.some_cells(), *call_cells.call_cells()]))


def write_protection(path: Path) -> None:
    _write(path, section_of(PROTECTION, protection_cells()))


def write_sched_curve(path: Path) -> None:
    heavy = OverheadModel("measured in a guest under TCG", {"scheduling": [(1, Fraction(100_000))]})
    request = CurveRequest("light-uniform", sets=50, overheads=(heavy,), supply=parse_supply("8ms/10ms"))
    write_curve(trace_curve(request), ["stealtime", "sched", "curve", "light-uniform", "--supply", "8ms/10ms"], path)


PAGES: Mapping[str, Callable[[Path], None]] = {
    "latency": write_latency,
    "stretch": write_stretch,
    "realtime": write_realtime,
    "telephony": write_telephony,
    "protection": write_protection,
    "curve": write_sched_curve,
}


def protection_cells() -> list[ProtectionFigures]:
    """Failovers by both faults, round trips in each mode; a repetition is 1 % slower than the one before."""
    every = {"interval_ns": 100 * MS}
    return [
        *(_protected("failover", {"mode": "net", **every, "fault": fault}, [
            _failover(slow * (1 + number / 100)) for number in range(REPETITIONS)
        ]) for fault, slow in (("killed", 1.0), ("silent", 3.1))),
        *(_protected("roundtrip", {"mode": mode, **every}, [
            _round_trips(tcp * (1 + number / 100), udp, is_protected=True) for number in range(REPETITIONS)
        ]) for mode, tcp, udp in (("net", 55.0, 52.0), ("net+bypass", 56.0, 0.9), ("no-net", 1.1, 0.9))),
        _protected("roundtrip", {"mode": "off"}, [
            _round_trips(0.55 * (1 + number / 100), 0.5, is_protected=False) for number in range(REPETITIONS)
        ]),
    ]  # fmt: skip


def _protected(probe: str, parameters: dict[str, Any], results: Sequence[Result]) -> ProtectionFigures:
    cell = Cell(platform=GUEST, scenario="protected", probe=probe, parameters=parameters, traced=False)
    figures = PROTECTION.summarize_cell(
        [
            Trial(
                Path("nowhere"),
                TrialRecord(
                    cell=cell, repetition=number, host="local", state="measured", result=result, elapsed_s=1.0,
                    started_at=datetime(2026, 11, 27, tzinfo=UTC),
                ),
            )
            for number, result in enumerate(results, start=1)
        ]
    )  # fmt: skip
    assert isinstance(figures, ProtectionFigures)
    return figures


def _checkpoints() -> Checkpoints:
    return Checkpoints(
        epochs=20, elapsed_ns=2_000 * MS, pause_p50_ns=3 * MS, pause_max_ns=9 * MS, pause_total_ns=60 * MS,
        hold_p50_ns=5 * MS, shipped_bytes=3_000_000, pages=900,
    )  # fmt: skip


def _failover(slow: float) -> Failover:
    return Failover(
        requests=501, acknowledged=500, violations={}, checkpoints=_checkpoints(), host="a",
        silence_tcp_ns=round(205 * slow * MS), silence_udp_ns=round(191 * slow * MS),
        fault_to_answer_tcp_ns=round(200 * slow * MS), fault_to_answer_udp_ns=round(186 * slow * MS),
        fault_to_running_ns=round(133 * slow * MS), decision_to_running_ns=9 * MS, tcp_lived=True, pages_wrong=0,
    )  # fmt: skip


def _round_trips(tcp_ms: float, udp_ms: float, *, is_protected: bool) -> RoundTrips:
    return RoundTrips(
        requests=1_001, acknowledged=1_000, violations={}, checkpoints=_checkpoints() if is_protected else None,
        tcp_p50_ns=round(tcp_ms * MS), tcp_p99_ns=round(2 * tcp_ms * MS),
        udp_p50_ns=round(udp_ms * MS), udp_p99_ns=round(2 * udp_ms * MS),
    )  # fmt: skip


def _write(path: Path, section: Section) -> None:
    """Write a page whose manifest is that of another, smaller run."""
    cell = SyntheticCell("native", "tick", {"loop_ns": 68_000}, 68_000.0, 3e6, 0.3, 100)
    known = write_synthetic_run(path.parent / f"{path.stem}-run", cells=[cell])
    answers = [_answer(path.stem)]
    path.write_text(render(Run.open(known.folder).manifest, (), [section], Limits((), (), (), ()), answers))


def _answer(study: str) -> Answer:
    """As long as answers are: a sentence of two lines, and as many lines below it as there may be."""
    return Answer(
        study=study,
        sentence=(
            "qemu-tcg-paravirt, beside three busy neighbours: the same work takes 4.13 times as long (3.98 to 4.27) as "
            "natively; 80.2 % of the lost seconds are waiting for a CPU"
        ),
        is_judged=True,
        trusted=True,
        because=[],
        lines=[
            f"uml, alone: the same work takes 1.{number}7 times as long (1.15 to 2.20) as natively"
            for number in range(5)
        ],
    )
