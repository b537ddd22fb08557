"""Programs that are slowed down on purpose: stopped and continued by signals, again and again."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

STOPPED_S = 0.95
RUNNING_S = 0.03


@contextmanager
def slowed(find: Callable[[], Iterable[int]]) -> Iterator[None]:
    """Let processes run for 30 ms of each 980 ms only; at the end they go on.

    Args:
        find: Gives their pids, also of those that were started meanwhile.
    """
    ended = threading.Event()

    def send(number: signal.Signals) -> None:
        for pid in find():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def slow_down() -> None:
        while not ended.is_set():
            send(signal.SIGSTOP)
            ended.wait(STOPPED_S)
            send(signal.SIGCONT)
            ended.wait(RUNNING_S)

    thread = threading.Thread(target=slow_down, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        send(signal.SIGCONT)
