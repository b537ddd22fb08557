"""Another machine over ssh."""

from collections.abc import Sequence
from dataclasses import dataclass

from stealtime.check.place import Answer, OnProgress
from stealtime.lab.platforms.ssh import SshPlatform


@dataclass(frozen=True)
class SshMachine:
    """See ``place.Place``."""

    platform: SshPlatform

    async def run(self, arguments: Sequence[str], on_progress: OnProgress) -> Answer:
        on_progress(f"going to {self.platform.host}")
        said: list[str] = []

        def listen(line: str) -> None:
            said.append(line)
            on_progress(line)

        exit_code, output = await self.platform.run_agent([*arguments, "--until-closed"], listen)
        return Answer(exit_code, output, tuple(said))
