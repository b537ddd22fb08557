"""The playbook of ``contrib/ansible`` on three hosts: network namespaces, each with OpenSSH's server, the real one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ssh_daemon import ssh_daemons, unpack_sshd
from traced_cpu import traced_cpu

from stealtime.hosts.laboratory import Laboratory

pytestmark = [pytest.mark.guest, pytest.mark.truth]

ROOT = Path(__file__).parents[2]
HOSTS = ("a", "b", "c")
OPTIONS = f"-P native -D 200ms -n 2 -a {traced_cpu()} --wait"


def test_three_hosts_measure_their_parts_and_are_merged(tmp_path: Path) -> None:
    unpack_sshd(tmp_path / "unpacked")
    program = tmp_path / "stealtime"
    claims = os.environ.get("STEALTIME_CLAIMS", "")
    settings = f"PYTHONPATH={ROOT / 'src'}" + (f" STEALTIME_CLAIMS={claims}" if claims else "")
    main = "from stealtime.start import main; main()"
    program.write_text(f"#!/bin/sh\n{settings} exec {sys.executable} -c '{main}' \"$@\"\n")
    program.chmod(0o755)
    folder = tmp_path / "ssh"
    folder.mkdir()
    with (
        Laboratory(hosts=(), servers=HOSTS) as laboratory,
        ssh_daemons(laboratory, HOSTS, tmp_path / "unpacked", folder) as key,
    ):
        inventory = tmp_path / "hosts.ini"
        lines = [
            f"{name} ansible_host={laboratory.nodes[name].address('clients')} runs={tmp_path}/runs-{name}"
            for name in HOSTS
        ]
        common = f"ansible_user=root ansible_ssh_private_key_file={key} ansible_python_interpreter={sys.executable}"
        inventory.write_text("[all]\n" + "".join(f"{line} {common}\n" for line in lines))
        values = {
            "campaign": "quick",
            "options": OPTIONS,
            "stealtime": str(program),
            "merger": str(program),
            "collected": str(tmp_path / "collected"),
        }
        playbook = [sys.executable, "-m", "ansible", "playbook", "-i", str(inventory)]
        done = subprocess.run(
            [*laboratory.client.prefix, *playbook, str(ROOT / "contrib/ansible/fleet.yml"), "-e", json.dumps(values)],
            env={
                **os.environ,
                "ANSIBLE_HOST_KEY_CHECKING": "False",
                "ANSIBLE_HOME": str(tmp_path / "ansible"),
                "ANSIBLE_SSH_ARGS": "-o ControlMaster=no -o UserKnownHostsFile=/dev/null",
                "ANSIBLE_REMOTE_TMP": str(tmp_path / "remote"),
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=230,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    merged = json.loads((tmp_path / "collected-merged/manifest.json").read_text())
    manifests = [json.loads(path.read_text()) for path in (tmp_path / "collected").glob("*/manifest.json")]
    assert sorted((one["identity"]["name"], one["spread"]["index"]) for one in manifests) == [
        ("a", 1),
        ("b", 2),
        ("c", 3),
    ]
    assert len(list((tmp_path / "collected-merged/cells").iterdir())) == 2 * len(merged["planned"])
    assert not list((tmp_path / "collected").rglob("samples*.parquet")), "samples stay with the hosts"
    assert list(tmp_path.glob("runs-*/*/cells/*/samples.parquet")), "and are there"
    assert not list(tmp_path.glob("runs-*/.*.tar.gz"))
