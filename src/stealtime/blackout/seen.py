"""What ``stealtime-agent blackout --json`` prints, and its lines of progress."""

from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

Way = Literal["tcp", "udp", "ping", "connect"]

WAY_NAMES: dict[Way, str] = {"tcp": "TCP", "udp": "UDP", "ping": "ping", "connect": "connect"}


class Seen(BaseModel):
    """A part of what the agent says; what an agent built by hand says besides is passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Silence(BaseModel):
    """What is known of a blackout over one way of asking."""

    since_start_ns: int
    """From the start of watching to the last answer before it."""
    length_ns: int
    """How long the other side was gone: the middle of what it can have been (docs/blackout.md)."""
    at_least_ns: int
    at_most_ns: int
    """From the last answer to the next one."""
    ended: bool
    own_pause_ns: int
    """How much of the silence this machine itself stood still, at its ends; what is longer than the threshold is not in
    the length."""
    sent: int
    """Probes that were due in it."""
    lost: int
    """Of these, never answered."""
    reordered: int
    duplicated: int


class SeenBlackout(Seen, Silence):
    """A silence that was judged to be one."""

    start_wall_ns: int
    from_monotonic_ns: int
    to_monotonic_ns: int


class SeenUnjudged(Seen):
    """A silence that may be this machine's own."""

    from_monotonic_ns: int
    silence_ns: int
    own_pause_ns: int


class SeenLoss(Seen):
    """The end of a TCP connection."""

    at_monotonic_ns: int
    reason: str
    again_monotonic_ns: int | None


Loss = TypeVar("Loss")


class WayFigures(BaseModel, Generic[Loss]):
    """One way of asking, over the whole time; how a lost connection is told is open."""

    way: Way
    to: str
    interval_ns: int
    sent: int
    answered: int
    lost: int
    reordered: int
    duplicated: int
    unsent: int
    """Probes that this machine's kernel refused; they are among those sent."""
    missed: int
    """Probes that were left out, because this machine was late."""
    own_pauses: int
    longest_own_pause_ns: int
    round_trip_ns: dict[str, int] | None
    """``min``, ``p50``, ``p99``, ``max``"""
    longest_silence_ns: int
    usual_ns: int
    """How much later than an interval after the one before 95 % of the answers came at most."""
    threshold_ns: int
    """A longer silence is a blackout."""
    stamped_by_kernel: int
    stamped_by_process: int
    last_value: int | None
    """Of the counter; null where nobody counts, so that forgotten values cannot be seen."""
    connection_lived: bool | None
    connection_losses: list[Loss]
    violations_total: int
    violations: list[dict[str, Any]]


class SeenWay(Seen, WayFigures[SeenLoss]):
    """One way of asking, with its silences."""

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
