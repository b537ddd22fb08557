"""``contrib/kubernetes/check.yaml`` is what Kubernetes takes, with the command line that the image has."""

import subprocess
from pathlib import Path

import pytest
from built_packages import ROOT, VERSION

FILE = ROOT / "contrib/kubernetes/check.yaml"
VALIDATE = ROOT / ".tools/packaging/bin/kubernetes-validate"


def validate(file: Path, version: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [VALIDATE, "--strict", "-k", version, file], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_the_schemas_of_kubernetes_take_it(version: str) -> None:
    done = validate(FILE, version)
    assert done.returncode == 0, done.stderr
    assert "passed for resource cronjob/stealtime-check" in done.stdout + done.stderr


def test_a_key_that_kubernetes_does_not_know_is_seen(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(FILE.read_text("utf-8").replace("backoffLimit:", "backofLimit:"))
    done = validate(wrong, "1.37")
    assert done.returncode == 1
    assert "'backofLimit' was unexpected" in done.stdout + done.stderr


def test_it_names_the_image_of_this_release() -> None:
    assert f"stealtime-agent:{VERSION}" in FILE.read_text("utf-8")
