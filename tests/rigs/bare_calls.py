"""A caller and phones of a few lines, which see what SIPp hides: who relays, what comes twice, what a CANCEL reaches.

Run as a program in the client's namespace, with the client's address, that of a server and what to do (``register``,
``ask``, ``call``, ``invite``), and the users' names; it prints what was heard of each user as JSON.
"""

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stealtime.hosts.laboratory import CLIENT, Laboratory

_CALLER_PORT, _PHONE_PORT = 5999, 5998
_WITHIN_S = 5.0
_ON_ITS_WAY_S = 0.3
_NOTHING_FOR_S = 1.2
"""A server that was not acknowledged repeats its answer after half a second (RFC 3261, timer G)."""


@dataclass(frozen=True)
class HeardCalls:
    """What became of three calls to a user: a busy one, one that was given up, one that was answered."""

    relays: list[str]
    """The servers that its INVITE came through, the last one first."""
    busy: list[str]
    """What the phone and then the caller heard after the phone had said 486 and the caller had acknowledged that."""
    given_up: list[str]
    """What the phone heard when the caller cancelled, then the answer to the INVITE."""
    answered: list[str]
    """What the phone heard after its 200, and what answered the BYE."""


def register(laboratory: Laboratory, server: str, users: Sequence[str]) -> list[str]:
    """Register users at a server; give what each heard."""
    return list(_run(laboratory, server, "register", users))


def ask(laboratory: Laboratory, server: str, users: Sequence[str]) -> list[list[str]]:
    """Ask a server for the contacts of users; give the lines of each answer."""
    return [list(lines) for lines in _run(laboratory, server, "ask", users)]


def call(laboratory: Laboratory, server: str, users: Sequence[str]) -> dict[str, HeardCalls]:
    """Call registered users by way of a server."""
    return {user: HeardCalls(**heard) for user, heard in dict(_run(laboratory, server, "call", users)).items()}


def invite(laboratory: Laboratory, server: str, user: str, *headers: str) -> str:
    """Call a user once; give the first final answer, or the method that reached a phone."""
    return str(_run(laboratory, server, "invite", [user, *headers]))


def _run(laboratory: Laboratory, server: str, what: str, words: Sequence[str]) -> Any:
    argv = [sys.executable, __file__, laboratory.client.address("clients"), server, what, *words]
    running = laboratory.start(CLIENT, argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said, complaint = running.communicate(timeout=60 + 20 * len(words))
    assert running.returncode == 0, complaint.decode()
    return json.loads(said)


class _Calls:
    def __init__(self, address: str, server: str) -> None:
        self._address, self._server = address, server
        self._caller, self._phone = self._socket(_CALLER_PORT), self._socket(_PHONE_PORT)

    def register(self, user: str) -> str:
        contact = f"Contact: <sip:{user}@{self._address}:{_PHONE_PORT}>"
        call = f"register-{user}"
        self._send(self._request("REGISTER", user, call, contact, "Expires: 600"))
        return _first_line(self._final_answer(call, "REGISTER"))

    def ask(self, user: str) -> list[str]:
        call = f"ask-{user}-{time.monotonic_ns()}"
        self._send(self._request("REGISTER", user, call))
        return _headers(self._final_answer(call, "REGISTER"), "Contact")

    def invite(self, user: str, *headers: str) -> str:
        call = f"invite-{user}-{len(headers)}"
        self._send(self._request("INVITE", user, call, *headers))
        reached = self._listen(self._phone, call, _NOTHING_FOR_S, "INVITE")
        if reached is not None:
            # Else it would be sent again, and be taken for the next one.
            self._answer(reached, "486 Busy Here")
        answer = _first_line(self._final_answer(call, "INVITE"))
        self._send(self._request("ACK", user, call, tag=";tag=phone"))
        return answer if reached is None else "INVITE"

    def call(self, user: str) -> HeardCalls:
        relays, busy = self._call_busy(user)
        return HeardCalls(relays, busy, self._call_and_give_up(user), self._call_answered(user))

    def _call_busy(self, user: str) -> tuple[list[str], list[str]]:
        call = f"busy-{user}"
        self._send(self._request("INVITE", user, call))
        invited = self._hear(self._phone, call, "INVITE")
        vias = [re.findall(r"UDP ([0-9.]+)", line)[0] for line in _headers(invited, "Via")]
        self._answer(invited, "486 Busy Here")
        self._hear(self._phone, call, "ACK")
        heard = ["ACK", _first_line(self._final_answer(call, "INVITE"))]
        self._send(self._request("ACK", user, call, tag=";tag=phone"))
        # A second 486 may have been on its way; one that comes after it has not met the acknowledgement.
        self._listen(self._caller, call, _ON_ITS_WAY_S, "486 INVITE")
        again = self._listen(self._caller, call, _NOTHING_FOR_S, "486 INVITE")
        return vias[:-1], heard if again is None else [*heard, _first_line(again)]

    def _call_and_give_up(self, user: str) -> list[str]:
        call = f"given-up-{user}"
        self._send(self._request("INVITE", user, call))
        invited = self._hear(self._phone, call, "INVITE")
        self._answer(invited, "180 Ringing")
        self._hear(self._caller, call, "180 INVITE")
        self._send(self._request("CANCEL", user, call))
        self._answer(self._hear(self._phone, call, "CANCEL"), "200 OK")
        self._answer(invited, "487 Request Terminated")
        self._hear(self._phone, call, "ACK")
        answer = _first_line(self._final_answer(call, "INVITE"))
        self._send(self._request("ACK", user, call, tag=";tag=phone"))
        return ["CANCEL", "ACK", answer]

    def _call_answered(self, user: str) -> list[str]:
        call = f"answered-{user}"
        self._send(self._request("INVITE", user, call))
        self._answer(self._hear(self._phone, call, "INVITE"), "200 OK")
        accepted = self._final_answer(call, "INVITE")
        routes = [line.replace("Record-Route", "Route") for line in reversed(_headers(accepted, "Record-Route"))]
        for method in ("ACK", "BYE"):
            request = self._request(method, user, call, *routes, tag=";tag=phone")
            own = f"{method} sip:phone@{self._address}:{_PHONE_PORT} SIP/2.0"
            self._send("\r\n".join([own, *request.split("\r\n")[1:]]))
            got = self._hear(self._phone, call, method)
        self._answer(got, "200 OK")
        return ["ACK", "BYE", _first_line(self._final_answer(call, "BYE"))]

    def _request(self, method: str, user: str, call: str, *headers: str, tag: str = "") -> str:
        # An ACK of a refusal and a CANCEL are of the same transaction as their INVITE (RFC 3261, section 17.1.1.3).
        transaction = call if method in ("INVITE", "ACK", "CANCEL") and not headers else f"{call}-{method}"
        lines = [
            f"{method} sip:{user}@telephony.test SIP/2.0",
            f"Via: SIP/2.0/UDP {self._address}:{_CALLER_PORT};branch=z9hG4bK{transaction};rport",
            "From: <sip:caller@telephony.test>;tag=caller",
            f"To: <sip:{user}@telephony.test>{tag}",
            f"Call-ID: {call}",
            f"CSeq: {2 if method == 'BYE' else 1} {method}",
            "Max-Forwards: 70",
            *headers,
            *([f"Contact: <sip:caller@{self._address}:{_CALLER_PORT}>"] if method == "INVITE" else []),
            "Content-Length: 0",
        ]
        return "\r\n".join([*lines, "", ""])

    def _answer(self, request: str, status: str) -> None:
        to = [line if ";tag=" in line else f"{line};tag=phone" for line in _headers(request, "To")]
        lines = [
            f"SIP/2.0 {status}",
            *_headers(request, "Via", "Record-Route", "From"),
            *to,
            *_headers(request, "Call-ID", "CSeq"),
            f"Contact: <sip:phone@{self._address}:{_PHONE_PORT}>",
            "Content-Length: 0",
        ]
        server = re.findall(r"UDP ([0-9.]+)", _headers(request, "Via")[0])[0]
        self._phone.sendto("\r\n".join([*lines, "", ""]).encode(), (server, 5060))

    def _send(self, request: str) -> None:
        self._caller.sendto(request.encode(), (self._server, 5060))

    def _socket(self, port: int) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((self._address, port))
        return made

    def _final_answer(self, call: str, method: str) -> str:
        return self._hear(self._caller, call, *(f"{status} {method}" for status in range(200, 700)))

    def _hear(self, at: socket.socket, call: str, *wanted: str) -> str:
        heard = self._listen(at, call, _WITHIN_S, *wanted)
        if heard is None:
            raise TimeoutError(f"{call} did not bring {wanted[0]}")
        return heard

    def _listen(self, at: socket.socket, call: str, within_s: float, *wanted: str) -> str | None:
        """Wait for a message of a call: servers' workers overtake each other, and what is slow is sent again."""
        deadline = time.monotonic() + within_s
        while (left_s := deadline - time.monotonic()) > 0:
            at.settimeout(left_s)
            try:
                message = at.recv(65535).decode()
            except TimeoutError:
                break
            if _headers(message, "Call-ID") == [f"Call-ID: {call}"] and _what(message) in wanted:
                return message
        return None


def _what(message: str) -> str:
    """Give the method of a request, the status and method of an answer."""
    first = message.split(" ", 2)
    if first[0] != "SIP/2.0":
        return first[0]
    return f"{first[1]} {_headers(message, 'CSeq')[0].split()[-1]}"


def _first_line(message: str) -> str:
    return message.split("\r\n", 1)[0].removeprefix("SIP/2.0 ")


def _headers(message: str, *names: str) -> list[str]:
    return [line for line in message.split("\r\n") if line.split(":", 1)[0] in names]


def _main(address: str, server: str, what: str, *words: str) -> None:
    calls = _Calls(address, server)
    if what == "register":
        heard: object = [calls.register(user) for user in words]
    elif what == "ask":
        heard = [calls.ask(user) for user in words]
    elif what == "call":
        heard = {user: asdict(calls.call(user)) for user in words}
    else:
        heard = calls.invite(*words)
    json.dump(heard, sys.stdout)


if __name__ == "__main__":
    _main(*sys.argv[1:])
