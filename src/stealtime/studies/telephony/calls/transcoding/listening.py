"""From what both ends of transcoded calls wrote down to what they heard of each other. Pure.

The server makes new packets, with numbers of its own: no mark of a packet survives it. So the place of a packet in its
stream is found by what it says. Its sequence numbers tell how packets of a stream lie to each other; the whole is then
moved along the stream's melody to where most tones are right. A melody begins anew after 2.56 s, so of all places that
it could be, the one is taken with the least delay that no packet contradicts by coming before it was sent. Timestamps
say nothing of it: those of rtpengine 10.5 count what it was given, and so lag behind after a loss.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stealtime.studies.telephony.calls.results import Direction, Spread, StreamVoice, Towards, Transcoded, Voice
from stealtime.studies.telephony.calls.transcoding.codecs import Codec
from stealtime.studies.telephony.calls.transcoding.melody import PACKETS_OF_MELODY, PACKETS_OF_TONE, melody, tones
from stealtime.studies.telephony.calls.transcoding.talking import BEYOND, PACKET_NS, due, name_of

_LATE_NS = 60_000_000
"""Later than this a packet cannot be played, as of voice that is passed on (docs/media.md)."""
_SHORTEST_RUN = 3 * PACKETS_OF_TONE
"""Fewer packets say too little of their place."""
_SHIFTS = range(PACKETS_OF_MELODY)
_SAME_SHARE_MIN = 0.75
"""Of the tones that are right where most are: a place that has so many is right, too."""
_RIGHT_SHARE_MIN = 0.9
"""Of the packets that are judged: else what came is not what was said."""
_OWN_JITTER_NS = 500_000
_BROKEN_SHARE = 0.01
"""Both as ``crates/witness/src/rtp/report.rs`` judges a sender."""


@dataclass(frozen=True)
class Records:
    """What one end wrote down.

    Attributes:
        sent_ns: When each packet was handed to the kernel, (streams, packets), the last of which do not count
            (``BEYOND``); moments are of the monotonic clock.
        rows: Stream, moment, payload type, sequence number, timestamp and source of each packet that came.
        payloads: What it held, (packets, bytes).
        begins_ns: When the first packet was due.
        refused: Packets that the kernel would not send.
        odd: Datagrams that are no voice.
        overflowed: Datagrams for which there was no room.
    """

    sent_ns: NDArray[np.int64]
    rows: NDArray[np.int64]
    payloads: NDArray[np.uint8]
    begins_ns: int
    refused: int = 0
    odd: int = 0
    overflowed: int = 0

    @classmethod
    def read(cls, path: Path) -> "Records":
        with np.load(path) as file:
            begins_ns, refused, odd, overflowed = (int(one) for one in file["counts"])
            return cls(file["sent_ns"], file["rows"], file["payloads"], begins_ns, refused, odd, overflowed)

    @property
    def packets(self) -> int:
        """Of each stream that count."""
        return int(self.sent_ns.shape[1]) - BEYOND

    @property
    def late_ns(self) -> NDArray[np.int64]:
        """How much later than due each packet was sent."""
        streams, packets = self.sent_ns.shape
        due_ns = [
            [due(self.begins_ns, stream, number, streams) for number in range(packets)] for stream in range(streams)
        ]
        return self.sent_ns - np.array(due_ns, dtype=np.int64)


@dataclass
class _Told:
    """What is found beside the streams of a direction."""

    heard: int = 0
    passed_on: int = 0
    odd: int = 0
    judged: int = 0
    right: int = 0
    source_changes: int = 0
    renumbered: int = 0


@dataclass(frozen=True)
class _Stream:
    """What was heard of one stream: packets in the order in which they came."""

    voice: StreamVoice
    delays_ns: NDArray[np.int64]
    duplicated: int
    silence_began_ns: int | None


def voice_of(callers: Records, phones: Records, codecs: tuple[Codec, Codec]) -> Voice:
    """Put what both ends wrote down together.

    Args:
        callers: One end.
        phones: The other one.
        codecs: What callers and what phones speak, and hear.
    """
    ways: list[tuple[Towards, str, Records, Records, Codec]] = [
        ("phones", "callers", callers, phones, codecs[1]),
        ("callers", "phones", phones, callers, codecs[0]),
    ]
    told, directions, streams = _Told(odd=callers.odd + phones.odd), [], []
    for towards, end, spoken, heard, codec in ways:
        way = _Way(towards, end, spoken, heard, codec)
        own = [one for stream in range(len(spoken.sent_ns)) if (one := way.heard_of(stream, told)) is not None]
        streams += own
        directions.append(_direction(towards, spoken, own))
    transcoded = Transcoded(phones_codec=codecs[1].name, **vars(told))
    silences = [
        (one.voice.silence_ns or 0, one.silence_began_ns) for one in streams if one.voice.silence_ns is not None
    ]
    silence_ns, began_ns = max(silences, key=lambda one: one[0], default=(None, None))
    late_ns = max(int(np.quantile(one.late_ns, 0.99)) for one in (callers, phones))
    return Voice(
        streams=sum(len(one.sent_ns) for one in (callers, phones)),
        heard=len(streams),
        sent=sum(one.sent for one in directions),
        refused=callers.refused + phones.refused,
        received=sum(one.received for one in directions),
        duplicated=sum(one.duplicated for one in streams),
        reordered=sum(one.voice.reordered for one in streams),
        late=sum(one.late for one in directions),
        delay_ns=_spread(np.concatenate([one.delays_ns for one in streams])) if streams else None,
        jitter_ns=max((one.jitter_ns for one in directions if one.jitter_ns is not None), default=None),
        silence_ns=silence_ns,
        silence_began_ns=began_ns,
        sender_late_p99_ns=late_ns,
        directions=directions,
        each=[one.voice for one in streams],
        invalid=list(_invalid(callers, phones, transcoded)),
        limits=[_sent_late(late_ns)] if late_ns > _OWN_JITTER_NS else [],
        transcoded=transcoded,
    )


def _invalid(callers: Records, phones: Records, transcoded: Transcoded) -> Iterator[str]:
    if transcoded.passed_on:
        came = transcoded.passed_on + transcoded.heard
        yield (
            f"{transcoded.passed_on} of {came} packets came in a codec that their hearers do not speak: "
            "the server did not transcode them"
        )
    if not transcoded.judged:
        yield "whether voice was transcoded is not known: no packet came that could be judged by its tone"
    elif transcoded.right < _RIGHT_SHARE_MIN * transcoded.judged:
        yield (
            f"only {transcoded.right} of {transcoded.judged} packets hold the tone that was said: what the server made "
            "of the voice is something else"
        )
    if overflowed := callers.overflowed + phones.overflowed:
        yield f"{overflowed} datagrams came and found no room in the sockets of who listened"
    if refused := callers.refused + phones.refused:
        yield f"the kernel refused to send {refused} packets"
    for end, own in (("callers", callers), ("phones", phones)):
        share = float((own.late_ns > PACKET_NS).mean())
        if share > _BROKEN_SHARE:
            yield f"{100 * share:.1f} % of the packets of {end} were sent 20 ms too late or later"


def _sent_late(late_ns: int) -> str:
    # As the agent says it of voice that is passed on.
    return f"one packet in a hundred was sent {late_ns / 1e6:.3f} ms too late or later"


def _direction(towards: Towards, spoken: Records, streams: list[_Stream]) -> Direction:
    jitters = [one.voice.jitter_ns for one in streams if one.voice.jitter_ns is not None]
    silences = [one.voice.silence_ns for one in streams if one.voice.silence_ns is not None]
    return Direction(
        towards=towards,
        sent=len(spoken.sent_ns) * spoken.packets,
        received=sum(one.voice.received for one in streams),
        late=sum(one.voice.late for one in streams),
        delay_ns=_spread(np.concatenate([one.delays_ns for one in streams])) if streams else None,
        jitter_ns=max(jitters, default=None),
        silence_ns=max(silences, default=None),
    )


@dataclass(frozen=True)
class _Way:
    """One direction of all calls.

    Attributes:
        towards: Who hears.
        end: Who speaks.
        spoken: What that one wrote down.
        heard: What the other one wrote down.
        codec: Of who hears.
    """

    towards: Towards
    end: str
    spoken: Records
    heard: Records
    codec: Codec

    def heard_of(self, stream: int, told: _Told) -> _Stream | None:
        """Find out what was heard of one stream; None where nothing was."""
        own = self.heard.rows[:, 0] == stream
        speaks = own & (self.heard.rows[:, 2] == self.codec.payload_type)
        told.passed_on += int(own.sum() - speaks.sum())
        told.heard += int(speaks.sum())
        rows, payloads = self.heard.rows[speaks], self.heard.payloads[speaks]
        order = np.argsort(rows[:, 1], kind="stable")
        rows, payloads = rows[order], payloads[order]
        told.source_changes += int((rows[1:, 5] != rows[:-1, 5]).sum())
        numbers = np.full(len(rows), -1, dtype=np.int64)
        for source in dict.fromkeys(rows[:, 5].tolist()):
            run = np.flatnonzero(rows[:, 5] == source)
            if len(run) >= _SHORTEST_RUN:
                numbers[run] = self._placed(stream, rows[run], payloads[run], told)
        known = (numbers >= 0) & (numbers < self.spoken.packets)
        told.odd += int(len(rows) - known.sum() - (numbers >= self.spoken.packets).sum())
        if not known.any():
            return None
        return _figures(self.towards, stream, numbers[known], rows[known, 1], self.spoken)

    def _placed(
        self, stream: int, rows: NDArray[np.int64], payloads: NDArray[np.uint8], told: _Told
    ) -> NDArray[np.int64]:
        """Give which packet of its stream each one of a source is, and judge what they say."""
        steps = _unwrapped(rows[:, 3], 1 << 16)
        by_step = np.argsort(steps, kind="stable")
        before = np.concatenate((by_step[:1], by_step[:-1]))
        found = np.zeros(len(rows), dtype=np.int64)
        found[by_step] = tones(self.codec, payloads[by_step], payloads[before])
        said = melody(name_of(self.end, stream))
        shifts = _shifts(steps, found, said)
        changes = np.flatnonzero(np.diff(shifts)) + 1
        told.renumbered += len(changes)
        numbers = np.zeros(len(rows), dtype=np.int64)
        for part in np.split(np.arange(len(rows)), changes):
            numbers[part] = _latest(steps[part] + shifts[part[0]], rows[part, 1], self.spoken.sent_ns[stream])
        # The codec's own delay lets the end of a tone into the first packet of the next one.
        judged = (numbers % PACKETS_OF_TONE != 0) & np.isin(numbers - 1, numbers)
        told.judged += int(judged.sum())
        told.right += int((said[numbers % PACKETS_OF_MELODY] == found)[judged].sum())
        return numbers


def _shifts(steps: NDArray[np.int64], found: NDArray[np.int64], said: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give how far each packet is moved along its melody.

    It stays the same over losses and copies, as long as what is said goes with the numbers; else who numbers them has
    begun anew.

    Args:
        steps: The numbers of the packets, in the order in which they came.
        found: Their tones.
        said: The melody.
    """
    shifts, shift = np.zeros(len(steps), dtype=np.int64), None
    for run in np.split(np.arange(len(steps)), np.flatnonzero(np.diff(steps) != 1) + 1):
        if shift is None or len(run) >= _SHORTEST_RUN:
            # The first one is judged with all that follow: it may be short.
            own = np.arange(len(steps)) if len(run) < _SHORTEST_RUN else run
            scores = [int((said[(steps[own] + by) % PACKETS_OF_MELODY] == found[own]).sum()) for by in _SHIFTS]
            if shift is None or scores[shift] < _SAME_SHARE_MIN * max(scores):
                shift = int(np.argmax(scores))
        shifts[run] = shift
    return shifts


def _latest(numbers: NDArray[np.int64], at_ns: NDArray[np.int64], sent_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Move numbers by whole melodies: no packet comes before it was sent, and the least delay is the shortest."""
    # The lowest one came first, or nearly so: it cannot be one that was not sent by then.
    by_then = int(np.searchsorted(sent_ns, at_ns[np.argmin(numbers)], side="right")) - 1
    numbers = numbers + (by_then - int(numbers.min())) // PACKETS_OF_MELODY * PACKETS_OF_MELODY
    while True:
        within = (numbers >= 0) & (numbers < len(sent_ns))
        if not within.any() or (at_ns[within] >= sent_ns[numbers[within]]).all():
            return numbers
        numbers = numbers - PACKETS_OF_MELODY


def _unwrapped(values: NDArray[np.int64], modulus: int) -> NDArray[np.int64]:
    """Give numbers that begin anew after a modulus as such that do not, from 0 for the first one."""
    steps = (np.diff(values) + modulus // 2) % modulus - modulus // 2
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(steps)))


def _figures(
    towards: Towards, stream: int, numbers: NDArray[np.int64], at_ns: NDArray[np.int64], spoken: Records
) -> _Stream:
    """Count the packets of a stream, in the order in which they came; the first copy of each counts."""
    _, first = np.unique(numbers, return_index=True)
    kept = np.sort(first)
    duplicated = len(numbers) - len(kept)
    numbers, at_ns = numbers[kept], at_ns[kept]
    streams, packets = len(spoken.sent_ns), spoken.packets
    due_ns = np.array([due(spoken.begins_ns, stream, int(one), streams) for one in numbers], dtype=np.int64)
    transit_ns = at_ns - due_ns
    fastest_ns = np.minimum.accumulate(transit_ns)
    highest = np.maximum.accumulate(numbers)
    gaps_ns = np.diff(at_ns)
    longest = int(gaps_ns.argmax()) if len(gaps_ns) else None
    silence_ns = None if longest is None else int(gaps_ns[longest])
    began_ns = None if longest is None else int(at_ns[longest])
    has_ended = True
    # Nothing came any more though more was said.
    open_ns = due(spoken.begins_ns, stream, packets - 1, streams) - int(at_ns[-1])
    if numbers.max() < packets - 1 and open_ns > (silence_ns or 0):
        silence_ns, began_ns, has_ended = open_ns, int(at_ns[-1]), False
    delays_ns = at_ns - spoken.sent_ns[stream, numbers]
    voice = StreamVoice(
        towards=towards,
        sent=packets,
        received=len(numbers),
        late=int((transit_ns - fastest_ns > _LATE_NS).sum()),
        reordered=int((numbers < highest).sum()),
        delay_ns=_spread(delays_ns),
        jitter_ns=_jitter_ns(transit_ns),
        silence_ns=silence_ns,
        silence_ended=has_ended,
        mos=None,
    )
    return _Stream(voice, delays_ns, duplicated, began_ns)


def _jitter_ns(transit_ns: NDArray[np.int64]) -> float | None:
    """Give the most that RFC 3550, section 6.4.1, gives at any time."""
    jitter = most = 0.0
    for step in np.abs(np.diff(transit_ns)).tolist():
        jitter += (step - jitter) / 16
        most = max(most, jitter)
    return most if len(transit_ns) > 1 else None


def _spread(values: NDArray[np.int64]) -> Spread:
    least, q1, median, q3, most = (float(one) for one in np.quantile(values, [0, 0.25, 0.5, 0.75, 1]))
    return Spread(min=least, q1=q1, median=median, q3=q3, max=most)
