"""The same mixes as the host's counters see them: the stretch of virtual CPUs, and what is predicted of it. Pure.

What a virtual CPU did alone is what `stealtime advise` makes of its counters, run and wait. A guest with a quota is not
judged: its wait holds what the quota took. It stays in the mix.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from co_located.judging import Case
from co_located.mixes import PIECES, POOLS
from stealtime.capacity.prediction.network import Demand, solve

MODEL = "network"
INSIDE = "contend inside"
"""Not a prediction: what a task that never sleeps measured of itself in the guest, of the same seconds."""


def live_cases(lines: Sequence[Mapping[str, Any]]) -> list[Case]:
    """Give the virtual CPU of every guest of every mix; natively there is none.

    Args:
        lines: What was measured (:mod:`co_located.measuring`).
    """
    pools = {pool.name: pool for pool in POOLS}
    found: dict[tuple[str, str], list[tuple[float, float, float | None]]] = defaultdict(list)
    about: dict[tuple[str, str], Mapping[str, Any]] = {}
    for line in lines:
        pool = pools[line["pool"]]
        if pool.platform == "native":
            continue
        cpus = frozenset(range(pool.cpus))
        demands = []
        for slot, one in line["guests"].items():
            guest = pool.guest(int(slot))
            most = 1.0 if guest.quota_percent is None else guest.quota_percent / 100.0
            demands.append(Demand(busy(one["alone"], pool.base.cpus), cpus, float(guest.weight or 100), most))
        for (slot, one), fare in zip(line["guests"].items(), solve(demands), strict=True):
            if pool.guest(int(slot)).quota_percent is None:
                stretch = wanted_s(one["beside"], pool.cpus) / one["beside"]["host_run_s"]
                found[line["mix"], slot].append((stretch, fare.stretch, inside(one)))
                about[line["mix"], slot] = {"piece": one["piece"], "pool": pool}
    cases = []
    for key, each in found.items():
        predicted = sum(model for _, model, _ in each) / len(each)
        own = [measured for _, _, measured in each if measured is not None]
        models = {MODEL: predicted, INSIDE: sum(own) / len(own) if own else None}
        piece, pool = (about[key][name] for name in ("piece", "pool"))
        cases.append(Case(key[0], pool, piece, tuple(stretch for stretch, _, _ in each), models))
    return cases


def wanted_s(one: Mapping[str, Any], cpus: int) -> float:
    """Give how long a virtual CPU ran or waited for others.

    The processes of User-Mode Linux also wait for each other: together no longer than the time in which none ran, and
    for others no longer than those can have run.
    """
    run_s, wait_s = one["host_run_s"], one["wait_s"]
    if one["vcpu_threads"] > 1:
        wait_s = min(wait_s, max(0.0, one["elapsed_s"] - run_s), max(0.0, cpus * one["elapsed_s"] - run_s))
    return float(run_s + wait_s)


def busy(alone: Mapping[str, Any], cpus: int) -> float:
    """Give the share of the time in which it would run if it never waited."""
    run, wanted = alone["host_run_s"] / alone["elapsed_s"], wanted_s(alone, cpus) / alone["elapsed_s"]
    return float(min(1.0, run / max(run, 1.0 - (wanted - run))))


def company_percent(lines: Sequence[Mapping[str, Any]]) -> float | None:
    """Give how long virtual CPUs waited that worked alone, in percent of the time: for what is not of the mixes.

    Those of one thread only: several wait for each other, and natively tasks do.
    """
    alone = [one["alone"] for line in lines for one in line["guests"].values()]
    waits = [one["wait_s"] / one["elapsed_s"] for one in alone if one["vcpu_threads"] == 1]
    return 100.0 * sum(waits) / len(waits) if waits else None


def inside(one: Mapping[str, Any]) -> float | None:
    """Give a single busy task's elapsed time over the time for which its virtual CPU ran, of the same seconds."""
    piece = PIECES[one["piece"]]
    if piece.tasks > 1 or piece.io_mean_ns:
        return None
    beside = one["beside"]
    return float(beside["elapsed_s"] / beside["host_run_s"])
