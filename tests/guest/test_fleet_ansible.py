"""The playbook of ``contrib/ansible`` on hosts in network namespaces, each with OpenSSH's server, the real one."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from registry import is_registry_reached
from ssh_daemon import ssh_daemons, unpack_sshd
from traced_cpu import traced_cpu

from stealtime.hosts.laboratory import Laboratory

pytestmark = [pytest.mark.guest, pytest.mark.truth]

ROOT = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3"
UV = ROOT / ".tools/uv/bin/uv"
HOSTS = ("a", "b", "c")
OPTIONS = f"-P native -D 200ms -n 2 -a {traced_cpu()} --wait"


@dataclass(frozen=True)
class Site:
    """Hosts that are reached over ssh, and this machine, which plays the book."""

    folder: Path
    laboratory: Laboratory
    key: Path
    program: Path
    """stealtime of this tree."""

    def play(self, **values: str) -> None:
        inventory = self.folder / "hosts.ini"
        lines = [
            f"{name} ansible_host={node.address('clients')} runs={self.folder}/runs-{name}"
            for name, node in self.laboratory.nodes.items()
            if name in HOSTS
        ]
        common = f"ansible_user=root ansible_ssh_private_key_file={self.key} ansible_python_interpreter={PYTHON}"
        inventory.write_text("[all]\n" + "".join(f"{line} {common}\n" for line in lines))
        values = {
            "campaign": "quick",
            "options": OPTIONS,
            "merger": str(self.program),
            "collected": str(self.folder / "collected"),
            **values,
        }
        playbook = [sys.executable, "-m", "ansible", "playbook", "-i", str(inventory)]
        book = str(ROOT / "contrib/ansible/fleet.yml")
        done = subprocess.run(
            [*self.laboratory.client.prefix, *playbook, book, "-e", json.dumps(values)],
            env={
                **os.environ,
                "ANSIBLE_HOST_KEY_CHECKING": "False",
                "ANSIBLE_HOME": str(self.folder / "ansible"),
                "ANSIBLE_SSH_ARGS": "-o ControlMaster=no -o UserKnownHostsFile=/dev/null",
                "ANSIBLE_REMOTE_TMP": str(self.folder / "remote"),
            },
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@contextmanager
def site(folder: Path, names: Sequence[str]) -> Iterator[Site]:
    unpack_sshd(folder / "unpacked")
    program = folder / "stealtime"
    claims = os.environ.get("STEALTIME_CLAIMS", "")
    settings = f"PYTHONPATH={ROOT / 'src'}" + (f" STEALTIME_CLAIMS={claims}" if claims else "")
    main = "from stealtime.start import main; main()"
    program.write_text(f"#!/bin/sh\n{settings} exec {sys.executable} -c '{main}' \"$@\"\n")
    program.chmod(0o755)
    (folder / "ssh").mkdir()
    with (
        Laboratory(hosts=(), servers=tuple(names)) as laboratory,
        ssh_daemons(laboratory, names, folder / "unpacked", folder / "ssh") as key,
    ):
        yield Site(folder, laboratory, key, program)


def test_three_hosts_measure_their_parts_and_are_merged(tmp_path: Path) -> None:
    with site(tmp_path, HOSTS) as three:
        three.play(stealtime=str(three.program))
    (whole,) = (tmp_path / "collected-merged").iterdir()
    merged = json.loads((whole / "manifest.json").read_text())
    manifests = [json.loads(path.read_text()) for path in (tmp_path / "collected").glob("*/manifest.json")]
    assert sorted((one["identity"]["name"], one["spread"]["index"]) for one in manifests) == [
        ("a", 1),
        ("b", 2),
        ("c", 3),
    ]
    assert len(list((whole / "cells").iterdir())) == 2 * len(merged["planned"])
    assert not list((tmp_path / "collected").rglob("samples*.parquet")), "samples stay with the hosts"
    assert list(tmp_path.glob("runs-*/*/cells/*/samples.parquet")), "and are there"
    assert not list(tmp_path.glob("runs-*/.*.tar.gz"))


def test_a_wheel_is_installed_and_another_one_over_it(tmp_path: Path) -> None:
    if not is_registry_reached(UV):
        pytest.skip("no registry of Python packages is reached")
    wheel = built_wheel(tmp_path)
    # What is told apart from it by nothing but what is in it.
    other = tmp_path / "other" / wheel.name
    other.parent.mkdir()
    shutil.copy(wheel, other)
    with zipfile.ZipFile(other, "a") as archive:
        archive.writestr("stealtime/other.txt", "other")
    prefix = tmp_path / "prefix"
    installed = offline(prefix, wheel, tmp_path)
    short = {"prefix": str(prefix), "python": PYTHON, "options": f"{OPTIONS} --probe tick"}
    with site(tmp_path, HOSTS[:1]) as one:
        one.play(wheel=str(wheel), **short)
        assert not (installed / "stealtime/other.txt").exists()
        found = [json.loads(path.read_text()) for path in (tmp_path / "collected").glob("*/manifest.json")]
        assert [manifest["state"] for manifest in found] == ["finished"]
        one.play(wheel=str(other), **short)
        assert (installed / "stealtime/other.txt").read_text() == "other"
        before = (installed / "stealtime/other.txt").stat().st_ctime_ns
        one.play(wheel=str(other), **short)
        assert (installed / "stealtime/other.txt").stat().st_ctime_ns == before, "it is there already"
    assert len(list((tmp_path / "collected-merged").iterdir())) == 3, "each play has merged what it measured"


def built_wheel(folder: Path) -> Path:
    built = folder / "built"
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", built, ROOT], check=True)
    (wheel,) = built.glob("*.whl")
    return wheel


def offline(prefix: Path, wheel: Path, folder: Path) -> Path:
    """Fetch what a wheel depends on for hosts that reach no registry; gives where it will be installed."""
    subprocess.run([PYTHON, "-m", "venv", folder / "fetching"], check=True)
    fetched = folder / "fetched"
    subprocess.run([folder / "fetching/bin/pip", "download", "--quiet", "--dest", fetched, wheel], check=True)
    prefix.mkdir()
    (prefix / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {fetched}\n")
    (folder_of_packages,) = (folder / "fetching/lib").glob("python3*")
    return prefix / "lib" / folder_of_packages.name / "site-packages"
