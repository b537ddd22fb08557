"""Made-up cells of the study ``stretch``, whose figures are known."""

from collections.abc import Sequence
from typing import Any

from stealtime.capacity.guest import Guest as Guest_
from stealtime.capacity.recording import Row, rows_of
from stealtime.capacity.threads_use import ThreadsUse
from stealtime.capacity.use import CpuUse, GuestUse, Use, ViewUse
from stealtime.studies.stretch.analysis.inside import Reading, put_together
from stealtime.studies.stretch.analysis.model import AlikeGuest, Guest, Repetition, StretchCell
from stealtime.studies.stretch.analysis.provisioning import judged
from stealtime.studies.stretch.analysis.recorded import Moment, Recording
from stealtime.studies.stretch.analysis.relate import relate
from stealtime.vocabulary.readings import Absent

BUSY = Guest(vcpus=1)


def repetition(number: int, elapsed_s: float, **more: Any) -> Repetition:
    """One busy CPU, nothing else."""
    values: dict[str, Any] = {
        "cpu_s": elapsed_s, "fill_cpu_s": 0.0, "lock_wait_s": 0.0, "io_s": 0.0, "io_asked_s": 0.0, "uneven_idle_s": 0.0,
        "idle_s": 0.0, "wait_s": 0.0, "throttled_s": 0.0, "host_steal_s": 0.0, "guest_steal_s": None,
        "host_run_s": None, "minor_faults": 0, "checksum": 7,
        "fault_cpu_s": 0.0, "outside_guest_s": 0.0, "cycles": 1_000_000, "instructions": 1_000_000,
    }  # fmt: skip
    return Repetition(repetition=number, elapsed_s=elapsed_s, **{**values, **more})


def cell(
    platform: str,
    scenario: str,
    elapsed_s: Sequence[float],
    *,
    vcpus: int = 1,
    beside: Sequence[Guest] = (),
    itself: Guest | None = None,
    **more: Any,
) -> StretchCell:
    return StretchCell(
        platform=platform, scenario=scenario, probe="contend", parameters={"tasks": 8, "iterations": 60},
        valid=True, reasons=[], limits=[], iterations=None, vcpus=vcpus, own_cpus=2, host_cpus=2,
        itself=itself or Guest(vcpus=vcpus), beside=list(beside),
        repetitions=[repetition(number, one, **more) for number, one in enumerate(elapsed_s, 1)],
    )  # fmt: skip


def together(
    scenario: str, own_s: Sequence[float], *others_s: Sequence[float], guests: Sequence[Guest] = (), checksum: int = 7
) -> StretchCell:
    """Guests of User-Mode Linux that did the same work, the machine first.

    Args:
        scenario: Its name.
        own_s: What it took the machine in each repetition.
        others_s: What it took each neighbour.
        guests: The machine and its neighbours; none are guests without a share.
        checksum: What the neighbours found; the machine found 7.
    """
    itself, *beside = guests or [Guest(vcpus=1), *[Guest(vcpus=1, is_alike=True)] * len(others_s)]
    alike = [
        AlikeGuest(
            name=f"neighbour {number}",
            guest=guest,
            repetitions=[repetition(count, one, checksum=checksum) for count, one in enumerate(times, 1)],
        )
        for number, (guest, times) in enumerate(zip(beside, others_s, strict=True), 1)
    ]
    return cell("uml", scenario, own_s, itself=itself, beside=beside).model_copy(update={"alike": alike})


def threads(run: float, wait: float, wait_per_dispatch_ns: float) -> ThreadsUse:
    return ThreadsUse(run, wait, 100.0, wait_per_dispatch_ns)


def recording(samples: int, *, run: float = 50.0, wait: float = 50.0, busy: float = 100.0) -> list[Row]:
    """Rows of some seconds with one guest, the machine, on a host of two CPUs."""
    absent = Absent(absent="there is no such thread")
    guest = GuestUse(
        guest=Guest_("machine", "uml", pid=7, started_ticks=1),
        vcpus={0: threads(run, wait, 3e6)},
        emulator=absent,
        io=absent,
        allowed_cpus=frozenset({0, 1}),
        unreadable=None,
        throttled_percent=0.0,
        quota_cpus=None,
        view=ViewUse(1.0, 1, 0.0, absent),
        others_run_percent=wait,
    )
    cpus = {cpu: CpuUse(busy, 0.0, 1.0, 0.0) for cpu in range(2)}
    use = Use(1.0, cpus, 80.0, {"memory": 0.0}, {guest.guest.key: guest})
    return [row for second in range(1, samples + 1) for row in rows_of(use, second * 10**9, lambda one: one.name)]


def related() -> list[StretchCell]:
    return relate(
        [
            cell("native", "whole", [0.5, 0.51, 0.5, 0.505], vcpus=2, cpu_s=1.0),
            cell("uml", "half", [1.0, 1.01, 0.99, 1.0]),
            cell("uml", "overcommitted", [2.1, 2.11, 2.09, 2.1], beside=[BUSY] * 3, wait_s=1.05),
        ]
    )


def provisioned() -> list[StretchCell]:
    """The same, with the counters of twelve seconds judged; natively there is no guest."""
    native, alone, beside = related()
    return [
        native.model_copy(update={"provisioning": judged([recording(12)[:7]], is_guest=False)}),
        alone.model_copy(
            update={"provisioning": judged([recording(12, run=60.0, wait=1.0, busy=30.0)], is_guest=True)}
        ),
        beside.model_copy(update={"provisioning": judged([recording(12)], is_guest=True)}),
    ]


def recordings() -> list[Recording | None]:
    """Twelve seconds beside each of them: the guest waits more and more, and once nobody knows."""

    def moment(second: int, wait: float | None) -> Moment:
        run = None if wait is None else 100.0 - wait
        return Moment(second + 0.02, 99.0, run, wait, None if wait is None else wait * 5e4)

    alone = tuple(moment(second, 1.0) for second in range(1, 13))
    beside = tuple(moment(second, None if second == 7 else 40.0 + 2 * second) for second in range(1, 13))
    native = tuple(Moment(float(second), 97.0, None, None, None) for second in range(1, 4))
    whole = [("threads_wanting_cpu", 3), ("context_switches", 200), ("interrupts", 250)]
    of_work = [("contend", "run_ns", 900_000_000), ("contend", "ready_ns", 2_000_000_000), ("a <b>", "run_ns", 9)]
    told = [
        Reading(second * 10**9, 10**9, program, figure, value)
        for second in range(1, 13)
        for program, figure, value in [*(("", figure, value) for figure, value in whole), *of_work]
    ]
    return [
        Recording(2, 4, native, put_together(told[:18], [])),
        Recording(1, 4, alone),
        Recording(3, 4, beside, put_together(told, recording(12))),
    ]
