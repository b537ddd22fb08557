"""Hosts that cannot or should not stand by refuse clearly; the guest goes on, and is protected once they are mended.

And hosts that lack something which protection can do without: a disk with room, a kernel with userfaultfd.
"""

import csv
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from odd_host import TinyDisk, counting_on, other_file, patched, put_behind, without_userfaultfd
from protect_command import protect
from two_hosts import HOSTS, TwoHosts, assert_unharmed, await_that, laboratory_or_skip, other

from stealtime.hosts.laboratory import GUEST_BRIDGE
from stealtime.hosts.network import processes_in, run
from stealtime.lab.platforms.qemu_program import find_qemu, qemu_version
from stealtime.protect.endpoint import DEFAULT_PORT
from stealtime.protect.epochs import export_epochs
from stealtime.protect.host_file import HostFile, host_spec
from stealtime.protect.identity import make_identity
from stealtime.protect.specification import write_document
from stealtime.protect.vm_file import Identity, Register

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

Mistake = Callable[[TwoHosts, Path], AbstractContextManager[tuple[str, ...]]]
"""Makes host b odd, and gives what the active member shall say of it."""


@dataclass(frozen=True)
class Odd:
    """A protected machine, and the disk of its register."""

    hosts: TwoHosts
    register_disk: TinyDisk


@pytest.fixture(scope="module")
def odd() -> Iterator[Odd]:
    with laboratory_or_skip() as laboratory:
        disk = TinyDisk(laboratory)
        state = laboratory.folder / "state"
        state.mkdir()
        (state / "register").symlink_to(disk.path)
        hosts = TwoHosts(laboratory, interval="50ms")
        hosts.boot()
        yield Odd(hosts, disk)


@pytest.fixture
def hosts(odd: Odd) -> TwoHosts:
    return odd.hosts


@contextmanager
def otherwise(hosts: TwoHosts, identity: Identity | None = None, register: Register | None = None) -> Iterator[None]:
    """Have host b set up in another way."""
    folder = hosts.state.host("b")
    right = folder.config.read_text()
    host = HostFile(
        name="b",
        listen=f"tcp:{hosts.laboratory.host('b').address('replication')}:{DEFAULT_PORT}",
        bridge=GUEST_BRIDGE,
        identity=identity or Identity.model_validate(json.loads(right)["identity"]),
        register_=register or hosts.vm.register_,
    )
    write_document(folder.config, host_spec(host, hosts.state))
    try:
        yield
    finally:
        folder.config.write_text(right)


@contextmanager
def of_another_authority(hosts: TwoHosts, folder: Path) -> Iterator[tuple[str, ...]]:
    address = hosts.laboratory.host("b").address("replication")
    with otherwise(hosts, make_identity(folder, "b", [address])):
        yield (
            "b is no standby now: ",
            f"the certificate of tcp:{address}:{DEFAULT_PORT} is refused: ",
            "BadSignature",
            "(hint: both hosts need certificates of the same authority",
        )


@contextmanager
def of_another_host(hosts: TwoHosts, folder: Path) -> Iterator[tuple[str, ...]]:
    assert hosts.vm.identity is not None
    authority = hosts.vm.identity.ca.parent
    with otherwise(hosts, make_identity(authority, "c", [hosts.laboratory.host("b").address("replication")])):
        yield "b shows a certificate that is not for b", "(hint: "


@contextmanager
def with_an_empty_register(hosts: TwoHosts, folder: Path) -> Iterator[tuple[str, ...]]:
    # What a VM.toml without [register] gives on two machines.
    with otherwise(hosts, register=Register(folder=folder / "register")):
        yield (
            "b refuses: b looks into another register than a: a holds counter in term ",
            "has nothing of it (hint: name the same etcd, or a folder that both hosts see",
        )


def _newest_record(hosts: TwoHosts) -> dict[str, object]:
    newest = max(hosts.state.register.glob(f"{hosts.vm.name}.*.json"), key=lambda path: path.name)
    return dict(json.loads(newest.read_text()))


@contextmanager
def with_a_copy_of_the_register(hosts: TwoHosts, folder: Path) -> Iterator[tuple[str, ...]]:
    # Nothing is written there after that, so that only the standby's own name is missing in the copy.
    await_that(lambda: _newest_record(hosts)["standby"] is None, hosts.log_tail)
    shutil.copytree(hosts.state.register, folder / "register")
    with otherwise(hosts, register=Register(folder=folder / "register")):
        yield (
            "b refuses: the register here is another one than the active member's: that names this host in term ",
            "(hint: name the same register in VM.toml and in HOST.toml there)",
        )


@contextmanager
def without_the_machine_type(hosts: TwoHosts, folder: Path) -> Iterator[tuple[str, ...]]:
    program = Path(find_qemu())
    kind = str(json.loads(hosts.member("a").spec.read_text())["machine"]["machine"])
    changed = patched(program, kind.encode(), f"{kind[:-1]}X".encode(), folder)
    with put_behind(hosts.laboratory, "b", *other_file(program, changed)):
        yield f'b refuses: QEMU on b has no machine type "{kind}"', "(hint: choose a versioned machine type"


@contextmanager
def that_cannot_load_the_state(hosts: TwoHosts, folder: Path) -> Iterator[tuple[str, ...]]:
    # A device of the same name whose state has another one, as of another build: only loading it tells.
    program = Path(find_qemu())
    changed = patched(program, b"\0virtio-rng\0", b"\0virtio-rnX\0", folder)
    with put_behind(hosts.laboratory, "b", *other_file(program, changed)):
        yield (
            "b refuses: b could not resume it: the state of the devices cannot be loaded: ",
            "virtio-rng",
            "(hint: install the same QEMU package on both hosts)",
        )


@contextmanager
def with_a_full_disk(hosts: TwoHosts, folder: Path) -> Iterator[tuple[str, ...]]:
    with on_tiny_disk(hosts, hosts.member("b").path) as disk:
        disk.fill()
        yield (
            "b refuses: b cannot stand by: the folder of the member cannot be used: No space left",
            "(hint: see that there",
        )


@contextmanager
def on_tiny_disk(hosts: TwoHosts, folder: Path, *needed: str) -> Iterator[TinyDisk]:
    """Have a folder of host b on a disk of 256 KiB, with the files that are needed in it."""
    aside = folder.with_name(f"{folder.name}-aside")
    disk = TinyDisk(hosts.laboratory)
    folder.rename(aside)
    folder.symlink_to(disk.path)
    for name in needed:
        shutil.copy(aside / name, disk.path)
    try:
        yield disk
    finally:
        hosts.power_off("b")
        folder.unlink()
        aside.rename(folder)


@pytest.mark.parametrize(
    "mistake",
    [
        of_another_authority,
        of_another_host,
        with_an_empty_register,
        pytest.param(with_a_copy_of_the_register, marks=pytest.mark.truth),
        without_the_machine_type,
        pytest.param(that_cannot_load_the_state, marks=pytest.mark.truth),
        with_a_full_disk,
    ],
    ids=lambda mistake: mistake.__name__,
)
def test_an_odd_standby_is_refused_and_taken_once_it_is_mended(
    hosts: TwoHosts, tmp_path: Path, mistake: Mistake
) -> None:
    before = hosts.settled()
    assert before.host == "a"
    counting = counting_on(hosts)
    hosts.power_off("b")
    try:
        with mistake(hosts, tmp_path) as said:
            hosts.start_daemon("b")
            assert_told_and_running(hosts, said)
            hosts.power_off("b")
    finally:
        hosts.start_daemon("b")
    after = hosts.settled()
    assert (after.host, after.pid) == ("a", before.pid)
    assert_unharmed(counting.end())


def assert_told_and_running(hosts: TwoHosts, said: tuple[str, ...]) -> None:
    """Assert that the active member says why it has no standby, that its guest runs, and that nothing is left on b."""

    def is_told() -> bool:
        status = hosts.status("a")
        assert status is not None, hosts.log_tail()
        return any(all(words in warning for words in said) for warning in status.warnings)

    await_that(is_told, lambda: f"{said} is not told: {hosts.status('a')}\n{hosts.log_tail()}")
    status = hosts.status("a")
    assert status is not None
    assert (status.role, status.protected, status.standby) == ("solo", False, None)
    # It answers at once: what nobody could take over is not held.
    hosts.ask("status")
    node = hosts.laboratory.host("b")
    # The daemon, and the process that hears whoever connects next.
    await_that(lambda: len(processes_in(node.namespace)) == 2, lambda: f"more than its daemon has runs on b: {node}")
    assert "stt" not in run(*node.prefix, "ip", "-oneline", "link"), "a TAP is left"


@contextmanager
def unprotected(
    hosts: TwoHosts, folder: Path, name: str, identity: Identity, memory_mib: int
) -> Iterator[Callable[[], str]]:
    """Run a second machine on host a that b refuses; give how to ask what its status says."""
    file = folder / "VM.toml"
    file.write_text(
        f'name = "{name}"\nprogram = "counter"\nmemory = "{memory_mib}MiB"\n'
        f'standby_hosts = [{{ name = "b", endpoint = "{hosts.testbed.hosts[1].endpoint}" }}]\n'
        f'identity = {{ ca = "{identity.ca}", certificate = "{identity.certificate}", key = "{identity.key}" }}\n'
        f'register = {{ folder = "{hosts.state.register}" }}\n'
    )
    on_a = hosts.laboratory.host("a").prefix
    started = protect(hosts.state, "start", str(file), "--host", "a", "--no-wait", prefix=on_a)
    assert started.returncode == 0, started.stderr

    def shown() -> str:
        status = protect(hosts.state, "status", name, prefix=on_a)
        assert status.returncode == 3
        return status.stderr

    yield shown
    # It is no harm to the other machine.
    assert hosts.settled().host == "a"
    stopped = protect(hosts.state, "stop", name, prefix=on_a)
    assert stopped.returncode == 0, stopped.stderr


def test_a_qemu_of_another_patch_level_protects_once_it_has_resumed_the_guest_for_trial(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    program = Path(find_qemu())
    ours = qemu_version(str(program))
    package = ours.partition("(")[2].rstrip(")")
    theirs = package[:-1] + ("4" if package[-1] != "4" else "5")
    changed = patched(program, package.encode(), theirs.encode(), tmp_path)
    hosts.power_off("b")
    try:
        with put_behind(hosts.laboratory, "b", *other_file(program, changed)):
            hosts.start_daemon("b")
            warnings = " ".join(hosts.settled().warnings)
            assert f'QEMU is "{ours}" here and "{ours.replace(package, theirs)}" on b: ' in warnings
            counting = counting_on(hosts)
            # There and back: each loads the state of the other.
            for host in HOSTS:
                assert hosts.settled().host == host
                hosts.control(host).failover()
                hosts.await_running(other(host))
            assert hosts.settled().host == "a"
            assert_unharmed(counting.end())
            hosts.power_off("b")
    finally:
        hosts.start_daemon("b")


def test_a_machine_that_is_too_large_for_the_other_host_runs_unprotected(hosts: TwoHosts, tmp_path: Path) -> None:
    assert hosts.vm.identity is not None
    # Enough for it alone; too little for it, for an epoch that is staged, which may be all of it again, and for QEMU.
    memory_mib = int(psutil.virtual_memory().available * 0.6) >> 20
    with unprotected(hosts, tmp_path, "large", hosts.vm.identity, memory_mib) as shown:
        said = f"large on a: b refuses: large needs {2 * memory_mib + 128} MiB on b, and "
        await_that(lambda: said in shown(), lambda: f"{said!r} is not told: {shown()}")
        assert "(hint: give the machine less memory, or stop something on that host)" in shown()
    assert not hosts.state.host("b").member("large").lives()


def test_a_machine_of_a_host_with_the_certificate_of_another_is_refused(hosts: TwoHosts, tmp_path: Path) -> None:
    assert hosts.vm.identity is not None
    stranger = make_identity(hosts.vm.identity.ca.parent, "c", [hosts.laboratory.host("a").address("replication")])
    with unprotected(hosts, tmp_path, "stranger", stranger, memory_mib=128) as shown:
        said = "stranger on a: b refuses: the certificate that a shows is not for a"
        await_that(lambda: said in shown(), lambda: f"{said!r} is not told: {shown()}")
        assert "(hint: make one with `stealtime protect identity` and that name)" in shown()
    assert not hosts.state.host("b").member("stranger").lives()


def test_a_disk_that_fills_up_ends_neither_protection_nor_guest(hosts: TwoHosts) -> None:
    before = hosts.settled()
    assert before.host == "a"
    assert before.pid is not None
    counting = counting_on(hosts)
    hosts.power_off("b")
    with on_tiny_disk(hosts, hosts.state.host("b").path, "host.json") as disk:
        hosts.start_daemon("b")
        hosts.settled()
        disk.fill()
        epoch = hosts.settled().epoch
        await_that(lambda: hosts.settled().epoch > epoch + 5, hosts.log_tail)
        assert hosts.kill_active().pid == before.pid
        moved = hosts.settled(unlike=frozenset({before.pid}))
        assert moved.host == "b"
        assert moved.pid is not None

        def is_told() -> bool:
            status = hosts.status("b")
            return status is not None and any(
                "epochs.csv cannot be written: No space" in one for one in status.warnings
            )

        await_that(is_told, hosts.log_tail)
        assert hosts.settled().pid == moved.pid
        hosts.ask("status")
        disk.free()
        epochs = hosts.member("b").epochs
        await_that(lambda: epochs.exists() and epochs.read_bytes().count(b"\n") > 5, hosts.log_tail)
        # What found no room is missing; what is there is whole.
        with epochs.open() as file:
            rows = list(csv.DictReader(file))
        assert all(None not in row.values() and None not in row for row in rows)
        assert export_epochs(epochs, hosts.laboratory.folder / "epochs.parquet", vm="counter", host="b") >= len(rows)
        assert hosts.kill_active().pid == moved.pid
        back = hosts.settled(unlike=frozenset({moved.pid}))
        assert back.host == "a"
        assert_unharmed(counting.end())
    hosts.start_daemon("b")
    hosts.settled()


def test_a_register_without_room_delays_a_failover_and_nothing_is_lost(odd: Odd) -> None:
    hosts = odd.hosts
    before = hosts.settled()
    assert before.pid is not None
    successor = other(before.host)
    counting = counting_on(hosts)
    odd.register_disk.fill()
    assert hosts.kill_active().pid == before.pid
    pid = hosts.pid(successor)
    await_that(
        lambda: any((one["event"], one["pid"]) == ("claiming", pid) for one in hosts.events(successor)),
        hosts.log_tail,
    )
    standby = hosts.status(successor)
    assert standby is not None
    assert standby.role == "standby", "it took over without being granted a term"
    odd.register_disk.free()
    after = hosts.settled(unlike=frozenset({before.pid}))
    assert (after.host, after.pid) == (successor, pid)
    assert_unharmed(counting.end())


@pytest.mark.truth
def test_without_userfaultfd_pages_are_found_otherwise_and_status_says_why() -> None:
    behind = without_userfaultfd()
    with laboratory_or_skip() as laboratory, put_behind(laboratory, "a", *behind), put_behind(laboratory, "b", *behind):
        hosts = TwoHosts(laboratory, interval="100ms")
        before = hosts.boot()
        counting = counting_on(hosts)
        for name in ("a", "b"):
            status = hosts.status(name)
            assert status is not None
            assert status.tracker in ("soft-dirty", "shadow")
            remark = f"written pages are found by {status.tracker}: userfault is not used: "
            assert any(warning.startswith(remark) for warning in status.warnings), status
            assert any("userfaultfd" in warning and "not implemented" in warning for warning in status.warnings), status
        assert before.pid is not None
        assert hosts.kill_active().pid == before.pid
        after = hosts.settled(unlike=frozenset({before.pid}))
        assert after.host == "b"
        assert after.tracker == before.tracker
        assert_unharmed(counting.end())
