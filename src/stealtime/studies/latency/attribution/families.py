"""How each kind of cause looks and is called: the same colour and words in every bar, time line, legend and table.

Hue tells the layer: the machine's own doings are blue to green, what the host takes is red to violet, what the host's
own host takes is grey. What is not known has no hue at all, only hatching, so that it cannot pass for a finding.
Colours have 3:1 or more against the page (WCAG 2.2, 1.4.11); every segment also carries its name as text.
"""

from dataclasses import dataclass

from stealtime.studies.latency.attribution.model import Cause

NEIGHBOUR_NAMES = "neighbour "
"""What the names of neighbours begin with (``scenarios.neighbours``)."""
NOT_JUDGED = "not_judged"
"""The family of spikes in whose stretch events were lost."""
RT_THROTTLING = "rt_throttling"
"""The family of what a limit on real-time threads takes, of the machine's own kernel or of the host's."""
UNEXPLAINED = "unexplained"
RUNNING = "running"
"""No cause: the probe itself ran."""


@dataclass(frozen=True)
class CauseLook:
    """The appearance and the words of one family of causes."""

    words: str
    layer: str
    """Whose doing it is, in words."""
    light: str
    dark: str
    is_hatched: bool = False


_MACHINE = "the machine's own"
_HOST = "the host"
_ABOVE = "above the host"
_UNKNOWN = "not known"

LOOKS = {
    "timer_tick": CauseLook("timer tick", _MACHINE, "#0072b2", "#56b4e9"),
    "interrupt": CauseLook("other interrupt", _MACHINE, "#0c8074", "#34c8b4"),
    "softirq": CauseLook("softirq", _MACHINE, "#548010", "#a9cf5c"),
    "thread": CauseLook("other thread", _MACHINE, "#2f4b9c", "#8fa4ff"),
    "neighbour": CauseLook("preempted by a neighbour", _HOST, "#c54a08", "#ff8c42"),
    "host_preempted": CauseLook("preempted by others", _HOST, "#b0487f", "#e394bf"),
    "host_interrupt": CauseLook("host interrupt", _HOST, "#8a6d00", "#e5c83b"),
    "vm_exit": CauseLook("VM exit or emulation", _HOST, "#6a3fb5", "#b69cf0"),
    RT_THROTTLING: CauseLook("RT throttling", "a scheduler's limit", "#b3001f", "#ff6b78"),
    "quota_throttling": CauseLook("quota throttling", "a scheduler's limit", "#7a4520", "#cf9a6e"),
    "steal": CauseLook("host's own host (steal)", _ABOVE, "#3d444d", "#c3cbd6"),
    UNEXPLAINED: CauseLook("unexplained", _UNKNOWN, "#6b7380", "#98a2af", is_hatched=True),
    NOT_JUDGED: CauseLook("not judged", _UNKNOWN, "#9aa1ab", "#6d7682", is_hatched=True),
}
"""By family, in the order in which bars are stacked: from the inside to the outside, what is not known last."""

FAMILIES = tuple(LOOKS)


def family_of(kind: str, name: str | None) -> str:
    """Give the family of a cause.

    Args:
        kind: As :class:`.model.Cause` has it. An unknown one is shown as unexplained, never left out.
        name: Who it was, if that is known: being preempted by a neighbour is a family of its own.
    """
    # Natively host and machine are one, so a neighbour is one of its other threads.
    if kind in ("host_preempted", "thread") and name is not None and name.startswith(NEIGHBOUR_NAMES):
        return "neighbour"
    return kind if kind in LOOKS else UNEXPLAINED


def cause_family(cause: Cause | None) -> str:
    """Give the family of a cause; without one the probe itself ran."""
    return RUNNING if cause is None else family_of(cause.kind, cause.name)
