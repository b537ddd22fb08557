"""What was used, second by second, as rows of a table and back, so that it can be kept and judged later; pure.

A row is one figure of one moment. What is absent has its reason in the place of a value. Where a guest's virtual CPUs
may run is not kept: it makes words of advice, and no verdict.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

from stealtime.capacity.guest import Guest, Kind
from stealtime.capacity.threads_use import ThreadsUse
from stealtime.capacity.use import CpuUse, Figure, GuestUse, Use, ViewUse
from stealtime.vocabulary.readings import Absent

HOST = "host"
"""The subject, and its kind, of figures that are no guest's."""
_NOT_KEPT = Absent(absent="where its virtual CPUs may run was not kept")
_CPU, _VCPU = "CPU ", "vCPU "
_OTHERS = ("emulator", "io")
_PRESSURE = "_pressure_percent"
_READABLE = "readable"
_OTHERS_RUN = "others_run_percent"


class Row(NamedTuple):
    """One figure of one interval."""

    at_ns: int
    """The end of the interval, since the recording began ..."""
    elapsed_ns: int
    """... and its length."""
    subject: str
    """``host`` or the name of a guest."""
    kind: str
    """``host``, ``qemu`` or ``uml``."""
    part: str
    """``CPU 0``, ``vCPU 0``, ``emulator``, ``io``; nothing for the whole."""
    figure: str
    """Its unit is in its name."""
    value: float | None
    absent: str | None
    """Why there is no value."""


@dataclass(frozen=True)
class RecordedUse:
    """What was used in one interval."""

    at_s: float
    """Its end, since the recording began."""
    use: Use


def rows_of(use: Use, at_ns: int, name_of: Callable[[Guest], str]) -> list[Row]:
    """Give the rows of one interval.

    Args:
        use: Of the interval.
        at_ns: Its end, since the recording began.
        name_of: Gives what a guest is called in the table; no two have one name.
    """
    figures = [(HOST, HOST, *one) for one in _host_figures(use)]
    for guest in use.guests.values():
        name = name_of(guest.guest)
        figures += [(name, guest.guest.kind, *one) for one in _guest_figures(guest)]
    elapsed_ns = round(use.elapsed_s * 1e9)
    return [
        Row(at_ns, elapsed_ns, subject, kind, part, name, None, figure.absent)
        if isinstance(figure, Absent)
        else Row(at_ns, elapsed_ns, subject, kind, part, name, figure, None)
        for subject, kind, part, name, figure in figures
    ]


def further_rows(at: Row, figures: Iterable[tuple[str, Figure]]) -> list[Row]:
    """Give rows of figures that no use has: they are for charts, and ``uses_of`` leaves them out.

    Args:
        at: Any row of the same moment and subject.
        figures: With their names, of the whole subject.
    """
    return [
        at._replace(part="", figure=name, value=None, absent=figure.absent)
        if isinstance(figure, Absent)
        else at._replace(part="", figure=name, value=figure, absent=None)
        for name, figure in figures
    ]


def uses_of(recordings: Sequence[Iterable[Row]]) -> list[list[RecordedUse]]:
    """Put the intervals of some recordings together again; a guest of the same name is the same in all of them.

    Args:
        recordings: Rows of each, in the order of time.

    Returns:
        The intervals of each recording.
    """
    numbers: dict[str, int] = {}
    found = []
    for rows in recordings:
        moments: dict[int, list[Row]] = {}
        for row in rows:
            if row.elapsed_ns > 0:
                moments.setdefault(row.at_ns, []).append(row)
        found.append([RecordedUse(at_ns / 1e9, _use(own, numbers)) for at_ns, own in moments.items()])
    return found


def unreadable(at_ns: int, error: Exception) -> Row:
    """Give the row that says why nothing was read from a moment on: it is of no interval."""
    return Row(at_ns, 0, HOST, HOST, "", _READABLE, None, f"the counters cannot be read: {error}")


def why_ended(rows: Iterable[Row]) -> str | None:
    """Say why a recording ended before it should have; None where it did not."""
    return next((row.absent for row in rows if (row.subject, row.figure) == (HOST, _READABLE)), None)


def _host_figures(use: Use) -> Iterator[tuple[str, str, Figure]]:
    if isinstance(use.cpus, Absent):
        yield _CPU.strip(), "cpu_busy_percent", use.cpus
    else:
        for cpu, one in use.cpus.items():
            for name, figure in zip(CpuUse._fields, one, strict=True):
                yield f"{_CPU}{cpu}", f"cpu_{name}", figure
    yield "", "memory_available_percent", use.memory_available_percent
    yield "", "memory_committed_percent", use.memory_committed_percent
    yield "", "swap_in_bytes_per_s", use.swap_in_bytes_per_s
    for resource, figure in use.pressure_percent.items():
        yield "", f"{resource}{_PRESSURE}", figure


def _guest_figures(use: GuestUse) -> Iterator[tuple[str, str, Figure]]:
    # Also of a guest of which nothing else is known.
    yield "", "throttled_percent", use.throttled_percent
    for number, vcpu in use.vcpus.items():
        yield from _threads_figures(f"{_VCPU}{number}", vcpu)
    for part, threads in zip(_OTHERS, (use.emulator, use.io), strict=True):
        if isinstance(threads, Absent):
            yield part, "run_percent", threads
        else:
            yield from _threads_figures(part, threads)
    if use.unreadable is not None:
        yield "", _READABLE, use.unreadable
    if use.others_run_percent is not None:
        yield "", _OTHERS_RUN, use.others_run_percent
    if use.quota_cpus is not None:
        yield "", "quota_cpus", use.quota_cpus
    if isinstance(use.view, Absent):
        yield "", "queue_threads", use.view
    elif use.view is not None:
        yield "", "queue_threads", use.view.queue
        yield "", "queue_vcpus", float(use.view.vcpus)
        yield "", "guest_steal_percent", use.view.steal_percent
        yield "", "guest_pressure_percent", use.view.pressure_percent
        yield "", "guest_swap_in_bytes_per_s", use.view.swap_in_bytes_per_s
        yield "", "guest_memory_available_percent", use.view.memory_available_percent


def _threads_figures(part: str, threads: ThreadsUse) -> Iterator[tuple[str, str, Figure]]:
    for name, figure in zip(ThreadsUse._fields, threads, strict=True):
        yield part, name, figure


def _use(rows: Sequence[Row], numbers: dict[str, int]) -> Use:
    subjects: dict[str, list[Row]] = {}
    for row in rows:
        subjects.setdefault(row.subject, []).append(row)
    host = _by_part(subjects.pop(HOST, []))
    whole = host.pop("", {})
    guests = [_guest_use(name, own, numbers) for name, own in subjects.items()]
    return Use(
        elapsed_s=rows[0].elapsed_ns / 1e9,
        cpus=_cpus(host),
        memory_available_percent=whole.get("memory_available_percent", _missing("memory_available_percent")),
        pressure_percent={
            name.removesuffix(_PRESSURE): figure for name, figure in whole.items() if name.endswith(_PRESSURE)
        },
        guests={guest.guest.key: guest for guest in guests},
        # Runs of earlier versions have neither.
        memory_committed_percent=whole.get("memory_committed_percent", _missing("memory_committed_percent")),
        swap_in_bytes_per_s=whole.get("swap_in_bytes_per_s", _missing("swap_in_bytes_per_s")),
    )


def _cpus(host: Mapping[str, Mapping[str, Figure]]) -> Mapping[int, CpuUse] | Absent:
    unknown = host.get(_CPU.strip())
    if unknown is not None:
        figure = unknown["cpu_busy_percent"]
        return figure if isinstance(figure, Absent) else _missing("cpu_busy_percent")
    return {
        int(part.removeprefix(_CPU)): CpuUse(
            **{name: own.get(f"cpu_{name}", _missing(f"cpu_{name}")) for name in CpuUse._fields}
        )
        for part, own in host.items()
    }


def _guest_use(name: str, rows: Sequence[Row], numbers: dict[str, int]) -> GuestUse:
    parts = _by_part(rows)
    whole = parts.pop("", {})
    others = [parts.pop(part, {}) for part in _OTHERS]
    quota, unreadable = whole.get("quota_cpus"), whole.get(_READABLE)
    kind: Kind = next(one for one in get_args(Kind) if one == rows[0].kind)
    return GuestUse(
        guest=Guest(name=name, kind=kind, pid=numbers.setdefault(name, len(numbers) + 1), started_ticks=0),
        vcpus={int(part.removeprefix(_VCPU)): _threads(own) for part, own in parts.items()},
        emulator=_threads_or_absent(others[0]),
        io=_threads_or_absent(others[1]),
        allowed_cpus=_NOT_KEPT,
        unreadable=unreadable if isinstance(unreadable, Absent) else None,
        throttled_percent=whole.get("throttled_percent", _missing("throttled_percent")),
        quota_cpus=quota if isinstance(quota, float) else None,
        view=_view(whole),
        others_run_percent=whole.get(_OTHERS_RUN, _missing(_OTHERS_RUN)) if kind == "uml" else None,
    )


def _view(whole: Mapping[str, Figure]) -> ViewUse | Absent | None:
    queue, vcpus = whole.get("queue_threads"), whole.get("queue_vcpus")
    if queue is None or isinstance(queue, Absent) or not isinstance(vcpus, float):
        return queue if isinstance(queue, Absent) else None
    swap_in = whole.get("guest_swap_in_bytes_per_s", _missing("guest_swap_in_bytes_per_s"))
    memory = whole.get("guest_memory_available_percent", _missing("guest_memory_available_percent"))
    steal, pressure = whole["guest_steal_percent"], whole["guest_pressure_percent"]
    return ViewUse(queue, int(vcpus), steal, pressure, swap_in, memory)


def _threads_or_absent(own: Mapping[str, Figure]) -> ThreadsUse | Absent:
    run = own.get("run_percent", _missing("run_percent"))
    return run if isinstance(run, Absent) else _threads(own)


def _threads(own: Mapping[str, Any]) -> ThreadsUse:
    return ThreadsUse(**{name: own[name] for name in ThreadsUse._fields})


def _by_part(rows: Iterable[Row]) -> dict[str, dict[str, Figure]]:
    parts: dict[str, dict[str, Figure]] = {}
    for row in rows:
        figure = row.value if row.value is not None else Absent(absent=row.absent or "no reason was kept")
        parts.setdefault(row.part, {})[row.figure] = figure
    return parts


def _missing(name: str) -> Absent:
    return Absent(absent=f"the table has no {name}")
