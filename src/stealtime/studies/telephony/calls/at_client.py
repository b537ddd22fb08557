"""Small programs of ours that run where the callers are: a module each, which reads and writes lines of text."""

import subprocess
import sys
from collections.abc import Sequence

from stealtime.hosts.client import Client
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
    process = client.start(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        out, said = process.communicate(text.encode(), timeout=within_s)
    except subprocess.TimeoutExpired:
        raise StealtimeError(f"the program {module} did not end within {within_s:g} s") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode != 0:
        raise StealtimeError(f"the program {module} failed: {said.decode(errors='replace')[-_LAST_CHARACTERS:]}")
    return [str(word) for word in out.decode().split()]
