"""What is stored of a trial in which a client counted with a guest."""

from collections.abc import Mapping
from typing import Any

from stealtime.campaigns.driven_result import DrivenResult
from stealtime.hosts.checkpoints import Checkpoints, checkpoints_of
from stealtime.hosts.counting import Watched, violations_of
from stealtime.hosts.guest import Fault
from stealtime.hosts.moments import ClockPair, Moments, moments_of


class CountedResult(DrivenResult):
    """What a client saw that counted over TCP and UDP, and what checkpoints took meanwhile."""

    requests: int
    acknowledged: int
    violations: dict[str, int]
    """What must not happen, by kind: ``forgotten``, ``repeated`` ... as ``stealtime-agent count`` names them."""
    checkpoints: Checkpoints | None
    moments: Moments | None = None
    """None without protection, as the checkpoints, and in older runs."""

    @property
    def unanswered(self) -> int:
        """Requests that were not answered when the client ended."""
        return self.requests - self.acknowledged

    @property
    def wrong(self) -> int:
        """How often something was seen that must not happen."""
        return sum(self.violations.values())


def counted(seen: Mapping[str, Any], watched: Watched, before: ClockPair, fault: Fault | None = None) -> dict[str, Any]:
    """Give the fields of such a result.

    Args:
        seen: By the client, as ``stealtime-agent count --json`` prints it.
        watched: What happened to the guest before any fault.
        before: The clocks at the beginning of the trial.
        fault: Of its host.
    """
    return {
        "requests": seen["requests"],
        "acknowledged": seen["acknowledged"],
        "violations": violations_of(seen),
        "checkpoints": checkpoints_of([watched.epochs], watched.elapsed_ns),
        "moments": moments_of(watched, before, fault),
    }
