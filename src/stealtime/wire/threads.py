"""The agent's threads in the machine under test: where they ran, and what may have stopped one.

Generated from the Rust types. After a change of ``crates/wire``::

    UPDATE_GOLDEN=1 cargo test -p stealtime-wire
    UPDATE_GOLDEN=1 pytest tests/unit/test_message_models.py
"""

from typing import Literal

from stealtime.vocabulary.readings import Model, Unsigned


class ThreadPlacement(Model):
    """Where and how the measuring thread ran, read back from the kernel."""

    cpu: Unsigned
    """The CPU at the end of the trial."""
    cpus: list[Unsigned]
    """The CPUs that it was allowed to run on."""
    policy: str
    """``SCHED_FIFO`` or what it was instead."""
    priority: Unsigned
    thread_ids: list[Unsigned]
    """The measuring threads' ids."""


RealTimeLimitKind = Literal["rt_throttling", "fair_server"]
"""The limits that there are.

- ``rt_throttling``: ``sched_rt_runtime_us`` is used up.
- ``fair_server``: Ordinary threads that starve are served, since Linux 6.12.
"""


class RealTimeLimit(Model):
    """What may have stopped a busy real-time thread once in a period: its machine's own kernel."""

    kind: RealTimeLimitKind
    pause_ns: Unsigned
    """For how long at most."""
    period_ns: Unsigned
    unseen: str | None = None
    """Why it was not seen when it did so; none where events ``ordinary`` tell."""


ThreadRole = Literal["probe", "agent", "injection"]
"""What a thread of the agent is for.

- ``injection``: It disturbs, as asked.
"""


class MachineThread(Model):
    """A thread of the agent in the machine under test."""

    id: Unsigned
    """As the machine's kernel counts."""
    name: str
    """Its name in the machine's kernel."""
    role: ThreadRole
    """What it is for."""
    thread_pointer: Unsigned
    """The base of its FS segment, by which the host of a User-Mode Linux guest knows it."""
