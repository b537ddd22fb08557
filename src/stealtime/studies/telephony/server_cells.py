"""What tells servers apart in ``[[probes]]``: their modes and sizes, and when their checkpoints are made."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from stealtime.campaigns.parameters import Parameters
from stealtime.campaigns.probe import ProbeCells
from stealtime.hosts.host import FaultKind
from stealtime.protect.vm_file import HOLDING
from stealtime.studies.telephony.parameters import DEFAULT_ADVERTISEMENT_NS, Mode, Roles, Side
from stealtime.vocabulary.quantities import DurationNs, format_duration

Interval = Annotated[DurationNs, Field(ge=5_000_000)]
Cpus = Annotated[int, Field(ge=1, le=8)]
"""As many as a protected machine may have (``protect.vm_file``)."""
DEFAULT_INTERVAL_NS = 100_000_000
ROLES_ONLY: Mapping[str, tuple[Roles, ...]] = {"net+no-net": ("apart", "hosts"), "replicated": ("together",)}
"""The modes that there are only with some of these roles."""


OF_SERVERS = (
    "mode",
    "interval_ns",
    "min_interval_ns",
    "advertisement_ns",
    "roles",
    "cpus",
    "registered",
    "host_weight",
    "appliances",
)
"""The fields that tell servers apart, by their names in any of these tables."""
_ON_DEMAND = (*HOLDING, "net+no-net")
"""The modes in which some output waits for a checkpoint."""
_SIDES = get_args(Side)


def _refusal(mode: Mode, victim: str, fault: FaultKind, roles: Roles) -> str | None:
    """Say why there is no such loss of a host; None where there is."""
    if victim in _SIDES and roles != "hosts":
        return f"the victim {victim!r} has a host of its own with the roles 'hosts' only, not {roles!r}"
    if mode == "replicated" and victim != "primary":
        return f"the mode 'replicated' has the victim 'primary' only, not {victim!r}"
    if mode == "replicated" and fault != "killed":
        return f"the mode 'replicated' has the fault 'killed' only, not {fault!r}"
    if victim in ("standby", "front") and fault == "planned":
        return f"the fault 'planned' moves a guest, and there is none on the victim {victim!r}"
    return None


class ServerCells(ProbeCells):
    """Cells of servers that are protected in several modes, each with everything that is asked of them."""

    mode: Sequence[Mode]
    interval_ns: list[Interval] = Field(default=[DEFAULT_INTERVAL_NS], alias="interval", min_length=1)
    """The times from one checkpoint to the next."""
    min_interval_ns: list[Interval | Literal["due"]] = Field(default=["due"], alias="min_interval", min_length=1)
    """With checkpoints on demand: the first answer that waits has one made at once, so long after the last one at the
    least; ``due``: answers wait for the next one that is due. In other modes than ``net``, ``net+bypass`` and
    ``net+no-net`` nothing waits."""
    cpus: list[Cpus] = Field(default=[1], min_length=1)
    """How many virtual CPUs the server's guest has, each guest where there are several; natively it may use all of the
    host, and has the cells of 1 only. The server has two workers of each protocol, and a relaying thread, for each."""

    def parameter_sets(self) -> list[Parameters]:
        """Every server with every load that it can have."""
        return [
            self.parameters(**server, **load)
            for server, load in product(self.servers(), self.loads())
            if not _refusal(server["mode"], load.get("victim", "primary"), load.get("fault", "killed"), server["roles"])
        ]

    @model_validator(mode="after")
    def _asks_for_something(self) -> Self:
        faults, roles = getattr(self, "fault", ["killed"]), getattr(self, "roles", ["together"])
        for mode in self.mode:
            only = ROLES_ONLY.get(mode, roles)
            if not set(only) & set(roles):
                raise ValueError(f"the mode {mode!r} needs the roles {' or '.join(map(repr, only))}")
        for victim in getattr(self, "victim", ["primary"]):
            hows = product(sorted(set(self.mode)), faults, roles)
            refusals = [_refusal(mode, victim, fault, one) for mode, fault, one in hows]
            if all(refusals):
                raise ValueError(refusals[0])
        return self

    @model_validator(mode="after")
    def _has_somebody_who_waits(self) -> Self:
        longest_ns, shortest_ns = max(self._least_ns, default=0), min(self.interval_ns)
        if longest_ns and not set(self.mode) & set(_ON_DEMAND):
            raise ValueError(f"min_interval is given, and no output waits in the mode {' or '.join(self.mode)}")
        if longest_ns > shortest_ns:
            longest, shortest = format_duration(longest_ns), format_duration(shortest_ns)
            raise ValueError(f"min_interval is {longest}, which is longer than the interval of {shortest}")
        return self

    @property
    def _least_ns(self) -> list[int]:
        """Those of checkpoints on demand."""
        return [one for one in self.min_interval_ns if one != "due"]

    def servers(self) -> list[dict[str, Any]]:
        """Give the parameters of each server: every mode with every interval and roles, and those unprotected, each of
        every size, with every number of users and every weight.

        The interval of ``replicated`` is that from one advertisement to the next.
        """
        advertisements_ns = getattr(self, "advertisement_ns", [DEFAULT_ADVERTISEMENT_NS])
        registered, weights = getattr(self, "registered", [0]), getattr(self, "host_weight", []) or [None]
        appliances = getattr(self, "appliances", [1])
        others = [
            dict(zip(("cpus", "registered", "host_weight", "appliances"), values, strict=True))
            for values in product(self.cpus, registered, weights, appliances)
        ]
        sets: list[dict[str, Any]] = []
        for roles, mode in product(getattr(self, "roles", ["together"]), self.mode):
            if roles not in ROLES_ONLY.get(mode, (roles,)):
                continue
            times_ns = {"off": [None], "replicated": advertisements_ns}.get(mode, self.interval_ns)
            on_demand_ns: list[int | None] = [None if one == "due" else one for one in self.min_interval_ns]
            least_ns = on_demand_ns if mode in _ON_DEMAND else [None]
            sets += [
                {"mode": mode, "interval_ns": interval_ns, "min_interval_ns": min_interval_ns, "roles": roles, **other}
                for interval_ns, min_interval_ns, other in product(times_ns, least_ns, others)
            ]
        return sets

    @model_validator(mode="after")
    def _appliances_are_plain(self) -> Self:
        most = max(getattr(self, "appliances", [1]))
        if most > 1 and "replicated" in self.mode:
            raise ValueError(f"{most} appliances on one host are not possible in the mode 'replicated', which has two")
        if most > 1 and (users := max(getattr(self, "registered", [0]))):
            raise ValueError(
                f"{users} users before the load are known to one appliance only, and {most} were asked for"
            )
        return self

    def loads(self) -> list[dict[str, Any]]:
        """Give every combination of what is asked of a server."""
        return self.combined(leave_out=OF_SERVERS)
