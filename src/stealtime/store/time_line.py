"""Machine and host on one time line: which offsets between their counters the exchanges of clocks allow."""

from stealtime.store.model import Alignment
from stealtime.vocabulary.alignment import Alignment as ClockAlignment
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Value
from stealtime.wire.message import TracingOutcome

_HINT = "the machine's counter jumped or runs at another rate: see the trial's clock findings"


class ClocksNotAligned(StealtimeError):  # noqa: N818 - it is a verdict more than an error
    """No constant offset between the counters fits what was exchanged."""


def allowed_offsets(alignment: Alignment, host: TracingOutcome) -> tuple[int, int]:
    """Give the smallest and the largest possible ``machine counter - host counter``, in cycles.

    Each exchange says where the machine's counter stood at a moment of the host's ``CLOCK_MONOTONIC_RAW``; the
    readings at the start and the end of the host's recording say where the host's counter stood then. A constant
    offset must fit the exchanges before and after the trial alike.

    Raises:
        ClocksNotAligned: None fits both.
    """
    before, after = (_offsets(one, host) for one in (alignment.before, alignment.after))
    low, high = max(before[0], after[0]), min(before[1], after[1])
    if low > high:
        apart_ns = (low - high) / host.tsc_hz * 1e9
        raise ClocksNotAligned(
            f"clocks cannot be aligned: the exchanges before and after the trial are {apart_ns:.0f} ns beyond their"
            " bounds apart",
            hint=_HINT,
        )
    return low, high


def told_offset(alignment: Alignment, allowed: tuple[int, int]) -> int | None:
    """Give the offset that the hypervisor says it adds, if the exchanges allow it."""
    told = alignment.tsc_offset
    if not isinstance(told, Value) or not isinstance(told.value, int):
        return None
    return told.value if allowed[0] <= told.value <= allowed[1] else None


def check_same_counter(alignment: Alignment, host: TracingOutcome) -> None:
    """See that the machine reads the host's own counter.

    Raises:
        ClocksNotAligned: The exchanges rule an offset of 0 out.
    """
    low, high = allowed_offsets(alignment, host)
    if not low <= 0 <= high:
        raise ClocksNotAligned(
            f"clocks cannot be aligned: this machine should read the host's counter, but is {low} to {high} cycles off",
            hint=_HINT,
        )


def _offsets(exchange: ClockAlignment, host: TracingOutcome) -> tuple[int, int]:
    elapsed_ns = host.end.monotonic_raw_ns - host.start.monotonic_raw_ns
    if elapsed_ns <= 0:
        raise ClocksNotAligned(f"clocks cannot be aligned: the host was traced for {elapsed_ns} ns")
    cycles_per_ns = (host.end.tsc - host.start.tsc) / elapsed_ns
    since_ns = exchange.host_monotonic_raw_ns - host.start.monotonic_raw_ns
    host_tsc = host.start.tsc + since_ns * cycles_per_ns
    # The readings of the host's two clocks are not of quite the same moment; the error grows outside of the recording.
    reading = max(host.start.bracket_tsc, host.end.bracket_tsc) * (1 + 2 * abs(since_ns) / elapsed_ns)
    error = exchange.error_ns * cycles_per_ns + exchange.bracket_tsc + reading + 1
    offset = exchange.machine_tsc - host_tsc
    return int(offset - error), int(offset + error) + 1
