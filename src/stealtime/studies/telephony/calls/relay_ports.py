"""Tells which ports of a relay are still open: a closed one refuses what is sent there (ICMP, port unreachable).

Run as a program where the callers are, it reads ``ADDRESS:PORT`` lines from standard input, and prints the open ones.
"""

import asyncio
import sys
from collections.abc import Collection

from stealtime.hosts.client import Client
from stealtime.studies.telephony.calls.at_client import ask_at_client

_ROUNDS = 3
"""What is sent, and what refuses it, may get lost."""
_WAIT_S = 1.0
"""For a refusal, which a protected server holds until its next checkpoint."""
_AT_ONCE = 40
"""A kernel sends 50 refusals at once, and a thousand a second (``icmp_msgs_burst``, ``icmp_msgs_per_sec``)."""
_ENDS_WITHIN_S = 120.0
_CLOSED = range(1, 41)
"""UDP ports that no server of ours has."""


def open_ports(client: Client, ports: Collection[str]) -> list[str] | None:
    """Give the ports that refuse nothing; None where that says nothing, as ports that nobody has do not refuse either.

    A firewall drops refusals, and a kernel limits how many it sends. So closed ports are asked for in between.

    Args:
        client: From where they are asked.
        ports: ``ADDRESS:PORT`` of each.

    Raises:
        StealtimeError: The program failed.
    """
    known = sorted(ports)
    addresses = sorted({port.rpartition(":")[0] for port in known})
    closed = [f"{address}:{number}" for address in addresses for number in _CLOSED]
    every = max(1, len(known) // max(1, len(closed)))
    asked: list[str] = []
    for place, port in enumerate(known):
        if closed and place % every == 0:
            asked.append(closed.pop())
        asked.append(port)
    found = ask_at_client(client, __name__, [], "\n".join(asked), _ENDS_WITHIN_S)
    return None if set(found) - set(known) else found


class _Asking(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.refused = asyncio.Event()

    def error_received(self, _: Exception) -> None:
        self.refused.set()


async def _is_open(port: str, limit: asyncio.Semaphore) -> bool:
    address, _, number = port.rpartition(":")
    async with limit:
        transport, asking = await asyncio.get_running_loop().create_datagram_endpoint(
            _Asking, remote_addr=(address, int(number))
        )
        try:
            for _ in range(_ROUNDS):
                transport.sendto(b"\0")
                try:
                    await asyncio.wait_for(asking.refused.wait(), _WAIT_S)
                except TimeoutError:
                    continue
                return False
            return True
        finally:
            transport.close()


async def _main() -> None:
    ports = sys.stdin.read().split()
    limit = asyncio.Semaphore(_AT_ONCE)
    for port, is_open in zip(ports, await asyncio.gather(*(_is_open(one, limit) for one in ports)), strict=True):
        if is_open:
            sys.stdout.write(f"{port}\n")


if __name__ == "__main__":
    asyncio.run(_main())
