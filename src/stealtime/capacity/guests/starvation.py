"""Virtual CPUs that want a CPU and get none: the kernel adds a wait when it ends, so their counters stand still."""

from collections.abc import Callable, Mapping

from stealtime.capacity.counters.parsers import ThreadCounts

_LOOK_EVERY_SAMPLES = 5
"""To ask for a thread's state costs as much as to read the counters of five."""
_RUNNABLE = b"R"


class Starvation:
    """Tells which threads were runnable all the time between two samples.

    A thread that is runnable, and whose counters have not moved since, has stood in the queue all the while: to sleep
    or to stop it would have had to run. One that runs on a CPU without a tick (``nohz_full``) is brought up to date
    once a second, so it takes two samples without a move.

    Args:
        state_of: Gives a thread's state, a letter as in proc_pid_stat(5).
    """

    def __init__(self, state_of: Callable[[int], bytes]) -> None:
        self._state_of = state_of
        self._before: Mapping[int, ThreadCounts] = {}
        self._runnable: frozenset[int] = frozenset()
        self._until_look = 0

    def look(self, counts: Mapping[int, ThreadCounts]) -> frozenset[int]:
        """Give the threads that have waited since the look before.

        Args:
            counts: Of the virtual CPUs' threads, now.
        """
        before, self._before = self._before, counts
        unmoved = frozenset(tid for tid, one in counts.items() if before.get(tid) == one)
        waited = self._runnable & unmoved
        self._until_look -= 1
        if self._until_look <= 0:
            self._until_look = _LOOK_EVERY_SAMPLES
            new = frozenset(tid for tid in unmoved - waited if self._state_of(tid) == _RUNNABLE)
            self._runnable = waited | new
        else:
            self._runnable = waited
        return waited
