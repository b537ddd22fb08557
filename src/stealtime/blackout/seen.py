"""What ``stealtime-agent blackout --json`` prints, and its lines of progress."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Way = Literal["tcp", "udp", "ping", "connect"]

WAY_NAMES: dict[Way, str] = {"tcp": "TCP", "udp": "UDP", "ping": "ping", "connect": "connect"}


class Seen(BaseModel):
    """A part of what the agent says; what an agent built by hand says besides is passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class SeenBlackout(Seen):
    """A silence that was judged to be one."""

    start_wall_ns: int
    since_start_ns: int
    from_monotonic_ns: int
    to_monotonic_ns: int
    ended: bool
    length_ns: int
    at_least_ns: int
    at_most_ns: int
    own_pause_ns: int
    sent: int
    lost: int
    reordered: int
    duplicated: int


class SeenUnjudged(Seen):
    """A silence that may be this machine's own."""

    from_monotonic_ns: int
    silence_ns: int
    own_pause_ns: int


class RoundTrips(Seen):
    """From a probe to its answer."""

    min: int
    p50: int
    p99: int
    max: int


class SeenLoss(Seen):
    """The end of a TCP connection."""

    at_monotonic_ns: int
    reason: str
    again_monotonic_ns: int | None


class SeenWay(Seen):
    """One way of asking."""

    way: Way
    to: str
    interval_ns: int
    sent: int
    answered: int
    lost: int
    reordered: int
    duplicated: int
    unsent: int
    round_trip_ns: RoundTrips | None
    longest_silence_ns: int
    usual_ns: int
    threshold_ns: int
    stamped_by_kernel: int
    stamped_by_process: int
    last_value: int | None
    violations_total: int
    violations: list[dict[str, Any]]
    connection_lived: bool | None
    connection_losses: list[SeenLoss]
    own_pauses: int
    longest_own_pause_ns: int
    missed: int
    blackouts: list[SeenBlackout]
    unjudged: list[SeenUnjudged]
    not_kept: int


class Moment(Seen):
    """One moment on two clocks of the machine that watched."""

    monotonic_ns: int
    wall_ns: int


class Watched(Seen):
    """All that was seen."""

    valid: bool
    reasons: list[str]
    limits: list[str]
    started: Moment
    duration_ns: int
    interval_ns: int
    max_gap_ns: int | None
    ways: list[SeenWay]


class WayNow(Seen):
    """How one way of asking goes."""

    way: Way
    silent_ns: int | None
    longest_silence_ns: int
    violations: int
    connection_losses: int


class Now(Seen):
    """A line of progress."""

    elapsed_ns: int
    ways: list[WayNow]
