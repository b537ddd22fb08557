"""Other processes of this program beside this one, for work that is cut into shares.

They are programs of their own (``python -m stealtime.merging.processes``) that get shares over a socket. Forked ones
might hold a lock of a thread that they do not have; those that ``multiprocessing`` begins run the caller's script once
more, which a script that calls us as a library need not expect.
"""

import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, TypeVar

from stealtime.vocabulary.errors import StealtimeError

_SHARES_A_PROCESS = 4
"""Whoever is done takes the next one: the more there are, the less anybody waits in the end."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Processes:
    """This process and some others."""

    def __init__(self, others: Sequence[Connection]) -> None:
        self._others = others

    def map(self, function: Callable[[Sequence[_Item]], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Call a function of a module with shares of some items; gives what it returned, in any order.

        Raises:
            StealtimeError: It was raised, or a process ended.
            OSError: It was raised.
        """
        if not self._others:
            return [function(items)]
        count = min(_SHARES_A_PROCESS * (len(self._others) + 1), len(items))
        shares = deque(items[begin::count] for begin in range(count))
        results: list[_Result] = []
        errors: list[Exception] = []
        threads = [Thread(target=_ask, args=(one, function, shares, results, errors)) for one in self._others]
        for thread in threads:
            thread.start()
        try:
            while not errors:
                try:
                    share = shares.popleft()
                except IndexError:
                    break
                results.append(function(share))
        finally:
            shares.clear()
            for thread in threads:
                thread.join()
        if errors:
            raise errors[0]
        if len(results) != count:
            raise StealtimeError(f"of {count} shares of the work {len(results)} came back", hint="please report it")
        return results


@contextmanager
def processes(count: int) -> Iterator[Processes]:
    """Give this process and as many more as make ``count``; they end when this does."""
    begun: list[subprocess.Popen[bytes]] = []
    others: list[Connection] = []
    try:
        for _ in range(count - 1):
            ours, theirs = socket.socketpair()
            with theirs:
                command = [sys.executable, "-m", __name__, str(theirs.fileno())]
                # Ctrl-C is for this process, which lets the others end what they are at.
                options: dict[str, Any] = {"pass_fds": [theirs.fileno()], "start_new_session": True}
                begun.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **options))
            others.append(Connection(ours.detach()))
        yield Processes(others)
    finally:
        # Which is how they know that there is no more.
        for other in others:
            other.close()
        for process in begun:
            process.wait()


def _ask(
    other: Connection,
    function: Callable[..., Any],
    shares: "deque[Any]",
    results: list[Any],
    errors: list[Exception],
) -> None:
    with suppress(IndexError):
        while not errors:
            share = shares.popleft()
            try:
                other.send((function, share))
                error, result = other.recv()
            except (EOFError, OSError) as reason:
                ended = f"a process that helped has ended: {str(reason) or 'without a word'}"
                errors.append(
                    StealtimeError(ended, hint="the memory may have been full; merge again, nothing was kept")
                )
                return
            if error is not None:
                errors.append(StealtimeError(error[0], hint=error[1]) if isinstance(error, tuple) else error)
                return
            results.append(result)


def _serve(asking: Connection) -> None:
    """Do what comes, until there is no more."""
    with suppress(EOFError, ConnectionResetError, BrokenPipeError):
        while True:
            function, share = asking.recv()
            try:
                answer = None, function(share)
            except StealtimeError as error:
                asking.send(((error.message, error.hint), None))
            except OSError as error:
                asking.send((error, None))
            else:
                asking.send(answer)


if __name__ == "__main__":
    _serve(Connection(int(os.fsdecode(sys.argv[1]))))
