"""What the appliance is told: ``kamailio.cfg``, ``rtpengine.conf`` and the script that keeps both running.

Registrations live in memory alone (usrloc's ``db_mode`` 0): that is the state that protection has to keep.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources

from stealtime.studies.telephony.appliance.root import (
    KAMAILIO,
    KAMAILIO_MODULES,
    MODULES_FOLDER,
    RTPENGINE,
    Role,
    programs_of,
)
from stealtime.vocabulary.errors import UsageError

SIP_PORT = 5060
CONTROL_PORT = 2223
"""Where Kamailio tells rtpengine of calls (its protocol ``ng``)."""
COMMAND_PORT = 2224
"""Where rtpengine has its command line, over TCP, if signalling is on another machine: it shows that it has begun."""
CONFIGURATION_FOLDER = "etc/stealtime"
"""In the tree."""
SERVE = "serve"
"""The script in that folder that starts everything."""
INIT = "init"
"""What a guest runs first; it is no part of that folder there."""

SHARED_MEMORY_BYTES = 256 << 20
"""Of Kamailio in a guest, for registrations and calls; used up as they come. It was seen to be full at 56,000 in 64
MiB. A kernel with less memory than this in all refuses it."""

AUTHENTICATED_DOMAIN = "phones.example"
"""Phones that register in this domain are asked for their passwords (RFC 3261, section 22), all others are not. So the
same server is measured with and without."""
WIDEBAND_DOMAIN = "wideband.example"
"""Phones that are called in this domain speak G.722 alone, so that the relay has to transcode the voice of callers who
speak G.711. All others are offered what their callers speak. So the same server is measured with and without."""

_WORKERS_OF_A_CPU = 2
_UDP_WORKERS_APART = 8
"""Where the relay is on another machine: each waits for its answer, which a checkpoint may hold back, and does nothing
else meanwhile. Eight are Kamailio's default."""

_HIGHEST_PORT = 65535


@dataclass(frozen=True, kw_only=True)
class ServerConfiguration:
    """A server of the appliance.

    Attributes:
        role: What it does.
        address: Its own IPv4 address.
        media_address: Where calls' media are relayed: its own address, or that of the server with the role ``media``.
        media_ports: The first and the last UDP port of relayed media.
        cpus: How many CPUs it has for its processes and threads.
        udp_workers: Processes that Kamailio has for UDP; None: as many as the role needs.
        tcp_connections: How many TCP connections Kamailio takes.
        shared_memory_bytes: Of Kamailio.
        fronts: The addresses of those that hand requests on to it, whose word of another server it takes.
    """

    role: Role
    address: str
    media_address: str | None = None
    media_ports: tuple[int, int] = (30000, 39999)
    cpus: int = 1
    udp_workers: int | None = None
    tcp_connections: int = 16384
    shared_memory_bytes: int = SHARED_MEMORY_BYTES
    fronts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        first, last = self.media_ports
        if not 1024 <= first < last <= _HIGHEST_PORT:
            raise UsageError(
                f"media cannot have the ports {first} to {last}",
                hint=f"give the lower one first, from 1024 to {_HIGHEST_PORT}",
            )
        if first <= SIP_PORT <= last:
            raise UsageError(f"the media ports {first} to {last} hold SIP's port {SIP_PORT}", hint="begin above it")

    @property
    def files(self) -> dict[str, str]:
        """The content of each file in :data:`CONFIGURATION_FOLDER`."""
        programs = programs_of(self.role)
        files = {INIT: resource("init.sh"), SERVE: self._serve()}
        if KAMAILIO in programs:
            files["kamailio.cfg"] = self._kamailio()
        if RTPENGINE in programs:
            files["rtpengine.conf"] = self._rtpengine()
        return files

    def _serve(self) -> str:
        programs, lines = programs_of(self.role), []
        if RTPENGINE in programs:
            configuration = f"/{CONFIGURATION_FOLDER}/rtpengine.conf"
            lines.append(f"keep /{RTPENGINE} --foreground --config-file={configuration} &")
        if KAMAILIO in programs:
            if self.role == "both":
                lines.append(f"await_port {CONTROL_PORT:04X}")
            elif self.media_address is not None:
                lines.append(f"await_machine {self.media_address} {COMMAND_PORT}")
            lines.append(keep_kamailio(self.shared_memory_bytes))
        return serve_script(lines)

    def _kamailio(self) -> str:
        media_server = "127.0.0.1" if self.role == "both" else self.media_address or self.address
        workers = _WORKERS_OF_A_CPU * self.cpus
        told: dict[str, object] = {
            "udp_workers": self.udp_workers or max(workers, _UDP_WORKERS_APART if self.role == "signalling" else 0),
            "tcp_workers": workers,
            "tcp_connections": self.tcp_connections,
            "address": self.address,
            "sip_port": SIP_PORT,
            "modules": loaded(KAMAILIO_MODULES),
            "control": f"udp:{media_server}:{CONTROL_PORT}",
            "authenticated_domain": AUTHENTICATED_DOMAIN,
            "wideband_domain": WIDEBAND_DOMAIN,
            "from_a_front": " || ".join(f"src_ip == {address}" for address in self.fronts) or "0",
        }
        return filled("kamailio.cfg", told)

    def _rtpengine(self) -> str:
        control = "127.0.0.1" if self.role == "both" else self.address
        command_line = "" if self.role == "both" else f"listen-cli = {self.address}:{COMMAND_PORT}\n"
        first, last = self.media_ports
        return (
            "[rtpengine]\n"
            # Without the kernel's forwarding, which the checkpoints would know nothing of.
            "table = -1\n"
            f"interface = {self.address}\n"
            f"listen-ng = {control}:{CONTROL_PORT}\n"
            f"{command_line}"
            f"port-min = {first}\n"
            f"port-max = {last}\n"
            f"num-threads = {self.cpus}\n"
            "delete-delay = 0\n"
            "log-stderr = true\n"
            "log-level = 4\n"
        )


def password_of(user: str) -> str:
    """Give the password of a phone, as the server has it: one of its own, and in no table that could cost time."""
    return hashlib.md5(user.encode(), usedforsecurity=False).hexdigest()


def resource(name: str) -> str:
    return (resources.files("stealtime.studies.telephony.appliance") / "files" / name).read_text("utf-8")


def filled(name: str, told: Mapping[str, object]) -> str:
    """Give one of our files with the values of its ``@names@``."""
    text = resource(name)
    for key, value in told.items():
        text = text.replace(f"@{key}@", str(value))
    return text


def loaded(modules: Iterable[str]) -> str:
    return "\n".join([f'mpath="/{MODULES_FOLDER}/"', *(f'loadmodule "{name}.so"' for name in modules)])


def keep_kamailio(shared_memory_bytes: int) -> str:
    """Give the line of the script that keeps Kamailio running, with so much memory for all its processes."""
    options = f"-DD -E -Y /run -P /run/kamailio.pid -m {shared_memory_bytes >> 20} -M 8"
    return f"keep /{KAMAILIO} {options} -f /{CONFIGURATION_FOLDER}/kamailio.cfg &"


def serve_script(lines: Iterable[str]) -> str:
    """Give the script that starts a server and keeps it running."""
    return "".join([resource("serve.sh"), *(f"{line}\n" for line in lines), "wait\n"])
