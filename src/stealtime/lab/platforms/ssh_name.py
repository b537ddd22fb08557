"""Names of machines over ssh, ``ssh:[user@]host[:port]``, as campaigns have them. Pure; asyncssh is slow to import."""

import re
from dataclasses import dataclass
from typing import Self

from stealtime.vocabulary.errors import UsageError

SSH_PREFIX = "ssh:"
_NAME = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^@:\s\[\]]+)(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True)
class SshName:
    """Where ssh goes."""

    host: str
    user: str | None = None
    port: int | None = None

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read ``ssh:[user@]host[:port]``.

        Raises:
            UsageError: The name is of another form.
        """
        match = _NAME.fullmatch(name.removeprefix(SSH_PREFIX))
        port = int(match["port"]) if match and match["port"] else None
        if match is None or not name.startswith(SSH_PREFIX) or (port is not None and not 0 < port < 65536):
            raise UsageError(f"the platform {name!r} names no ssh host", hint="write ssh:[user@]host[:port]")
        return cls(host=match["host"].strip("[]"), user=match["user"], port=port)
