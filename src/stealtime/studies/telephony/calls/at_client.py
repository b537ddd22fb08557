"""Small programs of ours that run where the callers are: a module each, which reads and writes lines of text."""

import sys
from collections.abc import Sequence

from stealtime.hosts.client import Client, finished_at
from stealtime.vocabulary.errors import StealtimeError

_LAST_CHARACTERS = 200


def ask_at_client(client: Client, module: str, arguments: Sequence[str], text: str, within_s: float) -> list[str]:
    """Run a module at the client; give the words that it prints.

    Args:
        client: Where.
        module: By its full name.
        arguments: Of its command line.
        text: What it reads from standard input.
        within_s: When it is ended at the latest.

    Raises:
        StealtimeError: It failed, or did not end in time.
    """
    argv = [sys.executable, "-m", module, *arguments]
    ended = finished_at(client, argv, within_s, f"the program {module} did not end", text.encode())
    if ended.returncode != 0:
        raise StealtimeError(
            f"the program {module} failed: {ended.stderr.decode(errors='replace')[-_LAST_CHARACTERS:]}"
        )
    return [str(word) for word in ended.stdout.decode().split()]
