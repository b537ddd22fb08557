"""What the cost model is fitted to: of each trial the work, and the CPU time of everybody who took part in it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from stealtime.report.cells.figures import Figures
from stealtime.studies.telephony.calls.results import Calls
from stealtime.studies.telephony.parameters import ServerParameters
from stealtime.studies.telephony.results import Registrations

Quantity = Literal["guest_s", "packets", "registrations", "connections", "arrivals", "voice_packets", "epochs", "pages"]
"""That CPU time is explained by; ``guest_s``: the time for which each guest was there; ``arrivals``: times at which
something came to a guest. Where its output is held, what phones say to that comes at once after each checkpoint."""
HOLDING = ("net", "net+bypass")
"""Modes in which signalling is held."""
Part = Literal["server", "host", "standby", "generators"]
"""Whose CPU time it is: that of the guests (natively of the server's processes), of the host side where they run, of
what stands by, and of SIPp."""

COUNTED_PROBES = ("register", "call")
"""In whose trials work and CPU time are of the same time."""


class CostSample(Figures):
    """One trial. Numbers are of all appliances together."""

    appliances: int
    load_s: float
    """For how long phones began to register, or both ends of calls spoke."""
    elapsed_s: float
    """Of the CPU times."""
    machine_cpus: int
    is_held: bool
    """Whether signalling is."""
    packets_in: float
    """But voice."""
    packets_out: float
    registrations: float
    connections: float
    voice_packets: float
    """Both ways: that reached the relay, and that left it."""
    epochs: float
    pages: float
    """Of all epochs."""
    shipped_bytes: float
    paused_s: float
    """For which guests stood still, one after the other."""
    server_s: float
    host_s: float | None
    """Of the host side where guests run; None natively."""
    standby_s: float | None
    """None where nothing stands by."""
    generators_s: float | None

    @property
    def guest_s(self) -> float:
        return self.appliances * self.elapsed_s

    @property
    def packets(self) -> float:
        return self.packets_in + self.packets_out

    @property
    def arrivals(self) -> float:
        return arrivals(self.is_held, self.packets_in, self.registrations, self.epochs)

    def amount(self, quantity: Quantity) -> float:
        found: float = getattr(self, quantity)
        return found

    def cpu_s(self, part: Part) -> float | None:
        found: float | None = getattr(self, f"{part}_s")
        return found


def arrivals(is_held: bool, packets_in: float, registrations: float, epochs: float) -> float:
    """Give the times at which packets came, each alone or many at once.

    The first packet of a registration comes by itself. Where output is held, all that follow are said to what was
    released after a checkpoint, and come together.
    """
    return min(packets_in, registrations + epochs) if is_held else packets_in


def samples_of(server: ServerParameters, results: Sequence[Any]) -> list[CostSample]:
    """Give those of a cell, of each trial in which nothing failed: what failed is work of which nobody knows how much.

    Args:
        server: Of the cell. One that is replicated, or in two guests, says much that phones do not see.
        results: Of its trials.
    """
    if server.mode == "replicated" or server.roles != "together" or server.primaries is not None:
        return []
    if (server.cpus, server.registered, server.host_weight) != (1, 0, None):
        return []
    is_held = server.mode in HOLDING
    return [sample for one in results for sample in _sample(one, server.appliances, is_held)]


def _sample(one: Any, appliances: int, is_held: bool) -> Iterator[CostSample]:
    if not isinstance(one, Registrations | Calls) or one.work is None:
        return
    if isinstance(one, Registrations):
        if one.unanswered or one.refused:
            return
        done: Mapping[str, float] = {
            "load_s": one.sent / (one.rate_per_s * appliances),
            "packets_in": one.work.packets_in,
            "packets_out": one.work.packets_out,
            "registrations": one.acknowledged,
            "voice_packets": 0,
        }
    else:
        if one.voice.lost or one.dialogues.kept < one.dialogues.begun:
            return
        done = {
            "load_s": one.elapsed_ns / 1e9,
            "packets_in": 0,
            "packets_out": 0,
            "registrations": 0,
            "voice_packets": one.work.packets,
        }
    taken, standby_ns = one.checkpoints, None if one.standby is None else one.standby.cpu_ns
    generators_ns = one.work.generators_cpu_ns
    yield CostSample(
        appliances=appliances,
        is_held=is_held,
        elapsed_s=one.elapsed_ns / 1e9,
        machine_cpus=one.work.machine_cpus,
        connections=one.work.connections,
        epochs=0 if taken is None else taken.epochs,
        pages=0 if taken is None else taken.pages,
        shipped_bytes=0 if taken is None else taken.shipped_bytes,
        paused_s=0 if taken is None else taken.pause_total_ns / 1e9,
        server_s=one.server_cpu_ns / 1e9,
        host_s=None if one.host_cpu_ns is None else (one.host_cpu_ns - (standby_ns or 0)) / 1e9,
        standby_s=None if standby_ns is None else standby_ns / 1e9,
        generators_s=None if generators_ns is None else generators_ns / 1e9,
        **done,
    )


class PartCost(Figures):
    """What was predicted of a part's CPU time, and what was measured, in per cent of one CPU."""

    part: Part
    by: Literal["held-out", "load"]
    """Who predicted: the model fitted to all other cells, by the work that was counted; or, of several appliances, that
    of single ones, by the load alone."""
    measured_percent: float
    predicted_percent: float
    error_percent: float
    """Of what was measured; positive where too much was predicted."""


class CellCost(Figures):
    """What a cell tells of costs."""

    samples: list[CostSample]
    parts: list[PartCost] = Field(default=[])
    """Those that were predicted; filled in over all cells of a run."""
