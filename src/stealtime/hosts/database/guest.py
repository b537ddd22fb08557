"""The guest with the database, as a protected machine, and its client beside it."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from stealtime.hosts.client import finished_at
from stealtime.hosts.copied_disks import with_copied_disks
from stealtime.hosts.database.client import Seen
from stealtime.hosts.database.image import PORT, DatabaseImage
from stealtime.hosts.guest import Guest
from stealtime.vocabulary.errors import StealtimeError

MEMORY = "512MiB"
_ANSWERS_WITHIN_S = 240.0
"""A translated Debian boots, and its PostgreSQL starts: half a minute on an idle host."""
_ENDS_WITHIN_S = 300.0
_EXTRA_HINT = "pip install 'stealtime[database]'"


def database_machine(image: DatabaseImage, folder: Path, mode: str, **intervals: str) -> dict[str, Any]:
    """Say what the machine is, as in ``VM.toml``; its disk is a copy in a folder.

    Raises:
        StealtimeError: There is no room for the copy.
    """
    machine = {
        "kernel": str(image.kernel),
        "initramfs": str(image.initramfs),
        "kernel_arguments": "root=/dev/vda rw",
        "memory": MEMORY,
        "disks": [{"name": "root", "path": str(image.disk)}],
        "mode": mode,
        **intervals,
    }
    return with_copied_disks(machine, folder)


class DatabaseClient:
    """Commits transactions with a guest until it is told to end.

    Args:
        guest: That with the database.
        stderr: Where it says how it goes.
        clients: How many commit at the same time.
    """

    def __init__(self, guest: Guest, stderr: Any = subprocess.DEVNULL, clients: int = 1) -> None:
        check_installed()
        self._guest = guest
        argv = [sys.executable, "-m", "stealtime.hosts.database.client", guest.ip_address]
        argv += ["--wait", f"{_ANSWERS_WITHIN_S:g}", "--clients", str(clients)]
        self.process = guest.waiting.client.start(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)

    def await_begin(self) -> None:
        """Wait until it has begun to commit: it says nothing before the server answers.

        Raises:
            StealtimeError: The server does not answer.
        """
        until = time.monotonic() + _ANSWERS_WITHIN_S
        while not self._server_answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise self._guest.waiting.failure("the database in the guest does not answer")
            time.sleep(0.5)

    def _server_answers(self) -> bool:
        script = f"exec 3<>/dev/tcp/{self._guest.ip_address}/{PORT}"
        try:
            return finished_at(self._guest.waiting.client, ["bash", "-c", script], 5, "no answer").returncode == 0
        except StealtimeError:
            return False

    def end(self) -> Seen:
        """Have it look for all that it was told, and end; give what it has seen.

        Raises:
            StealtimeError: It gave no result.
        """
        try:
            output, _ = self.process.communicate(timeout=_ENDS_WITHIN_S)
            return Seen(**json.loads(output))
        except (ValueError, subprocess.TimeoutExpired) as error:
            raise self._guest.waiting.failure(
                f"the client of the database gave no result ({self.process.poll()})"
            ) from error
        finally:
            self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def check_installed() -> None:
    """See that the client's library is installed.

    Raises:
        StealtimeError: It is not.
    """
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise StealtimeError("the client of the database needs psycopg", hint=_EXTRA_HINT) from error
