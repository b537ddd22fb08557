"""What `stealtime protect start` refuses, as a user meets it: nothing of it is left, and what runs goes on."""

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from protect_command import (
    MACHINE,
    PATIENCE_S,
    assert_refused,
    belonging_to,
    protect,
    state_of_its_own,
    taps,
)
from two_hosts import await_that

from stealtime.protect.control import ControlClient
from stealtime.protect.state import State
from stealtime.vocabulary.quantities import approximate_size

pytestmark = [
    pytest.mark.protect,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

TO_LOCAL = ("--to", "local", "--host", "a")


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[State]:
    with state_of_its_own(tmp_path_factory.mktemp("s")) as made:
        yield made


@pytest.fixture
def vm(tmp_path: Path) -> Path:
    path = tmp_path / "VM.toml"
    path.write_text(MACHINE)
    return path


def test_a_second_start_is_refused_here_and_elsewhere_and_stop_leaves_nothing(
    state: State, vm: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    started = protect(state, "start", str(vm), *TO_LOCAL, "--timeout", f"{PATIENCE_S:g}s")
    assert started.returncode == 0, started.stderr
    before = {process.pid for process in belonging_to(state)}
    assert len(before) >= len(("two daemons", "two members", "two guests"))
    devices = taps()
    member = ControlClient(state.host("a").member("phone").control_socket)
    reached = member.status()

    again = protect(state, "start", str(vm), *TO_LOCAL)
    assert_refused(again, 2, "the VM 'phone' already has a member here, as the host 'a'")
    assert "stealtime protect stop phone" in again.stderr
    # Another host has a state of its own; what the two share is the register.
    vm.write_text(f'{MACHINE}register = {{ folder = "{state.register}" }}\n')
    with state_of_its_own(tmp_path_factory.mktemp("s")) as of_c:
        elsewhere = protect(of_c, "start", str(vm), "--to", "local", "--host", "c")
        assert_refused(elsewhere, 1, "the member of 'phone' ended: the virtual machine is held by a@")
        assert "start with --force" in elsewhere.stderr
        _, alive = psutil.wait_procs(belonging_to(of_c), timeout=PATIENCE_S)
        assert alive == []
    assert {process.pid for process in belonging_to(state)} == before
    assert taps() == devices

    def goes_on() -> bool:
        status = member.status()
        assert status.pid == reached.pid
        assert status.term == reached.term
        assert status.protected, status
        return status.acknowledged > reached.acknowledged

    await_that(goes_on, lambda: "no epoch is acknowledged any more")
    stopped = protect(state, "stop", "phone")
    assert stopped.returncode == 0, stopped.stderr
    _, alive = psutil.wait_procs(belonging_to(state), timeout=PATIENCE_S)
    assert alive == []
    assert not taps() & devices


@pytest.mark.parametrize(
    "device",
    ["vfio-pci,host=00:01.0", "vhost-user-fs-pci,chardev=c", "vhost-vsock-pci,guest-cid=3", "virtio-blk-pci,drive=d"],
)
def test_a_device_that_cannot_be_protected_is_refused_by_name(state: State, vm: Path, device: str) -> None:
    vm.write_text(f'{MACHINE}devices = ["{device}"]\n')
    refused = protect(state, "start", str(vm), *TO_LOCAL)
    assert_refused(refused, 2, f"the device '{device}' cannot be protected: ", f"line {len(MACHINE.splitlines()) + 1}")
    assert not state.path.exists()


def test_too_little_and_too_much_memory_are_refused(state: State, vm: Path) -> None:
    too_much_mib = (psutil.virtual_memory().total >> 20) + 1
    too_much = f"the machine has {approximate_size(too_much_mib << 20)} of memory, and this host "
    for memory_mib, said in ((64, "64 MiB of memory are too little"), (too_much_mib, too_much)):
        vm.write_text(f'{MACHINE}memory = "{memory_mib}MiB"\n')
        assert_refused(protect(state, "start", str(vm), *TO_LOCAL), 2, said)
        _, alive = psutil.wait_procs(belonging_to(state), timeout=PATIENCE_S)
        assert alive == []
        assert state.members() == []


@pytest.mark.parametrize("kib", [0, 8, 24, 28, 36])
def test_a_disk_that_is_full_is_told_with_what_found_no_room(state: State, vm: Path, kib: int) -> None:
    """In this order: the daemons' configurations and pids, the machine's spec and pid, its log, its register record."""
    state.path.mkdir()
    taken = taps()
    # A file system in a mount namespace of the command's own, one page of it taken.
    mount = 'mount -t tmpfs -o "size=$1k" none "$2" && head -c 4096 /dev/zero >"$2/taken" && shift 2 && exec "$@"'
    prefix = ("unshare", "--mount", "--", "sh", "-c", mount, "sh", str(4 + kib), str(state.path))
    refused = protect(state, "start", str(vm), *TO_LOCAL, prefix=prefix)
    assert_refused(refused, 1, str(state.path))
    assert "No space left on device" in refused.stderr or "has no room for a word of why" in refused.stderr
    _, alive = psutil.wait_procs(belonging_to(state), timeout=PATIENCE_S)
    assert alive == []
    assert taps() == taken
