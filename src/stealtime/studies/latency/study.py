"""How the latency study is registered."""

from stealtime.campaigns.probe import Probe
from stealtime.studies.latency.probes.catalogue import PROBES


class LatencyStudy:
    """How much longer anything takes in a virtual machine than natively, and whose fault that is."""

    name = "latency"
    probes: tuple[Probe, ...] = tuple(PROBES.values())


STUDY = LatencyStudy()
