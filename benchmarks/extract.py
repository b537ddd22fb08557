"""How fast a trace becomes tasks, and what watching costs the watched program.

Rows: jobs of a periodic thread as a kernel tells them, six rows each (target: 5 million rows a second). As a ratio: the
same rows through a loop of plain Python that only sums up the thread's time on the CPU.

Cost: the responses of ``rtload``, by its own stamps, without and with `stealtime sched extract` beside it, in turn.
"""

import json
import os
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pairs import Ratio, arguments, spread, take_turns

from stealtime._core import EVENT_KINDS, extract_tasks
from stealtime.lab.platforms.agent_binary import find_agent

if TYPE_CHECKING:
    from stealtime._core import EventsDict

TARGET = 5.0
"""Million rows a second."""
PERIOD_NS, COST_NS = 1_000_000, 100_000
THREAD = 7
STEALTIME = (sys.executable, "-c", "from stealtime.start import main; main()")
_ROWS = (
    ("waking", 0, 1_000),
    ("switch", 0, 2_000),
    ("call_exit", THREAD, 3_000),
    ("call_entry", THREAD, 3_000 + COST_NS),
    ("timer_start", THREAD, 3_500 + COST_NS),
    ("switch", THREAD, 4_000 + COST_NS),
)


def history(jobs: int) -> "EventsDict":
    """Make the rows of a thread that works in each period."""
    count = len(_ROWS)
    release = PERIOD_NS * (1 + np.arange(jobs, dtype=np.int64))
    place = np.tile(np.arange(count), jobs)
    time_ns = np.repeat(release, count) + np.array([one[2] for one in _ROWS])[place]
    value = np.zeros(count * jobs, np.int64)
    value[4::count], value[5::count] = release + PERIOD_NS, 1
    other = np.zeros(count * jobs, np.int32)
    other[0::count], other[1::count] = THREAD, THREAD
    return {
        "time": time_ns.astype(np.uint64),
        "cpu": np.zeros(count * jobs, np.uint16),
        "kind": np.array([EVENT_KINDS.index(one[0]) for one in _ROWS], np.uint8)[place],
        "thread": np.array([one[1] for one in _ROWS], np.int32)[place],
        "value": value,
        "other": other,
        "priority": np.full(count * jobs, 39, np.int16),
        "name": np.ones(count * jobs, np.uint32),
        "names": ["engine", "hrtimer_wakeup"],
        "covered": (0, int(time_ns[-1])),
    }


def in_rust(events: "EventsDict") -> float:
    """Give the seconds of all of it."""
    began = time.perf_counter()
    end = int(events["time"][-1])
    (task,) = extract_tasks(events, [THREAD], ((0, 0), (end, end)), [])
    elapsed = time.perf_counter() - began
    assert (task["arrival"], task["period_ns"], task["own_ns"][0]) == ("programmed", PERIOD_NS, COST_NS), task
    return elapsed


def in_python(events: "EventsDict") -> float:
    """Give the seconds of the loop."""
    switch = EVENT_KINDS.index("switch")
    began = time.perf_counter()
    ran, since = 0, 0
    rows = zip(*(events[name].tolist() for name in ("time", "kind", "thread", "other")), strict=True)
    for moment, kind, thread, other in rows:
        if kind == switch:
            if thread == THREAD:
                ran += moment - since
            if other == THREAD:
                since = moment
    elapsed = time.perf_counter() - began
    assert ran > 0
    return elapsed


def response_us(seconds: int, cpu: int, *, is_watched: bool) -> float:
    """Give the median response of the most urgent task, by its own stamps."""
    load = [str(find_agent()), "rtload", "--json", "-a", str(cpu), "-D", f"{seconds}s", "200us/2ms", "1ms/10ms"]
    program = subprocess.Popen(load, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if is_watched:
        watch = [*STEALTIME, "sched", "extract", "--json", "--for", f"{seconds + 5}s", str(program.pid)]
        subprocess.run(watch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    output, _ = program.communicate()
    document: dict[str, Any] = json.loads(output)
    first = document["outcome"]["rtload"]["tasks"][0]
    return float(first["median_response_units"] / document["outcome"]["clock"]["units_per_s"] * 1e6)


def main() -> None:
    """Print both."""
    parser = arguments(__doc__, 5)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    chosen = parser.parse_args()
    events = history(chosen.jobs)
    rows = len(events["time"])
    sides = {"rust": partial(in_rust, events), "python, a sum": partial(in_python, events)}
    speed = Ratio("rows to tasks", "s", 1.0, tuple(take_turns(chosen.pairs, sides)))
    rate = spread([rows / pair["rust"] / 1e6 for pair in speed.pairs])
    speed.print(as_json=chosen.json, rows=rows, million_rows_a_second=rate)
    if not chosen.json:
        print(f"{rate['median']:.1f} million rows a second ({rate['min']:.1f} to {rate['max']:.1f}; target {TARGET:g})")
    of = partial(response_us, chosen.seconds, chosen.cpu)
    turns = {"watched": partial(of, is_watched=True), "alone": partial(of, is_watched=False)}
    cost = Ratio("median response of 200 us of work", "us", 1.05, tuple(take_turns(chosen.pairs, turns)))
    cost.print(as_json=chosen.json)


if __name__ == "__main__":
    main()
