"""Whether reading the kernel's events keeps up, beside `cat trace_pipe`, the kernel's own text.

Two threads yield to each other on one CPU as fast as they can, so that each of some hundred thousand switches a second
is an event (target: 300,000 events/s without loss). The reader runs on another CPU, with the same buffer. Ours keeps
binary pages while it reads and makes a table of them afterwards; that time is given too, as events a second.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from pairs import arguments, spread, take_turns

from stealtime.lab.tracing.host import host_tracer
from stealtime.wire.message import TraceRequest

TARGET_EVENTS_PER_S = 300_000
AGENT = Path(sys.executable).with_name("stealtime-agent")


@dataclass(frozen=True)
class Reading:
    """What one reader made of one stretch of switches."""

    events_per_s: float
    """That happened, read or lost."""
    lost: int
    table_events_per_s: float | None = None


@dataclass(frozen=True)
class Setting:
    """The same for both readers."""

    cpu: int
    reader_cpu: int
    duration_s: int
    buffer_bytes: int

    def switch(self) -> None:
        """Let two threads yield to each other."""
        argv = [str(AGENT), "switch", "-t", "2", "--cpu", str(self.cpu), "--duration", f"{self.duration_s}s"]
        # The result may be over a threshold or not valid: here only the switches count.
        subprocess.run([*argv, "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


async def ours(setting: Setting) -> Reading:
    with tempfile.TemporaryDirectory() as folder:
        async with host_tracer(Path(folder), (setting.reader_cpu,)) as tracer:
            request = TraceRequest(cpus=[setting.cpu], buffer_bytes_per_cpu=setting.buffer_bytes)
            if not await tracer.start(1, request):
                raise SystemExit(tracer.absent.text if tracer.absent is not None else "the host is not traced")
            await asyncio.to_thread(setting.switch)
            stopped = time.monotonic()
            result = await tracer.stop(1, Path(folder))
            elapsed_s = time.monotonic() - stopped
            if result is None:
                raise SystemExit(tracer.absent.text if tracer.absent is not None else "the trace has gone")
            happened = result.outcome.events + result.outcome.lost
    return Reading(happened / setting.duration_s, result.outcome.lost, result.outcome.events / elapsed_s)


@contextmanager
def instance(setting: Setting) -> Iterator[Path]:
    """A set of buffers with the same events as ours."""
    with tempfile.TemporaryDirectory() as mount:
        subprocess.run(["mount", "-t", "tracefs", "tracefs", mount], check=True)
        try:
            folder = Path(mount) / "instances" / f"benchmark-{os.getpid()}"
            folder.mkdir()
            try:
                (folder / "tracing_on").write_text("0")
                (folder / "trace_clock").write_text("x86-tsc")
                (folder / "tracing_cpumask").write_text(f"{1 << setting.cpu:x}")
                (folder / f"per_cpu/cpu{setting.cpu}/buffer_size_kb").write_text(str(setting.buffer_bytes >> 10))
                for group in ("sched/sched_switch", "sched/sched_waking", "irq", "irq_vectors"):
                    (folder / "events" / group / "enable").write_text("1")
                yield folder
            finally:
                folder.rmdir()
        finally:
            subprocess.run(["umount", mount], check=True)


def text(setting: Setting) -> Reading:
    with instance(setting) as folder:
        pipe = ["taskset", "--cpu-list", str(setting.reader_cpu), "cat", str(folder / "trace_pipe")]
        with subprocess.Popen(pipe, stdout=subprocess.DEVNULL) as reader:
            (folder / "tracing_on").write_text("1")
            setting.switch()
            (folder / "tracing_on").write_text("0")
            reader.terminate()
        lines = (folder / f"per_cpu/cpu{setting.cpu}/stats").read_text().splitlines()
        counts = {name: int(value) for name, _, value in (line.partition(": ") for line in lines) if value.isdigit()}
        lost = counts["overrun"]
        happened = counts["read events"] + counts["entries"] + lost
    return Reading(happened / setting.duration_s, lost)


def main() -> None:
    parser = arguments(__doc__, pairs=5)
    cpus = sorted(os.sched_getaffinity(0))
    parser.add_argument("--cpu", type=int, default=cpus[-1])
    parser.add_argument("--duration", type=int, default=2, metavar="SECONDS")
    parser.add_argument("--buffer", type=int, default=8 << 20, metavar="BYTES", help="default 8 MiB")
    options = parser.parse_args()
    setting = Setting(options.cpu, cpus[0], options.duration, options.buffer)
    readings: dict[str, list[Reading]] = {"stealtime": [], "cat trace_pipe": []}

    def measure(name: str) -> float:
        reading = asyncio.run(ours(setting)) if name == "stealtime" else text(setting)
        readings[name].append(reading)
        return reading.lost

    for _ in take_turns(options.pairs, {name: partial(measure, name) for name in readings}):
        pass
    document = {
        "benchmark": "reading the kernel's events",
        "machine": f"{os.cpu_count()} CPUs, {os.uname().release}, load {os.getloadavg()[0]:.1f}",
        "pairs": options.pairs,
        "buffer_bytes": setting.buffer_bytes,
        "target": f"{TARGET_EVENTS_PER_S} events/s, none lost",
        "events_per_s": {name: spread([one.events_per_s for one in all_]) for name, all_ in readings.items()},
        "lost": {name: spread([one.lost for one in all_]) for name, all_ in readings.items()},
        "table_events_per_s": spread([one.table_events_per_s or 0.0 for one in readings["stealtime"]]),
    }
    if options.json:
        print(
            json.dumps(
                {**document, "readings": {name: [asdict(one) for one in all_] for name, all_ in readings.items()}},
                indent=1,
            )
        )
        return
    print(f"{document['benchmark']}: {options.pairs} interleaved pairs; min / median / max ({document['machine']})")
    for key, unit in (("events_per_s", "events/s"), ("lost", "events lost")):
        for name, values in document[key].items():
            print(f"{name:24}" + "".join(f"{values[end]:12.0f}" for end in ("min", "median", "max")) + f" {unit}")
    values = document["table_events_per_s"]
    print(f"{'table of it':24}" + "".join(f"{values[end]:12.0f}" for end in ("min", "median", "max")) + " events/s")
    print(f"target: {document['target']}")


if __name__ == "__main__":
    main()
