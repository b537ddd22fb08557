"""A call between two real phones (baresip), the caller's voice encrypted by DTLS-SRTP up to the relay.

The callee's is not encrypted, so that the relay needs the keys: it decrypts what it hears and encrypts what it says.
"""

import re
import signal
import subprocess
import time
import wave
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil
from media_tap import Datagram, MediaTap

from stealtime.hosts.laboratory import CLIENT, Laboratory

PROGRAM = "baresip"
_MODULES = "/usr/lib/baresip/modules"
_RATE_PER_S = 8000
_TONE_HZ = 440
_ENDS_WITHIN_S = 10.0
_CALLER, _CALLEE = "50001", "50002"
_SIP_PORTS = {_CALLER: 5081, _CALLEE: 5091}
"""Each has the next one, too, for TLS."""
_MEDIA_PORTS = {_CALLER: 22000, _CALLEE: 22100}
_CONTROL_PORTS = {_CALLER: 4481, _CALLEE: 4482}
_PACKETS = re.compile(r"^packets:\s+(?P<sent>\d+)\s+(?P<received>\d+)", re.MULTILINE)


@dataclass(frozen=True)
class EncryptedCall:
    """What was on the wire of a call, and what its encrypted phone says of it."""

    fault_ns: int
    ended_ns: int
    """When the caller was told to hang up."""
    to_caller: list[Datagram]
    """Encrypted voice from the relay."""
    from_caller: list[Datagram]
    to_callee: list[Datagram]
    """Plain voice from the relay: it had the keys for what it heard."""
    handshakes: list[Datagram]
    heard: int
    """Packets that the caller could decrypt, as it says itself."""
    hung_up: bool
    """Whether its BYE was answered with 200."""

    @property
    def used_twice(self) -> int:
        """How many places of the relay's key stream have two different contents on the wire."""
        contents: dict[str, set[str]] = {}
        for datagram in self.to_caller:
            contents.setdefault(datagram.stream, set()).add(datagram.digest)
        return sum(len(digests) > 1 for digests in contents.values())

    def after(self, datagrams: list[Datagram], moment_ns: int) -> list[Datagram]:
        """Give those that came after a moment, as long as the call was up."""
        return [one for one in datagrams if moment_ns < one.at_ns < self.ended_ns]

    def silence_ns(self, datagrams: list[Datagram]) -> int:
        """Give the longest time without a packet that ends after the fault, up to the end of the call."""
        times = [one.at_ns for one in datagrams if one.at_ns < self.ended_ns] + [self.ended_ns]
        return max(later - earlier for earlier, later in pairwise(times) if later > self.fault_ns)


def make_encrypted_call(
    laboratory: Laboratory, server: str, fault: Callable[[], int], *, before_s: float, after_s: float
) -> EncryptedCall:
    """Make a call, have something happen in its middle, hang up.

    Args:
        laboratory: Has the client, where both phones are.
        server: The address of proxy and relay.
        fault: Happens in the middle, and gives the moment of the monotonic clock in ns.
        before_s: How long the phones speak before it.
        after_s: How long they do so after it has returned.
    """
    folder = laboratory.folder / "encrypted-call"
    folder.mkdir()
    _write_tone(folder / "tone.wav", 10 + before_s + after_s)
    phones: dict[str, psutil.Popen] = {}
    try:
        with MediaTap(laboratory) as tap:
            phones[_CALLEE] = _start(laboratory, folder, server, _CALLEE, None)
            time.sleep(1.0)
            phones[_CALLER] = _start(laboratory, folder, server, _CALLER, f"/dial sip:{_CALLEE}@{server}")
            _await_secure(folder / _CALLER / "said", phones[_CALLER])
            time.sleep(before_s)
            fault_ns = fault()
            time.sleep(after_s)
            ended_ns = time.monotonic_ns()
            # The callee would answer a BYE only as long as it lives.
            for name in (_CALLER, _CALLEE):
                phones[name].send_signal(signal.SIGTERM)
                phones[name].wait(timeout=_ENDS_WITHIN_S)
    finally:
        for phone in phones.values():
            if phone.poll() is None:
                phone.kill()
                phone.wait()
    said = (folder / _CALLER / "said").read_text("utf-8", "replace")
    packets = _PACKETS.search(said)
    assert packets is not None, said[-2000:]
    return _seen(tap.datagrams(), fault_ns, ended_ns, server, int(packets["received"]))


def _seen(datagrams: list[Datagram], fault_ns: int, ended_ns: int, server: str, heard: int) -> EncryptedCall:
    def media(first_port: int, *, to_phone: bool) -> list[Datagram]:
        ports = range(first_port, first_port + 100)
        return [
            one
            for one in datagrams
            if one.kind == "rtp"
            and (one.source == server) == to_phone
            and (one.destination_port if to_phone else one.source_port) in ports
        ]

    answers = [one for one in datagrams if one.message == "200 BYE" and one.destination_port == _SIP_PORTS[_CALLER]]
    return EncryptedCall(
        fault_ns=fault_ns,
        ended_ns=ended_ns,
        to_caller=media(_MEDIA_PORTS[_CALLER], to_phone=True),
        from_caller=media(_MEDIA_PORTS[_CALLER], to_phone=False),
        to_callee=media(_MEDIA_PORTS[_CALLEE], to_phone=True),
        handshakes=[one for one in datagrams if one.kind == "dtls"],
        heard=heard,
        hung_up=bool(answers),
    )


def _start(laboratory: Laboratory, folder: Path, server: str, name: str, command: str | None) -> psutil.Popen:
    own = folder / name
    own.mkdir()
    address, port = laboratory.client.address("clients"), _MEDIA_PORTS[name]
    modules = [*("module g711.so", "module aufile.so", "module dtls_srtp.so", "module stdio.so")]
    modules += ["module_tmp account.so", "module_app menu.so", "module_app ctrl_tcp.so"]
    lines = [
        f"sip_listen {address}:{_SIP_PORTS[name]}",
        *("net_interface clients", f"audio_source aufile,{folder / 'tone.wav'}"),
        *(f"audio_player aufile,{own / 'heard.wav'}", f"audio_alert aufile,{own / 'alert.wav'}"),
        *(f"audio_srate {_RATE_PER_S}", "audio_channels 1", f"rtp_ports {port}-{port + 99}"),
        *("rtcp_enable yes", "rtp_stats yes", f"module_path {_MODULES}", *modules),
        f"ctrl_tcp_listen 127.0.0.1:{_CONTROL_PORTS[name]}",
    ]
    (own / "config").write_text("".join(f"{line}\n" for line in lines))
    encryption = ";mediaenc=dtls_srtp" if name == _CALLER else ""
    account = f"<sip:{name}@{server};transport=udp>;regint=3600;answermode=auto;audio_codecs=pcmu{encryption}\n"
    (own / "accounts").write_text(account)
    (own / "contacts").write_text("")
    argv = [PROGRAM, "-f", str(own), "-v", *(["-e", command] if command else [])]
    with (own / "said").open("wb") as said:
        # Its standard input stays open: a phone whose terminal is gone hangs up.
        return laboratory.start(CLIENT, argv, stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT)


def _await_secure(said: Path, phone: psutil.Popen) -> None:
    deadline = time.monotonic() + _ENDS_WITHIN_S
    while "DTLS-SRTP complete (audio/RTP)" not in said.read_text("utf-8", "replace"):
        in_vain = phone.poll() is not None or time.monotonic() > deadline
        assert not in_vain, said.read_text("utf-8", "replace")[-2000:]
        time.sleep(0.05)


def _write_tone(path: Path, duration_s: float) -> None:
    times = np.arange(round(_RATE_PER_S * duration_s)) / _RATE_PER_S
    samples = (8000 * np.sin(2 * np.pi * _TONE_HZ * times)).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(_RATE_PER_S)
        file.writeframes(samples.tobytes())
