"""A REGISTER of a phone of our own, and what answers it (RFC 3261). Sans-IO: bytes in, bytes out."""

from dataclasses import dataclass

T1_S = 0.5
_T2_S = 4.0
"""RFC 3261, table 4."""
_MAGIC = "z9hG4bK"
"""What every branch begins with (RFC 3261, section 8.1.1.7)."""
_END_OF_HEADERS = b"\r\n\r\n"


@dataclass(frozen=True)
class Response:
    """An answer."""

    status: int
    branch: str
    """Of the topmost Via: of the request that it answers."""


@dataclass(frozen=True)
class Request:
    """A phone's registration, to one of its targets after the other.

    It is the same to each but for the branch (RFC 3263, section 4.3) and the CSeq, which rises with each REGISTER of a
    Call-ID (RFC 3261, section 10.2): the first one may have been carried out, and only its answer been lost. A
    registrar refuses the same CSeq then (section 10.3; Kamailio does so after 20 s).

    Attributes:
        user: The phone's name.
        domain: Its own.
        address: Its IPv4 address.
        contact_port: Where it would be called.
    """

    user: str
    domain: str
    address: str
    contact_port: int = 5070

    def branch(self, number: int) -> str:
        """Name the transaction with one of its targets, which no other one has."""
        return f"{_MAGIC}-{self.user}-{number}"

    def text(self, number: int, protocol: str, port: int) -> bytes:
        """Write it.

        Args:
            number: Of the target, from 0 on.
            protocol: ``udp`` or ``tcp``.
            port: That it is sent from.
        """
        lines = (
            f"REGISTER sip:{self.domain} SIP/2.0",
            f"Via: SIP/2.0/{protocol.upper()} {self.address}:{port};branch={self.branch(number)};rport",
            f"From: <sip:{self.user}@{self.domain}>;tag={self.user}",
            f"To: <sip:{self.user}@{self.domain}>",
            f"Call-ID: {self.user}@{self.address}",
            f"CSeq: {number + 1} REGISTER",
            f"Contact: <sip:{self.user}@{self.address}:{self.contact_port}>",
            "Max-Forwards: 70",
            "Expires: 3600",
            "Content-Length: 0",
            "",
            "",
        )
        return "\r\n".join(lines).encode()


def resent_after_s(timer_f_s: float) -> list[float]:
    """Give when a request over UDP is sent again, in seconds after it was sent first (RFC 3261, timer E).

    Args:
        timer_f_s: When its client gives up.
    """
    times: list[float] = []
    pause_s, at_s = T1_S, T1_S
    while at_s < timer_f_s:
        times.append(at_s)
        pause_s = min(2 * pause_s, _T2_S)
        at_s += pause_s
    return times


def parse_response(message: bytes) -> Response | None:
    """Read a whole message; None if it is no answer to a request of ours."""
    head, *lines = message.partition(_END_OF_HEADERS)[0].decode("utf-8", "replace").split("\r\n")
    version, _, rest = head.partition(" ")
    status = rest[:3]
    via = _header(lines, "via", "v")
    if version != "SIP/2.0" or not status.isdigit() or via is None:
        return None
    branch = next((part[len("branch=") :] for part in via.split(";") if part.startswith("branch=")), None)
    return None if branch is None else Response(int(status), branch.partition(",")[0])


class ResponseReader:
    """Takes answers out of a stream, by their lengths (RFC 3261, section 18.3)."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> list[Response]:
        """Take what came; give the answers that are whole."""
        self._held += data
        found = []
        while (end := self._held.find(_END_OF_HEADERS)) >= 0:
            lines = self._held[:end].decode("utf-8", "replace").split("\r\n")
            whole = end + len(_END_OF_HEADERS) + int(_header(lines, "content-length", "l") or 0)
            if len(self._held) < whole:
                break
            message, self._held = self._held[:whole], self._held[whole:]
            if (response := parse_response(message)) is not None:
                found.append(response)
        return found


def _header(lines: list[str], *names: str) -> str | None:
    """Give the first value of a header, by its long or its compact name."""
    for line in lines:
        name, separator, value = line.partition(":")
        if separator and name.strip().lower() in names:
            return value.strip()
    return None
