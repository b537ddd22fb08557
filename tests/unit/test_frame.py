"""The frame codec against arbitrary bytes, cut at arbitrary places."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stealtime.wire.frame import LIMIT_BYTES, Frame, FrameDecoder, FrameError, FrameKind, encode_frame

frames = st.builds(Frame, st.sampled_from(FrameKind), st.binary(max_size=300))


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


@given(st.lists(frames, max_size=6), st.lists(st.integers(min_value=0), max_size=12))
def test_frames_come_out_as_they_went_in_wherever_the_bytes_are_cut(sent: list[Frame], places: list[int]) -> None:
    data = b"".join(encode_frame(frame.kind, frame.payload) for frame in sent)
    decoder = FrameDecoder()
    received = [frame for piece in cut(data, places) for frame in decoder.feed(piece)]
    decoder.finish()
    assert received == sent


@given(st.binary(max_size=400), st.lists(st.integers(min_value=0), max_size=8))
def test_arbitrary_bytes_give_frames_or_a_frame_error_and_the_same_ones_wherever_they_are_cut(
    data: bytes, places: list[int]
) -> None:
    def decode(pieces: list[bytes]) -> tuple[list[Frame], str | None]:
        decoder = FrameDecoder()
        received: list[Frame] = []
        try:
            for piece in pieces:
                received.extend(decoder.feed(piece))
            decoder.finish()
        except FrameError as error:
            return received, error.message
        return received, None

    whole, whole_error = decode([data])
    cut_frames, cut_error = decode(cut(data, places))
    # What came whole before the error may be known earlier when the bytes come in pieces, never another frame.
    assert cut_frames[: len(whole)] == whole
    assert (cut_error is None) == (whole_error is None)


@given(frames, st.data())
def test_a_frame_cut_short_is_a_frame_error(frame: Frame, data: st.DataObject) -> None:
    encoded = encode_frame(frame.kind, frame.payload)
    length = data.draw(st.integers(min_value=1, max_value=len(encoded) - 1))
    decoder = FrameDecoder()
    assert list(decoder.feed(encoded[:length])) == []
    with pytest.raises(FrameError, match=f"{length} of"):
        decoder.finish()


@pytest.mark.parametrize("kind", FrameKind)
def test_a_length_over_the_limit_is_refused_before_its_bytes_come(kind: FrameKind) -> None:
    header = struct.pack("<IB", LIMIT_BYTES[kind] + 1, kind)
    with pytest.raises(FrameError, match=f"over the limit of {LIMIT_BYTES[kind]}"):
        list(FrameDecoder().feed(header))
    with pytest.raises(FrameError, match="over the limit"):
        encode_frame(kind, bytes(LIMIT_BYTES[kind] + 1))


def test_a_payload_of_exactly_the_limit_passes() -> None:
    payload = bytes(LIMIT_BYTES[FrameKind.MESSAGE])
    assert list(FrameDecoder().feed(encode_frame(FrameKind.MESSAGE, payload))) == [Frame(FrameKind.MESSAGE, payload)]


@given(st.integers(min_value=0, max_value=255).filter(lambda kind: kind not in (1, 2)))
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(FrameError, match=f"unknown kind {kind}"):
        list(FrameDecoder().feed(struct.pack("<IB", 0, kind)))
