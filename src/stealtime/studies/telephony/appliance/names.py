"""What the name server is told: an authoritative nsd with one zone, whose SRV records lead phones to the fronts.

Phones that leave the transport to the domain ask for NAPTR first (RFC 3263, section 4.1).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from stealtime.studies.telephony.appliance.configuration import (
    CONFIGURATION_FOLDER,
    SERVE,
    SIP_PORT,
    serve_script,
)
from stealtime.studies.telephony.appliance.root import NSD, Role

DOMAIN = "telephony.test"
"""Of all phones; nobody else can have a name below ``test`` (RFC 2606)."""

_ZONE = "zone"
_TTL_S = 60


@dataclass(frozen=True, kw_only=True)
class Front:
    """How phones are led to a front (RFC 2782).

    Attributes:
        name: Its host name below the domain.
        address: Its IPv4 address.
        priority: Fronts of a higher number are asked only if those of a lower one do not answer.
        weight: Its share of the phones among those of the same priority.
    """

    name: str
    address: str
    priority: int = 10
    weight: int = 50


@dataclass(frozen=True, kw_only=True)
class NamesConfiguration:
    """The name server of a domain.

    Attributes:
        address: Its own IPv4 address.
        fronts: Those that phones are led to.
    """

    address: str
    fronts: Sequence[Front]

    @property
    def role(self) -> Role:
        return "names"

    @property
    def files(self) -> dict[str, str]:
        command = f"keep /{NSD} -d -c /{CONFIGURATION_FOLDER}/nsd.conf &"
        return {SERVE: serve_script([command]), "nsd.conf": self._server(), _ZONE: self._zone()}

    def _server(self) -> str:
        return (
            "server:\n"
            f"    ip-address: {self.address}\n"
            "    server-count: 1\n"
            '    username: ""\n'
            '    database: ""\n'
            '    pidfile: "/run/nsd.pid"\n'
            '    xfrdfile: "/run/xfrd.state"\n'
            '    zonelistfile: "/run/zones"\n'
            '    xfrdir: "/tmp"\n'
            f'    zonesdir: "/{CONFIGURATION_FOLDER}"\n'
            "remote-control:\n"
            "    control-enable: no\n"
            "zone:\n"
            f"    name: {DOMAIN}\n"
            f"    zonefile: {_ZONE}\n"
        )

    def _zone(self) -> str:
        lines = [
            f"$ORIGIN {DOMAIN}.",
            f"$TTL {_TTL_S}",
            f"@ SOA names hostmaster 1 3600 600 86400 {_TTL_S}",
            "@ NS names",
            '@ NAPTR 10 50 "s" "SIP+D2U" "" _sip._udp',
            '@ NAPTR 20 50 "s" "SIP+D2T" "" _sip._tcp',
            f"names A {self.address}",
        ]
        for front in self.fronts:
            service = f"SRV {front.priority} {front.weight} {SIP_PORT} {front.name}"
            lines += [f"{front.name} A {front.address}", f"_sip._udp {service}", f"_sip._tcp {service}"]
        return "".join(f"{line}\n" for line in lines)
