"""Which ports programs over TCP have, and from which one a SIPp can connect: one with no earlier connection left.

A connection that a server lost with its host stays in the client's kernel for minutes after the SIPp that had it: what
it said last is sent again, and nobody answers. Another one from the same port to the same server is refused meanwhile
(EADDRNOTAVAIL), also to a server that was booted since.
"""

from stealtime.hosts.client import Client, finished_at
from stealtime.vocabulary.errors import StealtimeError

PORTS = 10
"""That are tried, from the usual one on: the next ones are those of phones."""
_READ_WITHIN_S = 10.0
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"
"""``TCP_LISTEN`` of the kernel's include/net/tcp_states.h, as the tables show it."""


def free_port(client: Client, first: int) -> int:
    """Give the first port from a usual one on that no connection of the client has, whatever its state.

    Raises:
        StealtimeError: There is none.
    """
    taken = ports_taken(_tables(client))
    for port in range(first, first + PORTS):
        if port not in taken:
            return port
    raise StealtimeError(
        f"connections from all ports from {first} to {first + PORTS - 1} are left from earlier trials",
        hint="wait some minutes: the kernel gives them up (tcp_orphan_retries)",
    )


def listening(client: Client) -> set[int]:
    """Give the ports at which programs of the client take connections.

    Raises:
        StealtimeError: The client does not tell.
    """
    return ports_taken(_tables(client), state=_LISTENS)


def ports_taken(table: str, state: str | None = None) -> set[int]:
    """Read the local ports of a table as ``/proc/net/tcp`` (proc(5)): the second column, after a colon, hexadecimal.

    Args:
        table: Its text.
        state: What stands in the fourth column of those that count; None: whatever it is.
    """
    rows = (line.split() for line in table.splitlines())
    return {
        int(row[1].rpartition(":")[2], 16)
        for row in rows
        if len(row) > 3 and row[0].endswith(":") and state in (None, row[3])
    }


def _tables(client: Client) -> str:
    # A kernel without IPv6 has no table of it.
    read = finished_at(client, ["cat", *_TABLES], _READ_WITHIN_S, "the connections of the client were not told")
    return read.stdout.decode()
