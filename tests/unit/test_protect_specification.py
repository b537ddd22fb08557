"""What members are told: the JSON itself; `test_member_schema.py` holds its keys and types against the Rust side."""

import json
import os
import pwd
import re
from pathlib import Path

import pytest
from pydantic import ValidationError
from syrupy.assertion import SnapshotAssertion

from stealtime.protect.endpoint import HOST_NAME, StandbyHost
from stealtime.protect.host_file import HostFile, host_spec
from stealtime.protect.specification import (
    ImageSpec,
    MachineSpec,
    MemberHost,
    MemberSpec,
    member_spec,
    write_document,
)
from stealtime.protect.state import State
from stealtime.protect.vm_file import VM_NAME, parse_vm_file

CRATES = Path(__file__).parents[2] / "crates"

MACHINE = MachineSpec(
    name="phone",
    accelerator="tcg",
    machine="pc-i440fx-7.2",
    cpu="max",
    vcpus=1,
    memory_bytes=128 << 20,
    kernel=ImageSpec(path=Path("/boot/vmlinux"), sha256="ab" * 32),
    initramfs=ImageSpec(path=Path("/boot/guest.cpio"), sha256="cd" * 32),
    kernel_arguments="console=ttyS0 quiet panic=-1",
    mac="52:54:00:00:00:01",
    virtio="legacy",
    devices=("virtio-rng-pci",),
    disks=(),
)
QEMU = Path("/usr/bin/qemu-system-x86_64")
PLACE = MemberHost(
    host="a",
    folder=Path("/run/stealtime/protect/a/phone"),
    qemu=QEMU,
    register_folder=Path("/run/stealtime/register"),
)

LOCAL = """
name = "phone"
program = "counter"
standby_hosts = [{ name = "b", endpoint = "unix:/run/b.sock" }]
"""

EVERYTHING = """
name = "phone"
program = "counter"
mode = "net+bypass"
interval = "auto"
overhead = 0.05
tracker = "shadow"
device_state = "ignore-shared"
epochs_in_flight = 2
hold = "8MiB"
metrics = "127.0.0.1:9464"
allow_faults = true
identity = { ca = "ca.pem", certificate = "a.pem", key = "a.key" }

[network]
bridge = "br0"
tap = "tap7"

[register]
etcd = ["https://10.0.0.9:2379", "https://10.0.0.10:2379/"]
identity = { ca = "ca.pem", certificate = "a.pem", key = "a.key" }
user = "member"
password_file = "password"

[timing]
heartbeat = "10ms"
active_deadline = "50ms"
standby_timeout = "100ms"
register_deadline = "1s"

[[standby_hosts]]
name = "b"
endpoint = "tcp:10.0.0.2:7460"

[[bypass]]
protocol = "udp"
source_port = "30000-40000"
dscp = 46
"""


@pytest.fixture
def pem_folder(tmp_path: Path) -> Path:
    for name in ("ca.pem", "a.pem", "a.key"):
        (tmp_path / name).write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "password").touch(mode=0o600)
    return tmp_path


def spec_of(text: str, folder: Path) -> MemberSpec:
    return member_spec(parse_vm_file(text, "VM.toml", folder), MACHINE, PLACE)


def test_a_machine_on_one_host_as_its_member_is_told(snapshot: SnapshotAssertion, tmp_path: Path) -> None:
    assert spec_of(LOCAL, tmp_path).text() == snapshot


def test_everything_that_can_be_told(snapshot: SnapshotAssertion, pem_folder: Path) -> None:
    assert spec_of(EVERYTHING, pem_folder).text().replace(str(pem_folder), "FOLDER") == snapshot


def test_a_host_as_its_daemon_is_told(
    snapshot: SnapshotAssertion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qemu, cache = tmp_path / "qemu", tmp_path / "cache"
    qemu.touch(mode=0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    told = host_spec(HostFile(name="b", bridge="br0", qemu=qemu, images=[tmp_path]), State(tmp_path))
    assert told.text().replace(str(tmp_path), "STATE") == snapshot


def test_qemu_gets_the_groups_of_the_user_that_is_named(tmp_path: Path) -> None:
    name = pwd.getpwuid(os.getuid()).pw_name
    told = host_spec(HostFile(name="b", qemu_user=name), State(tmp_path)).qemu_user
    assert told is not None
    assert (told.uid, told.gid) == (os.getuid(), pwd.getpwnam(name).pw_gid)
    assert told.gid not in told.groups
    with pytest.raises(ValidationError, match="no user 'nobody-has-this-name'"):
        HostFile(name="b", qemu_user="nobody-has-this-name")


def test_a_spec_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    spec = spec_of(LOCAL, tmp_path)
    write_document(path, spec)
    assert path.stat().st_mode & 0o777 == 0o600
    assert MemberSpec.model_validate(json.loads(path.read_text())) == spec


def test_a_register_of_ones_own_goes_before_the_default(tmp_path: Path) -> None:
    told = json.loads(spec_of(LOCAL + '[register]\nfolder = "/srv/register"\n', tmp_path).text())
    assert told["register"] == {"file": "/srv/register"}
    assert json.loads(spec_of(LOCAL, tmp_path).text())["register"] == {"file": str(PLACE.register_folder)}


def test_hosts_are_told_in_the_order_of_the_file(tmp_path: Path) -> None:
    vm = parse_vm_file(LOCAL, "VM.toml", tmp_path)
    more = [StandbyHost(name=name, endpoint=f"unix:/{name}") for name in ("z", "a", "m")]
    told = member_spec(vm.model_copy(update={"standby_hosts": more}), MACHINE, PLACE)
    assert [host.name for host in told.standby_hosts] == ["z", "a", "m"]


def names(of: str, *, good: bool) -> list[str]:
    """Give names from the table that the members' own tests read too."""
    table = json.loads((CRATES / "succession/tests/names.json").read_text())
    return list(table[of][0 if good else 1])


@pytest.mark.parametrize(("of", "pattern"), [("vm", VM_NAME), ("host", HOST_NAME)])
def test_both_sides_take_the_same_names(of: str, pattern: str) -> None:
    assert [name for name in names(of, good=True) if not re.fullmatch(pattern, name)] == []
    assert [name for name in names(of, good=False) if re.fullmatch(pattern, name)] == []
