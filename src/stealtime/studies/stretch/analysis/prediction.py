"""What simple models say of the stretch of a guest, from what it did alone. Pure.

* The probability that all m CPUs are busy at once is rho^m, if each is busy with probability rho on its own
  (M. Friedman, "Over-provisioned Hyper-V hosts"). N. Gunther ("Analyzing Computer System Performance with
  Perl::PDQ", 2011) makes of it the response time of a queue with m servers, 1 / (1 - rho^m) times the service time.
* Erlang's C is the exact probability of waiting in M/M/m (A. K. Erlang, 1917; L. Kleinrock, "Queueing Systems" I,
  1975). Both are of open queues: over a utilization of 1 they have no answer.
* Closed: N guests of v virtual CPUs, always busy, on m CPUs: max(1, N v / m).
* Entitled: the asymptotic bounds of operational analysis (P. Denning and J. Buzen, "The operational analysis of
  queueing network models", Computing Surveys 10(3), 1978) under a scheduler that shares by weight up to a quota: no
  shorter than alone, and no shorter than its CPU time divided by the CPUs that it is entitled to. A work-conserving
  fair scheduler comes near to the larger of the two.
"""

import math
from collections.abc import Sequence

from stealtime.studies.stretch.analysis.model import Guest

_DEFAULT_WEIGHT = 100
_STEPS = 100


def entitled_cpus(guests: Sequence[Guest], host_cpus: int) -> list[float]:
    """Share CPUs out by weight among guests that are always busy, none above its virtual CPUs and its quota.

    Args:
        guests: All that are there. Without a weight, each virtual CPU of a guest counts as one of weight 100.
        host_cpus: At least 1.
    """
    caps = [min(one.vcpus, math.inf if one.quota_percent is None else one.quota_percent / 100) for one in guests]
    weights = [float(one.vcpus * _DEFAULT_WEIGHT if one.weight is None else one.weight) for one in guests]
    if sum(caps) <= host_cpus:
        return caps
    low, high = 0.0, max(cap / weight for cap, weight in zip(caps, weights, strict=True))
    for _ in range(_STEPS):
        level = (low + high) / 2
        given = sum(min(cap, weight * level) for cap, weight in zip(caps, weights, strict=True))
        low, high = (level, high) if given < host_cpus else (low, level)
    return [min(cap, weight * high) for cap, weight in zip(caps, weights, strict=True)]


def entitled_stretch(alone_s: float, cpu_s: float, itself: Guest, beside: Sequence[Guest], host_cpus: int) -> float:
    """Give the stretch against the guest alone that quota, weights and idle time leave to it.

    Args:
        alone_s: Elapsed time alone, with neither a quota nor neighbours.
        cpu_s: CPU time alone.
        itself: The guest.
        beside: Its neighbours, always busy.
        host_cpus: Which all share.
    """
    cpus = entitled_cpus([itself, *beside], host_cpus)[0]
    return max(alone_s, cpu_s / cpus) / alone_s


def closed_stretch(itself: Guest, beside: Sequence[Guest], host_cpus: int) -> float:
    """Give max(1, N v / m)."""
    return max(1.0, (itself.vcpus + sum(one.vcpus for one in beside)) / host_cpus)


def utilization(alone_s: float, cpu_s: float, beside: Sequence[Guest], host_cpus: int) -> float:
    """Give the CPUs that all would use if each guest had its own, as a share of those that there are."""
    busy = [min(one.vcpus, math.inf if one.quota_percent is None else one.quota_percent / 100) for one in beside]
    return (cpu_s / alone_s + sum(busy)) / host_cpus


def all_busy(rho: float, host_cpus: int) -> float:
    """Give the joint probability that all CPUs are busy."""
    return min(rho, 1.0) ** host_cpus


def open_queue_stretch(rho: float, host_cpus: int) -> float | None:
    """Give 1 / (1 - rho^m)."""
    return None if rho >= 1.0 else 1.0 / (1.0 - rho**host_cpus)


def erlang_c_stretch(rho: float, host_cpus: int) -> float | None:
    """Give response time over service time in M/M/m: 1 + C / (m (1 - rho))."""
    if rho >= 1.0:
        return None
    load = rho * host_cpus
    # Erlang's B by its recursion, which does not overflow; C follows.
    blocked = 1.0
    for servers in range(1, host_cpus + 1):
        blocked = load * blocked / (servers + load * blocked)
    waits = blocked / (1.0 - rho * (1.0 - blocked))
    return 1.0 + waits / (host_cpus * (1.0 - rho))
