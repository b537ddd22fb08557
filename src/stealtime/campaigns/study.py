"""What a study registers: the laboratory knows it by nothing else."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stealtime.campaigns.probe import Probe


class Study(Protocol):
    """One question, with its own probes, results, analysis and pages."""

    @property
    def name(self) -> str:
        """By which its results are told from those of other studies."""
        ...

    @property
    def probes(self) -> "tuple[Probe, ...]":
        """In the order in which tables and figures show them; no two studies have one of the same name."""
        ...
