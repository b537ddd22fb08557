"""Gaps of known length in a path: does ``stealtime blackout`` find them to a millisecond, and what does ``ping`` say?

A client and a server live in network namespaces of their own. This process is the cable between them: it passes each
frame on by itself, and at random moments is silent for 5, 20, 100 or 1,000 ms, dropping or holding what comes. Its own
stamps around each silence are the truth. The client asks over TCP, UDP and ICMP echo at once, one probe each a
millisecond (--interval); beside it runs ``ping -i 0.1`` (iputils) through the same gaps, where it is installed.

*Found* is a blackout that contains the gap; *within* one whose length differs from the gap by a millisecond at most;
*excused* a gap of which the client says that it stood still itself. A *false alarm* is a blackout while the cable had
no pause of its own that long, in a run of the same length without gaps. TCP is told apart: what is dropped it sends
again, so that its clients wait for longer than the gap.

Needs root. The whole of it, 1,000 gaps of each length: --gaps 1000 --long 1000.
"""

import ctypes
import fcntl
import json
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from pairs import arguments

AGENT = Path(os.environ.get("STEALTIME_AGENT", Path(sys.executable).with_name("stealtime-agent")))
SERVER = "10.78.0.2"
PORT = 7000
MS = 1_000_000
BOUND_NS = MS
PRIORITY = 20
# Between two gaps: the path is even again, and gaps are a small part of all answers.
PAUSE_MS = (55.0, 75.0)
PING_PAUSE_MS = (1300.0, 1700.0)
_ETHERTOOL_OFF = (0x17, 0x1F, 0x24)  # SIOCETHTOOL: checksums, segmentation and its generic form, all of sending
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass
class Cable:
    """Passes frames between two interfaces; silent when told."""

    client: socket.socket
    server: socket.socket
    passed_ns: list[int] = field(default_factory=list)
    """When a frame was given to the client, by CLOCK_MONOTONIC."""
    silences: list[tuple[int, int]] = field(default_factory=list)
    stop: bool = False
    next_gap: tuple[int, int, bool] | None = None
    """From when on, for how long, and whether frames are dropped."""

    def run(self) -> None:
        be_first()
        while not self.stop:
            gap = self.next_gap
            now = time.monotonic_ns()
            if gap is not None and now >= gap[0]:
                self.be_silent(gap[1], drops=gap[2])
                self.next_gap = None
            # To the microsecond: a gap that begins with a frame would always have the same place between two probes.
            until_s = 0.02 if gap is None else min(0.02, max(0, gap[0] - now) / 1e9)
            if select.select([self.client, self.server], [], [], until_s)[0]:
                self.pass_on(self.client, self.server)
                if self.pass_on(self.server, self.client):
                    self.passed_ns.append(time.monotonic_ns())

    def be_silent(self, length_ns: int, *, drops: bool) -> None:
        start = time.monotonic_ns()
        while (left := start + length_ns - time.monotonic_ns()) > 0:
            if drops:
                ready, _, _ = select.select([self.client, self.server], [], [], left / 1e9)
                for one in ready:
                    drain(one)
            else:
                time.sleep(left / 1e9)
        if drops:
            drain(self.client)
            drain(self.server)
        self.silences.append((start, time.monotonic_ns()))

    @staticmethod
    def pass_on(source: socket.socket, sink: socket.socket) -> bool:
        for _ in range(16):
            try:
                frame, address = source.recvfrom(65536)
            except BlockingIOError:
                return False
            # What this interface itself sends is seen too.
            if address[2] != socket.PACKET_OUTGOING:
                sink.send(frame)
                return True
        return False


def drain(source: socket.socket) -> None:
    try:
        while True:
            source.recv(65536)
    except BlockingIOError:
        return


def be_first() -> None:
    """Run before ordinary threads: a cable is not late because somebody else computes."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY + 10))


def die_with_parent() -> None:
    _LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)


def first_and_mortal() -> None:
    die_with_parent()
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))


def run(*argv: str) -> None:
    subprocess.run(argv, check=True)


def open_end(name: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    end.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE: a second of frames
    end.bind((name, 0))
    end.setblocking(False)
    return end


def leave_nothing_to_hardware(name: str) -> None:
    """Have the kernel finish each frame itself: there is no card behind this interface that would."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in _ETHERTOOL_OFF:
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sP16x", name.encode(), ctypes.addressof(value))
            fcntl.ioctl(any_socket, 0x8946, request)


@contextmanager
def end_host(name: str, address: str) -> Iterator[list[str]]:
    """Give a namespace with one interface, as words to begin a command with; it goes with its only process."""
    holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], preexec_fn=die_with_parent)
    inside = ["nsenter", "--net", "--target", str(holder.pid)]
    try:
        ours = Path("/proc/self/ns/net").readlink()
        while Path(f"/proc/{holder.pid}/ns/net").readlink() == ours:
            time.sleep(0.01)
        run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        run("ip", "link", "set", name, "up")
        for words in (
            ("address", "add", f"{address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            run(*inside, "ip", *words)
        this = [sys.executable, __file__, "--no-offload", "eth0"]
        run(*inside, *this)
        yield inside
    finally:
        subprocess.run(["ip", "link", "delete", name], check=False)
        holder.kill()
        holder.wait()


@dataclass
class Course:
    """Both ends and the cable."""

    cable: Cable
    client: list[str]


@contextmanager
def course() -> Iterator[Course]:
    with end_host("client", "10.78.0.1") as client, end_host("server", SERVER) as server:
        counter = [*server, str(AGENT), "counter", "--tcp", str(PORT), "--udp", str(PORT)]
        with subprocess.Popen(counter, stdout=subprocess.PIPE, preexec_fn=first_and_mortal) as counting:
            assert counting.stdout is not None
            counting.stdout.readline()
            cable = Cable(open_end("client"), open_end("server"))
            thread = threading.Thread(target=cable.run)
            thread.start()
            try:
                yield Course(cable, client)
            finally:
                cable.stop = True
                thread.join()
                counting.kill()


@dataclass
class Seen:
    """What everybody says about the same time."""

    silences: list[tuple[int, int]]
    passed_ns: list[int]
    document: dict[str, Any]
    ping: list[tuple[int, int]] | None
    """Silences between two answers of ping: their start, and their length."""
    seconds: float


@dataclass(frozen=True)
class Probing:
    """How the client asks."""

    interval: str
    tcp: bool


def watch(
    probing: Probing,
    lengths_ms: list[float],
    *,
    drops: bool,
    seed: int,
    seconds: float = 0.0,
    pauses: tuple[float, float] = PAUSE_MS,
) -> Seen:
    """Watch a path that is silent for these times, or for some seconds without any."""
    chance = random.Random(seed)  # noqa: S311 - only moments are drawn
    with course() as between:
        at = f"{SERVER}:{PORT}"
        argv = [*between.client, str(AGENT), "blackout", "--json", "--quiet", "--until-closed", "-i", probing.interval]
        argv += [
            *(["--tcp", at] if probing.tcp else []),
            "--udp",
            at,
            "--ping",
            SERVER,
            "-p",
            str(PRIORITY),
            "--wait",
            "10s",
        ]
        began = time.monotonic()
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=die_with_parent
        ) as client:
            ping = start_ping(between.client)
            time.sleep(1.5)
            for length_ms in lengths_ms:
                pause_ms = chance.uniform(*pauses)
                between.cable.next_gap = (time.monotonic_ns() + round(pause_ms * MS), round(length_ms * MS), drops)
                while between.cable.next_gap is not None:
                    time.sleep(0.005)
            time.sleep(max(1.0, seconds))
            took = time.monotonic() - began
            output, _ = client.communicate()
        return Seen(between.cable.silences, between.cable.passed_ns, json.loads(output), end_ping(ping), took)


def start_ping(inside: list[str]) -> "subprocess.Popen[str] | None":
    if shutil.which("ping") is None:
        return None
    argv = [*inside, "ping", "-n", "-D", "-i", "0.1", SERVER]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)


def end_ping(ping: "subprocess.Popen[str] | None") -> list[tuple[int, int]] | None:
    """Give the gaps that ping shows: numbers that were not answered, as 100 ms each; or answers that came late."""
    if ping is None:
        return None
    ping.send_signal(signal.SIGINT)
    output, _ = ping.communicate()
    shift_ns = time.time_ns() - time.monotonic_ns()
    answers: list[tuple[int, int, float]] = []
    for line in output.splitlines():
        if "icmp_seq=" in line and line.startswith("["):
            words = dict(word.split("=", 1) for word in line.split() if "=" in word)
            stamp_ns = int(float(line[1 : line.index("]")]) * 1e9) - shift_ns
            answers.append((int(words["icmp_seq"]), stamp_ns, float(words["time"])))
    gaps = []
    for (before, at_ns, _), (after, _, trip_ms) in pairwise(answers):
        missing_ns = (after - before - 1) * 100 * MS
        length_ns = missing_ns or (round(trip_ms * MS) if trip_ms > 3 else 0)
        if length_ns:
            gaps.append((at_ns, length_ns))
    return gaps


@dataclass
class Score:
    """How well one way of asking found gaps of one length."""

    gaps: int = 0
    found: int = 0
    within: int = 0
    bracketed: int = 0
    excused: int = 0
    errors_ms: list[float] = field(default_factory=list)


def score(seen: Seen, way: dict[str, Any]) -> Score:
    result = Score(gaps=len(seen.silences))
    spans = [(one["from_monotonic_ns"], one["to_monotonic_ns"]) for one in way["blackouts"]]
    excuses = [(one["from_monotonic_ns"], one["from_monotonic_ns"] + one["silence_ns"]) for one in way["unjudged"]]
    starts = [start for start, _ in spans]
    for start, end in seen.silences:
        number = bisect_left(starts, end) - 1
        if number < 0 or spans[number][1] <= start:
            result.excused += any(first < end and start < last for first, last in excuses)
            continue
        blackout = way["blackouts"][number]
        result.found += 1
        error_ns = blackout["length_ns"] - (end - start)
        result.within += abs(error_ns) <= BOUND_NS
        result.bracketed += blackout["at_least_ns"] <= end - start <= blackout["at_most_ns"]
        result.errors_ms.append(error_ns / MS)
    return result


def ping_score(seen: Seen) -> Score | None:
    if seen.ping is None:
        return None
    result = Score(gaps=len(seen.silences))
    for start, end in seen.silences:
        # It begins with the last answer, up to an interval before.
        hits = [
            length
            for at, length in seen.ping
            if at <= end and at + length + 100 * MS >= start and at > start - 150 * MS
        ]
        if hits:
            result.found += 1
            error_ns = hits[0] - (end - start)
            result.within += abs(error_ns) <= BOUND_NS
            result.errors_ms.append(error_ns / MS)
    return result


def false_alarms(seen: Seen, way: dict[str, Any]) -> tuple[int, int]:
    """Count blackouts of a path without gaps: those while the cable gave something, and those while it stood still."""
    own = [(a, b) for a, b in pairwise(seen.passed_ns) if b - a > 2 * MS]
    hits = [
        any(a <= one["to_monotonic_ns"] and one["from_monotonic_ns"] <= b for a, b in own) for one in way["blackouts"]
    ]
    return hits.count(False), hits.count(True)


def line(name: str, one: Score) -> str:
    errors = sorted(one.errors_ms)
    spread = f"{errors[0]:9.2f}{median(errors):9.2f}{errors[-1]:9.2f}" if errors else ""
    share = 100 * one.within / max(1, one.gaps - one.excused)
    return f"  {name:14}{one.gaps:6}{one.found:7}{one.excused:8}{one.within:8} {share:6.1f} %{one.bracketed:9}{spread}"


def main() -> int:
    if sys.argv[1:2] == ["--no-offload"]:
        leave_nothing_to_hardware(sys.argv[2])
        return 0
    parser = arguments(__doc__, pairs=1)
    parser.add_argument("--gaps", type=int, default=100, help="of 5, 20 and 100 ms each, dropped; a third of it held")
    parser.add_argument("--long", type=int, default=20, help="of 1,000 ms")
    parser.add_argument("--peer", type=int, default=20, help="gaps of each length that are seldom, as ping is made for")
    parser.add_argument("--interval", default="1ms", help="from one probe to the next")
    parser.add_argument("--no-tcp", action="store_true", help="a cable of Python carries half of the frames so")
    parser.add_argument("--seed", type=int, default=20261124)
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("namespaces need root")
    if os.environ.get("BLACKOUT_INSIDE") is None:
        # In a namespace of its own everything goes with this process.
        words = ["unshare", "--net", sys.executable, *sys.argv]
        os.execvpe("unshare", words, {**os.environ, "BLACKOUT_INSIDE": "1"})  # noqa: S606
    probing = Probing(options.interval, not options.no_tcp)
    found: list[dict[str, Any]] = []
    machine = f"{os.cpu_count()} CPUs, {os.uname().release}, load {os.getloadavg()[0]:.1f}"
    print(f"gaps of known length, a probe each {options.interval} over each way ({machine}), seed {options.seed}")
    head = "  over            gaps  found excused  within          bracketed   error min   median     max, ms"
    plan = [(5.0, options.gaps), (20.0, options.gaps), (100.0, options.gaps), (1000.0, options.long)]
    for drops in (True, False):
        for length_ms, count in plan:
            count = count if drops else max(1, count // 3)
            seen = watch(probing, [length_ms] * count, drops=drops, seed=options.seed)
            what = f"{length_ms:g} ms, {'dropped' if drops else 'held'}"
            print(f"{what} ({seen.seconds:.0f} s)\n{head}")
            for way in seen.document["ways"]:
                name = way["way"]
                one = score(seen, way)
                print(line(name, one), flush=True)
                found.append({"gap": what, "over": name, **vars(one)})
    for length_ms in (5.0, 20.0, 100.0, 1000.0):
        seen = watch(
            probing,
            [length_ms] * options.peer,
            drops=True,
            seed=options.seed + 1,
            pauses=PING_PAUSE_MS,
        )
        print(f"{length_ms:g} ms, dropped, seldom ({seen.seconds:.0f} s)\n{head}")
        udp = next(one for one in seen.document["ways"] if one["way"] == "udp")
        rows = {"udp": score(seen, udp), "ping -i 0.1": ping_score(seen)}
        for name, row in rows.items():
            print(line(name, row) if row is not None else "  ping is not installed", flush=True)
            found.append({"gap": f"{length_ms:g} ms, seldom", "over": name, **(vars(row) if row else {})})
    seen = watch(probing, [], drops=True, seed=options.seed, seconds=60)
    print(f"no gap ({seen.seconds:.0f} s): blackouts while the cable gave something, and while it stood still itself")
    for way in seen.document["ways"]:
        false, own = false_alarms(seen, way)
        print(f"  {way['way']:14}{false:6}{own:6}   of {way['sent']:,} probes; {len(way['unjudged'])} not judged")
        found.append({"gap": "none", "over": way["way"], "false_alarms": false, "of_the_cable": own})
    print("target: found within 1 ms in 99.9 % over UDP and ICMP echo; no false alarm")
    if options.json:
        print(json.dumps({"machine": machine, "seed": options.seed, "found": found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
