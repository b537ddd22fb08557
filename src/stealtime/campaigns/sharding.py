"""A part of a campaign's cells for each host, the same part whoever asks.

What is compared stays together: all repetitions of a cell, with tracing and without, and the same measurement on every
platform of a scenario. Otherwise the ratio to native would be that of two hosts. Which part a measurement belongs to is
a hash of its name alone, so that a host on which a platform or scenario cannot be had moves no other cell.
"""

import hashlib
import re
from collections.abc import Mapping

from stealtime.campaigns.planner import Plan
from stealtime.store.model import Cell
from stealtime.store.spread import Shard
from stealtime.vocabulary.errors import UsageError

AUTO = "auto"
_HINT = "give I/N, such as --shard 1/3 (I from 1 to N), or auto where Slurm, Kubernetes or a CI numbers its jobs"
_SHARDS_MOST = 100_000
"""More than any engine's array: Slurm's MaxArraySize is at most 4,000,001, and nobody has so many hosts."""


def parse_shard(text: str, environment: Mapping[str, str]) -> Shard:
    """Read ``I/N`` or ``auto``.

    Raises:
        UsageError: It is neither, or the environment has no number, or no count.
    """
    if text == AUTO:
        return shard_of_environment(environment)
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if match is None:
        raise UsageError(f"--shard {text} is no part of a whole", hint=_HINT)
    return _shard(f"--shard {text}", int(match[1]), int(match[2]))


def shard_of_environment(environment: Mapping[str, str]) -> Shard:
    """Take the number of this job, and how many there are, from what an engine says.

    Slurm numbers as the user says (``--array=5-15:5``), Kubernetes from 0, GitLab and Knapsack from 1 and CircleCI,
    which has another name for the count, from 0. Kubernetes does not tell a pod how many there are: the Job gives
    ``JOB_COMPLETIONS``.

    Raises:
        UsageError: No engine is there, several are, or it does not say how many jobs there are.
    """
    found = [name for name in ("SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "CI_NODE_INDEX") if name in environment]
    if "CIRCLE_NODE_INDEX" in environment:
        found.append("CIRCLE_NODE_INDEX")
    if not found:
        raise UsageError(
            "--shard auto: none of SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX, CI_NODE_INDEX and CIRCLE_NODE_INDEX "
            "is set",
            hint="start it as a job of an array, or give --shard I/N",
        )
    if len(found) > 1:
        raise UsageError(
            f"--shard auto: {' and '.join(found)} are set, and they may differ", hint="give --shard I/N yourself"
        )
    name = found[0]
    if name == "SLURM_ARRAY_TASK_ID":
        return _of_slurm(environment)
    count_name, base = {
        "JOB_COMPLETION_INDEX": ("JOB_COMPLETIONS", 0),
        "CI_NODE_INDEX": ("CI_NODE_TOTAL", 1),
        "CIRCLE_NODE_INDEX": ("CIRCLE_NODE_TOTAL", 0),
    }[name]
    count = _number(environment, count_name, f"{name} is set")
    number = _number(environment, name, "it is set")
    return _shard(f"--shard auto: {name}={number}, {count_name}={count}", number - base + 1, count)


def shard_number(cell: Cell, count: int) -> int:
    """Give which of ``count`` parts a cell belongs to, from 1."""
    together = f"{cell.scenario}\n{cell.untraced.measurement}"
    return int.from_bytes(hashlib.sha256(together.encode()).digest()[:8]) % count + 1


def plan_of_shard(planned: Plan, shard: Shard) -> Plan:
    """Leave of a plan the cells of one part; it may be left without any."""
    return planned.without(
        {one.trial_id for one in planned.cells if shard_number(one.cell, shard.count) != shard.index}
    )


def _of_slurm(environment: Mapping[str, str]) -> Shard:
    because = "SLURM_ARRAY_TASK_ID is set"
    number = _number(environment, "SLURM_ARRAY_TASK_ID", "it is set")
    count = _number(environment, "SLURM_ARRAY_TASK_COUNT", because)
    first = _number(environment, "SLURM_ARRAY_TASK_MIN", because)
    last = _number(environment, "SLURM_ARRAY_TASK_MAX", because)
    step = int(environment.get("SLURM_ARRAY_TASK_STEP", "") or 1)
    if (last - first) // step + 1 != count:
        raise UsageError(
            f"--shard auto: the array has {count} tasks from {first} to {last}, which are not numbered evenly",
            hint="use an array such as --array=1-3, or give --shard I/N",
        )
    words = f"--shard auto: task {number} of an array from {first} to {last}"
    return _shard(words, (number - first) // step + 1, count)


def _number(environment: Mapping[str, str], name: str, because: str) -> int:
    text = environment.get(name, "")
    if not re.fullmatch(r"\d{1,9}", text):
        what = "is not set" if not text else f"is {text!r}, which is no number"
        raise UsageError(
            f"--shard auto: {because}, but {name} {what}",
            hint=f"set {name} in the job, or give --shard I/N: without a count nobody knows which cells are whose",
        )
    return int(text)


def _shard(words: str, index: int, count: int) -> Shard:
    if not 1 <= index <= count:
        raise UsageError(f"{words} is no part of a whole", hint=_HINT)
    if count > _SHARDS_MOST:
        raise UsageError(f"{words}: {count} parts are more than {_SHARDS_MOST}", hint="use fewer")
    return Shard(index=index, count=count)
