"""The wheel runs on any Linux with the glibc of 2018: nothing in it asks for a newer one, and it works alone."""

import json
import os
import subprocess
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from built_packages import ROOT, run
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

OLDEST_GLIBC = (2, 28)
"""Of Debian 10, RHEL 8 and Ubuntu 18.10 (PEP 600)."""
IN_PLACE = {
    "stealtime/_core.abi3.so",
    "stealtime/lab/platforms/libstealtime_fpstate.abi3.so",
    "stealtime/protect/libstealtime_pagetrack.abi3.so",
    "stealtime/studies/telephony/sipp/libstealtime_sippsockets.abi3.so",
}
PROGRAMS = {"stealtime-agent", "stealtime-replicator"}


def newest_glibc(binary: bytes) -> tuple[int, ...] | None:
    """Give the newest version of glibc whose symbols an ELF file needs; None if it needs none."""
    versions = [
        tuple(int(part) for part in version.name.removeprefix("GLIBC_").split("."))
        for section in ELFFile(BytesIO(binary)).iter_sections()
        if isinstance(section, GNUVerNeedSection)
        for _, needed in section.iter_versions()
        for version in needed
        if version.name.startswith("GLIBC_2")
    ]
    return max(versions, default=None)


def test_nothing_in_the_wheel_needs_a_newer_glibc(wheel: Path) -> None:
    assert wheel.name.endswith("-cp311-abi3-manylinux_2_28_x86_64.whl")
    with zipfile.ZipFile(wheel) as archive:
        needs = {
            name: newest_glibc(content)
            for name in archive.namelist()
            if (content := archive.read(name))[:4] == b"\x7fELF"
        }
    assert {name for name in needs if name.startswith("stealtime/")} == IN_PLACE
    assert {Path(name).name for name in needs if "/scripts/" in name} == PROGRAMS
    assert {name: version for name, version in needs.items() if version is not None and version > OLDEST_GLIBC} == {}
    # The agent is static. Of the others each was seen to need something: the reading works.
    assert [Path(name).name for name, version in needs.items() if version is None] == ["stealtime-agent"]


def test_the_reading_sees_a_program_that_was_built_for_this_glibc_only() -> None:
    newest = newest_glibc(Path("/bin/sh").read_bytes())
    assert newest is not None
    assert newest > OLDEST_GLIBC, "a program of Debian 12 needs a newer glibc"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an empty environment with nothing but the wheel and what it depends on."""
    uv = ROOT / ".tools/uv/bin/uv"
    environment = tmp_path_factory.mktemp("empty") / "venv"
    run(uv, "venv", "--quiet", environment)
    run(uv, "pip", "install", "--quiet", "--python", environment / "bin" / "python", wheel)
    return environment / "bin"


@pytest.fixture(scope="module")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Somebody new: no cache, no runs, nothing of this tree."""
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path_factory.mktemp("home"))}


def test_the_wheel_measures_in_an_empty_environment_and_an_empty_home(
    installed: Path, empty_home: dict[str, str]
) -> None:
    def stealtime(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [str(installed / "stealtime"), *arguments]
        return subprocess.run(
            argv, env=empty_home, cwd=empty_home["HOME"], capture_output=True, text=True, timeout=300, check=False
        )

    doctor = stealtime("doctor", "--json")
    # 4: the machine is no good one; the document is whole all the same.
    assert doctor.returncode in (0, 4), doctor.stderr
    levels = {finding["id"]: finding["level"] for finding in json.loads(doctor.stdout)["findings"]}
    assert levels["agent"] == levels["platform:native"] == levels["platform:uml"] == "ok"

    measured = stealtime(
        "run", "quick", "-D", "2s", "--probe", "tick", "--repetitions", "1", "-P", "native", "-P", "uml"
    )
    # 4: something was invalid, as on a machine where others work.
    assert measured.returncode in (0, 4), measured.stderr
    assert "native" in measured.stdout
    report = stealtime("report", "last")
    assert report.returncode in (0, 4), report.stderr
    [page] = Path(empty_home["HOME"]).glob("**/report.html")
    assert "<html" in page.read_text("utf-8")[:500]

    checked = stealtime("check", "--for", "5s", "--json")
    assert checked.returncode in (0, 3, 4), checked.stderr
    assert "schema_version" in json.loads(checked.stdout)
