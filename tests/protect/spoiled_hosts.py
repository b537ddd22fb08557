"""Two hosts whose members talk over lines that can be spoiled."""

import random
from typing import Any

from spoiled_line import SpoiledLine
from two_hosts import TwoHosts

from stealtime.hosts.laboratory import Laboratory
from stealtime.hosts.namespace_testbed import NamespaceTestbed
from stealtime.protect.endpoint import StandbyHost


class SpoiledTestbed(NamespaceTestbed):
    """Members talk over unix sockets: TLS would notice by itself."""

    def __init__(self, laboratory: Laboratory, chance: random.Random) -> None:
        self.lines: dict[str, SpoiledLine] = {}
        self._chance = chance
        super().__init__(laboratory, allow_faults=True)

    def describe(self, name: str) -> StandbyHost:
        self.tell(name)
        line = self.laboratory.folder / f"to-{name}.sock"
        self.lines[name] = SpoiledLine(line, self.state.host(name).socket, self._chance)
        return StandbyHost(name=name, endpoint=f"unix:{line}")


class SpoiledHosts(TwoHosts):
    """Each is reached over a line that can be spoiled."""

    def __init__(self, laboratory: Laboratory, chance: random.Random, **machine: Any) -> None:
        testbed = SpoiledTestbed(laboratory, chance)
        self.lines = testbed.lines
        super().__init__(laboratory, testbed=testbed, identity=None, **machine)

    def line_to(self, name: str) -> SpoiledLine:
        """Give the line over which a host is reached."""
        return self.lines[name]
