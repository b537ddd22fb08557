"""A host that others use is named: before a run, in its cells, and to a second run on the same CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from machines import MEASURED_CPU
from strangers_on_purpose import hog

pytestmark = pytest.mark.guest

BIN = Path(sys.executable).parent
TIMEOUT_S = 60
# Ordinary threads share a CPU with a stranger; those of SCHED_FIFO would leave it 5 %.
QUICK = ("run", "quick", "--probe", "tick", "-p", "0", "-D", "500ms", "--repetitions", "1")
BOTH = ("--platform", "native,uml")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_DATA_HOME": str(tmp_path), "STEALTIME_CLAIMS": str(tmp_path / "claims")}


def stealtime(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [BIN / "stealtime", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def strangers(ended: "subprocess.CompletedProcess[str]") -> dict[str, dict[str, Any]]:
    assert ended.returncode == 0, ended.stderr
    return {cell["platform"]: cell["strangers"] for cell in json.loads(ended.stdout)["cells"]}


def test_a_hog_on_the_measured_cpu_is_named_and_the_cells_are_not_alone(environment: dict[str, str]) -> None:
    with hog(MEASURED_CPU, 1.0) as pid:
        ended = stealtime(environment, *QUICK, *BOTH, "--json")
    assert "other programs had" in ended.stderr
    assert f"stealtime-agent (pid {pid})" in ended.stderr
    assert [one["code"] for one in json.loads(ended.stdout)["findings"]] == ["busy_before"]
    for platform, seen in strangers(ended).items():
        assert seen["not_alone"] == seen["trials"] == 1, (platform, seen)
        assert seen["who"][0] == "stealtime-agent", (platform, seen)
        assert seen["cpus"] == [MEASURED_CPU]
    page = stealtime(environment, "show", "last").stdout
    assert "not alone" in page
    assert "stealtime-agent" in page


@pytest.mark.truth
def test_nobody_is_named_where_nobody_is(environment: dict[str, str]) -> None:
    ended = stealtime(environment, *QUICK, *BOTH, "--json")
    for platform, seen in strangers(ended).items():
        assert seen["not_alone"] == 0, (platform, seen)
        assert "stealtime-agent" not in seen["who"], (platform, seen)


@pytest.mark.beside
def test_a_second_run_on_the_same_cpu_is_refused_by_name_or_waits(environment: dict[str, str]) -> None:
    native = (*QUICK, "--platform", "native", "--cpu", str(MEASURED_CPU))
    first = subprocess.Popen(
        [BIN / "stealtime", *native, "-D", "60s"], env=environment, stderr=subprocess.PIPE, text=True
    )
    assert first.stderr is not None
    try:
        assert any("booting native" in line for line in first.stderr), "the first run has its claims"
        (run_folder,) = (Path(environment["XDG_DATA_HOME"]) / "stealtime" / "runs").iterdir()
        refused = stealtime(environment, *native)
        assert refused.returncode == 1, refused.stderr
        assert f"{run_folder.name} (pid {first.pid}) has had CPU {MEASURED_CPU} since" in refused.stderr
        assert "--wait" in refused.stderr
        alone = subprocess.run(
            [BIN / "stealtime-agent", "tick", "-a", str(MEASURED_CPU), "-D", "100ms", "--json"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        codes = {finding["code"]: finding["text"] for finding in json.loads(alone.stdout)["outcome"]["findings"]}
        assert codes["cpu_claimed"].startswith(f"{run_folder.name} (pid {first.pid}, since"), codes
        waiting = subprocess.Popen(
            [BIN / "stealtime", *native, "--wait"], env=environment, stderr=subprocess.PIPE, text=True
        )
        assert waiting.stderr is not None
        assert any("waiting" in line and run_folder.name in line for line in waiting.stderr), "it says for whom"
        # Even this lets go of its claims.
        first.kill()
        waiting.stderr.read()
        assert waiting.wait(TIMEOUT_S) == 0
    finally:
        first.kill()
        first.wait()
