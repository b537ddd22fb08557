"""What tells apart the servers that are measured, and how phones reach them."""

from typing import TYPE_CHECKING, Literal

from stealtime.campaigns.parameters import Parameters
from stealtime.studies.telephony.lengths import REGISTERED_PER_S

if TYPE_CHECKING:
    from stealtime.lab.platforms.traits import PlatformTraits

Transport = Literal["udp", "tcp-one", "tcp-each"]
"""How phones reach the server: all over one UDP socket, over one TCP connection, or with a connection each."""
Mode = Literal["off", "no-net", "net", "net+bypass", "net+no-net", "replicated"]
"""How the guest is protected; natively only ``off``. ``net+no-net``: that of signalling in net, that of media in
no-net. ``replicated``: two guests that are not protected, beside each other."""
Roles = Literal["together", "apart", "hosts"]
"""Whether signalling and media share a guest, have one each on the same host, or one each on a host of its own."""
Media = Literal["relay", "transcoding"]
"""What the server does with voice: passes it on, or puts it into another codec for the phone, and back."""
Victim = Literal["primary", "standby"]
"""Which host of a server is lost: where it runs, or the one that backs it."""
Side = Literal["signalling", "media"]
"""What has a host of its own with the roles ``hosts``."""
CallVictim = Literal["primary", "signalling", "media"]
"""Which host is lost under calls: where the server runs (of the roles ``hosts`` both at once), or that of one side."""
SessionVictim = Literal["primary", "standby", "signalling", "media"]
"""The same under sessions, where the host that backs the server can be lost, too."""
StageVictim = Literal["primary", "all-primaries", "front"]
"""What is lost of two stages: the host of one primary, those of all primaries at once, or a front."""
PrimaryVictim = Literal["primary", "all-primaries"]
"""Of these what is lost under calls through two stages."""
DEFAULT_TIMER_F_NS = 32_000_000_000
"""How long a phone waits for an answer of a front until it turns to the next one: 64 times T1 (RFC 3261, timer F)."""
_BOOT_S, _SPOT_CHECK_S = 8.0, 3.0
"""As seen on a host of 2 CPUs: a guest's boot and its first copy, and some questions for users registered before."""
DEFAULT_ADVERTISEMENT_NS = 1_000_000_000
"""What keepalived does unless it is told otherwise; the other server takes over when three of them are missing."""


class ServerParameters(Parameters):
    """The server of a cell; the same one serves all cells that want the same."""

    mode: Mode
    interval_ns: int | None = None
    """From one checkpoint to the next, of ``replicated`` from one advertisement to the next; None where unprotected."""
    min_interval_ns: int | None = None
    """With checkpoints on demand of output that waits, from one to the next at the least; None: it waits for the next
    one that is due."""
    roles: Roles = "together"
    """Whether signalling and media share a guest, or a host."""
    primaries: int | None = None
    """How many there are behind fronts, the last of which is added; None without fronts."""
    standbys: int = 1
    """How many hosts back the primaries; each primary has one of them."""

    cpus: int = 1
    """Virtual CPUs of each of its guests; natively it may use all of the host."""
    registered: int = 0
    """Users that it knows before any load."""
    host_weight: int | None = None
    """Of the CPU group of the host side, as of cgroup v2, where 100 is usual; None: it is in no group of its own."""

    appliances: int = 1
    """How many of it are on the same host, each in a guest of its own with a load of its own."""

    @property
    def is_usual(self) -> bool:
        """Whether it is the server that everything else is said of: alone, one virtual CPU, no users or group of ours,
        and checkpoints when they are due."""
        own = (self.cpus, self.registered, self.host_weight, self.appliances, self.min_interval_ns)
        return own == (1, 0, None, 1, None)

    @property
    def hosts_needed(self) -> int:
        """Count the hosts that keep its guests, those that back them included."""
        if self.primaries is not None:
            return self.primaries + self.standbys
        return 3 if self.roles == "hosts" else 2

    @property
    def set_up(self) -> "ServerParameters":
        """The server alone, without its load."""
        return ServerParameters.model_validate(self.stored)

    @property
    def set_up_s(self) -> float:
        """Give how long it takes until it answers and knows whom it is to know before any load."""
        booting_s = _BOOT_S * (self.primaries or 1)
        return booting_s + (self.registered / REGISTERED_PER_S + _SPOT_CHECK_S if self.registered else 0.0)

    def suits(self, traits: "PlatformTraits") -> bool:
        """Tell whether it can be had on a platform: without a guest there is nothing to protect, to size or to weigh
        against."""
        natively = ("off", "together", 1, None, 1)
        own = (self.mode, self.roles, self.cpus, self.host_weight, self.appliances)
        return not traits.is_native or own == natively
