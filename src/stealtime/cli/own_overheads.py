"""``sched verify`` without overheads that were measured before: it measures those of the machine, for seconds."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from stealtime.schedulability.overheads import OverheadModel

DURATION = "5s"
MOST_TASKS = 20
"""As many as the paper of 2013 has; of more the overheads of so many are taken."""


def measure_own(machine: str, tasks: int, busy: Sequence[int]) -> "tuple[OverheadModel | None, str]":
    """Measure a machine's overheads with as many tasks, natively on a CPU on which the program does not run.

    Tasks of our own on the program's CPU would keep it from running. A guest is booted anew.

    Args:
        machine: As ``--machine`` names it.
        tasks: Of the program.
        busy: CPUs that the program ran on; they count natively alone.

    Returns:
        The overheads, or None, and how they were measured, or why not.
    """
    if machine.startswith("ssh:"):
        return None, "the program may run on any CPU there, and tasks of our own would disturb it"
    cpu = None
    if machine == "native":
        free = sorted(os.sched_getaffinity(0) - set(busy))
        if not free:
            return None, "the program runs on every CPU that may be used, and would be disturbed"
        cpu = free[-1]
    try:
        with TemporaryDirectory(prefix="stealtime-overheads-") as folder:
            model = _measure(machine, min(max(1, tasks), MOST_TASKS), cpu, Path(folder))
    except StealtimeError as error:
        return None, error.message
    where = machine if cpu is None else f"CPU {cpu}, another one than the program's"
    return model, f"measured on {where}, for {DURATION}: the worst of all samples; a longer measurement may see worse"


def _measure(machine: str, tasks: int, cpu: int | None, folder: Path) -> "OverheadModel":
    from stealtime.campaigns.model import Campaign
    from stealtime.campaigns.session import Order
    from stealtime.cli.run import measure_order
    from stealtime.cli.sched_sources import only_one, overheads_to_analyze

    campaign = Campaign.model_validate(
        {
            "name": "overheads",
            "platforms": [machine],
            "tracing": "on",
            # Where ordinary tasks leave the CPU idle a kernel tells little of switches.
            "probes": [
                {
                    "probe": "rtload",
                    "law": ["light-uniform"],
                    "k": [tasks],
                    "over_utilized": "scale",
                    "polluters": 1,
                    "duration": DURATION,
                }
            ],
        }
    )
    order = Order(campaign, folder, ("stealtime", *sys.argv[1:]), measured_cpu=cpu)
    finished = measure_order(order, None, wait=False)
    model, _ = only_one(str(finished.folder), overheads_to_analyze(str(finished.folder), None, None))
    return model
