"""The server in two guests, each on a host of its own: signalling and media, which one more host backs (n x 1).

So either side can lose its host alone. The guests share no daemon, and no host's CPUs where hosts are machines; hosts
in namespaces share those of this machine.
"""

from collections.abc import Sequence
from typing import Any

from stealtime.hosts.guest import Fault, Guest
from stealtime.hosts.host import FaultKind
from stealtime.hosts.testbed import Testbed
from stealtime.studies.telephony.parameters import CallVictim, Mode
from stealtime.studies.telephony.place.guest import GuestPlace


class SeparateHostsPlace(GuestPlace):
    """Signalling and media, which have a host each.

    Args:
        testbed: The hosts.
        name: What the machines' names begin with, new for each place.
        mode: How both are protected.
        how: What else :class:`.guest.GuestPlace` takes, but for the roles.

    Raises:
        UsageError: The hosts have no address for a guest with media, or there is no third host.
    """

    def __init__(self, testbed: Testbed, name: str, mode: Mode, **how: Any) -> None:
        super().__init__(testbed, name, mode, roles="hosts", **how)

    def guests_of(self, victim: CallVictim) -> Sequence[Guest]:
        """Give the guests that lose their hosts: that of a side, or both."""
        signalling, media = self.guests
        return {"primary": [signalling, media], "signalling": [signalling], "media": [media]}[victim]

    def lose_host(self, kind: FaultKind = "killed") -> Fault:
        """Lose both hosts at once; the one that backs them takes over both guests."""
        return self.lose_sides("primary", kind)

    def lose_sides(self, victim: CallVictim, kind: FaultKind) -> Fault:
        """Lose the host of one side, or both at once; give the times when what was lost runs again.

        Raises:
            StealtimeError: It is not protected, is not where it began, or nobody took it over.
        """
        return self.lose_homes(self.guests_of(victim), kind)
