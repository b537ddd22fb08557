"""The programs at both ends of the calls that have voice."""

import subprocess
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import psutil

from stealtime.vocabulary.errors import StealtimeError

_ENDS_WITHIN_S = 30.0
"""After the voice: a silent path is waited for, and who misses closing reports waits 10 s."""


class BothEnds:
    """As a context it ends what still runs. Who derives from it starts both in ``ends``, by their names."""

    def __init__(self) -> None:
        self.ends: dict[str, psutil.Popen] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None = None,
        _error: BaseException | None = None,
        _trace: TracebackType | None = None,
    ) -> None:
        for process in self.ends.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def wait_for_both(self, last_word_s: float) -> Mapping[str, int]:
        """Wait until both have ended; give their exit codes.

        Args:
            last_word_s: When all has been said, of the monotonic clock.

        Raises:
            StealtimeError: One does not end.
        """
        deadline = last_word_s + _ENDS_WITHIN_S
        codes = {}
        for name, process in self.ends.items():
            try:
                codes[name] = process.wait(timeout=max(0.1, deadline - time.monotonic()))
            except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
                raise StealtimeError(f"the voice of the {name} did not end within {_ENDS_WITHIN_S:g} s") from None
        return codes
