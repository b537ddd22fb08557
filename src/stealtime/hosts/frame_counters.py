"""How many frames links have passed and lost, from what iproute2 prints of them."""

import json
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Traffic:
    """What a link has passed since the beginning, or between two moments, both ways."""

    packets_sent: int
    """By who has the link."""
    packets_received: int
    bytes_sent: int
    bytes_received: int

    def since(self, earlier: "Traffic") -> "Traffic":
        return Traffic(
            self.packets_sent - earlier.packets_sent,
            self.packets_received - earlier.packets_received,
            self.bytes_sent - earlier.bytes_sent,
            self.bytes_received - earlier.bytes_received,
        )


def traffic_of_device(links: str, device: str) -> Traffic:
    """Give what a device has passed, from what ``ip -json -statistics link`` prints.

    Raises:
        KeyError: There is no such device.
    """
    for link in json.loads(links):
        if link["ifname"] == device:
            sent, received = link["stats64"]["tx"], link["stats64"]["rx"]
            return Traffic(int(sent["packets"]), int(received["packets"]), int(sent["bytes"]), int(received["bytes"]))
    raise KeyError(device)


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
