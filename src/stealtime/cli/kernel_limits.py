"""What this host's kernel takes from real-time threads, as `doctor` finds it: for ``sched --host here``."""

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from stealtime.doctor.attempts import Attempts
    from stealtime.doctor.files import Files
    from stealtime.schedulability.supply import Supply


def supply_here(files: "Files | None" = None, attempts: "Attempts | None" = None) -> "Supply":
    """Give what RT throttling and the fair server leave of a CPU of this host.

    Where the fair server cannot be looked at, it is taken to be as the kernel begins with it.

    Raises:
        StealtimeError: Nothing is left, or the limit of real-time threads cannot be read.
    """
    from stealtime.doctor import processor
    from stealtime.doctor.attempts import RealAttempts
    from stealtime.doctor.files import Files
    from stealtime.doctor.model import Level
    from stealtime.doctor.scheduling import fair_server, rt_throttling
    from stealtime.schedulability.kernel_limits import FAIR_SERVER_PERIOD_NS, FAIR_SERVER_RUNTIME_NS, KernelLimits
    from stealtime.vocabulary.errors import StealtimeError
    from stealtime.vocabulary.quantities import NANOSECONDS
    from stealtime.vocabulary.readings import Absent

    files, attempts = files or Files(), attempts or RealAttempts()
    found = rt_throttling(files)
    if isinstance(found.reading, Absent):
        raise StealtimeError(
            f"--host here: RT throttling cannot be looked at: {found.text}",
            hint="give what is left of a CPU to --supply, such as --supply 940ms/1s/940ms",
        )
    throttling_ns = None
    if found.level is not Level.OK:
        value = cast("dict[str, int]", found.reading.value)
        throttling_ns = (value["runtime_us"] * NANOSECONDS["us"], value["period_us"] * NANOSECONDS["us"])
    found = fair_server(files, attempts, online := processor.online_cpus(files))
    fair_server_ns = None
    if found.level is not Level.OK:
        runtime_ns, period_ns = FAIR_SERVER_RUNTIME_NS, FAIR_SERVER_PERIOD_NS
        if not isinstance(found.reading, Absent):
            runtime_ns = cast("dict[str, int]", found.reading.value)["longest_runtime_ns"]
            periods = attempts.kernel_files("debugfs", [f"sched/fair_server/cpu{cpu}/period" for cpu in online])
            period_ns = min(map(int, periods.text.split())) if periods.succeeded else period_ns
        fair_server_ns = (runtime_ns, period_ns)
    return KernelLimits(throttling_ns, fair_server_ns).supply()
