"""Computes what may take long, where Ctrl-C must end it at once and somebody wants to see that it goes on."""

from collections.abc import Callable
from threading import Thread
from typing import TypeVar

from stealtime.cli.output import message_console

_Result = TypeVar("_Result")
_LOOKED_AFTER_EVERY_S = 0.1


def interruptibly(compute: Callable[[], _Result], doing: str) -> _Result:
    """Compute in a thread of its own: one long call into Rust hears no signal, and this process ends without it.

    Args:
        compute: What takes long. What it has begun must need no end of its own.
        doing: What it is, for a terminal.

    Raises:
        KeyboardInterrupt: Somebody did not want to wait.
    """
    results: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(compute())
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    with message_console().status(doing):
        thread.start()
        while thread.is_alive():
            thread.join(_LOOKED_AFTER_EVERY_S)
    if errors:
        raise errors[0]
    return results[0]
