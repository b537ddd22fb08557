"""The probes of this study by name, in the order in which they are shown."""

from stealtime.studies.latency.probes.switch import SWITCH
from stealtime.studies.latency.probes.tick import TICK
from stealtime.studies.latency.probes.wakeup import WAKEUP

PROBES = {probe.name: probe for probe in (TICK, SWITCH, WAKEUP)}
