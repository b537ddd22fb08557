"""Somebody's program: its threads, as the machine's kernel tells of them.

Generated from the Rust types. After a change of ``crates/wire``::

    UPDATE_GOLDEN=1 cargo test -p stealtime-wire
    UPDATE_GOLDEN=1 pytest tests/unit/test_message_models.py
"""

from stealtime.vocabulary.readings import Model, Unsigned


class Reservation(Model):
    """What a thread under ``SCHED_DEADLINE`` has declared."""

    runtime_ns: Unsigned
    deadline_ns: Unsigned
    period_ns: Unsigned


class ProgramThread(Model):
    """A thread, and how it is scheduled."""

    id: Unsigned
    """As the machine's own trace counts threads."""
    process: Unsigned
    name: str
    policy: str
    """``SCHED_FIFO`` ..."""
    priority: Unsigned
    """Of ``SCHED_FIFO`` and ``SCHED_RR``; 0 otherwise."""
    reservation: Reservation | None = None
    """Of ``SCHED_DEADLINE``."""
    cpus: list[Unsigned]
    """Where it may run."""
    ran_ns: Unsigned | None = None
    """How long it has run, as the kernel counts; none where it does not tell."""
