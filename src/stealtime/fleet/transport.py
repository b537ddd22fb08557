"""Who may be spoken to: beyond this machine only a scheduler that proves who it is.

A Dask scheduler runs whatever its clients ask for, on every worker. One that takes anybody for a client is an open
shell on every host.
"""

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from stealtime.vocabulary.errors import UsageError

_FORM = "give it as tls://HOST:8786"


@dataclass(frozen=True)
class Credentials:
    """Files in PEM; None: what Dask's own configuration says."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


def check_address(address: str) -> None:
    """See that an address is one of a scheduler, and is encrypted unless it is on this machine.

    Raises:
        UsageError: It is not.
    """
    parts = urlsplit(address)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in ("tls", "tcp") or not parts.hostname or port is None:
        raise UsageError(f"{address!r} is no address of a scheduler", hint=_FORM)
    if parts.scheme == "tcp" and not is_loopback(parts.hostname):
        raise UsageError(
            f"{address} is beyond this machine and not encrypted: whoever reaches such a scheduler runs programs on "
            "all its hosts",
            hint="run scheduler and workers with --tls-ca-file, --tls-cert and --tls-key, and name it tls://...",
        )


def is_loopback(host: str) -> bool:
    """Tell whether a name or address means this machine alone, wherever it is resolved."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None)
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(one[4][0]).is_loopback for one in found)


def check_credentials(given: Credentials) -> None:
    """See that the files are there.

    Raises:
        UsageError: One cannot be read, or some are given and some are not.
    """
    files = {"--tls-ca-file": given.ca, "--tls-cert": given.certificate, "--tls-key": given.key}
    missing = [option for option, path in files.items() if path is None]
    if missing and len(missing) < len(files):
        raise UsageError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing", hint="give all three"
        )
    for option, path in files.items():
        if path is not None and not path.is_file():
            raise UsageError(f"{option} {path}: there is no such file", hint="name a file in PEM")
