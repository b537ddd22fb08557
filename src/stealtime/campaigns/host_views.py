"""The time that a machine could not run, as the host's kernel and its own saw it, written down."""

from collections.abc import Mapping

from stealtime.lab.platforms.host_views import HostDelays
from stealtime.lab.platforms.throttling import Throttling
from stealtime.lab.platforms.traits import traits_of
from stealtime.store.model import HostViews
from stealtime.vocabulary.readings import Absent, Value

_NOT_REPORTED = "its agent could not read its kernel's steal time"


def host_views(platform: str, gained: HostDelays, throttling: Throttling | None) -> HostViews:
    """Write down what the host's kernel counted.

    Args:
        platform: Of the machine.
        gained: Of its vCPU threads, and of the CPUs that it may use.
        throttling: By its quota; None without a share.
    """
    run, run_delay, guest = gained.run_ns, gained.run_delay_ns, gained.guest_ns
    if not traits_of(platform).guest_time_is_counted:
        guest = Absent(absent="only KVM tells the host's kernel when a guest's instructions are executed")
    if traits_of(platform).is_native:
        run = run_delay = Absent(absent="natively there are no vCPU threads: the measuring thread is one of the host")
    no_group = Absent(absent="the machine has no share, so no quota throttled it")
    return HostViews(
        run_delay_ns=run_delay,
        host_steal_ns=gained.steal_ns,
        guest_steal_ns=Absent(absent=traits_of(platform).no_guest_steal or _NOT_REPORTED),
        throttled_ns=no_group if throttling is None else throttling.throttled_ns,
        run_ns=run,
        guest_ns=guest,
    )


def with_guest_steal(views: HostViews, platform: str, counters: Mapping[str, int]) -> HostViews:
    """Add what the guest's kernel counted as stolen, where it can; elsewhere its counter stands still at 0.

    Args:
        views: Of the host.
        platform: Of the machine.
        counters: Of the trial's outcome; ``steal_ns`` is missing where the agent could not read it.
    """
    if traits_of(platform).no_guest_steal is not None or "steal_ns" not in counters:
        return views
    return views.model_copy(update={"guest_steal_ns": Value(value=counters["steal_ns"])})
