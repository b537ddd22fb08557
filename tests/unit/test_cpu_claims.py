"""Claims on CPUs: the second of two runs learns of the first, and a claim ends with its holder."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stealtime.lab.scenarios.cpu_claims import CpuClaims, CpusClaimedError, held_by_others, shared_folder

HOLD = """
import sys
from pathlib import Path
from stealtime.lab.scenarios.cpu_claims import CpuClaims
claims = CpuClaims([1, 2], "the run 20261125T180000Z-quick", Path(sys.argv[1]))
claims.take()
print("held", flush=True)
sys.stdin.read()
"""


def test_the_second_run_is_told_of_the_first_by_name(tmp_path: Path) -> None:
    first = CpuClaims([1, 2], "a command", tmp_path)
    first.take()
    first.tell("the run 20261125T180000Z-quick")
    with pytest.raises(CpusClaimedError) as caught:
        CpuClaims([0, 1], "another", tmp_path).take()
    assert f"the run 20261125T180000Z-quick (pid {os.getpid()}) has had CPU 1 since 20" in caught.value.message
    assert caught.value.hint is not None
    assert "--wait" in caught.value.hint
    assert "--cpu" in caught.value.hint
    # What it got before it was refused is free again.
    assert held_by_others([0], tmp_path) == []
    first.release()
    CpuClaims([0, 1], "another", tmp_path).take()


def test_cpus_that_do_not_meet_disturb_nobody(tmp_path: Path) -> None:
    CpuClaims([1], "one", tmp_path).take()
    CpuClaims([0, 2], "another", tmp_path).take()


def test_a_link_in_place_of_the_folder_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link"):
        CpuClaims([1], "one", tmp_path / "link").take()
    assert held_by_others([1], tmp_path / "link") == []
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_to_ask_claims_nothing(tmp_path: Path) -> None:
    claims = CpuClaims([1], "one", tmp_path)
    assert held_by_others([1], tmp_path) == []
    claims.take()
    assert [(holder.what, holder.cpus) for holder in held_by_others([0, 1], tmp_path)] == [("one", (1,))]


def test_a_claim_is_gone_with_its_holder_even_after_kill_9(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        (held,) = held_by_others([1, 2, 3], tmp_path)
        assert (held.what, held.pid, held.cpus) == ("the run 20261125T180000Z-quick", holder.pid, (1, 2))
        holder.send_signal(signal.SIGKILL)
    assert held_by_others([1, 2, 3], tmp_path) == []
    CpuClaims([1, 2], "the next", tmp_path).take()


@pytest.mark.parametrize("text", ["", "{", '{"what": "x"}', '{"what": "x", "pid": "y", "since": ""}', "\0\1"])
def test_what_stands_in_a_claim_may_be_anything(tmp_path: Path, text: str) -> None:
    claims = CpuClaims([1], "one", tmp_path)
    claims.take()
    (tmp_path / "cpu-1").write_text(text)
    (holder,) = held_by_others([1], tmp_path)
    assert holder.what == "something that does not say its name"


def test_a_name_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    claims = CpuClaims([1], "one\x1b[2J\n", tmp_path)
    claims.take()
    (holder,) = held_by_others([1], tmp_path)
    assert holder.what == "one[2J"


def test_a_link_in_the_place_of_a_claim_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "cpu-1").symlink_to(target)
    with pytest.raises(OSError, match="symbolic link"):
        CpuClaims([1], "one", tmp_path).take()
    assert target.read_text() == "precious"


def test_everybody_can_claim_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEALTIME_CLAIMS", str(tmp_path / "claims"))
    mask = os.umask(0o077)
    try:
        folder = shared_folder()
        CpuClaims([1], "one").take()
    finally:
        os.umask(mask)
    assert folder.stat().st_mode & 0o7777 == 0o1777
    assert (folder / "cpu-1").stat().st_mode & 0o777 == 0o666
