"""Flows that may leave before their epoch is committed, in the mode ``net+bypass``.

A flow may skip the hold only if no peer takes its packets for proof of committed state, and rolling it back harms
nobody: plain RTP that is relayed. Signalling never may, and neither may anything over TCP, whose every segment
acknowledges. Encrypted or transcoded media may not either: a relay that is rolled back would use a key stream twice; no
rule can see that, so whoever writes one vouches for it. The idea of letting media pass is that of Hlavacek and Bestak
(ICCGI 2013). The members check the same again (``crates/outputhold``).
"""

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from stealtime.vocabulary.toml_table import Table

ALWAYS_HELD: dict[int, str] = {
    53: "DNS",
    67: "DHCP",
    68: "DHCP",
    546: "DHCPv6",
    547: "DHCPv6",
    5060: "SIP",
    5061: "SIP over TLS",
}
"""UDP ports whose packets tell a peer of a state that was kept; those of ``crates/outputhold/src/bypass.rs``."""

_HIGHEST_DSCP = 63
_HIGHEST_PORT = 65535


class BypassRule(Table):
    """A table ``[[bypass]]``: a packet must match all of its keys."""

    protocol: Literal["udp"]
    """Only UDP: a TCP segment acknowledges what was received, so each one is a proof of state."""
    source_port: str | None = None
    """The guest's port, or a range of ports such as ``30000-40000``."""
    destination_port: str | None = None
    """The peer's port, or a range of ports."""
    dscp: int | None = Field(default=None, ge=0, le=_HIGHEST_DSCP)
    """The DSCP value of the guest's media packets: 46 is expedited forwarding (RFC 3246)."""

    @field_validator("protocol", mode="before")
    @classmethod
    def _harmless_protocol(cls, protocol: Any) -> Any:
        if protocol != "udp":
            raise ValueError(
                f"{protocol!r} may not bypass the hold: only udp may, since packets of other protocols are taken for "
                "proof of what the guest has done"
            )
        return protocol

    @field_validator("source_port", "destination_port", mode="before")
    @classmethod
    def _read_ports(cls, ports: Any) -> str | None:
        if ports is None:
            return None
        first, last = _range_of(ports)
        if not 1 <= first <= last <= _HIGHEST_PORT:
            raise ValueError(f"{ports!r} is not a port range: both lie in 1 to {_HIGHEST_PORT}, the lower first")
        for port, service in ALWAYS_HELD.items():
            if first <= port <= last:
                raise ValueError(
                    f"{ports!r} holds port {port} ({service}): its packets tell a peer of a state that could still be "
                    "lost, so they are always held"
                )
        return str(first) if first == last else f"{first}-{last}"

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        has_ports = self.source_port is not None or self.destination_port is not None
        if not has_ports and self.dscp is None:
            raise ValueError("a bypass rule needs source_port, destination_port or dscp: else all UDP would pass")
        if not has_ports and self.dscp == 0:
            raise ValueError(
                "dscp 0 is what unmarked packets have, so source_port or destination_port must be beside it"
            )
        return self


def _range_of(ports: Any) -> tuple[int, int]:
    """Read ``5004`` or ``"30000-40000"``."""
    match ports:
        case bool():
            pass
        case int():
            return ports, ports
        case str():
            first, separator, last = (part.strip() for part in ports.partition("-"))
            if first.isdecimal() and (last.isdecimal() or not separator):
                return int(first), int(last) if separator else int(first)
    raise ValueError(f'{ports!r} is not a port range; expected a port such as 5004, or a range such as "30000-40000"')
