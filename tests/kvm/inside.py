"""Run in the first level: measures campaigns one after the other, in one process as Python starts slowly there.

``python tests/kvm/inside.py CAMPAIGNS.json RUNS``: a list of campaigns, each as its file says it; the folders of the
runs are printed, one a line, in their order.
"""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from stealtime.campaigns.events import Event
from stealtime.campaigns.model import Campaign
from stealtime.campaigns.session import Order, execute, prepare


class Unseen:
    """Nobody looks."""

    def on_event(self, event: Event) -> None:
        """Let it pass."""


async def measure(documents: list[dict[str, object]], folder: Path) -> list[Path]:
    """Measure each campaign; give the folders of the runs."""
    runs, cpus = [], os.sched_getaffinity(0)
    for document in documents:
        order = Order(campaign=Campaign.model_validate(document), runs_folder=folder, command_line=("kvm",))
        finished = await execute(order, await prepare(order), Unseen())
        runs.append(finished.folder)
        # A campaign keeps its control plane off the measured CPU.
        os.sched_setaffinity(0, cpus)
    return runs


def main() -> None:
    campaigns, destination = Path(sys.argv[1]), Path(sys.argv[2])
    # Not straight into the host's folder: a disk image without a name cannot be opened again over 9p.
    with tempfile.TemporaryDirectory(prefix="stealtime-kvm-runs-") as folder:
        for run in asyncio.run(measure(json.loads(campaigns.read_text()), Path(folder))):
            shutil.copytree(run, destination / run.name)
            print(destination / run.name)


if __name__ == "__main__":
    main()
