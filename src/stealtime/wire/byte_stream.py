"""The byte stream of a channel to an agent: a pipe, a socket or an ssh session."""

from typing import Protocol


class ByteReader(Protocol):
    """Where bytes come from: ``asyncio.StreamReader``, ``asyncssh.SSHReader[bytes]``."""

    async def read(self, n: int = -1, /) -> bytes:
        """Give 1 to ``n`` bytes, or none at the end of the stream."""


class ByteWriter(Protocol):
    """Where bytes go: ``asyncio.StreamWriter``, ``asyncssh.SSHWriter[bytes]``."""

    def write(self, data: bytes, /) -> None: ...

    async def drain(self) -> None: ...

    def close(self) -> None: ...
