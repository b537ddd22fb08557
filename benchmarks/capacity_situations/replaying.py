"""What was used in a situation, as JSON and back; and what is said of it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from stealtime.capacity.guest import Guest
from stealtime.capacity.threads_use import ThreadsUse
from stealtime.capacity.use import CpuUse, Figure, GuestUse, Use, ViewUse
from stealtime.vocabulary.readings import Absent

_LEFT_OUT = Absent(absent="it was left out of the recording")
_NONE = (0.0, 0.0, 0.0, "it was never dispatched")


def written(use: Use, numbers: Mapping[tuple[int, int], int]) -> dict[str, Any]:
    """Give an interval as JSON.

    Args:
        use: Of the interval.
        numbers: What each guest is called, by its key.
    """
    return {
        "elapsed_s": round(use.elapsed_s, 4),
        "cpus": use.cpus.absent
        if isinstance(use.cpus, Absent)
        else {cpu: [_out(figure) for figure in one] for cpu, one in use.cpus.items()},
        "memory": _out(use.memory_available_percent),
        # Neither any other pressure nor what a guest says of its own decides on waiting: they are left out.
        "memory_pressure": _out(use.pressure_percent.get("memory", _LEFT_OUT)),
        "guests": [_guest(one, numbers[key]) for key, one in use.guests.items()],
    }


def _guest(use: GuestUse, number: int) -> dict[str, Any]:
    told: dict[str, Any] = {
        "machine": number,
        "kind": use.guest.kind,
        "vcpus": {vcpu: _threads(one) for vcpu, one in use.vcpus.items()},
        "cpus": use.allowed_cpus.absent if isinstance(use.allowed_cpus, Absent) else sorted(use.allowed_cpus),
    }
    for role in ("emulator", "io"):
        threads = getattr(use, role)
        if isinstance(threads, Absent) or threads.dispatches_per_s > 0:
            told[role] = _threads(threads)
    if use.unreadable is not None:
        told["unreadable"] = use.unreadable.absent
    if use.quota_cpus is not None:
        told["quota"] = [_out(use.throttled_percent), use.quota_cpus]
    if use.others_run_percent is not None:
        told["others_run"] = _out(use.others_run_percent)
    if isinstance(use.view, ViewUse):
        told["queue"] = [use.view.queue, use.view.vcpus]
    return told


def _threads(use: ThreadsUse | Absent) -> Any:
    return use.absent if isinstance(use, Absent) else [_out(figure) for figure in use]


def _out(figure: Figure) -> float | str:
    return figure.absent if isinstance(figure, Absent) else float(f"{figure:.4g}")


def _in(figure: float | str) -> Figure:
    return Absent(absent=figure) if isinstance(figure, str) else float(figure)


def read(line: Mapping[str, Any]) -> list[Use]:
    """Give the intervals of a situation."""
    return [_use(one) for one in line["uses"]]


def _use(told: Mapping[str, Any]) -> Use:
    cpus = told["cpus"]
    guests = [_guest_use(one) for one in told["guests"]]
    return Use(
        elapsed_s=told["elapsed_s"],
        cpus=Absent(absent=cpus)
        if isinstance(cpus, str)
        else {int(cpu): CpuUse(*map(_in, row)) for cpu, row in cpus.items()},
        memory_available_percent=_in(told["memory"]),
        pressure_percent={"memory": _in(told["memory_pressure"])},
        guests={one.guest.key: one for one in guests},
    )


def _guest_use(told: Mapping[str, Any]) -> GuestUse:
    number = told["machine"]
    throttled, quota_cpus = told.get("quota", (0.0, None))
    view = told.get("queue")
    cpus = told["cpus"]
    return GuestUse(
        guest=Guest(name=f"guest {number}", kind=told["kind"], pid=number + 1, started_ticks=0),
        vcpus={int(vcpu): _threads_use(one) for vcpu, one in told["vcpus"].items()},
        emulator=_threads_or_absent(told.get("emulator", _NONE)),
        io=_threads_or_absent(told.get("io", _NONE)),
        allowed_cpus=Absent(absent=cpus) if isinstance(cpus, str) else frozenset(cpus),
        unreadable=Absent(absent=told["unreadable"]) if "unreadable" in told else None,
        throttled_percent=_in(throttled),
        quota_cpus=quota_cpus,
        view=None if view is None else ViewUse(view[0], view[1], _LEFT_OUT, _LEFT_OUT),
        others_run_percent=_in(told["others_run"]) if "others_run" in told else None,
    )


def _threads_use(told: Sequence[Any]) -> ThreadsUse:
    return ThreadsUse(float(told[0]), float(told[1]), float(told[2]), _in(told[3]))


def _threads_or_absent(told: Any) -> ThreadsUse | Absent:
    return Absent(absent=told) if isinstance(told, str) else _threads_use(told)
