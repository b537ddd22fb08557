"""What docs/protect.md prints for etcd, and the lines of ``protect etcd-access``, carried out on a real etcd."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stealtime.protect.etcd_access import lines_to_grant, lines_to_revoke

pytestmark = pytest.mark.protect

_WITHIN_S = 60.0
_PAGE = (Path(__file__).parents[2] / "docs" / "protect.md").read_text()
_BLOCKS = re.findall(r"^```\w*\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)


def block_with(words: str) -> str:
    """Give the one block of the page that holds these words."""
    found: list[str] = [text for text in _BLOCKS if words in text]
    assert len(found) == 1, words
    return found[0]


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Etcd:
    """One member on loopback as the page has it, with all that it keeps in a folder, beside the folder ``keys``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys = folder / "keys"
        self._address = f"127.0.0.1:{free_port()}"
        self.environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        (own,) = re.findall(r"`(stealtime protect identity keys --host etcd [^`]+)`", _PAGE)
        self.run(own)
        self.run(block_with("stealtime protect identity keys --host a"))
        peer = f"http://127.0.0.1:{free_port()}"
        beside = {
            "ETCD_DATA_DIR": str(folder / "data"),
            "ETCD_LISTEN_PEER_URLS": peer,
            "ETCD_INITIAL_ADVERTISE_PEER_URLS": peer,
            "ETCD_INITIAL_CLUSTER": f"default={peer}",
            "ETCD_LOGGER": "zap",
            "ETCD_LOG_LEVEL": "error",
        }
        told = self.here(block_with("ETCD_LISTEN_CLIENT_URLS")).splitlines()
        self.process = subprocess.Popen(["etcd"], env={**self.environment, **beside, **dict(map(_key_and_value, told))})

    def await_up(self) -> None:
        deadline = time.monotonic() + _WITHIN_S
        while self.shell("etcdctl get nothing").returncode != 0:
            assert self.process.poll() is None, "etcd has ended"
            assert time.monotonic() < deadline, "etcd does not answer"
            time.sleep(0.1)

    def here(self, text: str) -> str:
        """Put this member in the place of the page's."""
        text = text.replace("10.0.0.9:2379", self._address).replace("/etc/etcd", str(self.keys))
        return re.sub(r"10\.0\.0\.\d+", "127.0.0.1", text)

    def run(self, block: str, **environment: str) -> None:
        """Carry out what the page prints, as whoever pastes it and types nothing."""
        done = subprocess.run(
            ["sh", "-ec", self.here(block)],
            env={**self.environment, **environment},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_WITHIN_S,
        )
        # Of a pipe, the shell tells only how its last command ended.
        assert (done.returncode, "rror" in done.stderr) == (0, False), f"{block}\n{done.stdout}\n{done.stderr}"

    def shell(self, *lines: str, login: str | None = None, host: str = "etcd") -> subprocess.CompletedProcess[str]:
        """Carry out lines with the certificate of a host, and perhaps as a user."""
        variables = {
            "ETCDCTL_API": "3",
            "ETCDCTL_ENDPOINTS": f"https://{self._address}",
            "ETCDCTL_CACERT": "ca.pem",
            "ETCDCTL_CERT": f"{host}.pem",
            "ETCDCTL_KEY": f"{host}.key",
            **({"ETCDCTL_USER": login} if login else {}),
        }
        return subprocess.run(
            ["sh"],
            input="\n".join(lines),
            env={**self.environment, **variables},
            cwd=self.keys,
            capture_output=True,
            text=True,
            check=False,
            timeout=_WITHIN_S,
        )

    def login(self, host: str) -> str:
        user = f"stealtime-host-{host}"
        return f"{user}:{(self.keys / f'{user}.password').read_text().strip()}"

    def root(self) -> str:
        return f"root:{(self.keys / 'etcd-root.password').read_text().strip()}"

    def may_write(self, host: str, machine: str) -> bool:
        done = self.shell(f"etcdctl put /stealtime/protect/{machine} x", login=self.login(host))
        assert done.returncode == 0 or "permission denied" in done.stderr, done.stderr
        return done.returncode == 0


def _key_and_value(line: str) -> tuple[str, str]:
    key, _, value = line.partition("=")
    return key, value


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    assert shutil.which("etcd"), "tools/packages.sh installs it"
    assert shutil.which("etcdctl"), "tools/packages.sh installs it"
    one = Etcd(tmp_path)
    try:
        one.await_up()
        yield one
    finally:
        one.process.kill()
        one.process.wait()


def test_what_the_page_prints_gives_each_host_its_machine(etcd: Etcd) -> None:
    once, access = block_with("etcdctl auth enable"), block_with("stealtime protect etcd-access")
    etcd.run(once + access)
    for password in ("etcd-root.password", "stealtime-host-a.password"):
        assert (etcd.keys / password).stat().st_mode & 0o077 == 0, "a password is nobody else's matter"
    for host in ("a", "b"):
        done = etcd.shell("etcdctl put /stealtime/protect/counter x", login=etcd.login(host), host=host)
        assert done.returncode == 0, done.stderr
        assert not etcd.may_write(host, "other")
    nobody = etcd.shell("etcdctl put /stealtime/protect/counter x", host="a")
    assert nobody.returncode != 0, "a certificate alone is no user's"
    # In another shell, for another machine: the users are there already, and keep their passwords.
    before = etcd.login("a")
    exports = once[: once.index("(umask")]
    later = access.replace("counter", "phones")
    etcd.run(exports + later)
    assert etcd.login("a") == before
    assert etcd.may_write("a", "phones")


def test_a_host_writes_the_records_of_its_machines_and_of_no_others(etcd: Etcd) -> None:
    etcd.run(block_with("etcdctl auth enable"))
    root = etcd.root()
    for machines, hosts in ((["phones", "counter"], ["a", "b"]), (["other"], ["c"])):
        done = etcd.shell("set -e", *lines_to_grant(machines, hosts), login=root)
        assert done.returncode == 0, done.stderr
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
