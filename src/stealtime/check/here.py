"""This machine."""

import asyncio
import contextlib
import signal
from collections.abc import Sequence

from stealtime.check.place import Answer, OnProgress
from stealtime.lab.platforms.agent_binary import find_agent

_END_WITHIN_S = 5.0


class ThisMachine:
    """See ``place.Place``."""

    async def run(self, arguments: Sequence[str], on_progress: OnProgress) -> Answer:
        # In a group of its own: an interruption ends our waiting, and then we end it, so that it cleans up in time. If
        # we are killed it hears that by its input.
        process = await asyncio.create_subprocess_exec(
            find_agent(),
            *arguments,
            "--until-closed",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            process_group=0,
        )
        assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018
        said: list[str] = []
        try:
            output, _ = await asyncio.gather(process.stdout.read(), _listen(process.stderr, said, on_progress))
            exit_code = await process.wait()
        finally:
            if process.returncode is None:
                await asyncio.shield(_end(process))
        return Answer(exit_code, output.decode(errors="replace"), tuple(said))


async def _listen(stderr: asyncio.StreamReader, said: list[str], on_progress: OnProgress) -> None:
    async for line in stderr:
        said.append(line.decode(errors="replace").rstrip())
        on_progress(said[-1])


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(_END_WITHIN_S):
            await process.communicate()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
