"""A client and a counter with one link between them, which is silent at known times."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from busy_cpus import busy_cpus, mortal
from exact_gaps import ExactGaps, Gap

from stealtime.hosts.network import batch, make_namespaces, namespace_name, remove_namespaces, run

CLIENT = "10.78.0.1"
SERVER = "10.78.0.2"
PORT = 7000
PRIORITY = 20
"""Of SCHED_FIFO, of who asks and who answers: what they measure is the path, not who else computes."""

_SERIAL = count()


@dataclass(frozen=True)
class SilentPath:
    """Both ends and what lies between them."""

    client: tuple[str, ...]
    """The words that a command begins with, to be run as the client."""
    gaps: ExactGaps
    counter_pid: int

    def drop(self, start_ns: int, length_ns: int) -> Gap | None:
        """Lose every frame of that time; none is given if this process was too late."""
        gap = self.gaps.set(start_ns, length_ns)
        wait_until(start_ns + length_ns)
        return gap

    def hold(self, start_ns: int, length_ns: int) -> Gap:
        """Stop the counter for that time: what it was asked it answers afterwards. Echoes the kernel answers.

        The moments are those before the calls that stop it and let it go on: it runs before this process does, and
        answers what has gathered before the call is back.
        """
        wait_until(start_ns)
        stopped_ns = self._signal(signal.SIGSTOP)
        wait_until(start_ns + length_ns)
        return Gap(stopped_ns, self._signal(signal.SIGCONT))

    def _signal(self, number: signal.Signals) -> int:
        at_ns = time.monotonic_ns()
        os.kill(self.counter_pid, number)
        return at_ns


def wait_until(moment_ns: int) -> None:
    """Sleep until then, by CLOCK_MONOTONIC."""
    time.sleep(max(0, moment_ns - time.monotonic_ns()) / 1e9)


@contextmanager
def silent_path(agent: Path) -> Iterator[SilentPath]:
    """Give a path with a counter at its other end, until the block ends. Needs root."""
    serial = next(_SERIAL)
    client, server = (namespace_name(serial, what) for what in ("asks", "answers"))
    make_namespaces((client, server))
    try:
        connect(client, server)
        with ExactGaps() as gaps:
            gaps.attach(((client, "eth0"), (server, "eth0")))
            argv = [*inside(server), str(agent), "counter", "--tcp", str(PORT), "--udp", str(PORT)]
            with subprocess.Popen(argv, stdout=subprocess.PIPE, preexec_fn=first_and_mortal) as counter:
                try:
                    assert counter.stdout is not None
                    assert counter.stdout.readline(), "the counter does not listen"
                    yield SilentPath(inside(client), gaps, counter.pid)
                finally:
                    counter.kill()
    finally:
        remove_namespaces((client, server))


@contextmanager
def kept_awake() -> Iterator[None]:
    """Keep every CPU busy with what any other thread displaces, until the block ends.

    An idle virtual CPU halts, and its host may take milliseconds to run it again: that is a gap of the machine.
    """
    with busy_cpus("chrt", "--idle", "0"):
        yield


def inside(namespace: str) -> tuple[str, ...]:
    """Give what a command begins with that is to run there, in the process that is started."""
    return ("ip", "netns", "exec", namespace)


def connect(client: str, server: str) -> None:
    """Lay a link. Who has which hardware address is told once, so that no gap takes that knowledge away."""
    run("ip", "-n", client, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", server)
    for namespace, address in ((client, CLIENT), (server, SERVER)):
        batch(namespace, (f"address add {address}/24 dev eth0", "link set eth0 up"))
    for here, there, address in ((client, server, SERVER), (server, client, CLIENT)):
        hardware = run("ip", "netns", "exec", there, "cat", "/sys/class/net/eth0/address").strip()
        batch(here, [f"neighbour replace {address} lladdr {hardware} dev eth0 nud permanent"])


def first_and_mortal() -> None:
    """Run before ordinary threads, and end with the process that started this one."""
    mortal()
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
