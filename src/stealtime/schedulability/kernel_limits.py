"""What a kernel takes from its real-time threads on purpose, as a supply: RT throttling and the fair server.

RT throttling stops all real-time threads of a CPU that have run for ``sched_rt_runtime_us``, until the next
``sched_rt_period_us`` begins (``kernel/sched/rt.c``). It looks when it is at the scheduler and at each tick, so they
may run for a tick longer, which is taken from the next period: the budget is less by that tick. As the budget begins
with the period, its end is the only gap. The fair server (since Linux 6.12, commit 557a6bfc662c) serves ordinary
threads that starve for its runtime in each of its periods; where in the period is not relied on here.
"""

from dataclasses import dataclass

from stealtime.schedulability.supply import DEDICATED, Supply, combined
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.quantities import NANOSECONDS

SLOWEST_TICK_NS = 10 * NANOSECONDS["ms"]
"""``CONFIG_HZ=100``, the fewest that a kernel can be configured to (``kernel/Kconfig.hz``)."""
FAIR_SERVER_RUNTIME_NS = 50 * NANOSECONDS["ms"]
FAIR_SERVER_PERIOD_NS = NANOSECONDS["s"]
"""What the fair server begins with (``fair_server_init()``, ``kernel/sched/deadline.c``)."""


@dataclass(frozen=True)
class KernelLimits:
    """Of one kernel; None where it has no such limit."""

    throttling_ns: tuple[int, int] | None
    """Runtime and period of RT throttling."""
    fair_server_ns: tuple[int, int] | None
    """Runtime and period of the fair server, which ordinary threads get."""

    def supply(self) -> Supply:
        """Give what is left to real-time threads.

        Raises:
            StealtimeError: Nothing is left.
        """
        parts = [DEDICATED]
        if self.throttling_ns is not None:
            runtime_ns, period_ns = self.throttling_ns
            budget_ns = runtime_ns - SLOWEST_TICK_NS
            parts.append(_periodic("RT throttling", period_ns, budget_ns, budget_ns))
        if self.fair_server_ns is not None:
            runtime_ns, period_ns = self.fair_server_ns
            parts.append(_periodic("fair server", period_ns, period_ns - runtime_ns, period_ns))
        found = combined(parts)
        return Supply(found.kind, found.parameters, source=found.source, parts=found.parts, has_kernel_limits=True)


def _periodic(source: str, period_ns: int, budget_ns: int, deadline_ns: int) -> Supply:
    if budget_ns <= 0:
        raise StealtimeError(f"the {source} of this kernel leaves nothing that is certain to real-time threads")
    return Supply("periodic", (period_ns, budget_ns, deadline_ns), source=f"what the {source} leaves")
