"""Voice through calls that are transcoded: :mod:`.talking` at both ends, read by :mod:`.listening`."""

import json
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from stealtime.hosts.client import Client
from stealtime.studies.telephony.calls.ends import BothEnds
from stealtime.studies.telephony.calls.results import Voice
from stealtime.studies.telephony.calls.transcoding import talking
from stealtime.studies.telephony.calls.transcoding.codecs import PCMU, Codec
from stealtime.studies.telephony.calls.transcoding.listening import Records, voice_of
from stealtime.studies.telephony.calls.transcoding.talking import PACKET_NS, READY, Order
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from stealtime.studies.telephony.calls.plan import CallPlan
    from stealtime.studies.telephony.calls.relays import Destinations

_BEGINS_NS = 50_000_000
"""After both ends listen."""
_READY_WITHIN_S = 20.0
_SAID_BYTES = 300


class VoiceInTwoCodecs(BothEnds):
    """Both ends of all calls say their melodies from when it is made, each in its codec. As a context it ends both.

    Args:
        client: Where both ends are.
        plan: Of the calls.
        destinations: The relay's ports.
        duration_s: How long both ends speak.
        folder: For files.

    Raises:
        StealtimeError: An end cannot begin.
    """

    def __init__(
        self, client: Client, plan: "CallPlan", destinations: "Destinations", duration_s: float, folder: Path
    ) -> None:
        super().__init__()
        self._client = client
        self._folder = folder
        self._codecs = (PCMU, plan.phones_codec)
        self._packets = max(1, round(duration_s * 1e9 / PACKET_NS))
        ends = (
            ("callers", plan.caller_ports, destinations.of_callers),
            ("phones", plan.phones, destinations.of_phones),
        )
        try:
            for (name, ports, targets), codec in zip(ends, self._codecs, strict=True):
                self.ends[name] = self._start(name, ports, targets, codec)
            for name, process in self.ends.items():
                self._await_ready(name, process)
        except BaseException:
            self.__exit__()
            raise
        self._begins_ns = time.monotonic_ns() + _BEGINS_NS
        for process in self.ends.values():
            process.stdin.write(f"{self._begins_ns}\n".encode())
            process.stdin.close()

    def await_last_word(self) -> None:
        """Wait until all has been said; it may not have been heard yet."""
        time.sleep(max(0.0, self._last_word_s - time.monotonic()))

    def end(self) -> Voice:
        """Wait until all has been said and heard.

        Raises:
            StealtimeError: An end failed.
        """
        for name, code in self.wait_for_both(self._last_word_s).items():
            if code != 0:
                raise self._failed(name, code)
        callers, phones = (Records.read(self._folder / f"{name}.npz") for name in self.ends)
        return voice_of(callers, phones, self._codecs)

    @property
    def _last_word_s(self) -> float:
        return (self._begins_ns + self._packets * PACKET_NS) / 1e9

    def _start(self, name: str, ports: Sequence[int], targets: Sequence[str], codec: Codec) -> psutil.Popen:
        order = Order(
            address=self._client.address,
            ports=ports,
            destinations=targets,
            codec=codec.name,
            end=name,
            packets=self._packets,
        )
        path = self._folder / f"voice-of-{name}.json"
        path.write_text(json.dumps(asdict(order)))
        argv = [sys.executable, "-m", talking.__name__, str(path), str(self._folder / f"{name}.npz")]
        with (self._folder / f"{name}.log").open("wb") as err:
            return self._client.start(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err)

    def _await_ready(self, name: str, process: psutil.Popen) -> None:
        # It says one word, or ends.
        said, _, _ = select.select([process.stdout], [], [], _READY_WITHIN_S)
        if not said:
            raise StealtimeError(f"the {name} were not ready to talk within {_READY_WITHIN_S:g} s")
        if process.stdout.readline().decode().strip() != READY:
            raise self._failed(name, process.poll())

    def _failed(self, name: str, code: int | None) -> StealtimeError:
        said = (self._folder / f"{name}.log").read_text("utf-8", "replace").strip()[-_SAID_BYTES:]
        return StealtimeError(f"the {name} could not talk: {said or f'exit code {code}'}")
