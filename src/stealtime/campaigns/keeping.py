"""What of a plan is lost if it ends in the middle of a cell: told before it begins, and not at its end."""

from collections.abc import Sequence

from stealtime.campaigns.estimate import lasts_s
from stealtime.campaigns.intention import Intention
from stealtime.campaigns.probe import Probe
from stealtime.campaigns.registry import probes
from stealtime.vocabulary.quantities import approximate_duration

LONG_S = 600.0
"""Of a cell: what is lost with a shorter one is soon measured again."""


def tell_what_is_not_kept_in_part(intention: Intention) -> Sequence[str]:
    """Say which long cells are not on the disk in parts while they are measured."""
    longest_s: dict[str, float] = {}
    for planned in intention.plan.cells:
        name = planned.cell.probe
        longest_s[name] = max(longest_s.get(name, 0.0), lasts_s(intention.plan, planned))
    return tuple(
        f"a cell of {name} takes {approximate_duration(seconds)}, {lost}"
        for name, seconds in longest_s.items()
        if seconds > LONG_S and (lost := _lost(probes()[name])) is not None
    )


def _lost(probe: Probe) -> str | None:
    """Say what an early end costs; None where parts are stored meanwhile."""
    if probe.driver is not None:
        return "and nothing of it is kept if it is interrupted or fails before it is over"
    if not probe.result.comes_in_parts:
        return (
            "and is not stored in parts: an interruption keeps what it has measured, but nothing is left of it if its "
            "machine, the link to it or this program dies"
        )
    return None
