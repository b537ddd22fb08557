"""A campaign as it is written in TOML.

The keys of the file are the aliases of the fields, so that a field can carry its unit while the file says ``"5s"``.
:meth:`Campaign.document` writes exactly what :meth:`Campaign.model_validate` reads.
"""

from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, ValidationInfo, field_validator

from stealtime.campaigns.disturbance import KnownDisturbance
from stealtime.campaigns.moment import ThresholdRule
from stealtime.campaigns.probe import ProbeCells, Tracing
from stealtime.campaigns.registry import probes
from stealtime.campaigns.short import Short, short_model
from stealtime.campaigns.threshold import Threshold, ThresholdTexts, parse_thresholds
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.scenarios.model import SCENARIOS, Scenario
from stealtime.vocabulary.late_type import LateType
from stealtime.vocabulary.quantities import DurationNs, SizeBytes
from stealtime.vocabulary.toml_table import Table

USABLE = "usable"
"""Stands for every platform that can be used on this host."""


def _any_cells() -> Any:
    """Give the tables that ``[[probes]]`` may be: the key ``probe`` tells which."""
    tables = [probe.cells for probe in probes().values()]
    return Annotated[reduce(or_, tables), Discriminator("probe")]


class Campaign(Table):
    """A set of cells and how often each is measured."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    """Part of the names of its runs."""
    description: str = ""
    """A description for the plan."""
    define: list[Scenario] = Field(default=[])
    """The campaign's own scenarios, besides the builtin ones."""
    platforms: list[str] = Field(default=[USABLE], min_length=1)
    """Names of platforms, ``usable``, or an alias of ``campaigns.aliases``."""
    scenarios: list[str] = Field(default=["alone"], min_length=1)
    """Names of builtin scenarios or of those under ``[[define]]``."""
    probes: list[Annotated[ProbeCells, LateType(_any_cells)]] = Field(min_length=1)
    """What is measured: each table stands for one or more cells."""
    repetitions: int = Field(default=1, ge=1, le=1000)
    """How often each cell is measured, each time on a machine booted anew."""
    tracing: Tracing = "off"
    """Whether cells are measured with tracing; ``both`` measures each with and without."""
    trace_buffer_bytes: SizeBytes = Field(default=16 << 20, alias="trace_buffer", ge=64 << 10, le=1 << 30)
    """The size of each CPU's trace buffer, on host and guest; events that do not fit are lost and counted."""
    kernel: str = Field(default="rt", min_length=1)
    """Kernel of guests: ``rt``, ``rt-new``, ``cloud``, ``standard``, ``backports``, ``host`` or an image's path."""
    priority: int = Field(default=80, ge=0, le=99)
    """SCHED_FIFO priority of the measuring threads: over PREEMPT_RT's interrupt threads (50), under its stoppers.
    0 measures under ordinary scheduling, where shares and neighbours count natively too."""
    lift_rt_throttling: bool | Literal["guests"] = "guests"
    """``"guests"`` lifts it in guests only, which are ours; everywhere needs the consent of the host's owner. In a
    guest that keeps it, nothing but its own kernel's pauses would be seen."""
    memory_bytes: SizeBytes = Field(default=256 << 20, alias="memory", ge=64 << 20)
    """The memory of each guest."""
    boot_timeout_ns: DurationNs = Field(default=60_000_000_000, alias="boot_timeout")
    """How long a machine may take until its agent answers."""
    cell_timeout_ns: DurationNs = Field(default=60_000_000_000, alias="cell_timeout")
    """How long a cell may take beyond its duration: starting its threads, sending its samples."""
    checkpoint_ns: DurationNs = Field(default=60_000_000_000, alias="checkpoint", ge=100_000_000, le=60_000_000_000)
    """A longer cell is on the disk in parts while it is measured, so that at most this is lost whatever dies."""
    max_overhead: ThresholdTexts = Field(default=[])
    """What a run is held against, one threshold or a list: ``"100us"`` is the most that any value may be,
    ``"p99.9=50us"`` the most for a percentile. ``run --max-overhead`` replaces them."""
    injection: KnownDisturbance | None = None
    """Disturb every cell in a known way, to compare with what the samples and the attribution show."""
    on_threshold: ThresholdRule | None = None
    """What to do at the first sample that is too long."""
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    """The seed for the order of platforms in the repetitions after the first."""
    short: Annotated[Short, LateType(short_model)] | None = None
    """What ``--short`` changes."""

    @field_validator("define")
    @classmethod
    def _own_names(cls, defined: list[Scenario]) -> list[Scenario]:
        seen: set[str] = set()
        for scenario in defined:
            if scenario.name in SCENARIOS:
                raise ValueError(f"the scenario {scenario.name!r} is builtin; give yours another name")
            if scenario.name in seen:
                raise ValueError(f"the scenario {scenario.name!r} is defined twice")
            seen.add(scenario.name)
        return defined

    @field_validator("scenarios")
    @classmethod
    def _known_scenarios(cls, names: list[str], info: ValidationInfo) -> list[str]:
        known = [*SCENARIOS, *(scenario.name for scenario in info.data.get("define", []))]
        for name in names:
            if name not in known:
                raise ValueError(f"there is no scenario {name!r}; known: {', '.join(known)}")
        return list(dict.fromkeys(names))

    @field_validator("short")
    @classmethod
    def _known_short_scenarios(cls, short: Short | None, info: ValidationInfo) -> Short | None:
        if short is not None and short.scenarios is not None:
            cls._known_scenarios(short.scenarios, info)
        return short

    @property
    def thresholds(self) -> tuple[Threshold, ...]:
        """What a run is held against."""
        return parse_thresholds(self.max_overhead)

    def scenario(self, name: str) -> Scenario:
        """Give one of this campaign's own scenarios, or a builtin one; ``name`` was checked when it was read."""
        return next((scenario for scenario in self.define if scenario.name == name), None) or SCENARIOS[name]

    def lifts_rt_throttling(self, platform: str) -> bool:
        """Tell whether RT throttling is lifted on a platform while its cells are measured."""
        if self.lift_rt_throttling == "guests":
            return traits_of(platform).is_guest
        return self.lift_rt_throttling

    def tracing_of(self, cells: ProbeCells) -> Tracing:
        """Tell whether the cells of a probe are traced: its own key goes before the campaign's."""
        return cells.tracing or self.tracing

    def document(self) -> dict[str, Any]:
        """Give the campaign as the file says it, defaults spelled out; for the manifest and to compare."""
        return self.model_dump(mode="json", by_alias=True)
