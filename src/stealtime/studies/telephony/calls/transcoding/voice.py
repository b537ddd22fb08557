"""Voice through calls that are transcoded: :mod:`.talking` at both ends, read by :mod:`.listening`."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from stealtime.hosts.client import Client
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
_ENDS_WITHIN_S = 30.0
"""After the voice: a silent path is waited for, and all is written down."""
_SAID_BYTES = 300


class VoiceInTwoCodecs:
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
        self._client = client
        self._folder = folder
        self._codecs = (PCMU, plan.phones_codec)
        self._packets = max(1, round(duration_s * 1e9 / PACKET_NS))
        ends = (
            ("callers", plan.caller_ports, destinations.of_callers),
            ("phones", plan.phones, destinations.of_phones),
        )
        self._ends: dict[str, psutil.Popen] = {}
        try:
            for (name, ports, targets), codec in zip(ends, self._codecs, strict=True):
                self._ends[name] = self._start(name, ports, targets, codec)
            for name, process in self._ends.items():
                self._await_ready(name, process)
        except BaseException:
            self.__exit__()
            raise
        self._begins_ns = time.monotonic_ns() + _BEGINS_NS
        for process in self._ends.values():
            process.stdin.write(f"{self._begins_ns}\n".encode())
            process.stdin.close()

    def __enter__(self) -> "VoiceInTwoCodecs":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._ends.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def await_last_word(self) -> None:
        """Wait until all has been said; it may not have been heard yet."""
        last_ns = self._begins_ns + self._packets * PACKET_NS
        time.sleep(max(0.0, (last_ns - time.monotonic_ns()) / 1e9))

    def end(self) -> Voice:
        """Wait until all has been said and heard.

        Raises:
            StealtimeError: An end failed.
        """
        deadline = self._begins_ns / 1e9 + self._packets * PACKET_NS / 1e9 + _ENDS_WITHIN_S
        for name, process in self._ends.items():
            try:
                code = process.wait(timeout=max(0.1, deadline - time.monotonic()))
            except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
                raise StealtimeError(f"the voice of the {name} did not end within {_ENDS_WITHIN_S:g} s") from None
            if code != 0:
                raise self._failed(name, code)
        callers, phones = (Records.read(self._folder / f"{name}.npz") for name in self._ends)
        return voice_of(callers, phones, self._codecs)

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
        deadline = time.monotonic() + _READY_WITHIN_S
        # It says one word, or ends.
        if process.stdout.readline().decode().strip() != READY or time.monotonic() > deadline:
            raise self._failed(name, process.poll())

    def _failed(self, name: str, code: int | None) -> StealtimeError:
        said = (self._folder / f"{name}.log").read_text("utf-8", "replace").strip()[-_SAID_BYTES:]
        return StealtimeError(f"the {name} could not talk: {said or f'exit code {code}'}")
