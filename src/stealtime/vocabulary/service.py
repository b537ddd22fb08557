"""What a machine was seen to get of a CPU."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ObservedService:
    """When one CPU was seen not to serve who was always ready to run."""

    machine: str
    """The platform, and where it is not ``alone`` the scenario."""
    observed_ns: int
    gaps: tuple[tuple[int, int], ...]
    """Begin and length of each stretch without service in ns, in order, since the begin of the observation."""
    without: str
    """What is no gap, for people."""

    @property
    def served_share(self) -> float:
        return 1 - sum(length for _, length in self.gaps) / self.observed_ns
