"""What a living run has made is never taken for a leftover, and what a dead one has made is."""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from stealtime.capacity.watch import neighbours
from stealtime.lab.platforms import leftovers
from stealtime.lab.platforms.process import RUN_MARK, run_mark
from stealtime.vocabulary.errors import StealtimeError


@pytest.fixture(autouse=True)
def nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a wrong judgement end no process and remove no folder or group of another run on this host."""
    own = psutil.Process().children
    monkeypatch.setattr(psutil, "process_iter", lambda: own(recursive=True))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(leftovers, "clear_groups", lambda is_left_over: [])


@pytest.fixture
def marked(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, RUN_MARK: getattr(request, "param", None) or run_mark()}
    with subprocess.Popen(["sleep", "600"], env=environment) as process:
        yield process
        process.kill()


def clear() -> tuple[str, ...]:
    return leftovers.clear_leftovers.__wrapped__()


def mark_with(*, ticks: int = 0, namespace: int = 0) -> str:
    """Give the mark of this process, had it another start or namespace."""
    own_namespace, pid, own_ticks = run_mark().split(":")
    return f"{int(own_namespace) + namespace}:{pid}:{int(own_ticks) + ticks}"


def test_setting_the_wall_clock_does_not_end_a_run(
    marked: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = leftovers.make_short_folder()
    # A host whose clock was set by one second: all that is known of processes is as before but for the time of boot.
    proc = tmp_path / "proc"
    proc.mkdir()
    stat = Path("/proc/stat").read_text()
    (proc / "stat").write_text(re.sub(r"btime (\d+)", lambda found: f"btime {int(found[1]) + 1}", stat))
    for pid in (os.getpid(), marked.pid):
        (proc / str(pid)).symlink_to(f"/proc/{pid}")
    before = psutil.Process().create_time()
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(proc))
    assert psutil.Process().create_time() == pytest.approx(before + 1, abs=0.1), "the clock must have been set"
    assert clear() == ()
    assert folder.is_dir()
    assert marked.poll() is None


@pytest.mark.parametrize("marked", [mark_with(ticks=-2)], ids=["two ticks earlier"], indirect=True)
def test_what_an_earlier_process_with_our_pid_has_left_is_cleared(
    marked: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    folder = tmp_path / f"stealtime-{mark_with(ticks=-2)}-abc"
    folder.mkdir()
    assert len(clear()) == 2
    assert not folder.exists()
    assert marked.wait(timeout=30) == -9


@pytest.mark.parametrize("mark", ["77:1795371234.12", "mine", ""])
def test_what_carries_no_mark_of_ours_is_left_alone(mark: str) -> None:
    assert not leftovers.is_left_over(mark)


def test_a_mark_is_the_same_in_each_process_that_asks_for_it() -> None:
    script = "import sys; from stealtime._core import owner_of; print(owner_of(int(sys.argv[1])))"
    told = subprocess.run(
        [sys.executable, "-c", script, str(os.getpid())], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.strip() == run_mark()


def test_a_temporary_folder_goes_with_its_context_or_at_the_start_after_a_kill(tmp_path: Path) -> None:
    with leftovers.temporary_folder() as ours:
        killed = (
            "import os, tempfile\n"
            f"tempfile.tempdir = {str(tmp_path)!r}\n"
            "from stealtime.lab.platforms.leftovers import temporary_folder\n"
            "with temporary_folder() as folder:\n"
            "    (folder / 'agent.log').touch()\n"
            "    os.kill(os.getpid(), 9)\n"
        )
        assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -9
        (theirs,) = [folder for folder in tmp_path.iterdir() if folder != ours]
        assert any(str(theirs) in cleared for cleared in clear())
        assert list(tmp_path.iterdir()) == [ours]
    assert list(tmp_path.iterdir()) == []


def test_a_watch_that_begins_removes_what_a_killed_one_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    left = Path(tempfile.mkdtemp(prefix=f"stealtime-{mark_with(ticks=-2)}-"))

    def no_tracer(*_: object) -> object:
        raise StealtimeError("this is no test of tracing")

    monkeypatch.setattr(neighbours, "host_tracer", no_tracer)
    leftovers.clear_leftovers.cache_clear()
    with pytest.raises(StealtimeError, match="no test of tracing"):
        asyncio.run(neighbours.follow(dict, dict, lambda _: None, ()))
    assert not left.exists()
    leftovers.clear_leftovers.cache_clear()
