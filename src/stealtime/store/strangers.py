"""What ``trial.json`` keeps of programs that ran meanwhile and were neither ours nor asked for."""

from pydantic import Field

from stealtime.lab.strangers.look import Stranger
from stealtime.vocabulary.readings import Model, Reading


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
    who: list[Stranger] = Field(default_factory=list)
    """Those that used most, the most first."""
