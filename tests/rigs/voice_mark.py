"""What a packet of ``stealtime-agent rtp`` says of itself (``crates/media/src/packet.rs``)."""

from dataclasses import dataclass

_LENGTH = 172
_PAYLOAD_AT = 12
_MAGIC = b"stealrtp"
_VOICE = 1


@dataclass(frozen=True)
class VoiceMark:
    """Which packet of voice it is."""

    sender: int
    stream: int
    index: int
    sent_ns: int
    """Of the monotonic clock."""


def mark_of(packet: bytes) -> VoiceMark | None:
    """Read a packet of voice; None of any other, closing reports too."""
    payload = packet[_PAYLOAD_AT:]
    if len(packet) != _LENGTH or not payload.startswith(_MAGIC) or payload[9] != _VOICE:
        return None
    return VoiceMark(
        stream=int.from_bytes(payload[12:16]),
        sender=int.from_bytes(payload[16:24]),
        index=int.from_bytes(payload[32:40]),
        sent_ns=int.from_bytes(payload[48:56]),
    )
