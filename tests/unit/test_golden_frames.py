"""The frames that the Rust side wrote: Python must read the same messages and write the same JSON."""

import json
from pathlib import Path

import pytest

from stealtime.wire.frame import FrameDecoder, FrameKind, encode_frame
from stealtime.wire.message import from_agent, to_agent

FOLDER = Path(__file__).parents[1] / "golden" / "frames"
NAMES = sorted(path.stem for path in FOLDER.glob("*.bin"))
TO_AGENT = {
    *("hello", "calibrate", "exchange_clock", "run_trial", "cancel_trial", "shutdown"),
    *("start_tracing", "stop_tracing", "start_load", "stop_load", "part_stored"),
    *("start_program", "list_threads"),
}


def test_there_are_golden_frames_of_both_directions() -> None:
    assert {"control_hello", "agent_hello", "run_trial_tick", "trial_done", "failed"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_frame_is_read_and_written_again_as_the_same_json(name: str) -> None:
    decoder = FrameDecoder()
    (frame,) = decoder.feed((FOLDER / f"{name}.bin").read_bytes())
    decoder.finish()
    assert frame.kind is FrameKind.MESSAGE
    expected = json.loads((FOLDER / f"{name}.json").read_text())
    assert json.loads(frame.payload) == expected
    from_control = expected["type"] in TO_AGENT and "agent_version" not in expected
    message = (to_agent if from_control else from_agent).validate_json(frame.payload)
    written = message.model_dump_json().encode()
    assert json.loads(written) == expected
    (again,) = FrameDecoder().feed(encode_frame(FrameKind.MESSAGE, written))
    assert json.loads(again.payload) == expected
