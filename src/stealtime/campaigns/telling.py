"""What a driver is busy with before it measures, told to whoever shows the progress of the run.

Trials of drivers block in threads, below what knows the run. Both are in one context, which tasks and threads inherit.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def told_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Have somebody listen to what is told by tasks and threads that are started in the context; it must be quick."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(words: str) -> None:
    """Tell what is being prepared; nothing happens where nobody listens."""
    if (listener := _listener.get()) is not None:
        listener(words)
