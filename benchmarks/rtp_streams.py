"""Thousands of voice streams: how late the sender is, how much CPU both ends take, and whether any packet is lost.

``stealtime-agent rtp send`` and ``rtp receive`` exchange streams over the loopback interface, a port each or all on one
port, with both ends on one CPU or with one each; *both ways* two ``rtp talk`` on one CPU each, so many streams from
either, of which the voice of the one is told as the other hears it. *Own jitter* is two figures: how much later than
due the sender hands its packets to the kernel, and the interarrival jitter (RFC 3550) that the receiver sees, the most
of any stream at any time; there is no network between them. Target: 2,000 streams with one CPU for the sender, jitter
below 0.5 ms.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pairs import arguments, spread, take_turns

AGENT = Path(os.environ.get("STEALTIME_AGENT", Path(sys.executable).with_name("stealtime-agent")))
TARGET_MS = 0.5
# An address of the loopback network of our own, so that no port is taken.
ADDRESS = "127.98.0.1:20000"
OTHER_ADDRESS = "127.98.0.2:20000"


@dataclass(frozen=True)
class Figures:
    """What one exchange gave."""

    late_median_ms: float
    late_p99_ms: float
    late_p999_ms: float
    late_max_ms: float
    jitter_median_ms: float
    """Of each stream the most that its jitter was; of these the median."""
    jitter_max_ms: float
    delay_median_ms: float
    delay_max_ms: float
    lost: int
    overflowed: int
    sender_cpu_percent: float
    receiver_cpu_percent: float


@dataclass(frozen=True)
class Setting:
    """The same for all layouts."""

    streams: int
    duration_s: int
    priority: int


def exchange(setting: Setting, ports: str, sender_cpu: int, receiver_cpu: int) -> Figures:
    common = ["--ports", ports, "-n", str(setting.streams), "-p", str(setting.priority), "--json"]
    receive = [str(AGENT), "rtp", "receive", ADDRESS, "-a", str(receiver_cpu), *common]
    send = [str(AGENT), "rtp", "send", ADDRESS, "-a", str(sender_cpu), "-D", f"{setting.duration_s}s", *common]
    with subprocess.Popen(receive, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as receiver:
        assert receiver.stderr is not None
        listening = receiver.stderr.readline()
        if not listening.startswith("listening"):
            raise SystemExit(listening + receiver.stderr.read())
        sent = json.loads(subprocess.run([*send, "--quiet"], stdout=subprocess.PIPE, check=False).stdout)
        received = json.loads(receiver.communicate()[0])
    return figures(sent, received)


def converse(setting: Setting, ports: str, one_cpu: int, other_cpu: int) -> Figures:
    common = ["--ports", ports, "-n", str(setting.streams), "-p", str(setting.priority), "--json", "--quiet"]
    common += ["-D", f"{setting.duration_s}s"]

    def end(cpu: int, to: str, own: str) -> subprocess.Popen[str]:
        # The whole process, not only the thread that speaks.
        argv = ["taskset", "-c", str(cpu), str(AGENT), "rtp", "talk", to, "--from", own, *common]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)

    ends = [end(one_cpu, OTHER_ADDRESS, ADDRESS), end(other_cpu, ADDRESS, OTHER_ADDRESS)]
    told = [json.loads(one.communicate()[0]) for one in ends]
    sent, received = told[0]["spoken"], told[1]["heard"]
    return figures({**sent, "cpu_ns": told[0]["cpu_ns"]}, {**received, "cpu_ns": told[1]["cpu_ns"]})


def figures(sent: dict[str, Any], received: dict[str, Any]) -> Figures:
    late, total = sent["lateness_ns"], received["total"]
    percent = 100 / sent["duration_ns"]
    return Figures(
        late_median_ms=late["median"] * 1e-6,
        late_p99_ms=late["p99"] * 1e-6,
        late_p999_ms=late["p999"] * 1e-6,
        late_max_ms=late["max"] * 1e-6,
        jitter_median_ms=total["jitter_max_ns"]["median"] * 1e-6,
        jitter_max_ms=total["jitter_max_ns"]["max"] * 1e-6,
        delay_median_ms=total["delay_ns"]["median"] * 1e-6,
        delay_max_ms=total["delay_ns"]["max"] * 1e-6,
        lost=total["lost"],
        overflowed=received["overflowed"],
        sender_cpu_percent=sent["cpu_ns"] * percent,
        receiver_cpu_percent=received["cpu_ns"] * percent,
    )


def main() -> int:
    parser = arguments(__doc__, pairs=3)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--duration", type=int, default=10, metavar="SECONDS")
    parser.add_argument("--priority", type=int, default=0, help="SCHED_FIFO priority of both ends; default 0, ordinary")
    options = parser.parse_args()
    setting = Setting(options.streams, options.duration, options.priority)
    cpus = sorted(os.sched_getaffinity(0))
    first, last = cpus[0], cpus[-1]
    kinds = (("each", "a port each"), ("one", "one port"))
    layouts = {
        f"{words}, {'one CPU each' if sender != receiver else 'both on one CPU'}": partial(
            exchange, setting, ports, sender, receiver
        )
        for ports, words in kinds
        for sender, receiver in dict.fromkeys(((last, first), (last, last)))
    }
    layouts |= {f"both ways, {words}": partial(converse, setting, ports, last, first) for ports, words in kinds}
    found: dict[str, list[Figures]] = {name: [] for name in layouts}

    def measure(name: str) -> float:
        one = layouts[name]()
        found[name].append(one)
        return one.jitter_max_ms

    for _ in take_turns(options.pairs, {name: partial(measure, name) for name in layouts}):
        pass
    columns = {
        name: {field: spread([asdict(one)[field] for one in all_]) for field in asdict(all_[0])}
        for name, all_ in found.items()
    }
    document = {
        "benchmark": f"{setting.streams} streams of voice, {setting.streams * 50} packets a second",
        "machine": f"{os.cpu_count()} CPUs, {os.uname().release}, load {os.getloadavg()[0]:.1f}",
        "turns": options.pairs,
        "duration_s": setting.duration_s,
        "priority": setting.priority,
        "target_ms": TARGET_MS,
        "layouts": columns,
    }
    if options.json:
        print(json.dumps(document, indent=1))
        return 0
    print(f"{document['benchmark']}: {options.pairs} turns of {setting.duration_s} s ({document['machine']})")
    for name, fields in columns.items():
        print(f"{name}:")
        for field, values in fields.items():
            row = "".join(f"{values[end]:12.3f}" for end in ("min", "median", "max"))
            print(f"  {field:24}{row}")
    print(f"target: jitter_max_ms and late_p999_ms below {TARGET_MS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
