"""Which of the host's CPUs are threads of one core, and which share a memory node: ``/sys/devices/system``."""

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stealtime.vocabulary.cpu_lists import parse_cpu_list

SYSTEM = Path("/sys/devices/system")
SECOND_THREAD = 0.25
"""What a further thread of a core adds, in CPUs: VMware counts a hyper-threaded core as 1.25 (Broadcom KB 421543)."""


@dataclass(frozen=True)
class Topology:
    """Cores and memory nodes; a CPU of which nothing is known is a core of its own."""

    siblings: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """By CPU, the threads of its core, itself among them."""
    nodes: Mapping[int, int] = field(default_factory=dict)
    """The memory node of each CPU."""

    def cores(self, cpus: Collection[int]) -> int:
        return len({self.siblings.get(cpu, frozenset({cpu})) for cpu in cpus})

    def worth_cpus(self, cpus: Collection[int]) -> float:
        """Give how much CPU some CPUs are worth when all of them are busy, in cores."""
        cores = self.cores(cpus)
        return cores + SECOND_THREAD * (len(set(cpus)) - cores)

    def is_near(self, cpu: int, others: Collection[int]) -> bool:
        """Tell whether a CPU shares its memory node with all of some others; so it is where nothing is known."""
        return all(self.nodes.get(cpu) == self.nodes.get(other) for other in others)


UNKNOWN = Topology()
"""Each CPU is a core, and there is one memory node."""


def read_topology(system: Path = SYSTEM) -> Topology:
    """Read it; what cannot be read is left out."""
    siblings: dict[int, frozenset[int]] = {}
    nodes: dict[int, int] = {}
    for file in system.glob("cpu/cpu[0-9]*/topology/thread_siblings_list"):
        with contextlib.suppress(OSError, ValueError):
            siblings[int(file.parts[-3].removeprefix("cpu"))] = frozenset(parse_cpu_list(file.read_text()))
    for file in system.glob("node/node[0-9]*/cpulist"):
        with contextlib.suppress(OSError, ValueError):
            nodes |= dict.fromkeys(parse_cpu_list(file.read_text()), int(file.parts[-2].removeprefix("node")))
    return Topology(siblings, nodes)
