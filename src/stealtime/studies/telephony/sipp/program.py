"""SIPp, started where the phones are, bounded in time, ended with them.

Every message that counts is a line of its log of actions, with the user's name and SIPp's own stamp of microseconds of
the real-time clock; its statistics are a CSV file. Stamps are put on the monotonic clock by one reading of both clocks.
"""

import os
import resource
import select
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import psutil

from stealtime.hosts.client import Client, change_ipv4
from stealtime.hosts.process_times import Scheduled, scheduled
from stealtime.lab.libraries import find_library
from stealtime.studies.telephony.appliance.configuration import SIP_PORT
from stealtime.studies.telephony.parameters import Transport
from stealtime.studies.telephony.sipp.log import LoggedMessage, parse_log
from stealtime.studies.telephony.sipp.stalls import WATCHDOG, Window, parse_stalls
from stealtime.studies.telephony.sipp.statistics import SippCounts, parse_statistics
from stealtime.vocabulary.errors import StealtimeError

_ROOM = ("-buff_size", str(4 << 20))
"""For what is on its way at one socket: a server whose output is held answers some hundred phones at once. SIPp's own
64 KiB lost them over UDP and slowed down TCP; this is as much as Linux gives a connection by itself (``tcp_wmem``)."""
_OPTIONS: dict[Transport, tuple[str, ...]] = {
    "udp": ("-t", "u1", *_ROOM),
    "tcp-one": ("-t", "t1", *_ROOM),
    "tcp-each": ("-t", "tn"),
}
_SOCKETS_MAX = 40_000
_OTHER_FILES = 1_000
_CLIENT_PORTS = "1024 65535"
ANSWERED_WITHIN_S = 8.0
"""A call is over if it was not answered so long: after four retransmissions, at 0.5, 1.5, 3.5 and 7.5 s (RFC 3261,
timer E)."""
_ENDS_WITHIN_S = 2 * ANSWERED_WITHIN_S + 10.0
"""After its own limit."""
_LAST_LINES = 5
_NO_PORT = 254
"""What it ends with where it cannot bind or listen (EXIT_BIND_ERROR of its include/sipp.hpp)."""


@dataclass(frozen=True, kw_only=True)
class SippOrder:
    """What one SIPp does.

    Attributes:
        scenario: The file of its calls.
        target: The server's IPv4 address.
        port: Its port.
        transport: How.
        calls: How many in all.
        rate_per_s: How many begin in a second.
        users: Lines for its file of users, a call each.
        limit_s: When it ends at the latest.
        answered_within_s: How long a call waits for each message: one that waits to be called waits longer.
        options: More of its options.
        lost_stay_open: Whether calls go on whose connections are not lost, where SIPp would end all.
    """

    scenario: Path
    target: str
    port: int = SIP_PORT
    transport: Transport = "udp"
    calls: int
    rate_per_s: float
    users: Sequence[str] = ()
    limit_s: float
    answered_within_s: float = ANSWERED_WITHIN_S
    options: tuple[str, ...] = ()
    lost_stay_open: bool = False
    at_once: int | None = None

    @property
    def begun_per_s(self) -> float:
        """How many calls SIPp begins in a second: no fewer than one."""
        return max(1.0, self.rate_per_s)


@dataclass(frozen=True)
class SippUse:
    """What a SIPp had of the machine that it runs on."""

    elapsed_ns: int
    """Since its start."""
    scheduled: Scheduled | None
    """None: the kernel does not tell."""
    stalls: tuple[Window, ...]
    """When it stood still."""


@dataclass
class Sipp:
    """A SIPp that runs or ran."""

    process: psutil.Popen
    folder: Path
    limit_s: float
    real_minus_monotonic_ns: int
    started_ns: int = field(default_factory=time.monotonic_ns)

    def wait(self) -> "Finished":
        """Wait until it has ended; give what it saw.

        Raises:
            StealtimeError: It did not end in time, did not get its port, was killed, or told of no statistics.
        """
        if not self._has_ended_within(self.limit_s + _ENDS_WITHIN_S):
            self.end()
            raise StealtimeError(f"SIPp did not end within {self.limit_s + _ENDS_WITHIN_S:g} s")
        # What it had of CPUs is told until somebody waits for it.
        use = self.use()
        code = self.process.wait()
        if code == _NO_PORT:
            # Its statistics are whole, and count no call.
            raise StealtimeError(f"SIPp did not get its port: {self.log_tail()}", hint="another program has it")
        if code < 0:
            # Its statistics are those of the second before.
            name = signal.Signals(-code).name
            raise StealtimeError(f"SIPp was ended by {name}: {self.log_tail()}", hint="see dmesg, for want of memory")
        text = _read(self.folder / "statistics.csv")
        if text.count("\n") < 2:
            raise StealtimeError(
                f"SIPp ended with {self.process.returncode} and gave no statistics: {self.log_tail()}",
                hint="is its address or a port taken?",
            )
        return Finished(
            counts=parse_statistics(text),
            messages=parse_log(_read(self.folder / "messages.log"), self.real_minus_monotonic_ns),
            exit_code=int(self.process.returncode),
            said=self.log_tail(),
            use=use,
        )

    def use(self) -> SippUse:
        """Give what it had of its machine so far."""
        stalls = parse_stalls(_read(self.folder / "errors.log"), self.real_minus_monotonic_ns)
        had = scheduled(self.process.pid) if self.process.returncode is None else None
        return SippUse(time.monotonic_ns() - self.started_ns, had, stalls)

    def messages(self) -> list[LoggedMessage]:
        """Give what it has logged so far; the last line may not be whole yet."""
        text = _read(self.folder / "messages.log")
        return parse_log(text[: text.rfind("\n") + 1], self.real_minus_monotonic_ns)

    def has_answer(self) -> bool:
        """Tell whether a call of it was answered so far."""
        return any(message.kind == "answered" for message in self.messages())

    @property
    def has_ended(self) -> bool:
        return self._has_ended_within(0.0)

    def begin_no_more(self) -> None:
        """Have it begin no further call, and end with those that it has begun."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def lost_connections(self) -> int:
        """Give how many connections were lost so far, where these stay open."""
        return _read(self.folder / "printed.log").count("a connection was lost")

    def log_tail(self) -> str:
        """Give the end of its error log, or of what it printed."""
        for name in ("errors.log", "printed.log"):
            lines = [line for line in _read(self.folder / name).splitlines() if line.strip()]
            if lines:
                return " | ".join(lines[-_LAST_LINES:])
        return "it said nothing"

    def _has_ended_within(self, within_s: float) -> bool:
        """Wait until it has ended, without taking what the kernel still knows of it."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                ended = os.pidfd_open(self.process.pid)
                try:
                    return bool(select.select([ended], [], [], within_s)[0])
                finally:
                    os.close(ended)
        return True


@dataclass(frozen=True)
class Finished:
    """What a SIPp saw."""

    counts: SippCounts
    messages: list[LoggedMessage]
    exit_code: int
    said: str
    use: SippUse


def find_sipp() -> str:
    """Find SIPp.

    Raises:
        StealtimeError: It is not installed.
    """
    found = shutil.which("sipp")
    if found is None:
        raise StealtimeError("the program sipp is not installed", hint="install the package sip-tester")
    return found


def scenario_path(name: str) -> Path:
    return Path(str(resources.files("stealtime.studies.telephony.sipp") / "scenarios" / f"{name}.xml"))


def start_sipp(client: Client, order: SippOrder, folder: Path) -> Sipp:
    """Start SIPp where the phones are, with a folder for its files, which is made.

    Raises:
        StealtimeError: It is not installed.
    """
    folder.mkdir(parents=True)
    argv = [find_sipp(), f"{order.target}:{order.port}", "-sf", str(order.scenario), *_OPTIONS[order.transport]]
    argv += ["-i", client.address, "-nostdin", "-m", str(order.calls)]
    argv += ["-r", f"{order.begun_per_s:g}", "-timer_resol", "1", *WATCHDOG]
    argv += ["-l", str(order.at_once or order.calls), "-max_socket", str(_sockets())]
    # A lost TCP connection is the server's fault and not to be hidden, but no reason to give up all calls.
    argv += ["-max_reconnect", "0", "-reconnect_close", "false"]
    # Over TCP nothing else ends a call that is not answered, and at its own limit SIPp waits for all calls.
    argv += ["-recv_timeout", str(round(1e3 * order.answered_within_s))]
    argv += ["-timeout", f"{order.limit_s:.0f}s", "-trace_stat", "-stf", str(folder / "statistics.csv"), "-fd", "1"]
    argv += ["-trace_logs", "-log_file", str(folder / "messages.log")]
    argv += ["-trace_err", "-error_file", str(folder / "errors.log")]
    if order.users:
        (folder / "users.csv").write_text("SEQUENTIAL\n" + "".join(f"{line}\n" for line in order.users))
        argv += ["-inf", str(folder / "users.csv")]
    argv += order.options
    offset_ns = time.time_ns() - time.monotonic_ns()
    with (folder / "printed.log").open("wb") as printed:
        process = client.start(
            ["env", f"--chdir={folder}", *argv],
            stdout=printed,
            stderr=printed,
            environment={
                "TERM": "dumb",
                "LD_PRELOAD": _preloaded(),
                # As `crates/sippsockets` calls it.
                **({"STEALTIME_LOST_STAY_OPEN": "1"} if order.lost_stay_open else {}),
            },
        )
    return Sipp(process, folder, order.limit_s, offset_ns)


def widen_ports(client: Client) -> None:
    """Let the client have as many connections at once as there are ports."""
    change_ipv4(client, {"ip_local_port_range": _CLIENT_PORTS, "tcp_tw_reuse": "1"})


def _preloaded() -> str:
    """Name the library that gives SIPp sockets for a server whose output is held, and what the user preloads."""
    library = find_library(Path(__file__).parent, "stealtime_sippsockets")
    return " ".join([str(library), *filter(None, [os.environ.get("LD_PRELOAD")])])


def _sockets() -> int:
    """Give how many connections SIPp may have at once: it refuses more than it may have files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _SOCKETS_MAX if hard == resource.RLIM_INFINITY else max(1, min(_SOCKETS_MAX, hard - _OTHER_FILES))


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""
