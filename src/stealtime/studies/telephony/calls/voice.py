"""Voice through the calls: ``stealtime-agent rtp talk`` at both ends (docs/media.md), read by :mod:`.heard`."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from stealtime.hosts.client import Client
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.studies.telephony.calls.ends import BothEnds
from stealtime.studies.telephony.calls.heard import voice_of
from stealtime.studies.telephony.calls.plan import FIRST_CALLER_PORT, FIRST_PHONE_PORT, STEP
from stealtime.studies.telephony.calls.relays import Destinations
from stealtime.studies.telephony.calls.results import Voice
from stealtime.studies.telephony.calls.urgency import priority_granted
from stealtime.vocabulary.errors import StealtimeError

LEAD_S = 0.5
"""Both ends listen for so long before they speak: what came before the other one's sockets are open would be lost."""


class VoiceOfCalls(BothEnds):
    """Both ends of all calls speak from when it is made; ``end`` gives what they heard. As a context it ends both.

    Args:
        client: Where both ends are.
        destinations: The relay's ports.
        duration_s: How long both ends speak.
        folder: For files.
        first: The number of the first call; those of the others follow.
    """

    def __init__(
        self, client: Client, destinations: Destinations, duration_s: float, folder: Path, *, first: int = 0
    ) -> None:
        super().__init__()
        self._client = client
        self._folder = folder
        self._duration_s = duration_s
        try:
            self.ends["callers"] = self._start("callers", FIRST_CALLER_PORT + STEP * first, destinations.of_callers)
            self.ends["phones"] = self._start("phones", FIRST_PHONE_PORT + STEP * first, destinations.of_phones)
            time.sleep(LEAD_S)
        except BaseException:
            self.__exit__()
            raise
        self._began_s = time.monotonic()

    def await_last_word(self) -> None:
        """Wait until all has been said; it may not have been heard yet."""
        time.sleep(max(0.0, self._began_s + self._duration_s - time.monotonic()))

    def end(self) -> Voice:
        """Wait until all has been said and heard.

        Raises:
            StealtimeError: An end failed, or what it measured is not valid.
        """
        codes = self.wait_for_both(self._began_s + self._duration_s)
        return voice_of(*(self._document(name, code) for name, code in codes.items()))

    def _start(self, name: str, first_port: int, destinations: Sequence[str]) -> psutil.Popen:
        target = self._folder / f"relays-of-{name}"
        target.write_text("".join(f"{one}\n" for one in destinations))
        argv = [str(find_agent()), "rtp", "talk", "--destinations", str(target), "--json", "--quiet"]
        argv += ["--from", f"{self._client.address}:{first_port}", "--step", str(STEP)]
        argv += ["--lead", f"{round(LEAD_S * 1e3)}ms", "--duration", f"{round(self._duration_s * 1e3)}ms"]
        argv += ["--priority", str(priority_granted())]
        with (self._folder / f"{name}.json").open("wb") as out, (self._folder / f"{name}.log").open("wb") as err:
            return self._client.start(argv, stdout=out, stderr=err)

    def _document(self, name: str, code: int) -> dict[str, Any]:
        try:
            return dict(json.loads((self._folder / f"{name}.json").read_text()))
        except ValueError:
            said = (self._folder / f"{name}.log").read_text("utf-8", "replace").strip().splitlines()
            reason = said[-1] if said else f"exit code {code}"
            raise StealtimeError(f"the {name} could not talk: {reason}") from None
