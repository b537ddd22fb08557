"""The Debian package of the exporter: unit, alerts and dashboard are those of the tool, and lintian is pleased."""

import subprocess
from importlib import resources
from pathlib import Path

import pytest
from built_packages import only, run

EXPORTER = resources.files("stealtime.capacity.exporter")
UNIT = "lib/systemd/system/stealtime-exporter.service"


@pytest.fixture(scope="module")
def deb() -> Path:
    return only("stealtime-exporter_*_all.deb")


@pytest.fixture(scope="module")
def root(deb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    run("dpkg-deb", "--extract", deb, root)
    return root


def test_it_has_the_files_of_the_tool(root: Path) -> None:
    for name in ("alerts.yml", "grafana.json"):
        assert (root / "usr/share/stealtime-exporter" / name).read_text() == (EXPORTER / name).read_text("utf-8")
    unit = (EXPORTER / "stealtime-exporter.service").read_text("utf-8")
    assert (root / UNIT).read_text() == unit.replace("@STEALTIME@", "stealtime")


def test_nothing_is_enabled_or_started(deb: Path) -> None:
    scripts = run("dpkg-deb", "--info", deb, "postinst", "postrm")
    assert "daemon-reload" in scripts
    assert "deb-systemd-invoke" not in scripts, "that starts it"
    # An upgrade enables it again where somebody had enabled it.
    before, enabling, _ = scripts.partition("deb-systemd-helper enable")
    assert enabling
    assert "if deb-systemd-helper --quiet was-enabled" in before[-200:]


def test_systemd_understands_the_unit(root: Path, tmp_path: Path) -> None:
    unit = tmp_path / "stealtime-exporter.service"
    unit.write_text((root / UNIT).read_text().replace("ExecStart=stealtime", "ExecStart=/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_lintian_has_nothing_to_say(deb: Path) -> None:
    said = run("lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit=0", deb)
    assert not [line for line in said.splitlines() if line[:2] in ("E:", "W:")]
