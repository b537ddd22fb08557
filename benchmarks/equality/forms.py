"""What is measured to see whether disturbances are found: campaigns, each with the disturbances that suit it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """A campaign, and what is put into its runs."""

    campaign: str
    """The text of a campaign file."""
    kinds: tuple[str, ...]
    """What its disturbed runs are disturbed by; ``hog+slower`` by both at once, which change different figures."""

    @property
    def disturbances(self) -> tuple[str, ...]:
        """All of them, by their names."""
        return tuple(name for kind in self.kinds for name in kind.split("+"))


_SHORT = """
name = "different-short"
platforms = ["native", "uml"]
repetitions = 4
[[probes]]
probe = "tick"
duration = "200ms"
[[probes]]
probe = "switch"
threads = [2]
duration = "200ms"
[[probes]]
probe = "wakeup"
duration = "200ms"
"""
_OFTEN = """
name = "different-often"
platforms = ["native", "uml", "qemu-tcg-paravirt"]
repetitions = 10
[[probes]]
probe = "tick"
duration = "700ms"
[[probes]]
probe = "switch"
threads = [2]
duration = "200ms"
[[probes]]
probe = "wakeup"
duration = "400ms"
"""
_LONG = """
name = "different-long"
platforms = ["native", "uml", "qemu-tcg-paravirt"]
repetitions = 12
[[probes]]
probe = "tick"
duration = "10s"
"""
FORMS = {
    "short": Form(_SHORT, ("thefts",)),
    "often": Form(_OFTEN, ("hog+slower",)),
    "long": Form(_LONG, ("stall",)),
}
"""``often``: many repetitions, 90 s a run; ``long``: two minutes of each platform, eight minutes a run. The builtin
campaign ``careful`` is both at once."""
FULL = ("often", "long")
