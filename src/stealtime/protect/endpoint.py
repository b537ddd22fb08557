"""Where a standby host listens: ``unix:/path`` on this machine, ``tcp:HOST:PORT`` on another."""

import re
from collections.abc import Sequence

from pydantic import Field, field_validator

from stealtime.vocabulary.toml_table import Table

DEFAULT_PORT = 7460
"""Of ``stealtime protect host``, where ``--to`` names only a host; unassigned at IANA (7460 to 7470)."""

LONGEST_SOCKET_PATH = 107
"""Bytes, without the final zero: ``sun_path`` of unix(7)."""

HOST_NAME = r"^[A-Za-z0-9][A-Za-z0-9.-]{0,62}$"
"""As ``crates/succession/src/names.rs`` takes it."""

_TCP = re.compile(r"tcp:(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):(?P<port>\d{1,5})")


class StandbyHost(Table):
    """A table ``[[standby_hosts]]``."""

    name: str = Field(pattern=HOST_NAME)
    """The host's name in the register; each host has only one name."""
    endpoint: str
    """``tcp:HOST:PORT`` or ``unix:/path``."""

    @field_validator("endpoint")
    @classmethod
    def _known_form(cls, endpoint: str) -> str:
        return checked_endpoint(endpoint)

    @property
    def is_local(self) -> bool:
        """Whether it listens on a socket of this machine."""
        return self.endpoint.startswith("unix:")


def checked_endpoint(endpoint: str) -> str:
    """Give an endpoint back if it is one.

    Raises:
        ValueError: It is none; the message holds it.
    """
    if endpoint.startswith("unix:"):
        path = endpoint.removeprefix("unix:")
        if not path.startswith("/"):
            raise ValueError(f"{endpoint!r} has no absolute path; expected unix:/run/stealtime/host.sock")
        if len(path.encode()) > LONGEST_SOCKET_PATH:
            raise ValueError(f"{endpoint!r} is too long: a socket's path has at most {LONGEST_SOCKET_PATH} bytes")
        return endpoint
    match = _TCP.fullmatch(endpoint)
    if match is None:
        raise ValueError(f"{endpoint!r} is not an endpoint; expected unix:/PATH or tcp:HOST:PORT")
    if not 1 <= int(match["port"]) <= 65535:
        raise ValueError(f"{endpoint!r} has the port {match['port']}; ports lie in 1 to 65535")
    return endpoint


def tcp_address(endpoint: str) -> tuple[str, int]:
    """Give the name or address, and the port, of an endpoint ``tcp:HOST:PORT``."""
    host, _, port = endpoint.removeprefix("tcp:").rpartition(":")
    return host.strip("[]"), int(port)


def parse_target(text: str, known: Sequence[StandbyHost]) -> StandbyHost:
    """Read what ``--to`` takes: a name of ``VM.toml``, ``NAME=ENDPOINT``, an endpoint, or ``HOST[:PORT]``.

    Raises:
        ValueError: It is none of these.
    """
    for host in known:
        if host.name == text:
            return host
    name, separator, endpoint = text.partition("=")
    if separator:
        return StandbyHost(name=name, endpoint=endpoint)
    if text.startswith("unix:"):
        return StandbyHost(name="local", endpoint=text)
    bare = text.removeprefix("tcp:")
    host_part, separator, port = bare.rpartition(":")
    if not separator or bare.endswith("]"):
        host_part, port = bare, str(DEFAULT_PORT)
    return StandbyHost(name=host_part.strip("[]").replace(":", "-"), endpoint=f"tcp:{host_part}:{port}")


def describe_problem(hosts: Sequence[StandbyHost], *, has_identity: bool) -> str | None:
    """Say what is wrong with reaching these hosts, or None."""
    for host in hosts:
        if not host.is_local and not has_identity:
            return (
                f"{host.endpoint} is on another host and there is no [identity]: the guest's memory would travel to "
                "whoever answers, in the clear"
            )
    return None
