"""Which host sends the guest's frames, as seen at the switch and independent of what the members report.

A frame is heard where it comes in at the switch's port of a host, also one that a cut then loses.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Self

from two_hosts import HOSTS, TwoHosts

from stealtime.hosts.laboratory import SWITCH, port_name

# Notes each change of the port at which frames of one sender come in: one socket for all ports, so one order. Answers
# each line on standard input with all that was heard, and ends with standard input.
_LISTENER = """
import json, selectors, socket, sys, time
ports, sender = sys.argv[2:], bytes.fromhex(sys.argv[1].replace(":", ""))
ETH_P_ALL, SO_RCVBUFFORCE, PACKET_OUTGOING = 3, 33, 4
heard = []
listening = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
listening.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
listening.setblocking(False)
waiting = selectors.DefaultSelector()
waiting.register(listening, selectors.EVENT_READ)
waiting.register(sys.stdin, selectors.EVENT_READ)
print("ready", flush=True)
while True:
    asked = any(key.fileobj is sys.stdin for key, _ in waiting.select())
    while True:
        try:
            frame, (port, _, kind, _, _) = listening.recvfrom(64)
        except BlockingIOError:
            break
        if frame[6:12] != sender or kind == PACKET_OUTGOING or port not in ports:
            continue
        if not heard or heard[-1]["port"] != port:
            heard.append({"port": port, "frames": 0, "first_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME)})
        heard[-1]["frames"] += 1
    if asked:
        if not sys.stdin.readline():
            break
        print(json.dumps(heard), flush=True)
"""


@dataclass(frozen=True)
class Speech:
    """Frames in a row from one host."""

    host: str
    frames: int
    first_ns: int
    """When the first was heard, on the clock of the members' events."""


class GuestVoice:
    """A context manager that listens at the switch.

    Args:
        hosts: Whose guest.
    """

    def __init__(self, hosts: TwoHosts) -> None:
        self._hosts = hosts
        self._ports = {port_name(name, "clients"): name for name in HOSTS}
        self._last: list[Speech] | None = None

    def __enter__(self) -> Self:
        argv = [sys.executable, "-c", _LISTENER, self._hosts.vm.mac, *self._ports]
        self._listener = self._hosts.laboratory.start(SWITCH, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._listener.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        self._last = self.heard()
        self._listener.communicate(timeout=60)

    def heard(self) -> list[Speech]:
        """Give who spoke, in order: until now, or until the end of listening."""
        if self._last is not None:
            return self._last
        self._listener.stdin.write(b"\n")
        self._listener.stdin.flush()
        return [
            Speech(self._ports[one["port"]], one["frames"], one["first_ns"])
            for one in json.loads(self._listener.stdout.readline())
        ]

    def frames(self) -> int:
        """Give how many frames of the guest were heard so far."""
        return sum(speech.frames for speech in self.heard())
