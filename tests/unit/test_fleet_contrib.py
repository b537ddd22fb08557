"""What `contrib` has for fleets: manifests against the schemas of Kubernetes, and what must stand in others."""

import configparser
import re
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

CONTRIB = Path(__file__).parents[2] / "contrib"


@pytest.mark.parametrize("name", ["fleet.yaml", "check.yaml"])
def test_the_manifests_are_what_kubernetes_takes(name: str) -> None:
    document = yaml.safe_load((CONTRIB / "kubernetes" / name).read_text())
    kubernetes_validate.validate(document, "1.34", strict=True)


def test_a_wrong_manifest_is_refused() -> None:
    document = yaml.safe_load((CONTRIB / "kubernetes/fleet.yaml").read_text())
    document["spec"]["completionsMode"] = document["spec"].pop("completionMode")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, "1.34", strict=True)


def test_the_job_says_how_many_pods_there_are_wherever_that_is_asked() -> None:
    spec = yaml.safe_load((CONTRIB / "kubernetes/fleet.yaml").read_text())["spec"]
    [container] = spec["template"]["spec"]["containers"]
    count = next(one["value"] for one in container["env"] if one["name"] == "JOB_COMPLETIONS")
    assert int(count) == spec["completions"] == spec["parallelism"]
    assert container["resources"]["requests"] == container["resources"]["limits"], "Guaranteed"


@pytest.mark.parametrize("name", ["stealtime-worker.service", "stealtime-scheduler.service"])
def test_units_are_started_with_the_settings_of_the_fleet(name: str) -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((CONTRIB / "dask" / name).read_text().replace("\\\n", " "))
    service = unit["Service"]
    assert service["EnvironmentFile"] == "/etc/stealtime/fleet.env"
    if "worker" in name:
        words = re.split(r"\s+", service["ExecStart"])
        assert words[words.index("--nthreads") + 1] == "1"
        assert {"--no-nanny", "--preload", "stealtime.fleet.preload"} <= set(words)
    else:
        assert "--protocol tls" in service["ExecStart"]
