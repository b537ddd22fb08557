"""The hypervisor's counters over one trial: read before the request, and again when the agent has measured.

The second reading is not at the trial's end: until then the agent sends its tables, and each frame leaves the guest. So
the counters hold the set-up of the trial and its measuring, and of the sending only the moment that the reading takes.
"""

from dataclasses import dataclass

from stealtime.lab.platforms.kvm_counters import CountersGained, CountersLook, between
from stealtime.lab.platforms.model import Machine
from stealtime.vocabulary.readings import Absent


@dataclass
class HypervisorCounting:
    """The two readings of one trial; begin it, and let :meth:`end` be called when the machine has measured."""

    machine: Machine
    before: CountersLook | Absent
    after: CountersLook | Absent | None = None

    @classmethod
    async def begin(cls, machine: Machine) -> "HypervisorCounting":
        """Read the counters of a machine that is idle still."""
        return cls(machine, await machine.hypervisor_counters())

    async def end(self) -> None:
        """Read them again, where there are any."""
        if not isinstance(self.before, Absent):
            self.after = await self.machine.hypervisor_counters()

    def record(self) -> CountersGained | Absent:
        """Give what was counted between the two readings, or why that is not known."""
        if isinstance(self.before, Absent):
            return self.before
        if self.after is None:
            return Absent(absent="the agent announced no table, so the end of its measurement is not known")
        if isinstance(self.after, Absent):
            return self.after
        return between(self.before, self.after)
