"""Made-up cells of the study ``stretch``, whose figures are known."""

from collections.abc import Sequence
from typing import Any

from stealtime.studies.stretch.analysis.model import Guest, Repetition, StretchCell
from stealtime.studies.stretch.analysis.relate import relate

BUSY = Guest(vcpus=1)


def repetition(number: int, elapsed_s: float, **more: Any) -> Repetition:
    """One busy CPU, nothing else."""
    values: dict[str, Any] = {
        "cpu_s": elapsed_s, "fill_cpu_s": 0.0, "lock_wait_s": 0.0, "io_s": 0.0, "io_asked_s": 0.0, "uneven_idle_s": 0.0,
        "idle_s": 0.0, "wait_s": 0.0, "throttled_s": 0.0, "host_steal_s": 0.0, "guest_steal_s": None,
        "host_run_s": None, "minor_faults": 0, "checksum": 7,
    }  # fmt: skip
    return Repetition(repetition=number, elapsed_s=elapsed_s, **{**values, **more})


def cell(
    platform: str,
    scenario: str,
    elapsed_s: Sequence[float],
    *,
    vcpus: int = 1,
    beside: Sequence[Guest] = (),
    itself: Guest | None = None,
    **more: Any,
) -> StretchCell:
    return StretchCell(
        platform=platform, scenario=scenario, probe="contend", parameters={"tasks": 8, "iterations": 60},
        valid=True, reasons=[], limits=[], iterations=None, vcpus=vcpus, host_cpus=2,
        itself=itself or Guest(vcpus=vcpus), beside=list(beside),
        repetitions=[repetition(number, one, **more) for number, one in enumerate(elapsed_s, 1)],
    )  # fmt: skip


def related() -> list[StretchCell]:
    return relate(
        [
            cell("native", "whole", [0.5, 0.51, 0.5, 0.505], vcpus=2, cpu_s=1.0),
            cell("uml", "half", [1.0, 1.01, 0.99, 1.0]),
            cell("uml", "overcommitted", [2.1, 2.11, 2.09, 2.1], beside=[BUSY] * 3, wait_s=1.05),
        ]
    )
