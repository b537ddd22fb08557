"""What a campaign may have started on a host that is lent to it, and what it may read there."""

import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import create_server
from types import SimpleNamespace
from typing import Any

import pytest
from test_lent_hosts import asked, lend

from stealtime.hosts import lending, lent_testbed
from stealtime.hosts.client import LocalClient
from stealtime.hosts.lending import Lending
from stealtime.hosts.lent_hosts import LentHost
from stealtime.hosts.lent_machines import FOLDER_PREFIX
from stealtime.hosts.lent_testbed import LentTestbed
from stealtime.lab.scenarios.real_hosts import RealHosts
from stealtime.protect.identity import make_identity, revoke_identity
from stealtime.protect.state import State
from stealtime.protect.vm_file import Identity, VmFile
from stealtime.vocabulary.errors import StealtimeError, UsageError

PREFIX = "sip-00000001"
FAR_ENOUGH = "it would be started now"


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A short path: sockets are made in it.
    return tmp_path_factory.mktemp("s")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[VmFile]:
    """What would be started; no further is gone."""
    machines: list[VmFile] = []

    def make_spec(vm: VmFile, *_: object) -> None:
        machines.append(vm)
        raise StealtimeError(FAR_ENOUGH)

    monkeypatch.setattr(lending, "make_spec", make_spec)
    return machines


@pytest.fixture
def identity(folder: Path) -> Callable[[str], Identity]:
    """Give the certificate of a host of one authority, whose address is loopback."""
    return lambda name: make_identity(folder / "keys", name, ["127.0.0.1"])


@pytest.fixture
def listen() -> Iterator[Callable[[Identity], str]]:
    """Have somebody listen who shows a certificate; give the endpoint."""
    servers = []

    def start(theirs: Identity) -> str:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(theirs.ca))
        context.load_cert_chain(theirs.certificate, theirs.key)
        context.verify_mode = ssl.CERT_REQUIRED
        server = create_server(("127.0.0.1", 0))
        server.settimeout(30.0)
        servers.append(server)

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                try:
                    with context.wrap_socket(connection, server_side=True) as link:
                        link.recv(1)
                except OSError:
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        return f"tcp:127.0.0.1:{server.getsockname()[1]}"

    yield start
    for server in servers:
        server.close()


def lent(folder: Path, ours: Identity | None = None) -> tuple[Lending, Path]:
    """Give a host that is lent to a campaign, and the campaign's folder with a kernel and an initramfs."""
    host = Lending(lend(folder, identity=ours))
    images = folder / f"images/{FOLDER_PREFIX}{PREFIX}"
    assert asked(host, "lend", prefix=PREFIX, folder=str(images)) == {}
    for name in ("kernel", "guest.cpio"):
        (images / name).write_bytes(b"\x7fELF")
    return host, images


def machine(images: Path, **changes: Any) -> dict[str, Any]:
    files = {"kernel": str(images / "kernel"), "initramfs": str(images / "guest.cpio")}
    return {"name": f"{PREFIX}-1", "mode": "off", **files, **changes}


@pytest.mark.parametrize("key", ["kernel", "initramfs"])
def test_a_machine_boots_from_what_was_copied_for_it_or_is_in_the_hosts_images(
    folder: Path, started: list[VmFile], key: str
) -> None:
    host, images = lent(folder)
    secret = folder / "shadow"
    secret.write_text("root:secret\n")
    (images / "link").symlink_to(secret)
    for path in (secret, images / "link", images / "../../shadow", images, images / "nothing", "guest.cpio", "/\0"):
        refused = asked(host, "start", machine=machine(images, **{key: str(path)}))["error"]
        assert refused == f"machines of the host 'a' may not boot from {path}"
    for name in ("cloud", "host"):
        assert "may not boot from" in asked(host, "start", machine=machine(images, kernel=name))["error"]
    assert started == []
    (folder / "images/kernel").write_bytes(b"\x7fELF")
    assert asked(host, "start", machine=machine(images, **{key: str(folder / "images/kernel")}))["error"] == FAR_ENOUGH
    assert len(started) == 1


@pytest.mark.parametrize(
    "key",
    ["register", "register_", "identity", "qemu", "qemu_user", "metrics", "log", "timing", "program", "allow_faults"],
)
def test_what_names_something_of_the_host_is_refused_by_name(folder: Path, started: list[VmFile], key: str) -> None:
    host, images = lent(folder)
    for value in ({}, {"etcd": ["http://127.0.0.1:1"]}, "/etc/shadow"):
        refused = asked(host, "start", machine=machine(images, **{key: value}))["error"]
        assert refused == f"{key} of a machine is not for a campaign to say"
    assert started == []


def test_the_network_of_a_machine_is_its_own_and_the_bridge_the_hosts(folder: Path, started: list[VmFile]) -> None:
    host, images = lent(folder)
    for key in ("bridge", "tap"):
        refused = asked(host, "start", machine=machine(images, network={key: "eth0"}))["error"]
        assert refused == f"network.{key} of a machine is not for a campaign to say"
    wrong: Any
    for wrong in ([], "br1"):
        assert "is no table" in asked(host, "start", machine=machine(images, network=wrong))["error"]
    assert asked(host, "start", machine=machine(images, network={"address": "10.0.0.5/24"}))["error"] == FAR_ENOUGH
    assert started[0].network.bridge == "br0"


def test_a_machine_may_go_only_to_hosts_that_this_one_knows(
    folder: Path,
    started: list[VmFile],
    identity: Callable[[str], Identity],
    listen: Callable[[Identity], str],
) -> None:
    host, images = lent(folder, identity("a"))
    stranger = make_identity(folder / "others", "b", ["127.0.0.1"])
    others = listen(identity("b"))

    def refusal(name: str, endpoint: str) -> str:
        hosts = [{"name": name, "endpoint": endpoint}]
        return str(asked(host, "start", machine=machine(images, standby_hosts=hosts))["error"])

    another = listen(identity("c"))
    for name, endpoint in (
        ("b", "unix:/run/docker.sock"),
        ("b", listen(stranger)),
        ("b", another),
        ("a", others),
        ("b", "tcp:127.0.0.1:1"),
    ):
        assert refusal(name, endpoint) == f"the host 'a' knows no {name!r} at {endpoint}"
    assert started == []
    assert refusal("b", others) == FAR_ENOUGH
    assert refusal("a", "tcp:10.0.0.1:7460") == FAR_ENOUGH, "that is where it listens itself"


def test_a_host_whose_certificate_was_revoked_is_not_known(
    folder: Path,
    started: list[VmFile],
    identity: Callable[[str], Identity],
    listen: Callable[[Identity], str],
) -> None:
    ours, theirs, kept = (identity(name) for name in "abc")
    revoked = ours.model_copy(update={"revoked": revoke_identity(folder / "keys", "b")})
    host, images = lent(folder, revoked)
    for name, shown, said in (("b", theirs, "knows no 'b' at"), ("c", kept, FAR_ENOUGH)):
        hosts = [{"name": name, "endpoint": listen(shown)}]
        assert said in asked(host, "start", machine=machine(images, standby_hosts=hosts))["error"]


class _Host:
    """What a study has for a lent host: its questions are answered here."""

    start = LentHost.start

    def __init__(self, name: str, endpoint: str, images: Path, there: Lending | None = None) -> None:
        self.name, self.endpoint, self.images, self._there = name, endpoint, (images,), there

    def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        if self._there is None:
            return {}
        answer = asked(self._there, command, **fields)
        if "error" in answer:
            raise StealtimeError(answer["error"])
        return answer

    def copy(self, source: Path, target: Path) -> None:
        if self._there is not None:
            target.write_bytes(source.read_bytes())


@pytest.mark.parametrize("image", [{"initramfs": "guest.cpio"}, {"program": "counter", "program_arguments": ["tcp=7"]}])
def test_what_a_study_starts_is_taken(
    folder: Path,
    started: list[VmFile],
    identity: Callable[[str], Identity],
    listen: Callable[[Identity], str],
    monkeypatch: pytest.MonkeyPatch,
    image: dict[str, Any],
) -> None:
    there = Lending(lend(folder, identity=identity("a")))
    for name in ("kernel", "guest.cpio"):
        (folder / name).write_bytes(b"\x7fELF")
    packed = SimpleNamespace(path=folder / "guest.cpio")
    monkeypatch.setattr(lent_testbed, "find_kernel", lambda _: SimpleNamespace(boot_image=folder / "kernel"))
    monkeypatch.setattr(lent_testbed, "pack_agent", lambda _: packed)
    hosts: Any = [
        _Host("a", "tcp:10.0.0.1:7460", folder / "images", there),
        _Host("b", listen(identity("b")), folder / "images"),
    ]
    terms = RealHosts(standby="ssh:root@10.0.0.2", guest="10.0.0.100/24")
    testbed = LentTestbed(hosts, terms, LocalClient("10.0.0.9"), folder)
    testbed.open()
    machine: dict[str, Any] = {
        "mode": "net+bypass",
        "memory": "512MiB",
        "bypass": [{"protocol": "udp", "source_port": "30000-40000"}],
        "interval": "50000000ns",
    }
    if "initramfs" in image:
        image = {"initramfs": folder / "guest.cpio", "kernel_arguments": "rootfstype=ramfs"}
    guest = testbed.guest("one", **machine, **image)
    with pytest.raises(StealtimeError, match=FAR_ENOUGH):
        guest.start()
    (told,) = started
    assert [host.name for host in told.standby_hosts] == ["b", "a"]
    assert (told.name, told.network.address, told.mac) == (guest.name, "10.0.0.100/24", "52:54:00:00:00:64")
    assert told.kernel_arguments == ("stealtime.run=counter,tcp=7" if "program" in image else "rootfstype=ramfs")


def test_more_guests_than_addresses_are_refused(folder: Path) -> None:
    terms = RealHosts(standby="ssh:root@10.0.0.2", guest="10.0.0.100/24", more_guests=("10.0.0.101",))
    testbed = LentTestbed([], terms, LocalClient("10.0.0.9"), folder)
    assert [testbed.address(number) for number in (0, 1)] == ["10.0.0.100", "10.0.0.101"]
    with pytest.raises(UsageError, match="names the addresses of 2 guests, and 3 are needed") as caught:
        testbed.address(2)
    assert "more_guests" in (caught.value.hint or "")


def test_a_campaign_reads_in_the_daemons_log_what_is_about_its_machines(folder: Path) -> None:
    host, _ = lent(folder)
    log = State(folder / "state").host("a").log
    log.write_text(f'{{"vm":"phone","event":"boot"}}\n{{"vm":"{PREFIX}-1","event":"boot"}}\n')
    words = asked(host, "words")["words"]
    assert f'"{PREFIX}-1"' in words
    assert "phone" not in words


def test_machines_that_are_not_the_campaigns_are_not_lent(folder: Path) -> None:
    state = lend(folder)
    (state.host("a").path / "db-00000002-main").mkdir()
    host = Lending(state)

    def refusal(prefix: str) -> str | None:
        where = str(folder / f"images/{FOLDER_PREFIX}{prefix}")
        return asked(host, "lend", prefix=prefix, folder=where).get("error")

    assert "machines of another campaign" in (refusal("db-00000002") or "")
    assert refusal(PREFIX) is None
    assert "was lent to this campaign already" in (refusal("sip-00000003") or "")
