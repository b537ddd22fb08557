"""What is stored of a trial: ``result`` of ``trial.json``. Times are those of one monotonic clock, in ns."""

from typing import Literal

from pydantic import ConfigDict

from stealtime.hosts.checkpoints import Checkpoints
from stealtime.hosts.moments import Moments
from stealtime.store.results import Result


class _Counted(Result):
    """What a client saw that counted over TCP and UDP."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tables: tuple[str, ...] = ()
    requests: int
    acknowledged: int
    violations: dict[str, int]
    """What must not happen, by kind: ``forgotten``, ``repeated`` ... as ``stealtime-agent count`` names them."""
    checkpoints: Checkpoints | None
    moments: Moments | None = None
    """None without protection, as the checkpoints, and in older runs."""
    retries: int = 0
    """How often the trial was begun anew, because the guest had lost its standby meanwhile: not counted above."""


class RoundTrips(_Counted):
    """How long each answer took, from the first copy of the request on."""

    kind: Literal["round-trips"] = "round-trips"
    tcp_p50_ns: int
    tcp_p99_ns: int
    udp_p50_ns: int
    udp_p99_ns: int


class Failover(_Counted):
    """A host died; the guest went on at the other one."""

    kind: Literal["failover"] = "failover"
    host: str
    silence_tcp_ns: int
    """The longest time between two answers."""
    silence_udp_ns: int
    fault_to_running_ns: int
    decision_to_running_ns: int
    """Of it, from when the standby had won the register."""
    fault_to_answer_tcp_ns: int | None = None
    """Until the answer that ended that longest time; None where none did, it was short, or before version 0.3."""
    fault_to_answer_udp_ns: int | None = None
    clock_error_ns: int = 0
    """How far the times between the fault and the guest can be off, where other hosts' clocks told them."""
    unanswered_protocols: tuple[str, ...] = ()
    """Over which nothing was answered any more once the guest ran again, until the client ended."""
    tcp_lived: bool
    pages_wrong: int
    """Of the guest's own memory, by its own check at the end."""
