"""Somebody's program: how it is started, and its threads, as the machine's kernel tells of them.

Generated from the Rust types. After a change of ``crates/wire``::

    UPDATE_GOLDEN=1 cargo test -p stealtime-wire
    UPDATE_GOLDEN=1 pytest tests/unit/test_message_models.py
"""

from typing import Literal

from pydantic import Field

from stealtime.vocabulary.readings import Model, Unsigned


class ProgramStarted(Model):
    """The answer to ``StartProgram``."""

    type: Literal["program_started"] = "program_started"
    process: Unsigned
    """As the agent's ``/proc`` counts."""


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


class ThreadsListed(Model):
    """The answer to ``ListThreads``."""

    type: Literal["threads_listed"] = "threads_listed"
    process: Unsigned
    threads: list[ProgramThread]
    """None once it has ended."""


class StartProgram(Model):
    """Start a program, whose output goes to the agent's log. It ends with the agent."""

    type: Literal["start_program"] = "start_program"
    arguments: list[str] = Field(min_length=1)
    """The program and its arguments; ``stealtime-agent`` is the agent itself."""


class ListThreads(Model):
    """Tell of the threads of a process and of all that it started."""

    type: Literal["list_threads"] = "list_threads"
    process: Unsigned
    """As the agent's ``/proc`` counts."""
