"""What the appliance is told: ``kamailio.cfg``, ``rtpengine.conf`` and the script that keeps both running.

Registrations live in memory alone (usrloc's ``db_mode`` 0): that is the state that protection has to keep.
"""

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
"""Of Kamailio, for registrations and calls; used up as they come. It was seen to be full at 56,000 in 64 MiB. A kernel
with less memory than this in all refuses it."""

_HIGHEST_PORT = 65535


@dataclass(frozen=True, kw_only=True)
class ServerConfiguration:
    """A server of the appliance.

    Attributes:
        role: What it does.
        address: Its own IPv4 address.
        media_address: Where calls' media are relayed: its own address, or that of the server with the role ``media``.
        media_ports: The first and the last UDP port of relayed media.
        udp_workers: Processes that Kamailio has for UDP.
        tcp_workers: Processes that Kamailio has for TCP.
        tcp_connections: How many TCP connections Kamailio takes.
        media_threads: Threads that relay media.
    """

    role: Role
    address: str
    media_address: str | None = None
    media_ports: tuple[int, int] = (30000, 39999)
    udp_workers: int = 2
    tcp_workers: int = 2
    tcp_connections: int = 16384
    media_threads: int = 1

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
        files = {INIT: _resource("init.sh"), SERVE: self._serve()}
        if KAMAILIO in programs:
            files["kamailio.cfg"] = self._kamailio()
        if RTPENGINE in programs:
            files["rtpengine.conf"] = self._rtpengine()
        return files

    def _serve(self) -> str:
        folder = f"/{CONFIGURATION_FOLDER}"
        memory = f"-m {SHARED_MEMORY_BYTES >> 20} -M 8"
        commands = {
            KAMAILIO: f"/{KAMAILIO} -DD -E -Y /run -P /run/kamailio.pid {memory} -f {folder}/kamailio.cfg",
            RTPENGINE: f"/{RTPENGINE} --foreground --config-file={folder}/rtpengine.conf",
        }
        programs = programs_of(self.role)
        kept = "".join(f"keep {commands[program]} &\n" for program in programs if program != KAMAILIO)
        if KAMAILIO in programs:
            awaited = ""
            if self.role == "both":
                awaited = f"await_port {CONTROL_PORT:04X}\n"
            elif self.media_address is not None:
                awaited = f"await_machine {self.media_address} {COMMAND_PORT}\n"
            kept += f"{awaited}keep {commands[KAMAILIO]} &\n"
        return f"{_resource('serve.sh')}{kept}wait\n"

    def _kamailio(self) -> str:
        media_server = "127.0.0.1" if self.role == "both" else self.media_address or self.address
        told = {
            "udp_workers": self.udp_workers,
            "tcp_workers": self.tcp_workers,
            "tcp_connections": self.tcp_connections,
            "address": self.address,
            "sip_port": SIP_PORT,
            "modules_folder": f"/{MODULES_FOLDER}/",
            "modules": "\n".join(f'loadmodule "{name}.so"' for name in KAMAILIO_MODULES),
            "control": f"udp:{media_server}:{CONTROL_PORT}",
        }
        text = _resource("kamailio.cfg")
        for name, value in told.items():
            text = text.replace(f"@{name}@", str(value))
        return text

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
            f"num-threads = {self.media_threads}\n"
            "delete-delay = 0\n"
            "log-stderr = true\n"
            "log-level = 4\n"
        )


def _resource(name: str) -> str:
    return (resources.files("stealtime.studies.telephony.appliance") / "files" / name).read_text("utf-8")
