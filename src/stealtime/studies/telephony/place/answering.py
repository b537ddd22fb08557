"""Whether a SIP server answers, asked from where its phones are by a SIPp call of its own."""

import subprocess
import time
from collections.abc import Callable

import psutil

from stealtime.hosts.client import Client
from stealtime.studies.telephony.appliance.configuration import SIP_PORT
from stealtime.studies.telephony.sipp.program import find_sipp, scenario_path
from stealtime.vocabulary.errors import StealtimeError

_ASK_S = 2
"""A call waits so long for its answer, through SIPp's own retransmissions."""
_PAUSE_S = 0.1
_COMPLAINTS = ("ERROR", "CRITICAL", "not found", "cannot", "Kernel panic")


def await_answer(
    client: Client,
    address: str,
    within_s: float,
    log_tail: Callable[[], str],
    refuse_end: Callable[[], object] = lambda: None,
) -> None:
    """Wait until a server answers OPTIONS.

    Args:
        client: Where its phones are.
        address: Its own.
        within_s: How long.
        log_tail: Gives what it wrote.
        refuse_end: Raises the error to give where what it runs in has ended: no answer will come.

    Raises:
        StealtimeError: It does not; ``log_tail`` is its note.
    """
    deadline = time.monotonic() + within_s
    while not answers(client, address):
        refuse_end()
        if time.monotonic() > deadline or client.has_ended:
            said = log_tail()
            error = StealtimeError(
                f"the SIP server at {address} does not answer within {within_s:g} s; {complaint(said)}",
                hint="what it wrote is in the log of the trial",
            )
            error.add_note(said)
            raise error
        time.sleep(_PAUSE_S)


def complaint(said: str) -> str:
    """Give the first complaint in what a server wrote last: later ones follow from it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    bad = [line for line in lines if any(word in line for word in _COMPLAINTS)]
    return f"it says: {bad[0]}" if bad else f"it wrote last: {lines[-1]}" if lines else "it wrote nothing"


def answers(client: Client, address: str) -> bool:
    """Tell whether a server answers OPTIONS within two seconds."""
    argv = [find_sipp(), f"{address}:{SIP_PORT}", "-sf", str(scenario_path("options")), "-m", "1", "-nostdin"]
    argv += ["-i", client.address, "-timeout", f"{_ASK_S}s", "-timeout_error"]
    asking = client.start(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return int(asking.wait(timeout=5 * _ASK_S)) == 0
    except psutil.TimeoutExpired:
        asking.kill()
        asking.wait()
        return False
