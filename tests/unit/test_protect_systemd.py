"""The units: well-formed, and as closed as systemd itself counts it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from stealtime.protect.systemd import UNITS, unit_text

EXPOSURE_MAX = {"stealtime-host.service": 4.5, "stealtime-leave.service": 4.5, "stealtime-vm@.service": 4.5}
"""Of 10, as ``systemd-analyze security`` of systemd 252 counts. Without restrictions it is 9.6."""


@pytest.fixture
def analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("the program systemd-analyze is not installed")
    return found


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_as_closed_as_it_can_be(name: str, analyze: str, tmp_path: Path) -> None:
    # An instance: of a template alone nothing is counted.
    path = tmp_path / name.replace("@", "@counter")
    path.write_text(unit_text(name))
    done = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", str(path)], capture_output=True, text=True, check=False
    )
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert path.name not in done.stderr, "a key that systemd does not know"
    assert float(found[1]) <= EXPOSURE_MAX[name], done.stdout
