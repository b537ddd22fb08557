"""QEMU's real guest agent on this machine, on a unix socket: what runs in a guest, without the guest."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


@asynccontextmanager
async def guest_agent(folder: Path, temporary: Path, *options: str) -> AsyncIterator[Path]:
    """Give its socket while it runs.

    Args:
        folder: For its socket and state.
        temporary: Its ``$TMPDIR``, where it shows what is left behind.
        options: More of ``qemu-ga``, such as what it blocks.
    """
    path = folder / "guest-agent.sock"
    process = await asyncio.create_subprocess_exec(
        "qemu-ga",
        *("--method", "unix-listen", "--path", str(path), "--statedir", str(folder), *options),
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(10):
            while not path.exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.02)
        yield path
    finally:
        process.terminate()
        await process.wait()
