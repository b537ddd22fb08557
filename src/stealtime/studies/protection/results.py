"""What is stored of a trial: ``result`` of ``trial.json``. Times are those of one monotonic clock, in ns."""

from typing import Literal

from stealtime.hosts.counted_result import CountedResult


class RoundTrips(CountedResult):
    """How long each answer took, from the first copy of the request on."""

    kind: Literal["round-trips"] = "round-trips"
    tcp_p50_ns: int
    tcp_p99_ns: int
    udp_p50_ns: int
    udp_p99_ns: int


class Failover(CountedResult):
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
