"""How each platform looks: the same colour, dash and mark in every figure, told apart without colour vision too.

The hues are those of Okabe and Ito ("Color Universal Design", 2008), made darker for white paper where they had less
than 3:1 contrast (WCAG 2.2, 1.4.11) and lighter for a dark page; dash and mark differ as well.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """The appearance of one platform."""

    light: str
    """Colour on a light page."""
    dark: str
    """Colour on a dark page."""
    dash: str
    """Of lines, as plotly names them."""
    symbol: str
    """Of marks, as plotly names them."""


_KNOWN = {
    "native": Look("#3d444d", "#d1d7e0", "solid", "circle"),
    "uml": Look("#007a5a", "#2cc295", "dash", "square"),
    "qemu-tcg-emulated": Look("#c24e00", "#ff8c42", "dot", "triangle-up"),
    "qemu-tcg-paravirt": Look("#0072b2", "#56b4e9", "dashdot", "cross"),
    "qemu-kvm-emulated": Look("#a8487f", "#e394bf", "longdash", "triangle-down"),
    "qemu-kvm-paravirt": Look("#6a3fb5", "#b69cf0", "longdashdot", "x"),
    "qemu-kvm-hyperv": Look("#8a6d00", "#e5c83b", "5px,2px,1px,2px", "star"),
}
_FURTHER = [
    Look("#a40e26", "#ff7b86", "2px,4px", "pentagon"),
    Look("#0b6e8a", "#67d0e8", "8px,3px,2px,3px", "hexagon"),
    Look("#4d6b1a", "#a9cf5c", "10px,4px", "hourglass"),
]
"""For machines over ssh, in the order in which they appear."""


def looks_of(platforms: list[str]) -> dict[str, Look]:
    """Give each platform its look, in the order given."""
    looks = {}
    further = 0
    for platform in platforms:
        if platform in _KNOWN:
            looks[platform] = _KNOWN[platform]
        else:
            looks[platform] = _FURTHER[further % len(_FURTHER)]
            further += 1
    return looks


def distinct_looks(number: int) -> list[Look]:
    """Give as many looks as there are things that are no platforms, each unlike those before until all are used."""
    looks = [*_KNOWN.values(), *_FURTHER]
    return [looks[index % len(looks)] for index in range(number)]
