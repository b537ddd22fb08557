"""Scenarios as they are declared: how many vCPUs, on which CPUs, with which share, beside which neighbours.

The keys of a file are the aliases of the fields, as in campaigns. ``builtin.toml`` holds those that come with
stealtime; a campaign may define more. What a scenario means on a host is found by ``placing.place``.
"""

import re
import tomllib
from importlib import resources
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from stealtime.lab.platforms.share import Share
from stealtime.lab.scenarios.placement import SAME_WORK, Load
from stealtime.lab.scenarios.real_hosts import RealHosts
from stealtime.vocabulary.quantities import NANOSECONDS, DurationNs, SizeBytes

MEASURED, ALL, OTHERS, IN_TURN = "measured", "all", "others", "in-turn"
"""The CPU that is measured; every CPU; every CPU but the measured one; one for each virtual CPU, in turn."""

_CPU_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


def _machine_cpus(text: str) -> str:
    if text not in (MEASURED, ALL) and _CPU_LIST.fullmatch(text) is None:
        raise ValueError(f'{text!r} is not a CPU list; expected "{MEASURED}", "{ALL}" or a list such as "1,3-5"')
    return text


def _neighbour_cpus(text: str) -> str:
    if text not in (MEASURED, ALL, OTHERS, IN_TURN) and _CPU_LIST.fullmatch(text) is None:
        raise ValueError(
            f'{text!r} is not a CPU list; expected "{MEASURED}", "{ALL}", "{OTHERS}", "{IN_TURN}" or a list such as '
            '"1,3-5"'
        )
    return text


_SHORTEST_PHASE_NS, _LONGEST_PHASE_NS, _SMALLEST_BLOCK_BYTES = 100_000, 365 * NANOSECONDS["d"], 4096
"""The agent refuses a load beyond these (``crates/probe/src/load/mod.rs``)."""
PhaseNs = Annotated[DurationNs, Field(ge=_SHORTEST_PHASE_NS, le=_LONGEST_PHASE_NS)]
BlockBytes = Annotated[SizeBytes, Field(ge=_SMALLEST_BLOCK_BYTES)]


class _Table(BaseModel):
    # The docstrings of the fields are the descriptions that `stealtime schema` prints.
    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True, use_attribute_docstrings=True
    )


class NeighbourSpec(_Table):
    """One or more identical neighbours of the machine under test."""

    kind: Literal["machine", "process"]
    """``machine``: of the same platform as the machine under test (natively a process); ``process``: of the host."""
    load: Load
    """Arithmetic that fits the first-level cache; copying of a block that no cache holds; or ``same-work``: what the
    machine under test does in the trial, once, started together with it."""
    vcpus: Annotated[int, Field(ge=1, le=255)] | Literal["same"] = 1
    """The number of its virtual CPUs, or as many as the machine under test has; more than one only with
    ``same-work``."""
    count: Annotated[int, Field(ge=1, le=4096)] | Literal["others", "rest", "twice"] = 1
    """The number of neighbours; ``others`` is one less than the number of CPUs, ``rest`` as many as give the CPUs that
    the machine and the neighbours listed before leave over a virtual CPU each, and ``twice`` as many as make two
    virtual CPUs for each CPU."""
    cpus: Annotated[str, AfterValidator(_neighbour_cpus)] = OTHERS
    """Where each may run: ``measured``, ``all``, ``others`` or a list of CPUs; with ``in-turn`` each virtual CPU is
    pinned to one CPU, the next after those of the machine and of the neighbours before, and after the last the first.
    """
    share: Share | None = None
    """Its share of the CPU time; the quota is for each of its virtual CPUs."""
    priority: int = Field(default=0, ge=0, le=99)
    """SCHED_FIFO priority of a process's load; 0 is ordinary scheduling."""
    block_bytes: BlockBytes | None = Field(default=None, alias="block")
    """The size of the blocks of ``memory-load``; default: twice the last-level cache, at least the paper's 9 MB."""
    on_ns: PhaseNs | None = Field(default=None, alias="on")
    """How long the load is on before it pauses."""
    off_ns: PhaseNs | None = Field(default=None, alias="off")
    """How long it then pauses; without phases it never does."""

    @model_validator(mode="after")
    def _fits_together(self) -> "NeighbourSpec":
        if (self.on_ns is None) != (self.off_ns is None):
            given, missing = ("on", "off") if self.off_ns is None else ("off", "on")
            raise ValueError(f"{given!r} is given without {missing!r}; a load that pauses needs both")
        if self.priority and self.kind != "process":
            raise ValueError(
                f"priority {self.priority} is only for neighbours of the kind 'process': a machine's threads are "
                "ordinary threads of the host"
            )
        if self.block_bytes is not None and self.load != "memory-load":
            raise ValueError(f"'block' is only for memory-load, this neighbour's load is {self.load}")
        if self.load == SAME_WORK:
            self._refuse_what_the_work_decides()
        elif self.vcpus != 1:
            raise ValueError(
                f"{self.vcpus!r} virtual CPUs are only for {SAME_WORK}: a neighbour with {self.load} has one"
            )
        return self

    def _refuse_what_the_work_decides(self) -> None:
        if self.on_ns is not None:
            raise ValueError(f"'on' and 'off' are not for {SAME_WORK}: the work itself says when it pauses")
        if self.kind != "machine":
            raise ValueError(
                f"a neighbour of the kind {self.kind!r} cannot do the {SAME_WORK}: give it the kind 'machine', which "
                "natively is a process as well"
            )


class Scenario(_Table):
    """How the machine under test shares its host."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    """The name by which ``scenarios`` of a campaign refers to it."""
    description: str = ""
    """A description for the plan and the report."""
    vcpus: Annotated[int, Field(ge=1, le=255)] | Literal["all", "half"] = 1
    """The number of vCPUs of the machine, or that of all CPUs or of half of them; the last one is measured, or all of
    them by a probe that uses all."""
    cpus: Annotated[str, AfterValidator(_machine_cpus)] = MEASURED
    """Where the measured vCPU may run: pinned to the ``measured`` CPU, free to roam over ``all``, or a list of CPUs.

    ``all`` and a list hold for every vCPU; with ``measured`` each further vCPU is pinned to a CPU of its own.
    """
    emulator: Literal["housekeeping", "measured", "all"] = "housekeeping"
    """Where the machine's emulator threads run; ``housekeeping`` is where the control plane is."""
    share: Share | None = None
    """The share of the CPU time that the machine under test gets."""
    priority: int | None = Field(default=None, ge=0, le=99)
    """The priority of the measuring threads, instead of the campaign's; 0 is ordinary scheduling."""
    neighbours: list[NeighbourSpec] = []
    """What runs beside the machine under test."""
    hosts: RealHosts | None = None
    """Two hosts of yours that keep the guest; only probes that can do with them are measured there, and only on
    platforms ``ssh:...``, each of which is the host where the guest begins."""
    guests_only: bool = False
    """Leave out ``native``: what such a scenario asks is about virtual machines."""
    minimum_cpus: int = Field(default=1, ge=1)
    """On a host with fewer CPUs the scenario is skipped."""
    too_few: str | None = None
    """The reason that is given when it is skipped, as half a sentence."""
    paper_number: int | None = None
    """Its number in the Hyper-V paper of 2013."""
    paper_cpus: int = Field(default=4, ge=1)
    """How many CPUs that paper's host has."""

    @model_validator(mode="after")
    def _is_quiet(self) -> "Scenario":
        if self.hosts is not None and (self.neighbours or self.share is not None):
            raise ValueError("a scenario with 'hosts' has no neighbours and no share: they would be on this machine")
        return self

    def document(self) -> dict[str, Any]:
        """Give the scenario as a file says it, defaults spelled out."""
        return self.model_dump(mode="json", by_alias=True)


def _builtin() -> dict[str, Scenario]:
    text = (resources.files("stealtime.lab.scenarios") / "builtin.toml").read_text("utf-8")
    scenarios = TypeAdapter(list[Scenario]).validate_python(tomllib.loads(text)["scenario"])
    return {scenario.name: scenario for scenario in scenarios}


SCENARIOS: dict[str, Scenario] = _builtin()
"""The builtin scenarios by name, in the paper's order."""
