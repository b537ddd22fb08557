"""The wheel works alone: installed into an empty environment, away from this tree, it holds all that it needs."""

import json
import os
import shutil
import struct
import subprocess
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from registry import is_registry_reached

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
AGENT = f"stealtime-{VERSION}.data/scripts/stealtime-agent"
AGENT_LIMIT_BYTES = 8 << 20
"""The agent is part of every guest's initramfs and is copied over ssh."""

ELF_TYPE_DYNAMIC = 3
PROGRAM_HEADER_DYNAMIC = 2
PROGRAM_HEADER_INTERPRETER = 3
DYNAMIC_NEEDED = 1


def run(argv: list[str | Path], **options: object) -> str:
    """Run a program; its stdout. What it said on stderr is in the assertion if it fails."""
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{argv} ended with {done.returncode}:\n{done.stderr}"
    return str(done.stdout)


@pytest.fixture(scope="module")
def uv() -> Iterator[Path]:
    ours = ROOT / ".tools" / "uv" / "bin" / "uv"
    found = ours if ours.exists() else shutil.which("uv")
    assert found, "make setup puts uv into .tools"
    with pytest.MonkeyPatch.context() as patch:
        if not is_registry_reached(Path(found)):
            # No registry is reached: its cache may have all that is wanted, as it had for this environment.
            patch.setenv("UV_OFFLINE", "1")
        yield Path(found)


@pytest.fixture(scope="module")
def wheel(uv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built as `make wheel` builds it."""
    folder = tmp_path_factory.mktemp("dist")
    run([uv, "build", "--wheel", "--out-dir", folder, ROOT])
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(uv: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an empty environment with nothing but the wheel and what it depends on."""
    environment = tmp_path_factory.mktemp("empty") / "venv"
    run([uv, "venv", "--quiet", environment])
    run([uv, "pip", "install", "--quiet", "--python", environment / "bin" / "python", wheel])
    return environment / "bin"


def needed_libraries(binary: bytes) -> tuple[bool, int]:
    """Whether an ELF file names an interpreter, and how many shared libraries it needs (man 5 elf, 64-bit)."""
    table_offset = struct.unpack_from("<Q", binary, 32)[0]
    entry_bytes, entries = struct.unpack_from("<HH", binary, 54)
    interpreter, needed = False, 0
    for entry in range(entries):
        offset = table_offset + entry * entry_bytes
        kind, _, file_offset, _, _, file_bytes = struct.unpack_from("<IIQQQQ", binary, offset)
        interpreter |= kind == PROGRAM_HEADER_INTERPRETER
        if kind == PROGRAM_HEADER_DYNAMIC:
            tags = struct.iter_unpack("<QQ", binary[file_offset : file_offset + file_bytes])
            needed += sum(tag == DYNAMIC_NEEDED for tag, _ in tags)
    return interpreter, needed


def test_the_agent_in_the_wheel_is_small_and_needs_no_library(wheel: Path) -> None:
    agent = zipfile.ZipFile(wheel).read(AGENT)
    assert len(agent) < AGENT_LIMIT_BYTES
    assert agent[:4] == b"\x7fELF"
    assert struct.unpack_from("<H", agent, 16)[0] == ELF_TYPE_DYNAMIC, "it can be loaded anywhere"
    assert needed_libraries(agent) == (False, 0)
    # The same reading of a program that is not static, so that the check above is known to be able to fail.
    assert needed_libraries(Path("/bin/sh").read_bytes()) == (True, 1)


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    package = ROOT / "src" / "stealtime"
    expected = {
        str(path.relative_to(package.parent))
        for path in package.rglob("*")
        if path.is_file() and path.suffix not in {".so", ".pyc"}
    }
    assert "stealtime/doctor/debian_packages.txt" in expected
    assert "stealtime/studies/latency/published/hyperv2013.csv" in expected
    names = set(zipfile.ZipFile(wheel).namelist())
    assert expected - names == set()
    assert "stealtime/_core.abi3.so" in names


def test_the_source_distribution_has_all_that_the_wheel_is_built_from(uv: Path, tmp_path: Path) -> None:
    run([uv, "build", "--sdist", "--out-dir", tmp_path, ROOT])
    [source] = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    listed = run(["git", "-C", ROOT, "ls-files", "crates", "src", "Cargo.toml", "Cargo.lock", "setup.py", "LICENSE"])
    expected = set(listed.split())
    assert "crates/agent/src/main.rs" in expected
    assert expected - names == set()


def test_a_build_on_another_machine_ends_with_one_sentence(uv: Path, tmp_path: Path) -> None:
    # The kernel tells these processes another machine (man 2 personality).
    argv = ["setarch", "i686", str(uv), "build", "--wheel", "--out-dir", str(tmp_path), str(ROOT)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert [line for line in done.stderr.splitlines() if line.startswith("error: stealtime runs on Linux on x86-64")]


def test_doctor_of_the_installed_wheel_looks_at_this_machine_with_its_own_agent(
    installed: Path, tmp_path: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "XDG_CACHE_HOME"}}
    done = subprocess.run(
        [installed / "stealtime", "doctor", "--json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    # 4 is for a machine without real-time permission or any guest; the document is whole all the same.
    assert done.returncode in (0, 4), done.stderr
    findings = {finding["id"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert findings["agent"]["level"] == "ok", findings["agent"]
    assert findings["agent"]["reading"]["value"]["path"] == str(installed / "stealtime-agent")
    assert findings["platform:native"]["level"] == "ok", findings["platform:native"]


def test_the_rust_module_of_the_installed_wheel_loads(installed: Path, tmp_path: Path) -> None:
    loaded = run([installed / "python", "-c", "import stealtime._core; print(stealtime._core.__file__)"], cwd=tmp_path)
    assert Path(loaded.strip()).is_relative_to(installed.parent)
