"""A machine's ssh server, as a program of its own: ``ssh_server.py ADDRESS HOST_KEY AUTHORIZED_KEYS [COMMAND]``.

With a command it does as sshd does for a key with ``command=``: it runs that, whatever it is told, and says in the
environment what that was. Else it really executes what it is told, below the environment that it was started with.
Debian's server would listen on the machine under the tests' feet as soon as it is installed.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from functools import partial

import asyncssh

SSH_PORT = 22
_PIECE_BYTES = 1 << 16


async def execute(
    process: "asyncssh.SSHServerProcess[bytes]",
    environment: Mapping[str, str] | None = None,
    greeting: bytes = b"",
    forced: str | None = None,
) -> None:
    """Carry out a command; its standard input ends with the connection. A login shell may greet before it does so."""
    process.stdout.write(greeting)
    command = process.command or "true"
    if forced:
        environment = {**(os.environ if environment is None else environment), "SSH_ORIGINAL_COMMAND": command}
    child = await asyncio.create_subprocess_shell(
        forced or command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    # By hand: asyncssh's own redirection at times waits for ever for what a child that ends at once has said.
    feeding = asyncio.ensure_future(_feed(process.stdin, child.stdin))
    await asyncio.gather(_give(child.stdout, process.stdout), _give(child.stderr, process.stderr))
    process.exit(await child.wait())
    feeding.cancel()


async def _feed(source: "asyncssh.SSHReader[bytes]", child: asyncio.StreamWriter) -> None:
    try:
        while piece := await source.read(_PIECE_BYTES):
            child.write(piece)
            await child.drain()
    except (OSError, asyncssh.Error):
        pass  # either side is gone
    finally:
        child.close()


async def _give(child: asyncio.StreamReader, target: "asyncssh.SSHWriter[bytes]") -> None:
    while piece := await child.read(_PIECE_BYTES):
        try:
            target.write(piece)
            await target.drain()
        except (OSError, asyncssh.Error):
            continue  # nobody listens any more, and the child must not stand still


async def serve(address: str, host_key: str, authorized: str, forced: str | None = None) -> None:
    """Listen until the process is ended."""
    listener = await asyncssh.listen(
        address,
        SSH_PORT,
        server_host_keys=[host_key],
        authorized_client_keys=authorized,
        process_factory=partial(execute, forced=forced),
        encoding=None,
    )
    await listener.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
