"""Programs that are slowed down on purpose: stopped and continued by signals, again and again."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

STOPPED_S = 0.95
RUNNING_S = 0.03
_LOOKED_EVERY_S = 0.02


@contextmanager
def slowed(find: Callable[[], Iterable[int]]) -> Iterator[None]:
    """Let processes run for 30 ms of each 980 ms only, from when there are any; at the end they go on.

    Args:
        find: Gives their pids.
    """
    ended = threading.Event()

    def slow_down() -> None:
        while not ended.is_set():
            if not (pids := list(find())):
                ended.wait(_LOOKED_EVERY_S)
                continue
            _send(pids, signal.SIGSTOP)
            ended.wait(STOPPED_S)
            _send(pids, signal.SIGCONT)
            ended.wait(RUNNING_S)

    thread = threading.Thread(target=slow_down, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
