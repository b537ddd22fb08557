"""Run in the first level: one failover for each kind of fault, of a guest under KVM, with a client that counts.

The guest writes each value to its disk before it acknowledges it, and reads it again.

``python tests/kvm/failovers_inside.py TRACKER VCPUS FAULT...``; what the client saw, the guest's clocks before them
and after each, and whether it ever began anew is printed as JSON in the last line.
"""

import json
import os
import random
import sys
from dataclasses import asdict
from pathlib import Path

os.environ["STEALTIME_PROTECT_TIMING"] = "emulated"
sys.path.append(str(Path(__file__).parents[1] / "rigs"))

from failover_campaign import Campaign
from guest_clock import GuestClocks
from two_hosts import HOSTS, Counting, TwoHosts

from stealtime.hosts.counting import COUNTER
from stealtime.hosts.laboratory import Laboratory

IMAGE_BYTES = 16 << 20


def main() -> None:
    tracker, vcpus, faults = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    with Laboratory(HOSTS) as laboratory:
        image = laboratory.folder / "data.raw"
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        hosts = TwoHosts(
            laboratory,
            accelerator="kvm",
            tracker=tracker,
            vcpus=vcpus,
            interval="500ms",
            program_arguments=[*COUNTER, "disk=/dev/vda"],
            disks=[{"name": "data", "path": str(image)}],
        )
        hosts.boot()
        counting = Counting(hosts)
        campaign = Campaign(hosts, random.Random(1))  # noqa: S311 - no secret
        clocks = [GuestClocks.read(hosts)]
        for fault in faults:
            campaign.strike(fault)
            clocks.append(GuestClocks.read(hosts))
        seen = counting.end()
        mismatches = int(hosts.ask("check")["mismatches"])
        status = hosts.settled()
        resets = [event for name in HOSTS for event in hosts.events(name) if event["event"] == "guest-reset"]
    said = {
        "resets": resets,
        "mismatches": mismatches,
        "seen": seen,
        "faults": len(faults),
        "moved": campaign.moved,
        "clocks": [asdict(one) for one in clocks],
        "status": status.model_dump(mode="json"),
    }
    print(json.dumps(said))


main()
