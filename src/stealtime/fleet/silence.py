"""A worker that sleeps: its event loop waits in one system call until somebody speaks to it.

An idle worker of Dask wakes some 300 times a second: it looks after its memory, its event loop, its scheduler. A
coroutine that does not return keeps all of that from happening. It waits for the event loop's own epoll descriptor,
which becomes readable as soon as any of the loop's connections does (epoll(7): epoll descriptors can be nested): that
of the process that measures, which also closes when that dies, and that of the scheduler.
"""

import asyncio
import select

AWAKE_S = 0.02
"""How long the loop works on what came, before the next silence."""
SIGN_OF_LIFE_S = 0.25
"""How long it is awake for a heartbeat, which needs an answer."""
TTL_PARTS = 3
"""A sign of life is given this often within the time after which the scheduler takes a silent worker for dead."""


class CannotBeSilentError(RuntimeError):
    """The event loop has no descriptor that can be waited for."""


def loop_descriptor(loop: asyncio.AbstractEventLoop) -> int:
    """Give the descriptor that is readable when there is anything to do for a loop.

    Raises:
        CannotBeSilentError: It is no loop over epoll.
    """
    # CPython's loop has no public name for its selector; the selector's own interface has `fileno`.
    selector = getattr(loop, "_selector", None)
    fileno = getattr(selector, "fileno", None)
    if fileno is None:
        raise CannotBeSilentError(f"{type(loop).__name__} has no epoll descriptor")
    descriptor: int = fileno()
    return descriptor


def sleep_silently(descriptor: int, most_s: float) -> bool:
    """Wait, the whole process with its event loop, until somebody speaks; tell whether somebody did."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(max(1, int(most_s * 1000))))


async def silent_until(pending: "asyncio.Future[bytes]", most_s: float) -> int:
    """Be silent until a line has come.

    Args:
        pending: The line.
        most_s: How long at most at a time; then the loop works for a moment, so that the scheduler hears of us.

    Returns:
        How often the loop worked before the line had come.
    """
    descriptor = loop_descriptor(asyncio.get_running_loop())
    awake = 0
    while not pending.done():
        spoken_to = sleep_silently(descriptor, most_s)
        await asyncio.wait({pending}, timeout=AWAKE_S if spoken_to else SIGN_OF_LIFE_S)
        awake += not pending.done()
    return awake
