"""Two hosts whose members talk over lines that can be spoiled."""

import random
from pathlib import Path
from typing import Any

from spoiled_line import SpoiledLine
from two_hosts import TwoHosts

from stealtime.protect.endpoint import StandbyHost
from stealtime.protect.host_file import HostFile, host_spec
from stealtime.protect.laboratory import GUEST_BRIDGE, Laboratory
from stealtime.protect.specification import write_document


class SpoiledHosts(TwoHosts):
    """Their members talk over unix sockets: TLS would notice by itself."""

    def __init__(self, laboratory: Laboratory, chance: random.Random, **machine: Any) -> None:
        self.lines: dict[str, SpoiledLine] = {}
        self._chance = chance
        super().__init__(laboratory, identity=None, **machine)

    def line_to(self, name: str) -> SpoiledLine:
        """Give the line over which a host is reached."""
        return self.lines[name]

    def _describe_host(self, name: str) -> StandbyHost:
        daemon = HostFile(name=name, bridge=GUEST_BRIDGE, register_=self._register, allow_faults=True)
        folder = self.state.host(name)
        write_document(folder.config, host_spec(daemon, self.state))
        line = Path(self.laboratory.folder / f"to-{name}.sock")
        self.lines[name] = SpoiledLine(line, folder.socket, self._chance)
        return StandbyHost(name=name, endpoint=f"unix:{line}")
