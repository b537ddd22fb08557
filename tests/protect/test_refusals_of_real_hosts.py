"""Hosts over ssh that cannot be measured on: a sentence and a hint, and nothing stays there."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaign_process import stored_run
from machines_over_ssh import ADDRESSES, MachinesOverSsh, registrations_on_both
from protect_command import STEALTIME
from truth import some_of

from stealtime.hosts.laboratory import GUEST_INTERFACE, Laboratory
from stealtime.store.model import Failure
from stealtime.store.run import runs_in

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

HEAD = registrations_on_both("refused")


@pytest.fixture(scope="module")
def machines() -> Iterator[MachinesOverSsh]:
    with Laboratory() as laboratory:
        yield MachinesOverSsh(laboratory)


def failed(machines: MachinesOverSsh, folder: Path, text: str) -> Failure:
    """Have a campaign fail; give why its first cell did."""
    campaign = folder / "campaign.toml"
    campaign.write_text(text)
    running = machines.run(folder, str(campaign))
    _, said = running.communicate(timeout=120)
    assert running.returncode != 0, said
    assert runs_in(folder / "stealtime/runs"), said
    failure = stored_run(folder).trials[0].record.failure
    assert failure is not None
    return failure


def assert_refused(machines: MachinesOverSsh, folder: Path, text: str, message: str, hint: str) -> None:
    failure = failed(machines, folder, text)
    assert message in failure.message, failure
    assert hint in (failure.hint or ""), failure
    assert [machines.left_on(name) for name in ADDRESSES] == [[], []]


NOT_TO_BE_HAD = [
    (f'stealtime = "{STEALTIME}"', 'stealtime = "/no/stealtime"', "stealtime is not to be found at", "its path"),
    (ADDRESSES["b"], "10.77.1.77", "10.77.1.77 cannot be reached over ssh", "ssh root@10.77.1.77 true"),
    (ADDRESSES["b"], ADDRESSES["a"], "have the same name 'a'", "another machine"),
    (GUEST_INTERFACE, f"{ADDRESSES['b']}/24", f"guest's address {ADDRESSES['b']} is taken", "a free one"),
    ('mode = ["net"]', 'mode = ["replicated"]', "the addresses of 2 guests, and 3 are needed", "`more_guests`"),
]
OTHERS = [
    ("echo \"error: No such command 'serve'.\" >&2; exit 2", "cannot lend its host"),
    (
        'read question; echo \'{"number": 0, "version": 1, "stealtime": "0.0.1"}\'; read end',
        "has stealtime 0.0.1, and this machine",
    ),
    ("exec /bin/false", "answers no more"),
]


@pytest.mark.parametrize(("changed", "to", "message", "hint"), some_of(NOT_TO_BE_HAD, NOT_TO_BE_HAD[1]))
def test_what_cannot_be_had_is_a_sentence_and_a_hint(
    machines: MachinesOverSsh, tmp_path: Path, changed: str, to: str, message: str, hint: str
) -> None:
    assert changed in HEAD
    assert_refused(machines, tmp_path, HEAD.replace(changed, to), message, hint)


@pytest.mark.parametrize(("program", "message"), some_of(OTHERS, OTHERS[1]))
def test_another_stealtime_on_a_host_is_named(
    machines: MachinesOverSsh, tmp_path: Path, program: str, message: str
) -> None:
    other = tmp_path / "other-stealtime"
    other.write_text(f"#!/bin/sh\n{program}\n")
    other.chmod(0o755)
    assert_refused(machines, tmp_path, HEAD.replace(str(STEALTIME), str(other)), message, "")


def test_a_host_without_a_daemon_is_named(tmp_path: Path) -> None:
    with Laboratory() as laboratory:
        machines = MachinesOverSsh(laboratory, without_daemon=("b",))
        assert_refused(machines, tmp_path, HEAD, "no daemon receives machines on", "systemctl start stealtime-host")
