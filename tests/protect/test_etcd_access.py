"""The lines of ``protect etcd-access``, carried out by a real etcdctl on a real etcd whose authentication is on."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stealtime.protect.etcd_access import lines_to_grant, lines_to_revoke

pytestmark = pytest.mark.protect

_WITHIN_S = 60.0


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Etcd:
    """One member on loopback, with all that it keeps in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.environment = {**os.environ, "ETCDCTL_API": "3", "ETCDCTL_ENDPOINTS": client}
        argv = ["etcd", "--data-dir", str(folder / "data"), "--logger=zap", "--log-level=error"]
        argv += ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
        argv += ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
        self.process = subprocess.Popen(argv)
        deadline = time.monotonic() + _WITHIN_S
        while self.shell("etcdctl get nothing").returncode != 0:
            assert time.monotonic() < deadline, "etcd does not answer"
            time.sleep(0.1)

    def shell(self, *lines: str, login: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **({"ETCDCTL_USER": login} if login else {})}
        return subprocess.run(
            ["sh"],
            input="\n".join(lines),
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def login(self, host: str) -> str:
        user = f"stealtime-host-{host}"
        return f"{user}:{(self.folder / f'{user}.password').read_text().strip()}"

    def may_write(self, host: str, machine: str) -> bool:
        done = self.shell(f"etcdctl put /stealtime/protect/{machine} x", login=self.login(host))
        assert done.returncode == 0 or "permission denied" in done.stderr, done.stderr
        return done.returncode == 0


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    assert shutil.which("etcd"), "tools/packages.sh installs it"
    assert shutil.which("etcdctl"), "tools/packages.sh installs it"
    one = Etcd(tmp_path)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.wait()


def test_a_host_writes_the_records_of_its_machines_and_of_no_others(etcd: Etcd) -> None:
    root = "root:secret"
    done = etcd.shell("etcdctl user add root:secret && etcdctl user grant-role root root && etcdctl auth enable")
    assert done.returncode == 0, done.stderr
    for machines, hosts in ((["phones", "counter"], ["a", "b"]), (["other"], ["c"])):
        done = etcd.shell("set -e", *lines_to_grant(machines, hosts), login=root)
        assert done.returncode == 0, done.stderr
    password = etcd.folder / "stealtime-host-a.password"
    assert password.stat().st_mode & 0o077 == 0, "a password is nobody else's matter"
    for host, machine, may in (
        ("a", "phones", True), ("b", "counter", True), ("c", "other", True),
        ("a", "other", False), ("c", "phones", False), ("a", "phones2", False),
    ):  # fmt: skip
        assert etcd.may_write(host, machine) == may, (host, machine)
    done = etcd.shell("set -e", *lines_to_revoke(["phones"], ["a"]), *lines_to_revoke([], ["c"]), login=root)
    assert done.returncode == 0, done.stderr
    assert not etcd.may_write("a", "phones")
    assert etcd.may_write("a", "counter")
    gone = etcd.shell("etcdctl put /stealtime/protect/other x", login=etcd.login("c"))
    assert "authentication failed" in gone.stderr, gone.stderr
