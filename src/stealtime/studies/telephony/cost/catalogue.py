"""The figures of work and of standbys, as the study's catalogue has them, and the tables where they stand."""

from collections.abc import Callable
from typing import Any

from stealtime.hosts.standby_memory import StandbyMemory
from stealtime.report.catalogue.model import Figure, FigureTable
from stealtime.studies.telephony.generators.work import Work


def _of_standby(label: str, take: Callable[[StandbyMemory], float]) -> Figure:
    def taken(result: Any) -> float | None:
        memory = None if result.standby is None else result.standby.memory
        return None if memory is None else take(memory)

    return Figure(label, taken, write=lambda value: f"{value / 1e6:.0f} MB")


def _of_work(label: str, take: Callable[[Work], float]) -> Figure:
    """Take what servers did in a trial, all appliances together; None where nobody counted."""
    return Figure(label, lambda result: None if result.work is None else take(result.work))


def _standby_cpu_percent(result: Any) -> float | None:
    if result.standby is None or result.standby.cpu_ns is None:
        return None
    return float(100.0 * result.standby.cpu_ns / result.elapsed_ns)


STANDBY = {
    "standby_cpu_percent": Figure("standby's CPU", _standby_cpu_percent),
    "standby_memory_bytes": _of_standby("its memory beside guests'", lambda one: one.other_bytes),
    "standby_ram_bytes": _of_standby("guests' memory there", lambda one: one.ram_bytes),
}
"""What the host that backs guests has to give: CPU of one, which is part of the host side's, and memory."""
WORK = {
    "packets_in": _of_work("packets in", lambda one: one.packets_in),
    "packets_out": _of_work("packets out", lambda one: one.packets_out),
    "connections": _of_work("connections", lambda one: one.connections),
}
TABLES = (
    FigureTable("What the host that backs servers has to give", tuple(STANDBY), only_measured=True),
    FigureTable("What servers did while phones registered, or calls were up", tuple(WORK), only_measured=True),
)
