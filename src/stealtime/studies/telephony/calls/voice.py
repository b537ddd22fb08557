"""Voice through the calls: ``stealtime-agent rtp`` at both ends, and what it tells of each stream (docs/media.md)."""

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.studies.telephony.calls.numbers import FIRST_CALLER_PORT, FIRST_PHONE_PORT, STEP
from stealtime.studies.telephony.calls.results import Spread, StreamVoice, Voice
from stealtime.studies.telephony.client import Client
from stealtime.vocabulary.errors import StealtimeError

_LISTENS_WITHIN_S = 0.3
"""The receiver opens its sockets in some ms; what came before them would be counted as lost."""
_ENDS_WITHIN_S = 30.0
"""After the voice: closing reports take a second, and a receiver that misses some waits 10 s."""


class VoiceOfCalls:
    """Speaks into all calls from when it is made; ``end`` gives what the phones heard. As a context it ends both ends.

    Args:
        client: Where both ends are.
        destinations: The relay's port of each call, a line each, in the order of the calls.
        duration_s: How long each caller speaks.
        folder: For files.
    """

    def __init__(self, client: Client, destinations: str, duration_s: float, folder: Path) -> None:
        self._folder = folder
        self._duration_s = duration_s
        self.streams = destinations.count("\n")
        target = folder / "destinations"
        target.write_text(destinations)
        address = client.address
        step = ("--step", str(STEP), "--json", "--quiet")
        self._receiver = self._start(
            client,
            ["receive", f"{address}:{FIRST_PHONE_PORT}", "--streams", str(self.streams), *step],
            "received",
        )
        time.sleep(_LISTENS_WITHIN_S)
        self.began_ns = time.monotonic_ns()
        sending = ["send", "--destinations", str(target), "--from", f"{address}:{FIRST_CALLER_PORT}", *step]
        self._sender = self._start(client, [*sending, "--duration", f"{round(duration_s * 1e3)}ms"], "sent")

    def __enter__(self) -> "VoiceOfCalls":
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self._sender, self._receiver):
            if process.poll() is None:
                process.kill()
                process.wait()

    def end(self) -> Voice:
        """Wait until all has been said and heard.

        Raises:
            StealtimeError: An end failed, or what it measured is not valid.
        """
        deadline = self.began_ns / 1e9 + self._duration_s + _ENDS_WITHIN_S
        documents = []
        for process, name in ((self._sender, "sent"), (self._receiver, "received")):
            try:
                process.wait(timeout=max(0.1, deadline - time.monotonic()))
            except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
                raise StealtimeError(f"the voice of the calls did not end within {_ENDS_WITHIN_S:g} s") from None
            documents.append(self._document(name, process.returncode))
        return voice_of(*documents)

    def _start(self, client: Client, argv: list[str], name: str) -> psutil.Popen:
        with (self._folder / f"{name}.json").open("wb") as out, (self._folder / f"{name}.log").open("wb") as err:
            return client.start([str(find_agent()), "rtp", *argv], stdout=out, stderr=err)

    def _document(self, name: str, code: int) -> dict[str, Any]:
        try:
            return dict(json.loads((self._folder / f"{name}.json").read_text()))
        except ValueError:
            said = (self._folder / f"{name}.log").read_text("utf-8", "replace").strip().splitlines()
            reason = said[-1] if said else f"exit code {code}"
            raise StealtimeError(f"the voice of the calls was not {name}: {reason}") from None


def voice_of(sent: Mapping[str, Any], received: Mapping[str, Any]) -> Voice:
    """Put the documents of sender and receiver together.

    Raises:
        StealtimeError: The delays are not those of one way, on one clock.
    """
    total = received["total"]
    if total["received"] and total["delay_is"] != "one_way":
        raise StealtimeError(f"the delay of the voice is {total['delay_is']}, not that of one way")
    silence = total["longest_silence"]
    each = [_stream(stream) for stream in received["streams"]]
    return Voice(
        streams=sent["streams"],
        heard=total["streams_heard"],
        # A stream that was never heard is known to the sender alone.
        sent=sent["sent"],
        refused=sent["refused"],
        received=total["received"],
        duplicated=total["duplicated"],
        reordered=total["reordered"],
        late=total["late"],
        delay_ns=_spread(total["delay_ns"]),
        jitter_ns=None if total["jitter_max_ns"] is None else total["jitter_max_ns"]["max"],
        silence_ns=None if silence is None else silence["length_ns"],
        silence_began_ns=None if silence is None else silence["start_monotonic_ns"],
        sender_late_p99_ns=None if sent["lateness_ns"] is None else sent["lateness_ns"]["p99"],
        each=each,
        invalid=[*sent["reasons"], *received["reasons"]],
        limits=[*sent["limits"], *received["limits"]],
    )


def _stream(document: Mapping[str, Any]) -> StreamVoice:
    silence = document["longest_silence"]
    return StreamVoice(
        sent=document["sent"],
        received=document["received"],
        late=document["late"],
        reordered=document["reordered"],
        delay_ns=_spread(document["delay_ns"]),
        jitter_ns=None if document["jitter_ns"] is None else document["jitter_ns"]["max"],
        silence_ns=None if silence is None else silence["length_ns"],
        mos=document["quality"]["mos"],
    )


def _spread(document: Mapping[str, float] | None) -> Spread | None:
    return None if document is None else Spread.model_validate(dict(document))
