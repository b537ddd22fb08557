"""Clean-up of what a killed run left on the host, before a new run begins."""

import asyncio

from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.leftovers import clear_leftovers
from stealtime.vocabulary.errors import StealtimeError

_TIMEOUT_S = 10.0


async def put_host_right() -> None:
    """End guests of dead control planes and put back RT throttling that a killed agent had lifted.

    Raises:
        StealtimeError: The agent cannot be started or could not restore.
    """
    clear_leftovers()
    process = await asyncio.create_subprocess_exec(
        find_agent(), "restore", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise StealtimeError(f"`stealtime-agent restore` did not end within {_TIMEOUT_S:.0f} s") from None
    if process.returncode:
        lines = output.decode("utf-8", "replace").strip().splitlines() or [f"exit code {process.returncode}"]
        raise StealtimeError(
            f"what an earlier run changed cannot be put back: {lines[-1]}",
            hint="see /proc/sys/kernel/sched_rt_runtime_us; its default is 950000",
        )
