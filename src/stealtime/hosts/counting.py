"""The guest that counts, and its client: what was acknowledged or forgotten, and for how long nobody answered."""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stealtime.hosts.clock_offset import SAME_CLOCK, ClockOffset
from stealtime.hosts.guest import Guest, ProtectionLostError
from stealtime.hosts.waiting import PATIENCE_S
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.protect.status import MemberStatus
from stealtime.vocabulary.errors import StealtimeError

PROTOCOLS = ("tcp", "udp")
"""Over which clients count."""
COUNTER_PORT = 7000
COUNTER = (f"tcp={COUNTER_PORT}", f"udp={COUNTER_PORT}", "memory=16MiB", "dirty=50/10ms")
"""What the guest runs unless it is told otherwise."""
COMPUTER = (f"tcp={COUNTER_PORT}", f"udp={COUNTER_PORT}", "memory=256KiB", "dirty=4096/1us")
"""The same where it only computes: it verifies and rewrites 64 pages without a rest."""
_COUNTED_WITHIN_S = 60.0
_AT_ONCE_NS = 500_000_000


def counting_machine(mode: str, interval_ns: int | None = None, min_interval_ns: int | None = None) -> dict[str, Any]:
    """Say what a guest that counts is, and how it is protected, as in ``VM.toml``.

    Args:
        mode: Of its protection.
        interval_ns: From one checkpoint to the next; None: the default, or no protection.
        min_interval_ns: The same where output waits; None: it waits for the next one that is due.
    """
    intervals = {"interval": interval_ns, "min_interval": min_interval_ns}
    return {
        **{name: f"{ns}ns" for name, ns in intervals.items() if ns is not None},
        "mode": mode,
        "program": "counter",
        "program_arguments": list(COUNTER),
        "bypass": [{"protocol": "udp", "source_port": COUNTER_PORT}] if mode == "net+bypass" else [],
    }


def counter_of(guest: Guest) -> str:
    return f"{guest.ip_address}:{COUNTER_PORT}"


def ask(guest: Guest, question: str, within_s: float = PATIENCE_S) -> dict[str, Any]:
    """Ask the counter in a guest over TCP.

    Raises:
        StealtimeError: It does not answer.
    """
    argv = [str(find_agent()), "ask", counter_of(guest), question, "--wait", f"{within_s:g}s"]
    asking = guest.waiting.client.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output, said = asking.communicate(timeout=2 * within_s + 10)
    if asking.returncode != 0:
        reason = said.decode("utf-8", "replace").strip()
        raise guest.waiting.failure(f"{guest.name} does not answer {question}: {reason}")
    return dict(json.loads(output))


@dataclass(frozen=True)
class Verified:
    """How many pages the counter in a guest had verified at a moment of our monotonic clock."""

    at_ns: int
    pages: int

    def pages_per_s(self, later: "Verified") -> float:
        return (later.pages - self.pages) * 1e9 / (later.at_ns - self.at_ns)


def verified(guest: Guest) -> Verified:
    """Ask how many pages the counter in a guest has verified so far: its work.

    It was counted somewhere within the question, in the middle as far as we know: two epochs hold the connection and
    then the answer. One that took too long to say when is asked again.

    Raises:
        StealtimeError: It does not answer.
    """
    while True:
        asked_ns = time.monotonic_ns()
        pages = int(ask(guest, "status", _COUNTED_WITHIN_S)["verified"])
        took_ns = time.monotonic_ns() - asked_ns
        if took_ns < _AT_ONCE_NS:
            return Verified(asked_ns + took_ns // 2, pages)


@dataclass(frozen=True)
class Watched:
    """What happened to a guest while a client counted with it.

    Attributes:
        elapsed_ns: For how long.
        epochs: The rows of those that began meanwhile; none in the mode ``off``.
        clock: Of the host that they happened on, beside ours.
    """

    elapsed_ns: int
    epochs: list[dict[str, int]]
    clock: ClockOffset = SAME_CLOCK


class CountingClient:
    """Counts with a guest over TCP and UDP until it is told to end.

    Args:
        guest: What it counts with.
        flows: How many counts it keeps going over TCP, and over UDP.
        options: More of ``stealtime-agent count``.
        stderr: Where it says how it goes.
    """

    def __init__(self, guest: Guest, flows: int = 1, *options: str, stderr: Any = subprocess.DEVNULL) -> None:
        self._guest = guest
        address = counter_of(guest)
        argv = [str(find_agent()), "count", "--tcp", address, "--udp", address, "--flows", str(flows)]
        argv += ["--json", "--until-closed", "--wait", f"{PATIENCE_S:g}s", *options]
        self.process = guest.waiting.client.start(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)

    def end(self) -> dict[str, Any]:
        """Have it end; give what it has seen, as ``stealtime-agent count --json`` prints it.

        Raises:
            StealtimeError: It gave no result.
        """
        output, _ = self.process.communicate(timeout=2 * PATIENCE_S)
        try:
            return dict(json.loads(output))
        except ValueError as error:
            raise self._guest.waiting.failure(
                f"the client gave no result and ended with {self.process.returncode}"
            ) from error


@contextmanager
def counting(guest: Guest, flows: int = 1, *options: str) -> Iterator[CountingClient]:
    """Have a client count with a guest; it is gone afterwards, also where it was not told to end."""
    client = CountingClient(guest, flows, "--quiet", *options)
    try:
        yield client
    finally:
        if client.process.poll() is None:
            client.process.kill()
            client.process.wait()


def watch(guest: Guest, active: MemberStatus, duration_s: float, client: CountingClient) -> Watched:
    """Let a client count with a guest for a while.

    Raises:
        ProtectionLostError: The guest was not protected all the time; see :func:`see_protected`.
        StealtimeError: It was protected, and made no checkpoint.
    """
    from_ns = time.monotonic_ns()
    time.sleep(duration_s)
    see_protected(guest, active, from_ns, client)
    elapsed_ns = time.monotonic_ns() - from_ns
    epochs = [] if guest.mode == "off" else guest.epochs_since(active, from_ns)
    if not epochs and guest.mode != "off":
        raise StealtimeError(f"{active.host} made no checkpoint within {elapsed_ns / 1e9:.1f} s")
    return Watched(elapsed_ns, epochs, guest.clock_of(active))


def see_protected(guest: Guest, active: MemberStatus, from_ns: int, client: CountingClient) -> None:
    """See that a guest was protected since a moment: else its output was not held, and it is another measurement.

    Raises:
        ProtectionLostError: It was not.
        StealtimeError: It was not, and its client saw what must not happen even so: that is not to be tried again.
    """
    try:
        guest.check_protected(active, from_ns)
    except ProtectionLostError:
        if violations := violations_of(client.end()):
            raise StealtimeError(
                f"the guest lost its standby, and its client saw what must not happen: {violations}"
            ) from None
        raise


def round_trips_of(seen: Mapping[str, Any]) -> dict[str, int]:
    """Give how long a client waited for answers over each protocol: ``tcp_p50_ns``, ``tcp_p99_ns`` ..."""
    return {f"{name}_p{share}_ns": seen["round_trip_ns"][name][f"p{share}"] for name in PROTOCOLS for share in (50, 99)}


def violations_of(seen: Mapping[str, Any]) -> dict[str, int]:
    """Count what a client saw that must not happen, by kind; a kind that is not listed any more is ``others``."""
    kinds = Counter(str(finding["kind"]) for finding in seen["violations"])
    unlisted = int(seen["violations_total"]) - kinds.total()
    return dict(kinds) | ({"others": unlisted} if unlisted > 0 else {})
