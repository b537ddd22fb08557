"""What is told of a member that ended by itself."""

from pathlib import Path

import pytest

from stealtime.protect.ending import ending_error, last_reason, parse_log_tail

EVENT = '{"monotonic_ns":1,"event":"began"}'


@pytest.mark.parametrize(
    ("lines", "reason", "hint"),
    [
        ([EVENT, "error: held by b", "hint: stop it there"], "held by b", "stop it there"),
        ([EVENT, "error: no room"], "no room", None),
        # QEMU's own words, which an error quotes.
        (
            [EVENT, "error: QEMU ended: no such type", "Use -machine help"],
            "QEMU ended: no such type Use -machine help",
            None,
        ),
        # Of an earlier life, and the present one was killed.
        (["error: held by b", "hint: stop it there", EVENT], None, None),
        ([], None, None),
    ],
)
def test_the_last_words_are_those_of_this_life(lines: list[str], reason: str | None, hint: str | None) -> None:
    assert parse_log_tail(lines) == (reason, hint)


def test_the_log_is_named_whatever_it_says(tmp_path: Path) -> None:
    log = tmp_path / "member.log"
    log.write_text(f"{EVENT}\nerror: held by b\nhint: stop it there\n")
    told = ending_error("the member of 'phone' ended", log)
    assert (told.message, told.hint) == ("the member of 'phone' ended: held by b", f"stop it there; its log: {log}")
    log.write_text(f"error: held by b\n{EVENT}\n")
    told = ending_error("the member of 'phone' ended", log)
    assert told.message == f"the member of 'phone' ended; its last line: {EVENT}"
    assert told.hint == f"see {log}"


@pytest.mark.parametrize(
    ("noted", "reason"),
    [
        ('{"event":"began"}\n{"event":"left","reason":"stopped as asked"}\n', "stopped as asked"),
        ('{"event":"fenced","reason":"b took over"}\n', "b took over"),
        # The present life has noted nothing of its end.
        ('{"event":"left","reason":"stopped as asked"}\n{"event":"began"}\n', None),
        ('{"event":"left","rea', None),
        ("[]\n", None),
        ("", None),
    ],
)
def test_what_a_member_noted_of_its_end_is_what_it_noted_last(tmp_path: Path, noted: str, reason: str | None) -> None:
    events = tmp_path / "events.jsonl"
    assert last_reason(events) is None
    events.write_text(noted)
    assert last_reason(events) == reason
