"""When the loads of one neighbour were on, as its agent sent it, and how its counter stands to the host's.

``store.surroundings`` writes it. What loads the libraries of tables is not loaded here: a machine boots meanwhile.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CounterMap:
    """A machine's counter on the host's: both at one moment, and how many cycles of the host make one of its."""

    machine_tsc: int
    host_tsc: int
    host_cycles_per_cycle: float = 1.0

    def to_host(self, times: Any) -> Any:
        """Bring an array of the machine's counter values to the host's counter, each to the nearest cycle.

        Distances from the one moment are small enough for a float; the values themselves are not.
        """
        import numpy as np

        distances = times.astype(np.int64) - np.int64(self.machine_tsc)
        if self.host_cycles_per_cycle != 1.0:
            distances = np.rint(distances * self.host_cycles_per_cycle).astype(np.int64)
        return np.maximum(distances + np.int64(self.host_tsc), 0).astype(np.uint64)

    def lengths_to_host(self, lengths: Any) -> Any:
        if self.host_cycles_per_cycle == 1.0:
            return lengths
        import numpy as np

        return np.rint(lengths * self.host_cycles_per_cycle).astype(np.uint64)


SAME_COUNTER = CounterMap(0, 0)
"""Of processes of the host and of guests that read the host's own counter."""


@dataclass(frozen=True)
class NeighbourTable:
    """The table ``load`` of one neighbour, as its agent sent it."""

    number: int
    """Of the neighbour, from 1."""
    stream: Path
    counter: CounterMap
