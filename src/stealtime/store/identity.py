"""Which host measured: an identity that stays the same over runs, and that no two hosts share.

``$STEALTIME_HOST`` is what an engine calls the host (a node of Kubernetes, a worker): it goes first. Else it is the
machine's identity of systemd, hashed with a key of our own as machine-id(5) asks, so that nobody can tell the identity
itself from a run. A host without one goes by its name, which another host may share.
"""

import hashlib
import hmac
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.readings import Model

GIVEN = "STEALTIME_HOST"
"""The environment variable by which a host is called."""
_SLURM_NODE = "SLURMD_NODENAME"
_KEY = b"stealtime host identity 1"
_MACHINE_ID = Path("/etc/machine-id")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class HostIdentity(Model):
    """Of the host that a run was measured on."""

    name: str
    """What it is called in tables."""
    id: str
    """The same for all runs of a host: ``given:NAME``, ``machine:HASH`` or ``name:NAME``."""
    source: Literal["given", "machine-id", "host name"]


def read_identity(
    environment: Mapping[str, str], machine_id: Path = _MACHINE_ID, host_name: str | None = None
) -> HostIdentity:
    """Tell which host this is.

    Args:
        environment: As of this process.
        machine_id: The file of systemd, see machine-id(5).
        host_name: As the kernel tells it; None asks it.

    Raises:
        UsageError: The name that was given is none.
    """
    given = environment.get(GIVEN)
    if given is not None:
        if not _NAME.fullmatch(given):
            raise UsageError(
                f"{GIVEN}={given!r} is no name of a host",
                hint="use at most 64 letters, digits, '.', '_' and '-'",
            )
        return HostIdentity(name=given, id=f"given:{given}", source="given")
    name = environment.get(_SLURM_NODE) or host_name or socket.gethostname()
    try:
        text = machine_id.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    if not re.fullmatch(r"[0-9a-f]{32}", text):
        return HostIdentity(name=name, id=f"name:{name}", source="host name")
    digest = hmac.new(_KEY, text.encode(), hashlib.sha256).hexdigest()
    return HostIdentity(name=name, id=f"machine:{digest[:32]}", source="machine-id")
