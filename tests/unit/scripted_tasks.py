"""What a scripted agent answers to ``rtload``: jobs whose times follow from their numbers."""

from typing import Any

import pyarrow as pa

from stealtime.wire.rtload import ClockConversion, RealTimeTaskOutcome, RtloadOutcome, RtloadProbe

START_TSC = 10_000_000_000_000_000
"""Over 2^53, where a float would round."""
UNITS_A_NS = 2
LATENCY_NS = 5_000
"""Of every job; that of task n is n + 1 times as long."""
LATE_JOB = 3
"""Of the first task: it takes three times its deadline."""
THREAD_ID = 40


def play(probe: RtloadProbe, duration_ns: int) -> tuple[Any, RtloadOutcome]:
    """Give the table of all jobs, of which the last of several tasks leaves one unstarted, and what the tasks did."""
    rows: list[tuple[int, int, int, int, int, int]] = []
    tasks: list[RealTimeTaskOutcome] = []
    for number, task in enumerate(probe.tasks):
        released = (duration_ns - task.deadline_ns) // task.period_ns + 1
        unstarted = int(0 < number == len(probe.tasks) - 1)
        responses = []
        for job in range(released - unstarted):
            release = START_TSC + job * task.period_ns * UNITS_A_NS
            start = release + (number + 1) * LATENCY_NS * UNITS_A_NS
            is_late = number == 0 and job == LATE_JOB
            response = 3 * task.deadline_ns * UNITS_A_NS if is_late else start - release + task.cost_ns * UNITS_A_NS
            rows.append((number, job, release, start, release + response, 0))
            responses.append(response)
        tasks.append(
            RealTimeTaskOutcome(
                thread_id=THREAD_ID + number,
                priority=80 - number,
                released=released,
                finished=len(responses),
                late=sum(response > task.deadline_ns * UNITS_A_NS for response in responses),
                unstarted=unstarted,
                overruns=int(number == 0 and len(responses) > LATE_JOB),
                median_response_units=sorted(responses)[(len(responses) - 1) // 2] if responses else None,
                worst_response_units=max(responses, default=None),
            )
        )
    conversion = ClockConversion(
        tsc=START_TSC, monotonic_ns=1_000, tsc_per_ns=float(UNITS_A_NS), error_ns=40.0, readings=3
    )
    return _table(rows), RtloadOutcome(start_monotonic_ns=1_000, conversion=conversion, tasks=tasks)


def _table(rows: list[tuple[int, int, int, int, int, int]]) -> Any:
    columns = {
        "task": pa.uint16(), "job": pa.uint32(), "release": pa.uint64(), "start": pa.uint64(), "finish": pa.uint64(),
        "cpu": pa.uint16(),
    }  # fmt: skip
    return pa.table(
        {name: pa.array([row[place] for row in rows], kind) for place, (name, kind) in enumerate(columns.items())}
    )
