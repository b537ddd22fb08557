"""A warning before measuring if the platforms of a plan differ in their limit on real-time threads."""

from pathlib import Path

from stealtime.campaigns.model import Campaign
from stealtime.campaigns.planner import Plan
from stealtime.campaigns.registry import probes
from stealtime.lab.platforms.traits import NATIVE, traits_of

_SETTINGS = Path("/proc/sys/kernel")


def throttling_warning(plan: Plan, settings: Path = _SETTINGS) -> str | None:
    """Say that the host's kernel will hold the native probe back and the guests' kernels theirs not; else None.

    Guests are ours, so the limit is lifted in them; to lift it on the host needs the consent of who runs this.

    Args:
        plan: What is to be measured.
        settings: Where the host's kernel keeps the limit.
    """
    platforms = {boot.platform for boot in plan.boots}
    guests = [name for name in platforms if traits_of(name).is_guest and plan.campaign.lifts_rt_throttling(name)]
    if NATIVE not in platforms or not guests or not _is_held_back(plan.campaign):
        return None
    try:
        runtime_us, period_us = (int((settings / f"sched_rt_{name}_us").read_text()) for name in ("runtime", "period"))
    except (OSError, ValueError):
        return None  # the agent will say what it finds
    if not 0 <= runtime_us < period_us:
        return None
    return (
        f"native is measured under RT throttling ({(period_us - runtime_us) / 1000:g} ms of every "
        f"{period_us / 1000:g} ms), the guests without it; --lift-rt-throttling lifts it natively too"
    )


def _is_held_back(campaign: Campaign) -> bool:
    """Tell whether the native probe is a real-time thread that uses up its time."""
    is_busy = any(probes()[cells.probe].is_busy for cells in campaign.probes)
    return is_busy and campaign.priority > 0 and not campaign.lifts_rt_throttling(NATIVE)
