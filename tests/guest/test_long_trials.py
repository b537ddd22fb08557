"""Whatever is killed while a long trial is measured, what was stored before stays, is found and is shown.

``$STEALTIME_LONG_TRIALS`` makes it three minutes with a checkpoint every 10 s, instead of seconds with one each second.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from stealtime.store.run import Run, Trial

pytestmark = [pytest.mark.guest, pytest.mark.beside]

STEALTIME = str(Path(sys.executable).parent / "stealtime")
IS_LONG = bool(os.environ.get("STEALTIME_LONG_TRIALS"))
CHECKPOINT, DURATION, PARTS = ("10s", "3m", 15) if IS_LONG else ("1s", "60s", 2)
TIMEOUT_S = 300 if IS_LONG else 60
CAMPAIGN = """
name = "long"
platforms = ["{platform}"]
checkpoint = "{checkpoint}"
[[probes]]
probe = "{probe}"
duration = "{duration}"
"""


@dataclass
class Command:
    """A run that goes on."""

    process: "subprocess.Popen[str]"
    runs: Path

    @classmethod
    def start(cls, folder: Path, platform: str, probe: str) -> "Command":
        campaign = folder / "campaign.toml"
        campaign.write_text(CAMPAIGN.format(platform=platform, probe=probe, checkpoint=CHECKPOINT, duration=DURATION))
        runs = folder / "runs"
        arguments = [STEALTIME, "run", str(campaign), "--runs", str(runs)]
        return cls(subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True), runs)

    def wait_for_parts(self) -> int:
        """Wait until so many parts are on the disk; gives how many samples they hold."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for path in self.runs.glob("*/cells/.partial-*/checkpoint.json"):
                stored = json.loads(path.read_text())
                if stored["parts"] >= PARTS:
                    return int(stored["record"]["outcome"]["counters"]["recorded"])
            time.sleep(0.05)
        self.process.kill()
        raise AssertionError(f"{PARTS} parts did not come: {self.process.communicate()[1]}")

    def wait_for(self, words: str) -> None:
        assert self.process.stderr is not None
        seen = []
        for line in self.process.stderr:
            seen.append(line)
            if words in line:
                return
        raise AssertionError(f"the run ended without saying {words!r}: {''.join(seen)}")

    def end(self) -> None:
        """Interrupt it, and once more, so that it waits for nothing."""
        for _ in range(2):
            self.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        self.process.communicate(timeout=TIMEOUT_S)

    def shown(self) -> tuple[int, dict[str, Any]]:
        ended = subprocess.run(
            [STEALTIME, "show", "last", "--runs", str(self.runs), "--json"],
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        [cell] = json.loads(ended.stdout)["cells"]
        return ended.returncode, cell

    def trial(self) -> Trial:
        [folder] = self.runs.iterdir()
        [trial] = Run.open(folder).trials
        return trial


def kill_control_plane(command: Command) -> None:
    command.process.kill()
    command.process.wait(timeout=TIMEOUT_S)


def kill_all_named(name: str) -> Callable[[Command], None]:
    def kill(command: Command) -> None:
        found = [one for one in psutil.Process(command.process.pid).children(recursive=True) if name in one.name()]
        assert found, f"no {name} runs"
        for one in found:
            # The end of one may be that of the others.
            with suppress(psutil.NoSuchProcess):
                one.kill()
        command.wait_for("cut short")
        command.end()

    return kill


@pytest.mark.parametrize(
    ("platform", "probe", "kill"),
    [
        ("native", "tick", kill_control_plane),
        pytest.param("native", "wakeup", kill_all_named("stealtime-agent"), marks=pytest.mark.truth),
        pytest.param("uml", "tick", kill_all_named("linux"), marks=pytest.mark.truth),
    ],
    ids=["control plane", "agent", "guest"],
)
def test_a_kill_costs_what_came_after_the_last_checkpoint(
    tmp_path: Path, platform: str, probe: str, kill: Callable[[Command], None]
) -> None:
    command = Command.start(tmp_path, platform, probe)
    stored = command.wait_for_parts()
    kill(command)
    code, cell = command.shown()
    trial = command.trial()
    record = trial.record
    assert (code, cell["valid"], record.state) == (4, False, "cut_short")
    assert cell["stats"]["count"] >= stored
    assert record.cut_short is not None
    assert 0 < record.cut_short.watched_s < record.cut_short.wanted_s
    assert record.outcome is not None
    rows = pq.read_table(trial.table("samples"))
    assert rows.num_rows == record.outcome.counters["recorded"] == cell["stats"]["count"]
    pauses = [one for one in pq.read_table(trial.table("events")).to_pylist() if one["kind"] == "pause"]
    # One CPU can measure or send; a second one sends meanwhile.
    assert len(pauses) == record.outcome.counters.get("pauses", 0)
    assert bool(pauses) == (platform == "uml")
    if platform == "uml":
        elapsed_ns = record.outcome.clock.end.monotonic_raw_ns - record.outcome.clock.start.monotonic_raw_ns
        paused_ns = sum(one["duration"] for one in pauses) / record.outcome.clock.units_per_s * 1e9
        assert cell["stats"]["count"] * cell["stats"]["mean_ns"] + paused_ns <= elapsed_ns * 1.001


@pytest.mark.truth
def test_the_second_ctrl_c_gives_a_stopped_agent_up_and_says_what_is_kept(tmp_path: Path) -> None:
    command = Command.start(tmp_path, "native", "tick")
    stored = command.wait_for_parts()
    process = command.process
    for one in psutil.Process(process.pid).children(recursive=True):
        if "stealtime-agent" in one.name():
            one.suspend()
    process.send_signal(signal.SIGINT)
    command.wait_for("Ctrl-C once more gives it up")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    said = process.stderr.read()
    assert process.wait(timeout=TIMEOUT_S) == 1
    [run] = command.runs.iterdir()
    assert "error: interrupted; what was measured is kept" in said
    assert f"hint: continue with `stealtime run --resume {run.name}" in said
    assert "Traceback" not in said
    code, cell = command.shown()
    assert (code, cell["valid"]) == (4, False)
    assert cell["stats"]["count"] >= stored
