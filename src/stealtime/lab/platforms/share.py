"""The share of the processor that a machine gets: what Hyper-V calls *limit* (a quota) and *reserve* (a weight).

The kernel's own limits stand here, so that a share that it would refuse is refused when it is read, with the reason.
"""

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from stealtime.vocabulary.quantities import DurationNs, format_duration

MINIMUM_QUOTA_NS = 1_000_000
"""``min_cfs_quota_period`` of the kernel (kernel/sched/core.c, since 3.2): the shortest quota and period."""

MAXIMUM_PERIOD_NS = 1_000_000_000
"""``max_cfs_quota_period`` in the kernel."""

DEFAULT_PERIOD_NS = 100_000_000
"""``default_cfs_period`` of the kernel."""

MINIMUM_WEIGHT, DEFAULT_WEIGHT, MAXIMUM_WEIGHT = 1, 100, 10_000
"""``CGROUP_WEIGHT_MIN``, ``_DFL`` and ``_MAX`` of the kernel (include/linux/cgroup.h)."""

DEFAULT_SHARES, MINIMUM_SHARES, MAXIMUM_SHARES = 1024, 2, 1 << 18
"""Of cgroup v1 (``MIN_SHARES``, ``MAX_SHARES`` in kernel/sched/sched.h)."""


class Share(BaseModel):
    """A quota (never more than this) and a weight (how much when others want the CPU too)."""

    # The docstrings of the fields are the descriptions that `stealtime schema` prints.
    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True, use_attribute_docstrings=True
    )

    quota_percent: float | None = None
    """The quota in percent of one CPU: 50 is half a CPU, 200 is two CPUs."""
    weight: int | None = None
    """Relative to the weights of others, 1 to 10000; the default weight is 100."""
    period_ns: DurationNs = Field(default=DEFAULT_PERIOD_NS, alias="period")
    """The period of the quota."""

    @field_validator("weight")
    @classmethod
    def _weight_in_range(cls, weight: int | None) -> int | None:
        if weight is not None and not MINIMUM_WEIGHT <= weight <= MAXIMUM_WEIGHT:
            raise ValueError(
                f"the weight {weight} is out of range: the kernel takes {MINIMUM_WEIGHT} to {MAXIMUM_WEIGHT}, "
                f"{DEFAULT_WEIGHT} is the default"
            )
        return weight

    @field_validator("period_ns")
    @classmethod
    def _period_in_range(cls, period_ns: int) -> int:
        if not MINIMUM_QUOTA_NS <= period_ns <= MAXIMUM_PERIOD_NS:
            raise ValueError(
                f"the period {format_duration(period_ns)} is out of range: the kernel takes "
                f"{format_duration(MINIMUM_QUOTA_NS)} to {format_duration(MAXIMUM_PERIOD_NS)}"
            )
        return period_ns

    @model_validator(mode="after")
    def _is_something_the_kernel_takes(self) -> "Share":
        if self.quota_percent is None:
            if self.weight is None:
                raise ValueError("a share needs quota_percent, weight or both")
            return self
        quota_ns = self.quota_percent / 100 * self.period_ns
        # `not >=` also catches a quota that is no number at all (TOML has nan).
        if not quota_ns >= MINIMUM_QUOTA_NS:
            smallest_percent = 100 * MINIMUM_QUOTA_NS / self.period_ns
            raise ValueError(
                f"quota_percent {self.quota_percent:g} is {quota_ns / 1e6:g} ms in each period of "
                f"{format_duration(self.period_ns)}: the kernel takes no quota below "
                f"{format_duration(MINIMUM_QUOTA_NS)} (here {smallest_percent:g} percent)"
            )
        if quota_ns > _MAXIMUM_QUOTA_NS:
            raise ValueError(f"quota_percent {self.quota_percent:g} is more than the kernel can count; leave it out")
        return self

    @property
    def quota_us(self) -> int | None:
        return None if self.quota_percent is None else round(self.quota_percent / 100 * self.period_ns / 1000)

    @property
    def period_us(self) -> int:
        return self.period_ns // 1000

    @property
    def words(self) -> str:
        """For people: ``at most 50 % of a CPU, weight 100``."""
        parts = [] if self.quota_percent is None else [f"at most {self.quota_percent:g} % of a CPU"]
        if self.weight is not None:
            parts.append(f"weight {self.weight}")
        return ", ".join(parts)


_MAXIMUM_QUOTA_NS = (1 << 43) * 1000
"""``max_cfs_runtime`` is ``MAX_BW * NSEC_PER_USEC``, of about 2**44 us; half of it spares us its exact form."""


def shares_of_weight(weight: int) -> int:
    """Convert a weight to ``cpu.shares`` of cgroup v1 as the kernel does (``cpu_weight_write_u64``: x 1024 / 100).

    Args:
        weight: 1 to 10000.
    """
    shares = (weight * DEFAULT_SHARES + DEFAULT_WEIGHT // 2) // DEFAULT_WEIGHT
    return max(MINIMUM_SHARES, min(shares, MAXIMUM_SHARES))
