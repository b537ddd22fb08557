"""A run on disk, made from a seed in the exact format of ``docs/run-format.md``, with every maximum and its time known.

It stands in for a measurement where a test needs to know the right answer beforehand. Nothing in it was measured: the
numbers only have the shape of what the probes see (a floor, noise above it, a periodic timer tick, one worst sample).
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from stealtime.store.durations import Durations
from stealtime.store.model import Cell, Manifest, TrialRecord

UNITS_PER_S = 2.1e9
"""The rate of the imaginary time-stamp counter, in Hz."""
SATURATED = 2**32 - 1
"""What stands in a 32-bit column whose true value is in ``events.parquet``."""
COUNTED_S = 2.0
SCENARIO = "alone"
STARTED_AT = datetime(2026, 11, 21, 19, 55, tzinfo=UTC)


@dataclass(frozen=True)
class SyntheticCell:
    """One trial to make up."""

    platform: str
    probe: str
    parameters: dict[str, int]
    floor_ns: float
    worst_ns: float
    """The longest sample; nothing else comes near it."""
    worst_at_fraction: float
    """Where in the trial the longest sample starts, 0 to 1."""
    count: int
    tick_hz: float = 250.0
    """A timer interrupt at this rate ..."""
    tick_cost_ns: float = 2_000.0
    """... makes every sample that it hits this much longer."""
    repetition: int = 1
    findings: tuple[dict[str, str | None], ...] = ()
    proven_share: float | None = 0.999
    """Of the longest sample that ordinary threads ran in, where a finding names a limit on real-time threads; None if
    nobody could see who ran."""
    counters: tuple[tuple[str, int], ...] = ()
    """Of the agent, besides those that each trial has."""
    failure: str | None = None
    scenario: str = SCENARIO
    traced: bool = False
    hypervisor: tuple[dict[str, int], ...] | str | None = None
    """What KVM counted of each virtual CPU in the ``COUNTED_S`` around the trial, or why there is nothing."""
    scaled: str | None = None
    """How the scenario was made to fit few CPUs; it then has a placement."""

    @property
    def identity(self) -> str:
        """The name of the cell's folder."""
        return Cell.model_validate(self.key).trial_id(self.repetition)

    @property
    def key(self) -> dict[str, Any]:
        """What makes it this cell, as ``trial.json`` has it."""
        return {
            "platform": self.platform, "scenario": self.scenario, "probe": self.probe, "parameters": self.parameters,
            "traced": self.traced,
        }  # fmt: skip


@dataclass(frozen=True)
class KnownCell:
    """What is true of a cell that was written."""

    cell: SyntheticCell
    folder: Path
    count: int
    min_ns: float
    max_ns: float
    max_at_s: float
    """From the start of sample 0 to the start of the longest sample."""
    duration_s: float


@dataclass(frozen=True)
class KnownRun:
    """A run that was written, and what is true of it."""

    folder: Path
    cells: dict[str, KnownCell] = field(default_factory=dict)

    def find(self, identity: str) -> KnownCell:
        """Give the cell with that folder name."""
        return self.cells[identity]


RT_THROTTLING: dict[str, str | None] = {
    "code": "rt_throttling",
    "level": "limits",
    "text": "sched_rt_runtime_us is 950000 of 1000000: the kernel takes the CPU away for 50 ms in every second",
    "hint": "measure again with --lift-rt-throttling",
}
CLOCK_DISAGREES: dict[str, str | None] = {
    "code": "clock_disagreement",
    "level": "invalidates",
    "text": "the time-stamp counter ran 812 ppm faster than its stated rate, more than the 500 ppm allowed",
    "hint": "measure again; if it stays, the machine's TSC cannot be used",
}


def default_cells(samples: int = 20_000) -> list[SyntheticCell]:
    """Four platforms and five probes with their parameters, one invalid cell and one that failed."""
    cells = []
    slowness = {"native": 1.0, "uml": 1.1, "qemu-tcg-emulated": 3.6, "qemu-tcg-paravirt": 3.4}
    for order, (platform, factor) in enumerate(slowness.items()):
        tick_loop = 68_000.0 * (factor if factor > 2 else 1.0)
        limits = (RT_THROTTLING,) if platform == "native" else ()
        cells.append(
            SyntheticCell(
                platform, "tick", {"loop_ns": 68_000}, tick_loop, 3_000_000.0 * factor, 0.23 + 0.17 * order, samples,
                tick_hz=1000.0 if order < 2 else 250.0, tick_cost_ns=2_400.0 * factor, findings=limits,
            )
        )  # fmt: skip
        for threads in (2, 10, 1000):
            invalid = (CLOCK_DISAGREES,) if (platform, threads) == ("uml", 1000) else ()
            refused = "the guest was gone after 3.1 s: Kernel panic" if (platform, threads) == (
                "qemu-tcg-emulated", 10) else None  # fmt: skip
            cells.append(
                SyntheticCell(
                    platform, "switch", {"threads": threads}, 180.0 * factor * (1 + threads / 1500),
                    90_000.0 * factor + threads, 0.71 - 0.12 * order, samples, findings=invalid, failure=refused,
                )
            )  # fmt: skip
        cells.append(
            SyntheticCell(
                platform, "wakeup", {"interval_ns": 1_000_000}, 1_900.0 * factor, 410_000.0 * factor,
                0.41 + 0.1 * order, max(samples // 10, 2_000),
            )
        )  # fmt: skip
    return cells


def write_synthetic_run(
    folder: Path,
    *,
    seed: int = 7,
    cells: list[SyntheticCell] | None = None,
    campaign: str = "synthetic",
    skipped: dict[str, str] | None = None,
) -> KnownRun:
    """Write a whole run under ``folder`` (which becomes the run's own folder).

    Args:
        folder: Is created; its name is the run's id.
        seed: Of the noise; the same seed gives the same bytes.
        cells: What to make up; ``default_cells()`` if None.
        campaign: The campaign's name, as it would stand in the TOML file.
        skipped: Scenarios that cannot be honest on this host, and why.
    """
    cells = default_cells() if cells is None else cells
    known = KnownRun(folder)
    (folder / "cells").mkdir(parents=True)
    for number, cell in enumerate(cells):
        generator = np.random.default_rng([seed, number])
        known.cells[cell.identity] = _write_cell(folder / "cells" / cell.identity, cell, number, generator)
    platforms = list(dict.fromkeys(cell.platform for cell in cells))
    manifest = _manifest(folder.name, campaign, platforms, seed, skipped or {})
    (folder / "manifest.json").write_text(manifest.model_dump_json(indent=2))
    return known


def _write_cell(folder: Path, cell: SyntheticCell, trial: int, generator: np.random.Generator) -> KnownCell:
    folder.mkdir()
    record: dict[str, Any] = {
        "cell": cell.key,
        "repetition": cell.repetition,
        "host": "local",
        "state": "failed" if cell.failure else "measured",
        "started_at": STARTED_AT + timedelta(seconds=10 * trial),
        "elapsed_s": 3.1,
        "machine": None if cell.failure else _machine(cell.platform),
    }
    if cell.scaled is not None:
        record["placement"] = {
            "vcpu_cpus": [[0, 1]], "emulator_cpus": [0, 1], "housekeeping_cpus": [0, 1], "scaled": cell.scaled,
        }  # fmt: skip
    serial_log = [
        f"[    0.000000] Linux version 6.1.0-rt ({cell.platform})",
        "[    0.412345] Run /init as init process",
    ]
    if cell.failure:
        serial_log.append("[    3.099871] Kernel panic - not syncing: <Attempted> to kill init!")
        record["failure"] = {"message": cell.failure, "hint": "look at serial.log", "log_tail": serial_log}
        known = KnownCell(cell, folder, 0, 0.0, 0.0, 0.0, 0.0)
    else:
        columns, events, known = _samples(cell, folder, generator)
        layout: dict[str, Any] = {"name": {"tick": "tiled", "switch": "gapped", "wakeup": "periodic"}[cell.probe]}
        if cell.probe == "wakeup":
            layout["interval"] = round(cell.parameters["interval_ns"] * UNITS_PER_S / 1e9)
        floor_units = round(cell.floor_ns * UNITS_PER_S / 1e9)
        record["outcome"] = _outcome(cell, trial, known)
        record["result"] = Durations.model_validate({"layout": layout, "calibrated_floor_units": floor_units})
        record["alignment"] = {"before": _alignment(trial, 380), "after": _alignment(trial, 395)}
        record["clocks"] = _clocks(cell.platform)
        record["hypervisor_counters"] = _hypervisor_counters(cell.hypervisor)
        clock = record["outcome"]["clock"]
        key = json.dumps({"schema_version": 1, "units_per_s": UNITS_PER_S, "layout": layout, "clock": clock})
        for name, table in (("samples", pa.table(columns)), ("events", pa.table(events))):
            described = table.replace_schema_metadata({"stealtime": key})
            pq.write_table(described, folder / f"{name}.parquet", compression="zstd")
        (folder / "agent.log").write_text("")
    (folder / "serial.log").write_text("\n".join(serial_log) + "\n")
    (folder / "trial.json").write_text(TrialRecord.model_validate(record).model_dump_json(indent=2))
    return known


def _samples(
    cell: SyntheticCell, folder: Path, generator: np.random.Generator
) -> tuple[dict[str, pa.Array], dict[str, pa.Array], KnownCell]:
    """Make the columns of one cell; also what is true of them."""
    to_units = UNITS_PER_S / 1e9
    floor = round(cell.floor_ns * to_units)
    noise = generator.exponential(0.004 * floor, cell.count)
    durations = (floor + noise).astype(np.uint64)
    tails = generator.random(cell.count) < 2e-3
    durations[tails] += generator.pareto(2.0, int(tails.sum())).clip(0, 12).astype(np.uint64) * np.uint64(floor // 6)
    durations[generator.integers(cell.count)] = floor

    gaps: npt.NDArray[np.uint64] = np.zeros(cell.count, np.uint64)
    if cell.probe == "switch":
        gaps = generator.integers(40, 90, cell.count).astype(np.uint64)
    interval = round(cell.parameters.get("interval_ns", 0) * to_units)
    worst = int(cell.worst_at_fraction * cell.count)
    durations = np.minimum(durations, np.uint64(cell.worst_ns * to_units / 2))
    durations = np.maximum(durations, np.uint64(floor))
    durations[worst] = round(cell.worst_ns * to_units)
    if cell.probe != "wakeup":
        durations += _timer_ticks(durations, gaps, UNITS_PER_S / cell.tick_hz, cell.tick_cost_ns * to_units)
        durations[worst] = round(cell.worst_ns * to_units)
    starts = (
        np.arange(cell.count, dtype=np.uint64) * np.uint64(interval)
        if cell.probe == "wakeup"
        else np.cumsum(durations + gaps) - durations
    )
    end = float(starts[-1] + durations[-1])
    known = KnownCell(
        cell, folder, cell.count, float(durations.min()) / to_units, float(durations[worst]) / to_units,
        float(starts[worst]) / UNITS_PER_S, end / UNITS_PER_S,
    )  # fmt: skip

    rows = [("saturated", int(place), int(starts[place]), int(durations[place])) for place in np.flatnonzero(
        durations >= SATURATED)]  # fmt: skip
    if _limit(cell) is not None and cell.proven_share:
        rows.append(("ordinary", 0, int(starts[worst]), round(float(durations[worst]) * cell.proven_share)))
    kinds, *numbers = list(zip(*rows, strict=True)) or [(), (), (), ()]
    events = {"kind": pa.array(kinds, pa.string())}
    events |= {
        name: pa.array(column, pa.uint64())
        for name, column in zip(("index", "start", "duration"), numbers, strict=True)
    }
    columns = {"duration": pa.array(np.minimum(durations, SATURATED).astype(np.uint32))}
    if cell.probe == "switch":
        columns = {"gap": pa.array(gaps.astype(np.uint32)), **columns}
    return columns, events, known


def _timer_ticks(
    durations: npt.NDArray[np.uint64], gaps: npt.NDArray[np.uint64], period: float, cost: float
) -> npt.NDArray[np.uint64]:
    """Give what a timer that fires every ``period`` adds to the sample that it falls into.

    What it adds moves all samples after it, so the times are found by going over them until nothing moves any more.
    """
    added = np.zeros_like(durations)
    for _ in range(50):
        ends = np.cumsum(durations + gaps + added)
        ticks = np.floor(ends / period).astype(np.int64)
        hit = np.diff(ticks, prepend=0) > 0
        moved = np.where(hit, round(cost), 0).astype(np.uint64)
        if np.array_equal(moved, added):
            break
        added = moved
    return added


def _outcome(cell: SyntheticCell, trial: int, known: KnownCell) -> dict[str, Any]:
    start_tsc = 8_123_456_789_012
    elapsed_ns = round(known.duration_s * 1e9)
    reading = {"tsc": start_tsc, "monotonic_raw_ns": 3_868_312_757_000, "monotonic_ns": 3_868_312_757_100,
               "bracket_tsc": 64}  # fmt: skip
    later = {
        **reading,
        "tsc": start_tsc + round(known.duration_s * UNITS_PER_S),
        "monotonic_raw_ns": reading["monotonic_raw_ns"] + elapsed_ns,
        "monotonic_ns": reading["monotonic_ns"] + elapsed_ns,
    }
    probe = {"name": "tick", "iterations": 56_000} if cell.probe == "tick" else {"name": cell.probe, **cell.parameters}
    return {
        "trial": trial,
        "request": {
            "trial": trial, "probe": probe, "cpus": [0], "priority": 95,
            "duration_ns": max(elapsed_ns, 1), "max_samples": None, "lift_rt_throttling": False, "injection": None,
        },
        "findings": list(cell.findings),
        "clock": {
            "name": "tsc", "units_per_s": UNITS_PER_S, "tsc_hz": UNITS_PER_S, "tsc_hz_source": "synthetic",
            "check": {"disagreement_ppm": 812.0 if CLOCK_DISAGREES in cell.findings else 0.7, "error_ppm": 0.05,
                      "limit_ppm": 500.0},
            "start": reading, "end": later, "start_realtime_ns": 1_795_291_200_000_000_000, "origin_units": start_tsc,
        },
        "placement": {"cpu": 0, "cpus": [0], "policy": "SCHED_FIFO", "priority": 95, "thread_ids": [4242]},
        "counters": {"recorded": cell.count, "saturated": int(known.max_ns * UNITS_PER_S / 1e9 >= SATURATED),
                     "lost": 0, **dict(cell.counters)},
        "threads": [],
        "tracing": None,
        "limit": _limit(cell),
    }  # fmt: skip


def _limit(cell: SyntheticCell) -> dict[str, Any] | None:
    """Give the limit on real-time threads that a finding names, of a probe that never sleeps."""
    kinds = [str(one["code"]) for one in cell.findings if one["code"] in ("rt_throttling", "fair_server")]
    if not kinds or cell.probe == "wakeup":
        return None
    unseen = "perf_event_open: Permission denied" if cell.proven_share is None else None
    return {"kind": kinds[0], "pause_ns": 50_000_000, "period_ns": 1_000_000_000, "unseen": unseen}


def _alignment(trial: int, error_ns: int) -> dict[str, int]:
    host_ns = 3_868_312_757_000 + 10_000_000_000 * trial
    return {
        "host_monotonic_raw_ns": host_ns, "machine_monotonic_raw_ns": host_ns + 1_200,
        "machine_tsc": 8_123_456_789_012, "machine_minus_host_ns": 1_200, "error_ns": error_ns, "exchanges": 8,
        "bracket_tsc": 64,
    }  # fmt: skip


def _hypervisor_counters(counted: tuple[dict[str, int], ...] | str | None) -> dict[str, Any] | None:
    if counted is None:
        return None
    if isinstance(counted, str):
        return {"absent": counted}
    return {
        "vcpus": [{name: {"value": count} for name, count in vcpu.items()} for vcpu in counted],
        "total": {name: {"value": sum(vcpu[name] for vcpu in counted)} for name in counted[0]},
        "begin_monotonic_raw_ns": 3_868_312_000_000,
        "end_monotonic_raw_ns": 3_868_312_000_000 + round(COUNTED_S * 1e9),
        "reading_ns": 400_000,
    }


def _clocks(platform: str) -> dict[str, dict[str, Any]]:
    compared = {"disagreement_ppm": 0.7, "error_ppm": 41.0, "limit_ppm": 500.0}
    one = {**compared, "state": "not independent"}
    host = {**compared, "state": "agreed", "reason": "+1 ppm, known to within 41 ppm"}
    if platform == "native":
        host = {**one, "reason": "the host's clock is the machine's own"}
    return {"kernel": {**one, "reason": "the kernel kept its time with the counter itself"}, "host": host}


def _machine(platform: str) -> dict[str, Any]:
    """Make what a platform tells of its machine up."""
    virtual = platform.startswith(("qemu", "uml"))
    facts = {
        "kernel_release": {"value": "6.1.0-49-rt-amd64" if virtual else "6.18.5"},
        "clocksource": {"value": "tsc"} if platform != "uml" else {"value": "timer"},
        "cpu_model": {"value": "QEMU TCG CPU" if "tcg" in platform else "Imaginary CPU @ 2.10GHz"},
        "hypervisor": {"value": True},
        "governor": {"absent": "/sys/devices/system/cpu/cpu0/cpufreq does not exist"},
    }
    threads = [{"role": "control", "name": "stealtime", "tid": 4000, "cpus": [0]}]
    if platform.startswith("qemu"):
        threads += [
            {"role": "vcpu", "name": "CPU 0/TCG", "tid": 4101, "cpus": [1]},
            {"role": "emulator", "name": "qemu-system-x86", "tid": 4100, "cpus": [0]},
        ]
    else:
        threads += [{"role": "agent", "name": "stealtime-agent", "tid": 4242, "cpus": [1]}]
    return {
        "boot": {
            "argv": [platform, "-m", "256M"], "elapsed_to_hello_s": 1.4,
            "facts": {"qemu_version": "7.2.22", "accelerator": "tcg"} if "tcg" in platform else {},
        },
        "measured_cpu": 0,
        "agent_facts": facts,
        "threads": threads,
    }  # fmt: skip


def _manifest(run_id: str, campaign: str, platforms: list[str], seed: int, skipped: dict[str, str]) -> Manifest:
    usable = [{"name": name, "usable": True, "reason": "made up, not booted"} for name in platforms]
    not_usable = {
        "name": "qemu-kvm-paravirt",
        "usable": False,
        "reason": "a tiny guest did not boot within 5 s, although /dev/kvm answers API version 12",
        "hint": "enable hardware virtualization",
    }
    document = {
        "run_id": run_id,
        "created_at": STARTED_AT,
        "finished_at": STARTED_AT + timedelta(seconds=130),
        "state": "finished",
        "command_line": ["stealtime", "run", campaign],
        "stealtime_version": "0.1.0",
        "git_describe": {"value": "v0.1.0-4-gabcdef0"},
        "campaign": {"name": campaign},
        "hosts": {
            "local": {
                "cpu_model": {"value": "Imaginary CPU @ 2.10GHz"},
                "hypervisor": {"value": True},
                "kernel_release": {"value": "6.18.5"},
                "clocksource": {"value": "tsc"},
                "governor": {"absent": "/sys/devices/system/cpu/cpu0/cpufreq does not exist"},
            }
        },
        "platforms": [*usable, not_usable],
        "scenarios": [{"name": name, "description": "", "skipped": why} for name, why in skipped.items()],
        "loops": [{"loop_ns": 68_000, "iterations": 56_000, "floor_ns": 68_000.0}],
        "host_threads": [{"role": "control", "name": "stealtime", "tid": 4000, "cpus": [0]}],
        "seed": seed,
    }
    return Manifest.model_validate(document)
