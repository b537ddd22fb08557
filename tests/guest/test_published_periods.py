"""What comes again each second in a guest is found by ``compare --published``, and where nothing does, nothing is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from machines import needs_root

pytestmark = [pytest.mark.guest, pytest.mark.truth, needs_root]

STEALTIME = str(Path(sys.executable).parent / "stealtime")
PLATFORM = "qemu-tcg-paravirt"
SCENARIO = "one-to-one"
CAMPAIGN = f"""
name = "each-second"
platforms = ["{PLATFORM}"]
scenarios = ["{SCENARIO}"]
repetitions = 4
memory = "512MiB"
lift_rt_throttling = "guests"
{{injection}}
[[probes]]
probe = "tick"
loop = "68us"
duration = "12s"
"""
EACH_SECOND = '[injection]\nevery = "1s"\nsteal = "5ms"\n'


@pytest.mark.parametrize(("injection", "verdict"), [(EACH_SECOND, "agrees"), ("", "disagrees")])
def test_high_values_each_second_are_found_where_they_are(tmp_path: Path, injection: str, verdict: str) -> None:
    campaign = tmp_path / "each-second.toml"
    campaign.write_text(CAMPAIGN.format(injection=injection))
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}

    def stealtime(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([STEALTIME, *arguments], env=environment, capture_output=True, text=True, check=False)

    ran = stealtime("run", str(campaign))
    assert ran.returncode == 0, ran.stderr
    document = json.loads(stealtime("compare", "last", "--published", "hyperv2013", "--json").stdout)
    [periods] = [group["claims"] for group in document["groups"] if group["kind"] == "periods"]
    [claim] = [
        one for one in periods if (one["platform"], one["scenario"], one["base_scenario"]) == (PLATFORM, SCENARIO, None)
    ]
    assert claim["judgement"]["verdict"] == verdict, claim["judgement"]["words"]
