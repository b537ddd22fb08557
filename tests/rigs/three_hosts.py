"""A protected guest that has three hosts: where two of them go down, one is left."""

from typing import Any

from two_hosts import TwoHosts

from stealtime.hosts.laboratory import Laboratory
from stealtime.hosts.namespace_testbed import HOSTS, NamespaceTestbed

THIRD = "c"
ALL_HOSTS = (*HOSTS, THIRD)


class ThreeHosts(TwoHosts):
    """The guest begins on ``a``; ``b`` stands by before ``c`` does.

    Args:
        laboratory: Where; it has all three hosts.
        machine: What is different from the usual machine, as in ``VM.toml``.
    """

    def __init__(self, laboratory: Laboratory, **machine: Any) -> None:
        testbed = NamespaceTestbed(laboratory, allow_faults=True)
        testbed.admit(THIRD)
        hosts = {host.name: host.model_dump() for host in testbed.hosts}
        standby_hosts = [hosts[name] for name in (*HOSTS[1:], THIRD, HOSTS[0])]
        super().__init__(laboratory, testbed=testbed, **{"standby_hosts": standby_hosts, **machine})
        self.hosts = [testbed.host(name) for name in ALL_HOSTS]

    def stop(self) -> None:
        """End the guest wherever it runs, so that the next one finds nothing of it."""
        for name in ALL_HOSTS:
            self.laboratory.power_off(name)
