"""Values whose tail is to be estimated."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class TailSeries:
    """The values of one cell in the order of time; repetitions one after the other."""

    values_ns: NDArray[np.float64]
    events_per_s: float
    """How many values there are in a second that was watched."""
    resolution_ns: float
    """The clock's smallest step."""
    host_hit: NDArray[np.bool_] | None = None
    """Whether the host interfered with each value; None where nobody looked."""
    hindrance: str | None = None
    """Why nothing can be estimated from them; None where nothing is known against it."""
