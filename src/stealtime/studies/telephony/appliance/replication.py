"""What operators use today so that a host may die: two servers that tell each other, and an address that moves.

Registrations go from Kamailio to Kamailio (modules ``dmq`` and ``dmq_usrloc``), calls from rtpengine to rtpengine by
way of a store (Redis, with its keyspace notifications), and the address that phones know is moved by keepalived (VRRP).
Both servers are told to use that address also while they do not have it.
"""

from dataclasses import dataclass

from stealtime.studies.telephony.appliance.configuration import (
    CONFIGURATION_FOLDER,
    SIP_PORT,
    ServerConfiguration,
)
from stealtime.studies.telephony.appliance.root import KEEPALIVED, REPLICATION_MODULES, Role
from stealtime.vocabulary.errors import UsageError

STORE_PORT = 6379
"""Redis's own."""
_SHORTEST_ADVERTISEMENT_NS = 10_000_000
"""VRRP counts in hundredths of a second (RFC 5798, section 5.2.7)."""
_LONGEST_ADVERTISEMENT_NS = 40_950_000_000

_KAMAILIO_BEGIN = "request_route {\n"
_SERVE_END = "wait\n"
_SERVE_BEGIN = "keep /"
_KEEPALIVED_CONFIGURATION = "/run/keepalived.conf"
"""It refuses a file that may be executed, and all of ours may be."""
_VIRTUAL_ROUTER = 77
_PRIORITIES = (150, 100)


@dataclass(frozen=True, kw_only=True)
class ReplicaConfiguration:
    """One of two servers; they differ in their number only.

    Attributes:
        number: 0 or 1; the first one has the shared address to begin with.
        address: The shared IPv4 address, as phones know it.
        prefix_length: Of its network.
        own_addresses: Of the first and of the second server.
        store: The address of the store.
        advertisement_ns: From one VRRP advertisement to the next.
        cpus: How many CPUs each has.
    """

    number: int
    address: str
    prefix_length: int
    own_addresses: tuple[str, str]
    store: str
    advertisement_ns: int
    cpus: int = 1

    def __post_init__(self) -> None:
        if not _SHORTEST_ADVERTISEMENT_NS <= self.advertisement_ns <= _LONGEST_ADVERTISEMENT_NS:
            raise UsageError(
                f"VRRP cannot advertise every {self.advertisement_ns / 1e9:g} s", hint="give 10 ms to 40.95 s"
            )

    @property
    def role(self) -> Role:
        return "replica"

    @property
    def media_ports(self) -> tuple[int, int]:
        """The first and the last UDP port of relayed media."""
        return self._alone.media_ports

    @property
    def files(self) -> dict[str, str]:
        files = self._alone.files
        command = f"/{KEEPALIVED} --vrrp --dont-fork --log-console --use-file={_KEEPALIVED_CONFIGURATION}"
        return files | {
            "serve": _before(
                _before(files["serve"], _SERVE_END, f"keep {command} &\n"),
                _SERVE_BEGIN,
                "echo 1 >/proc/sys/net/ipv4/ip_nonlocal_bind\n"
                f"$b cat /{CONFIGURATION_FOLDER}/keepalived.conf >{_KEEPALIVED_CONFIGURATION}\n",
            ),
            "kamailio.cfg": _after(
                _before(files["kamailio.cfg"], _KAMAILIO_BEGIN, self._replication()), _KAMAILIO_BEGIN, self._messages()
            ),
            "rtpengine.conf": files["rtpengine.conf"] + self._calls(),
            "keepalived.conf": self._keepalived(),
        }

    @property
    def shared_memory_bytes(self) -> int:
        return self._alone.shared_memory_bytes

    @property
    def _alone(self) -> ServerConfiguration:
        return ServerConfiguration(role="both", address=self.address, cpus=self.cpus)

    @property
    def _own(self) -> str:
        return self.own_addresses[self.number]

    @property
    def _other(self) -> str:
        return self.own_addresses[1 - self.number]

    def _replication(self) -> str:
        loaded = "".join(f'loadmodule "{name}.so"\n' for name in REPLICATION_MODULES)
        return (
            f"listen=udp:{self._own}:{SIP_PORT}\n{loaded}"
            f'modparam("dmq", "server_address", "sip:{self._own}:{SIP_PORT}")\n'
            f'modparam("dmq", "notification_address", "sip:{self._other}:{SIP_PORT}")\n'
            'modparam("dmq_usrloc", "enable", 1)\n\n'
        )

    def _messages(self) -> str:
        return (
            '    if (is_method("KDMQ")) {\n'
            f"        if (src_ip == {self._other}) dmq_handle_message();\n"
            "        exit;\n"
            "    }\n"
        )

    def _calls(self) -> str:
        return (
            # Each writes calls of its own into a database of its own, and hears of those in the other's.
            f"redis = {self.store}:{STORE_PORT}/{self.number}\n"
            f"subscribe-keyspace = {1 - self.number}\n"
            "no-redis-required = true\n"
        )

    def _keepalived(self) -> str:
        return (
            "global_defs {\n"
            "    vrrp_version 3\n"
            "}\n"
            "vrrp_instance clients {\n"
            "    state BACKUP\n"
            "    nopreempt\n"
            "    interface eth0\n"
            f"    virtual_router_id {_VIRTUAL_ROUTER}\n"
            f"    priority {_PRIORITIES[self.number]}\n"
            f"    advert_int {self.advertisement_ns / 1e9:.2f}\n"
            f"    unicast_src_ip {self._own}\n"
            f"    unicast_peer {{\n        {self._other}\n    }}\n"
            f"    virtual_ipaddress {{\n        {self.address}/{self.prefix_length}\n    }}\n"
            "}\n"
        )


def store_options(address: str) -> list[str]:
    """Give what the store is started with: it keeps all in memory, and tells of every change."""
    return [
        *("--port", str(STORE_PORT), "--bind", address, "--protected-mode", "no", "--daemonize", "no"),
        *("--save", "", "--appendonly", "no", "--notify-keyspace-events", "AKE"),
    ]


def _before(text: str, anchor: str, more: str) -> str:
    head, tail = _split(text, anchor)
    return f"{head}{more}{anchor}{tail}"


def _after(text: str, anchor: str, more: str) -> str:
    head, tail = _split(text, anchor)
    return f"{head}{anchor}{more}{tail}"


def _split(text: str, anchor: str) -> tuple[str, str]:
    # At the beginning of a line, and the first one: `keep /` begins several.
    head, found, tail = f"\n{text}".partition(f"\n{anchor}")
    if not found:
        raise ValueError(f"the configuration has no line that begins with {anchor!r}")
    return f"{head}\n"[1:], tail
