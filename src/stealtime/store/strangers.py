"""What ``trial.json`` keeps of programs that ran meanwhile and were neither ours nor asked for."""

from pydantic import Field

from stealtime.vocabulary.readings import Model, Reading


class StrangerRecord(Model):
    """A program that used CPU time during a trial, and last ran on the CPUs of the machine under test."""

    name: str
    pid: int
    cpu_ns: int
    """On any CPU, in steps of 10 ms; children that ended meanwhile are in it."""
    is_kernel: bool = False
    """A thread of the kernel."""
    is_of_a_run: bool = False
    """Another run of this tool started it."""


class StrangersRecord(Model):
    """How much of its CPUs a trial did not have, from just before its request until its measuring was over."""

    cpus: list[int]
    """Of the host, where the machine may run."""
    elapsed_ns: int
    strangers_ns: Reading
    """That others' programs had these CPUs, all of them together: in clock ticks, less what ours ran there."""
    steal_ns: Reading
    """That the host's own host had them (``/proc/stat``)."""
    run_ns: Reading
    """That the machine's vCPU threads ran; natively the measuring thread."""
    run_delay_ns: Reading
    """That they were runnable without a CPU; absent where they share it with others of ours, for whom they wait too."""
    who: list[StrangerRecord] = Field(default_factory=list)
    """Those that used most, the most first."""
