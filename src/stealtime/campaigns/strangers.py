"""Strangers beside a trial: seen from its request to the end of its measuring, written down, and judged.

What the machine could not have is a share of the time: what strangers had of its CPUs, what its threads waited for them
of what they ran and waited (unless they share the CPU with others of ours), and what the host's own host took. The
largest of the three counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stealtime.lab.platforms.host_views import HostLook, between, look
from stealtime.lab.platforms.model import Machine
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.scenarios.placement import Placement
from stealtime.lab.strangers import look as host
from stealtime.store.strangers import StrangersRecord
from stealtime.vocabulary.cpu_lists import format_cpus
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.readings import Absent, Reading, Value

LIMITS_FROM = 0.05
NOT_ALONE_FROM = 0.10
"""Shares of the time, chosen by recorded trials on quiet and busy hosts (benchmarks/busy_hosts.py, docs/truth.md)."""
BACKGROUND = 0.02
"""So much of a CPU strangers seem to have on a quiet host: kernel threads, timers, and what is lost between ticks."""

BUSY_HOST = "busy_host"
NOT_ALONE = "not_alone"
_HINT = "measure when the host is idle, or on a CPU that others keep off (isolcpus=, cpuset); `show` names who ran"
_RUN, _RUN_DELAY = "measuring_run_ns", "measuring_run_delay_ns"
_SHARED = "they share their CPUs with others of this run, for whom they wait as well"


@dataclass
class StrangersWatch:
    """Begun just before a trial is asked for, and ended when it has measured."""

    machine: Machine
    placement: Placement
    first: host.StrangerLook
    first_of_threads: HostLook
    last: host.Seen | None = None
    waited: tuple[Reading, Reading] | None = None

    @classmethod
    def begin(cls, machine: Machine, placement: Placement) -> "StrangersWatch | None":
        """Look first; None for a machine on another host, of which nothing is seen from here."""
        if traits_of(machine.platform).is_remote:
            return None
        threads = [thread.tid for thread in machine.threads() if thread.role == "vcpu"]
        first = host.look(watched_cpus(placement))
        return cls(machine, placement, first, look(threads, ()))

    def end(self) -> None:
        """Look again; only the first time counts."""
        if self.last is None:
            gained = between(self.first_of_threads, look(self.first_of_threads.run_ns, ()))
            self.waited = gained.run_ns, gained.run_delay_ns
            self.last = host.between(self.first, host.look(self.first.cpus))

    def record(self, counters: Mapping[str, int]) -> StrangersRecord:
        """Write down what was seen.

        Args:
            counters: Of the trial's outcome: natively they hold what the measuring thread waited.
        """
        self.end()
        assert self.last is not None and self.waited is not None  # noqa: S101, PT018 - for the type checker
        run, delay = self.waited
        if traits_of(self.machine.platform).is_native:
            run, delay = _counted(counters, _RUN), _counted(counters, _RUN_DELAY)
        if shares_its_cpus(self.placement):
            delay = Absent(absent=_SHARED)
        return seen_record(self.last).model_copy(update={"run_ns": run, "run_delay_ns": delay})


def seen_record(seen: host.Seen) -> StrangersRecord:
    """Write down what was seen of a host beside something whose threads are not known one by one."""
    unknown = Absent(absent="which threads wait is not known")
    return StrangersRecord(
        cpus=list(seen.cpus),
        elapsed_ns=seen.elapsed_ns,
        strangers_ns=seen.strangers_ns,
        steal_ns=seen.steal_ns,
        run_ns=unknown,
        run_delay_ns=unknown,
        who=list(seen.who),
    )


def watched_cpus(placement: Placement) -> tuple[int, ...]:
    """Give the CPUs of the host that the machine's vCPUs may run on."""
    return tuple(sorted({cpu for cpus in placement.vcpu_cpus for cpu in cpus}))


def shares_its_cpus(placement: Placement) -> bool:
    """Tell whether others of ours may run where the machine does, or a quota holds it back: then it waits for those."""
    own = [set(cpus) for cpus in placement.vcpu_cpus]
    others = {*placement.emulator_cpus, *placement.housekeeping_cpus}
    others |= {cpu for neighbour in placement.neighbours for cpu in neighbour.cpus}
    among_themselves = any(one & other for number, one in enumerate(own) for other in own[:number])
    has_quota = placement.share is not None and placement.share.quota_percent is not None
    return among_themselves or has_quota or any(cpus & others for cpus in own)


def shares_of(record: StrangersRecord) -> dict[str, float]:
    """Give each share of the time that the machine did not have, 0 to 1, as far as it is known."""
    whole_ns = record.elapsed_ns * len(record.cpus)
    shares = {}
    if whole_ns > 0:
        for name, reading in (("strangers", record.strangers_ns), ("steal", record.steal_ns)):
            if (value := _number(reading)) is not None:
                shares[name] = min(1.0, value / whole_ns)
    run_ns, delay_ns = _number(record.run_ns), _number(record.run_delay_ns)
    if run_ns is not None and delay_ns is not None and run_ns + delay_ns > 0:
        # Who waits for a stranger waits while that runs. What is beyond it are a machine's own threads that wait for
        # each other, as those of User-Mode Linux do: 6 % of the little that one ran which mostly slept.
        others_ns = sum(_number(one) or 0 for one in (record.strangers_ns, record.steal_ns)) - BACKGROUND * whole_ns
        waited_ns = delay_ns if isinstance(record.strangers_ns, Absent) else min(delay_ns, max(0.0, others_ns))
        shares["waited"] = waited_ns / (run_ns + delay_ns)
    return shares


def taken_share(record: StrangersRecord) -> float | None:
    """Give the share of the time that the machine did not have; None where nothing is known."""
    return max(shares_of(record).values(), default=None)


def findings_of(record: StrangersRecord | None) -> list[Finding]:
    """Say what strangers mean for a trial. The figures and names stand in the record: the text is the same for all."""
    share = None if record is None else taken_share(record)
    if record is None or share is None or share < LIMITS_FROM:
        return []
    where = f"CPU{'s' if len(record.cpus) > 1 else ''} {format_cpus(record.cpus)}"
    if share < NOT_ALONE_FROM:
        text = f"others had {LIMITS_FROM:.0%} or more of the time on {where}"
        return [Finding(code=BUSY_HOST, level="limits", text=text.replace("%", " %"), hint=_HINT)]
    text = f"not alone: programs that are not of this run had {NOT_ALONE_FROM:.0%} or more of the time on {where}"
    return [Finding(code=NOT_ALONE, level="limits", text=text.replace("%", " %"), hint=_HINT)]


def names_of(records: Sequence[StrangersRecord]) -> list[str]:
    """Name the strangers of some trials, those that used most CPU time first."""
    used: dict[str, int] = {}
    for record in records:
        for one in record.who:
            name = f"[{one.name}]" if one.is_kernel else f"{one.name} of another run" if one.is_of_a_run else one.name
            used[name] = used.get(name, 0) + one.cpu_ns
    return sorted(used, key=lambda name: (-used[name], name))


def _counted(counters: Mapping[str, int], name: str) -> Reading:
    if name not in counters:
        return Absent(absent="the measuring thread's kernel does not count it")
    return Value(value=counters[name])


def _number(reading: Reading) -> int | None:
    return reading.value if isinstance(reading, Value) and isinstance(reading.value, int) else None
