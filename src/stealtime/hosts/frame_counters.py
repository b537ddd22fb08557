"""How many frames links have lost, from what iproute2 prints of them."""

import json
from collections.abc import Collection


def frames_dropped_by_devices(links: str, devices: Collection[str]) -> int:
    """Give how many frames some devices have dropped, from what ``ip -json -statistics link`` prints."""
    return sum(
        int(link["stats64"][way]["dropped"])
        for link in json.loads(links)
        if link["ifname"] in devices
        for way in ("rx", "tx")
    )


def frames_dropped_by_queues(queues: str, devices: Collection[str]) -> int:
    """Give how many frames the queues of some devices have dropped, from what ``tc -json -statistics qdisc`` prints.

    That is also what filters there dropped, which the device does not count (``sch_handle_ingress`` in net/core/dev.c).
    """
    return sum(int(queue.get("drops", 0)) for queue in json.loads(queues) if queue["dev"] in devices)
