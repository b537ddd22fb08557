"""Hangs up calls whose connection was lost, over a new one for each, as clients do (RFC 3261, 17.1.4 and 18.4).

SIPp cannot: it ends all its calls with a connection, or opens it anew and sends nothing again. Run as a program where
the callers are, it reads its requests from standard input, a JSON object a line, and prints which calls were ended.
"""

import asyncio
import json
import sys
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from stealtime.hosts.client import Client
from stealtime.studies.telephony.appliance.configuration import SIP_PORT
from stealtime.studies.telephony.calls.at_client import ask_at_client

_GIVES_UP_AFTER_S = 10.0
"""Nothing is sent again over TCP: a server that has not answered by then does not."""
_ENDS_WITHIN_S = _GIVES_UP_AFTER_S + 10.0


@dataclass(frozen=True)
class Dialogue:
    """What a caller knows of its call, and needs for its BYE."""

    call: int
    """By its media port."""
    call_id: str
    local: str
    """The header From."""
    remote: str
    """The header To, with the phone's tag."""
    route: str
    """Of the proxy, as it recorded itself."""
    target: str
    """The phone's contact."""

    @classmethod
    def told(cls, call: int, phone: int, text: str, client: str, server: str) -> "Dialogue":
        """Read what ``scenarios/caller.xml`` wrote down of a call.

        Args:
            call: The media port of its caller.
            phone: The number that it called.
            text: Call-ID, tags of caller and phone, route and target, with commas between them.
            client: The caller's address.
            server: The proxy's.
        """
        call_id, own_tag, tag, route, target = text.split(",")
        local, remote = f"<sip:caller-{call}@{client}>;tag={own_tag}", f"<sip:{phone}@{server}>;tag={tag}"
        return cls(call, call_id, local, remote, route, target)

    def bye(self, local_address: str) -> bytes:
        lines = (
            f"BYE {self.target} SIP/2.0",
            f"Via: SIP/2.0/TCP {local_address};branch=z9hG4bK{uuid.uuid4().hex}",
            f"Route: {self.route}",
            f"From: {self.local}",
            f"To: {self.remote}",
            f"Call-ID: {self.call_id}",
            # Above that of the BYE that may have got lost.
            "CSeq: 3 BYE",
            "Max-Forwards: 70",
            "Content-Length: 0",
        )
        return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


def hang_up(client: Client, server: str, dialogues: Iterable[Dialogue]) -> list[int]:
    """Hang up over new connections; give the calls whose BYE was answered with 200.

    Args:
        client: Where the callers are.
        server: The address of the proxy.
        dialogues: Of the calls.

    Raises:
        StealtimeError: The program failed.
    """
    asked = "".join(f"{json.dumps(asdict(one))}\n" for one in dialogues)
    return [int(call) for call in ask_at_client(client, __name__, [client.address, server], asked, _ENDS_WITHIN_S)]


async def _ended(dialogue: Dialogue, address: str, server: str) -> bool:
    try:
        async with asyncio.timeout(_GIVES_UP_AFTER_S):
            reader, writer = await asyncio.open_connection(server, SIP_PORT, local_addr=(address, 0))
            writer.write(dialogue.bye(address))
            try:
                # No answer to a BYE has a body.
                while head := await reader.readuntil(b"\r\n\r\n"):
                    status = int(head.split(None, 2)[1])
                    if status >= 200:
                        return status == 200
            finally:
                writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
        pass
    return False


async def _main(address: str, server: str) -> None:
    dialogues = [Dialogue(**json.loads(line)) for line in sys.stdin]
    ended = await asyncio.gather(*(_ended(one, address, server) for one in dialogues))
    for dialogue, was in zip(dialogues, ended, strict=True):
        if was:
            sys.stdout.write(f"{dialogue.call}\n")


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:3]))
